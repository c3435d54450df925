/* Bit rot in the logs of a machine that is down, and what is to be said of it: a batch below the recovery point of the
 * checkpoints is damaged, no other record is lost with it, whoever reads it is told by an error that names its place,
 * and nobody is told of damage that is not there. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "storage/checkpoint.h"
#include "storage/history.h"
#include "storage/scan.h"
#include "storage/segment.h"

#include <stdio.h>
#include <string.h>

enum { ROT_BYTES_MAX = 512 };

/* One sound batch of all that may rot, each as likely. */
struct pick {
    struct run *run;
    struct stele_vfs *vfs; /* of a copy of the disk */
    struct stele_prng *prng;
    struct stele_scan scan;
    struct stele_checkpoint points;
    const char *root;
    struct run_life *life; /* of the directory that is looked at */
    int partition;
    int64_t point;
    char dir[STELE_PATH_BYTES];
    uint64_t seen;
    struct run_life *picked_life;
    int picked_partition;
    char picked_path[STELE_PATH_BYTES];
    struct run_rot picked;
};

const struct run_rot *rot_find(const struct run_partition *partition, int64_t offset)
{
    for (int64_t i = 0; i < partition->rot_count; i++) {
        if (offset >= partition->rots[i].base_offset && offset <= partition->rots[i].last_offset)
            return &partition->rots[i];
    }
    return NULL;
}

const struct run_rot *rot_at(const struct run_partition *partition, int64_t segment_base, int64_t pos)
{
    for (int64_t i = 0; i < partition->rot_count; i++) {
        if (partition->rots[i].segment_base == segment_base && partition->rots[i].pos == pos)
            return &partition->rots[i];
    }
    return NULL;
}

static bool covers(const struct run_partition *partition, int64_t first, int64_t last)
{
    const struct run_rot *rot;
    while (first <= last && (rot = rot_find(partition, first)) != NULL)
        first = rot->last_offset + 1;
    return first > last;
}

bool rot_covers(const struct run *run, int topic, int partition, int64_t first, int64_t last)
{
    bool is_covered = false;
    for (int i = 0; i < run->topics[topic].life_count; i++)
        is_covered = is_covered || covers(&run->topics[topic].lives[i]->partitions[partition], first, last);
    return is_covered;
}

void rot_traced(struct run *run, const struct stele_trace_event *event)
{
    int topic = -1, partition = -1;
    bool is_of_log = event->text != NULL && (strcmp(event->text, stele_reason_text(STELE_REASON_DAMAGE)) == 0 ||
                                             strstr(event->text, ".log") != NULL);
    if (event->kind != STELE_TRACE_LOG_DAMAGED || !is_of_log)
        return;
    if (!run_parse_place(run, event->subject, &topic, &partition) ||
        !rot_covers(run, topic, partition, event->a, event->a))
        sim_world_fail(&run->world, "%s is said to be damaged at offset %lld, where nothing rotted", event->subject,
                       (long long)event->a);
    run_reach(run, RUN_POINT_ROT_REPORTED);
}

static void see_batch(struct pick *pick, const char *path, int64_t segment_base, const struct stele_scanned *batch)
{
    if (stele_batch_last_offset(&batch->header) >= pick->point || !stele_prng_chance(pick->prng, 1, ++pick->seen))
        return;
    (void)snprintf(pick->picked_path, sizeof(pick->picked_path), "%s", path);
    pick->picked_life = pick->life;
    pick->picked_partition = pick->partition;
    pick->picked = (struct run_rot){.base_offset = batch->header.base_offset,
                                    .last_offset = stele_batch_last_offset(&batch->header),
                                    .segment_base = segment_base,
                                    .pos = batch->pos,
                                    .bytes = batch->bytes};
}

/* Over what rotted before. */
static enum stele_err next_batch(struct pick *pick, int64_t segment_base, struct stele_scanned *out_batch)
{
    enum stele_err err;
    const struct run_rot *rot = NULL;
    do {
        err = stele_scan_next(&pick->scan, out_batch);
        rot = rot_at(&pick->life->partitions[pick->partition], segment_base, pick->scan.pos);
        if (err == STELE_CORRUPT && rot != NULL)
            err = stele_scan_start(&pick->scan, pick->scan.file, rot->pos + rot->bytes, pick->scan.end);
        else
            rot = NULL;
    } while (err == STELE_OK && rot != NULL);
    return err;
}

