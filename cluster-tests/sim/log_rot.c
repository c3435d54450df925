/* Bit rot between a stop and the next start: one file of the log's directory, or a checkpoint of the node, is damaged
 * at rest. What a start owes then is in the model (marked batches) and in the promises (kept_end, durable_end). */
#include "cluster-tests/sim/log_crash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR_BYTES = 512, NAME_BYTES = 64 };

/* One name of those with the suffix, each as likely. */
struct pick {
    struct crash_world *world;
    const char *suffix;
    char name[NAME_BYTES];
    uint64_t seen;
};

static enum stele_err see_name(void *arg, const char *name)
{
    struct pick *pick = arg;
    size_t bytes = strlen(name), suffix = strlen(pick->suffix);
    if (bytes >= suffix && bytes < NAME_BYTES && strcmp(name + bytes - suffix, pick->suffix) == 0 &&
        crash_chance(pick->world, 1, ++pick->seen))
        memcpy(pick->name, name, bytes + 1);
    return STELE_OK;
}

struct rot_file {
    char path[STELE_PATH_BYTES];
    char name[NAME_BYTES];
    uint8_t *bytes; /* as it was before; of tag LOG */
    size_t count;
};

/* False: there is none, or it is empty. */
static bool pick_file(struct crash_world *world, const char *suffix, struct rot_file *out)
{
    struct stele_vfs *vfs = world->test.env.vfs;
    struct pick pick = {.world = world, .suffix = suffix};
    enum stele_err err = vfs->ops->list(vfs, CRASH_DIR, see_name, &pick);
    MODEL_CHECK(&world->model, err == STELE_OK, "%s", stele_err_name(err));
    if (pick.seen == 0)
        return false;
    memcpy(out->name, pick.name, sizeof(out->name));
    err = stele_path_join(out->path, CRASH_DIR, out->name);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, world->test.env.mem, STELE_MEM_LOG, out->path, INT32_MAX, &out->bytes,
                                   &out->count);
    MODEL_CHECK(&world->model, err == STELE_OK, "%s", stele_err_name(err));
    if (out->count == 0)
        stele_mem_free(world->test.env.mem, out->bytes);
    return out->count > 0;
}

/* One bit, or all bytes of a sector. */
static void draw_range(struct crash_world *world, size_t count, size_t *out_pos, size_t *out_end)
{
    *out_pos = (size_t)stele_prng_below(&world->prng, count);
    *out_end = *out_pos + 1;
    if (crash_chance(world, 1, 2)) {
        *out_pos -= *out_pos % SECTOR_BYTES;
        *out_end = stele_min_size(*out_pos + SECTOR_BYTES, count);
    }
}

static void damage(struct crash_world *world, const struct rot_file *file, size_t pos, size_t end)
{
    bool is_bit = end - pos == 1;
    if (world->is_verbose)
        (void)printf("rot: %s [%zu, %zu) of %zu\n", file->name, pos, end, file->count);
    for (; pos < end; pos++) {
        int64_t mask = is_bit ? 1 << stele_prng_below(&world->prng, 8) : stele_prng_range(&world->prng, 1, 255);
        enum stele_err err = sim_disk_flip(world->disk, file->path, (int64_t)pos, (uint8_t)mask);
        MODEL_CHECK(&world->model, err == STELE_OK, "%s", stele_err_name(err));
    }
    world->had_rot = true;
}

/* One batch after another, also over those that rotted before. */
struct walk {
    const struct rot_file *file;
    size_t pos, bytes;
    int64_t base_offset, next; /* of the batch; of the one after it */
    bool is_sound;
};

static bool walk_next(struct crash_world *world, struct walk *walk)
{
    struct stele_batch_header header;
    walk->pos += walk->bytes;
    const uint8_t *at = walk->file->bytes + walk->pos;
    size_t left = walk->file->count - walk->pos;
    int64_t bytes = left < STELE_BATCH_HEADER_BYTES ? 0 : stele_batch_size(at);
    walk->is_sound = bytes > 0 && (size_t)bytes <= left && stele_batch_check(at, (size_t)bytes, &header) == STELE_OK;
    walk->base_offset = walk->is_sound ? header.base_offset : walk->next;
    if (walk->is_sound)
        walk->next = stele_batch_last_offset(&header) + 1;
    walk->bytes =
        walk->is_sound ? (size_t)bytes : log_model_rotten_bytes(&world->model, walk->base_offset, &walk->next);
    return walk->bytes > 0 && walk->bytes <= left;
}

static struct walk walk_of(const struct rot_file *file)
{
    struct walk walk = {.file = file};
    const char *suffix;
    if (!stele_segment_name_parse(file->name, &walk.next, &suffix))
        abort();
    return walk;
}

/* No checksum covers base offset and epoch of a batch: where they alone are hit nobody can tell for sure, so the range
 * is made smaller. False: nothing is left of it. */
