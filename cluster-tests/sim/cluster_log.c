#include "cluster-tests/sim/cluster_log.h"

#include "cluster-tests/sim/sim_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_DIGITS = 20, BATCHES_MAX = 10000000, BATCH_BYTES_MAX = 1 << 24 };

/* The segment with the greatest base that is not above an offset, and the next one behind it. */
struct pick {
    int64_t offset, base, next;
};

static void look_at_name(void *arg, const char *name)
{
    struct pick *pick = arg;
    char *end = NULL;
    int64_t base = strtoll(name, &end, 10);
    if (end - name != NAME_DIGITS || strcmp(end, ".log") != 0)
        return;
    if (base <= pick->offset && base > pick->base)
        pick->base = base;
    if (base > pick->offset && base < pick->next)
        pick->next = base;
}

static void path_of(const char *dir, int64_t base, char out_path[STELE_PATH_BYTES])
{
    (void)snprintf(out_path, STELE_PATH_BYTES, "%s/%020lld.log", dir, (long long)base);
}

static bool read_header(struct sim_disk *disk, const char *path, int64_t pos, struct stele_batch_header *out_header)
{
    uint8_t bytes[STELE_BATCH_HEADER_BYTES];
    if (sim_disk_peek(disk, path, bytes, sizeof(bytes), pos) < sizeof(bytes))
        return false;
    return stele_batch_header_read(bytes, sizeof(bytes), out_header) == STELE_OK && out_header->length > 0;
}

static int64_t size_of(const struct stele_batch_header *header)
{
    return (int64_t)header->length + STELE_BATCH_PREFIX_BYTES;
}

static bool is_sound(struct sim_disk *disk, const char *path, int64_t pos, const struct stele_batch_header *header)
{
    struct stele_batch_header checked;
    size_t count = (size_t)size_of(header);
    uint8_t *bytes = sim_alloc(count);
    bool is_fine =
        sim_disk_peek(disk, path, bytes, count, pos) == count && stele_batch_check(bytes, count, &checked) == STELE_OK;
    free(bytes);
    return is_fine;
}

/* The first sound batch behind `pos`, up to the one that holds the offset: what is below a log's start may be damaged
 * after a loss of power. */
static bool find_behind(struct sim_disk *disk, const char *path, int64_t *inout_pos, int64_t offset,
                        struct stele_batch_header *out_header)
{
    uint8_t bytes[STELE_BATCH_HEADER_BYTES];
    for (int64_t pos = *inout_pos + 1; sim_disk_peek(disk, path, bytes, sizeof(bytes), pos) == sizeof(bytes); pos++) {
        if (stele_batch_header_read(bytes, sizeof(bytes), out_header) != STELE_OK || out_header->length <= 0 ||
            out_header->base_offset < 0 || out_header->base_offset > offset || !is_sound(disk, path, pos, out_header))
            continue;
        *inout_pos = pos;
        return true;
    }
    return false;
}

/* From `pos` of a segment on. */
static bool walk(struct sim_disk *disk, const char *path, int64_t *inout_pos, int64_t offset,
                 struct stele_batch_header *out_header)
{
    for (int i = 0; i < BATCHES_MAX; i++) {
        bool is_there = read_header(disk, path, *inout_pos, out_header) && is_sound(disk, path, *inout_pos, out_header);
        if (!is_there && !find_behind(disk, path, inout_pos, offset, out_header))
            return false;
        if (stele_batch_last_offset(out_header) >= offset)
            return true;
        *inout_pos += size_of(out_header);
    }
    return false;
}

/* The batch behind the last one is in the same segment, or the first of one that begins there. */
static bool go_on(struct sim_disk *disk, const char *dir, struct cluster_log_place *place,
                  struct stele_batch_header *out_header)
{
    char path[STELE_PATH_BYTES];
    struct stele_batch_header header;
    struct cluster_log_place next = *place;
    path_of(dir, next.segment_base, path);
    bool is_there = read_header(disk, path, next.pos, &header) && header.base_offset == next.offset;
    if (!is_there) {
        next.segment_base = next.offset;
        next.pos = 0;
        path_of(dir, next.segment_base, path);
        is_there = read_header(disk, path, 0, &header) && header.base_offset == next.offset;
    }
    if (!is_there)
        return false;
    *place = (struct cluster_log_place){.segment_base = next.segment_base,
                                        .at = next.pos,
                                        .pos = next.pos + size_of(&header),
                                        .offset = stele_batch_last_offset(&header) + 1,
                                        .is_known = true};
    *out_header = header;
    return true;
}

bool cluster_log_find(struct sim_disk *disk, const char *dir, struct cluster_log_place *place, int64_t offset,
                      struct stele_batch_header *out_header)
{
    char path[STELE_PATH_BYTES];
    struct stele_batch_header header;
    if (place->is_known && place->offset == offset && go_on(disk, dir, place, out_header))
        return true;
    struct pick pick = {.offset = offset, .base = -1, .next = INT64_MAX};
    sim_disk_peek_names(disk, dir, look_at_name, &pick);
    for (int64_t base = pick.base; base >= 0;) {
        int64_t pos = 0;
        path_of(dir, base, path);
        if (walk(disk, path, &pos, offset, &header)) {
            *place = (struct cluster_log_place){.segment_base = base,
                                                .at = pos,
                                                .pos = pos + size_of(&header),
                                                .offset = stele_batch_last_offset(&header) + 1,
                                                .is_known = true};
            *out_header = header;
            return true;
        }
        base = base == pick.base && pick.next != INT64_MAX ? pick.next : -1;
    }
    return false;
}

uint8_t *cluster_log_batch(struct sim_disk *disk, const char *dir, const struct cluster_log_place *place,
                           const struct stele_batch_header *header, size_t *out_bytes)
{
    char path[STELE_PATH_BYTES];
    size_t count = (size_t)size_of(header);
    uint8_t *bytes = sim_alloc(count);
    path_of(dir, place->segment_base, path);
    *out_bytes = count;
    if (sim_disk_peek(disk, path, bytes, count, place->at) == count)
        return bytes;
    free(bytes);
    return NULL;
}