static enum stele_err see_file(void *arg, const char *name)
{
    struct pick *pick = arg;
    struct stele_file *file = NULL;
    struct stele_scanned batch;
    const char *suffix;
    char path[STELE_PATH_BYTES];
    int64_t segment_base = 0, bytes = 0;
    if (!stele_segment_name_parse(name, &segment_base, &suffix) || strcmp(suffix, ".log") != 0 ||
        segment_base >= pick->point)
        return STELE_OK;
    enum stele_err err = stele_path_join(path, pick->dir, name);
    if (err == STELE_OK)
        err = pick->vfs->ops->open(pick->vfs, path, STELE_OPEN_READ, &file);
    if (err == STELE_OK)
        err = pick->vfs->ops->size(file, &bytes);
    if (err == STELE_OK)
        err = stele_scan_start(&pick->scan, file, 0, bytes);
    STELE_ASSERT(err == STELE_OK);
    while (next_batch(pick, segment_base, &batch) == STELE_OK)
        see_batch(pick, path, segment_base, &batch);
    pick->vfs->ops->close(file);
    return STELE_OK;
}

static enum stele_err see_dir(void *arg, const char *name)
{
    struct pick *pick = arg;
    struct stele_uuid id;
    int topic = -1;
    if (!run_parse_place(pick->run, name, &topic, &pick->partition) || strlen(name) != 4)
        return STELE_OK;
    enum stele_err err = stele_path_join(pick->dir, pick->root, name);
    STELE_ASSERT(err == STELE_OK);
    if (stele_partition_metadata_read(pick->vfs, &pick->run->mem, pick->dir, &id) != STELE_OK ||
        !stele_checkpoint_get(&pick->points, pick->run->topics[topic].name, pick->partition, &pick->point))
        return STELE_OK;
    pick->life = model_known_life(pick->run, &id);
    return pick->life == NULL ? STELE_OK : pick->vfs->ops->list(pick->vfs, pick->dir, see_file, pick);
}

/* Base offset and epoch of a batch are under no checksum. */
static void damage(struct run *run, const struct pick *pick)
{
    const struct run_rot *rot = &pick->picked;
    bool is_length = stele_prng_chance(pick->prng, 1, 8), is_bit = stele_prng_chance(pick->prng, 1, 2);
    int64_t low = is_length ? STELE_BATCH_POS_LENGTH : STELE_BATCH_POS_MAGIC;
    int64_t end = is_length ? STELE_BATCH_POS_EPOCH : rot->bytes;
    int64_t pos = stele_prng_range(pick->prng, low, end - 1);
    end = is_bit ? pos + 1 : stele_min_i64(end, pos + ROT_BYTES_MAX);
    sim_world_log(&run->world, "faults: offsets %lld to %lld rot, bytes %lld to %lld of %s",
                  (long long)rot->base_offset, (long long)rot->last_offset, (long long)(rot->pos + pos),
                  (long long)(rot->pos + end), pick->picked_path);
    for (; pos < end; pos++) {
        int64_t mask = is_bit ? 1 << stele_prng_below(pick->prng, 8) : stele_prng_range(pick->prng, 1, 255);
        enum stele_err err = sim_disk_flip(run->server.disk, pick->picked_path, rot->pos + pos, (uint8_t)mask);
        if (err == STELE_NOT_FOUND)
            return; /* it has another name there still */
        STELE_ASSERT(err == STELE_OK);
    }
    struct run_partition *partition = &pick->picked_life->partitions[pick->picked_partition];
    partition->rots =
        sim_grow(partition->rots, &partition->rot_capacity, partition->rot_count + 1, sizeof(*partition->rots));
    partition->rots[partition->rot_count++] = *rot;
    run_reach(run, RUN_POINT_LOG_ROT);
}

void rot_log(struct run *run, struct stele_prng *prng)
{
    struct sim_disk *disk = model_look(run);
    struct pick pick = {.run = run, .vfs = sim_disk_vfs(disk), .prng = prng};
    stele_scan_init(&pick.scan, &run->mem);
    for (int i = 0; i < run->dir_count; i++) {
        char root[2] = {(char)('a' + i), 0};
        pick.root = root;
        stele_checkpoint_init(&pick.points, &run->mem);
        if (stele_checkpoint_read(&pick.points, pick.vfs, root, STELE_RECOVERY_POINT_FILE, NULL) == STELE_OK)
            (void)pick.vfs->ops->list(pick.vfs, root, see_dir, &pick);
        stele_checkpoint_deinit(&pick.points);
    }
    stele_scan_deinit(&pick.scan);
    sim_disk_free(disk);
    if (pick.seen > 0)
        damage(run, &pick);
}