static bool keep_off_uncovered(struct crash_world *world, const struct rot_file *file, size_t *inout_pos,
                               size_t *inout_end)
{
    for (struct walk walk = walk_of(file); walk_next(world, &walk);) {
        size_t pos = walk.pos, first = *inout_pos > pos ? *inout_pos : pos;
        size_t end = stele_min_size(*inout_end, pos + walk.bytes);
        bool is_length = first < pos + STELE_BATCH_POS_EPOCH && end > pos + STELE_BATCH_POS_LENGTH;
        if (first < end && (!walk.is_sound || (end <= pos + STELE_BATCH_POS_MAGIC && !is_length)))
            *inout_end = first;
    }
    return *inout_pos < *inout_end;
}

/* What [pos, end) hits. */
struct hit {
    int64_t first;       /* offset of the first batch; -1: none */
    int64_t above_point; /* of what it hits above the point, the first; INT64_MAX: none */
    bool is_alive;       /* it reaches above the point and the log's start */
    bool has_sound;      /* behind the last one lies a sound one */
    bool has_durable;    /* and a loss of power does not take it */
    bool is_behind_loss; /* it lies behind what a loss of power left: which batches it hits is not known */
};

static struct hit find_hit(struct crash_world *world, const struct rot_file *file, size_t pos, size_t end)
{
    const struct crash_checkpoint *checkpoint = &world->checkpoint;
    int64_t point = stele_max_i64(checkpoint->recovery_point, checkpoint->high_watermark);
    struct hit hit = {.first = -1, .above_point = INT64_MAX};
    struct walk walk = walk_of(file);
    while (walk_next(world, &walk)) {
        bool is_hit = pos < walk.pos + walk.bytes && end > walk.pos;
        if (is_hit && hit.first < 0)
            hit.first = walk.base_offset;
        if (is_hit && walk.next > point)
            hit.above_point = stele_min_i64(hit.above_point, stele_max_i64(walk.base_offset, point));
        hit.is_alive |= is_hit && walk.next > stele_max_i64(point, checkpoint->log_start_offset);
        hit.has_sound = !is_hit && walk.is_sound;
        hit.has_durable = hit.has_sound && (hit.has_durable || walk.next <= world->durable_end);
    }
    for (size_t at = walk.pos; at < file->count && end > walk.pos; at++)
        hit.is_behind_loss |= file->bytes[at] != 0; /* zeros were preallocated */
    return hit;
}

struct cuts {
    int64_t base_offset;
    bool has_cut;
};

static void see_cut(void *arg, const struct stele_history_event *event)
{
    struct cuts *cuts = arg;
    cuts->has_cut |= event->kind == STELE_HISTORY_CUT && event->reason != STELE_REASON_TORN_TAIL &&
                     event->offset >= cuts->base_offset;
}

/* Does history tell of a truncation inside the segment or behind it? */
static bool has_cut(struct crash_world *world, int64_t base_offset)
{
    struct cuts cuts = {.base_offset = base_offset};
    enum stele_err err = stele_history_read(&world->test.env, CRASH_DIR, see_cut, &cuts);
    MODEL_CHECK(&world->model, err == STELE_OK, "%s", stele_err_name(err));
    return cuts.has_cut;
}

/* Below the recovery point, and where the file was never cut below the high watermark and the start too, damage is
 * kept, and the log goes on with the next sound batch; without one it goes on at the point. Above all of them it is
 * cut. Where the file was cut the rest of the segment is lost with it, which other tests ask for. False: leave it. */
static bool lower_promises(struct crash_world *world, const struct hit *hit, int64_t base_offset)
{
    const struct crash_checkpoint *checkpoint = &world->checkpoint;
    int64_t point = stele_max_i64(checkpoint->recovery_point, checkpoint->high_watermark);
    int64_t offset = stele_max_i64(hit->first, checkpoint->log_start_offset);
    bool is_cut = offset >= point && (hit->first >= checkpoint->recovery_point || hit->is_alive);
    if (!is_cut && hit->first >= checkpoint->recovery_point && has_cut(world, base_offset))
        return false;
    int64_t end = is_cut && hit->first >= checkpoint->recovery_point ? hit->first : hit->above_point;
    if (is_cut || !hit->has_sound)
        world->kept_end = stele_min_i64(world->kept_end, end);
    if (is_cut || !hit->has_durable)
        world->durable_end = stele_min_i64(world->durable_end, end);
    world->reached[POINT_ROT_ABOVE_THE_POINT] += is_cut;
    return true;
}

void crash_lower_for_rot(struct crash_world *world)
{
    const struct crash_checkpoint *checkpoint = &world->checkpoint;
    int64_t point = stele_max_i64(checkpoint->recovery_point, checkpoint->high_watermark);
    for (int i = 0; i < world->model.count && world->had_rot; i++) {
        const struct model_batch *batch = &world->model.batches[i];
        if (!batch->is_rotten || batch->base_offset < checkpoint->recovery_point ||
            stele_max_i64(batch->base_offset, checkpoint->log_start_offset) < point)
            continue;
        world->kept_end = stele_min_i64(world->kept_end, batch->base_offset);
        world->durable_end = stele_min_i64(world->durable_end, batch->base_offset);
    }
}

static void mark_batches(struct crash_world *world, const struct rot_file *file, size_t pos, size_t end)
{
    bool is_behind = false;
    for (struct walk walk = walk_of(file); walk_next(world, &walk);) {
        bool is_hit = pos < walk.pos + walk.bytes && end > walk.pos;
        is_behind |= is_hit;
        if (walk.is_sound && is_behind)
            log_model_mark(&world->model, file->bytes + walk.pos, walk.bytes, is_hit);
    }
}

static void rot_log(struct crash_world *world)
{
    struct rot_file file;
    size_t pos = 0, end = 0;
    /* No checksum is in the file of epochs: what is wrong in it may be known by one batch alone. */
    if (world->had_bad_epochs || !pick_file(world, ".log", &file))
        return;
    draw_range(world, file.count, &pos, &end);
    if (keep_off_uncovered(world, &file, &pos, &end)) {
        struct hit hit = find_hit(world, &file, pos, end);
        if (!hit.is_behind_loss && (hit.first < 0 || lower_promises(world, &hit, walk_of(&file).next))) {
            damage(world, &file, pos, end);
            log_model_push_ghosts(&world->model, world->pending, world->pending_count);
            crash_drop_pending(world);
            mark_batches(world, &file, pos, end);
            world->reached[POINT_ROT_LOG] += hit.first >= 0;
        }
    }
    stele_mem_free(world->test.env.mem, file.bytes);
}

/* Damages a file that is no log. False: there is none. */
static bool rot_other(struct crash_world *world, const char *suffix, struct rot_file *out)
{
    size_t pos = 0, end = 0;
    if (!pick_file(world, suffix, out))
        return false;
    draw_range(world, out->count, &pos, &end);
    damage(world, out, pos, end);
    stele_mem_free(world->test.env.mem, out->bytes);
    return true;
}

static void rot_index(struct crash_world *world)
{
    struct rot_file file;
    const char *suffix;
    int64_t base_offset = 0;
    bool is_time = crash_chance(world, 1, 2);
    if (!rot_other(world, is_time ? ".timeindex" : ".index", &file))
        return;
    if (stele_segment_name_parse(file.name, &base_offset, &suffix))
        log_model_mark_index(&world->model, base_offset);
    world->reached[is_time ? POINT_ROT_TIME_INDEX : POINT_ROT_INDEX]++;
}

/* A checkpoint that does not parse counts as absent. Not beside damage in the log: without it that would be cut. */
static void rot_checkpoint(struct crash_world *world)
{
    struct crash_checkpoint *checkpoint = &world->checkpoint;
    if (world->had_damage || log_model_has_rot(&world->model, 0, INT64_MAX))
        return;
    switch (stele_prng_below(&world->prng, 3)) {
    case 0:
        checkpoint->recovery_point = 0;
        break;
    case 1:
        checkpoint->log_start_offset = 0;
        world->had_lost_start = true;
        break;
    default:
        checkpoint->high_watermark = -1;
        break;
    }
    world->had_rot = true;
    if (world->is_verbose)
        (void)printf("rot: a checkpoint; recovery point %lld, start %lld, high watermark %lld are left\n",
                     (long long)checkpoint->recovery_point, (long long)checkpoint->log_start_offset,
                     (long long)checkpoint->high_watermark);
    world->reached[POINT_ROT_CHECKPOINT]++;
}

void crash_rot(struct crash_world *world)
{
    struct rot_file file;
    world->model.doing = "rot";
    world->had_bad_epochs = world->had_bad_epochs && !world->checkpoint.is_clean;
    switch (stele_prng_below(&world->prng, 8)) {
    case 0:
        rot_index(world);
        break;
    case 1:
        world->reached[POINT_ROT_SNAPSHOT] += rot_other(world, ".snapshot", &file);
        break;
    case 2: /* No checksum is in it: only the batches tell, not all where some are missing. */
        if (!world->is_gappy && !log_model_has_rot(&world->model, 0, INT64_MAX) &&
            rot_other(world, STELE_LEADER_EPOCH_FILE, &file)) {
            world->reached[POINT_ROT_EPOCHS]++;
            world->had_bad_epochs = true;
        }
        break;
    case 3: /* Not while a deletion from the front or the place of damage rests on it. */
        if (world->checkpoint.is_clean && !world->had_damage && !log_model_has_rot(&world->model, 0, INT64_MAX))
            world->reached[POINT_ROT_HISTORY] += rot_other(world, STELE_HISTORY_FILE, &file);
        break;
    case 4:
        rot_checkpoint(world);
        break;
    default:
        rot_log(world);
        break;
    }
}
