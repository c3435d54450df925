/* Crash tests of one log on the simulated disk: random work with small limits, a crash at any call of the vfs and again
 * in recovery, checked after every start against a model of what was appended and what was promised.
 *
 *   sim_log_crash [--seed N] [--runs N] [--crashes N] [--verbose]
 *
 * Without arguments it runs seeds 1, 2, 3 ... until 100,000 crashes happened, prints what was reached and fails when a
 * named point was not. With --seed it replays one.
 *
 * Promises (the table of the design for one node): what a completed flush covered survives a power loss, what an append
 * returned survives the death of the process; what is left is a beginning of what was appended. */
#include "cluster-tests/sim/log_crash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CRASHES_PER_RUN = 40, OPS_PER_LIFE = 60, RECOVERY_DEPTH = 3, CRASHES_WANTED = 100000 };

static const char *const point_names[POINT_COUNT] = {
#define P(name) #name,
    CRASH_POINTS(P)
#undef P
};

/* --- the disk --- */

enum crash_kind { KIND_KILL, KIND_POWER_ORDERED, KIND_POWER_ADVERSARIAL, KIND_COUNT };

static int64_t disk_wall_ms(void *arg)
{
    struct crash_world *world = arg;
    return world->test.wall_ms;
}

static void disk_violation(void *arg, const char *text)
{
    struct crash_world *world = arg;
    log_model_fail(&world->model, "the disk's audit: %s", text);
}

/* Calls take time, and one in some a very long one. */
static void disk_charge(void *arg, int64_t us)
{
    struct crash_world *world = arg;
    world->test.mono_us += us;
    world->hung_us += us;
    world->test.wall_ms += world->hung_us / 1000;
    world->hung_us %= 1000;
}

static void disk_set_rates(struct crash_world *world, uint32_t write_back_error)
{
    struct sim_disk_rates rates = {.short_read = 5000,
                                   .short_write = 5000,
                                   .write_back_error = write_back_error,
                                   .stall = 1000,
                                   .stall_us_min = 1000,
                                   .stall_us_max = 30000000};
    sim_disk_set_rates(world->disk, &rates);
}

static void disk_new(struct crash_world *world, uint64_t seed)
{
    world->disk = sim_disk_new(seed);
    struct sim_disk_hooks hooks = {
        .arg = world, .wall_ms = disk_wall_ms, .charge = disk_charge, .violation = disk_violation};
    sim_disk_set_hooks(world->disk, &hooks);
    disk_set_rates(world, 0);
    sim_disk_allow_unsynced_rename(world->disk, "*.deleted"); /* on its way out */
    sim_disk_allow_unwritten_read(world->disk, "*.log");      /* preallocated */
    world->test.env.vfs = sim_disk_vfs(world->disk);
    enum stele_err err = world->test.env.vfs->ops->mkdir(world->test.env.vfs, CRASH_DIR);
    MODEL_CHECK(&world->model, err == STELE_OK, "%s", stele_err_name(err));
    err = world->test.env.vfs->ops->sync_dir(world->test.env.vfs, "/");
    MODEL_CHECK(&world->model, err == STELE_OK, "%s", stele_err_name(err));
}

static void disk_arm(struct crash_world *world, int64_t calls, bool is_crash, unsigned ops)
{
    struct sim_disk_fault fault = {.ops = ops, .err = STELE_IO, .is_crash = is_crash};
    sim_disk_arm(world->disk, calls, &fault);
}

static void disk_disarm(struct crash_world *world)
{
    struct sim_disk_fault none = {.err = STELE_IO};
    sim_disk_arm(world->disk, 0, &none);
}

static bool disk_is_crashed(const struct crash_world *world)
{
    return sim_disk_is_stopped(world->disk);
}

static void disk_fill(struct crash_world *world, int64_t more)
{
    sim_disk_set_quota(world->disk, sim_disk_used_bytes(world->disk) + more);
    sim_disk_set_quota_at_sync(world->disk, crash_chance(world, 1, 6));
    world->is_full = true;
}

static void disk_free_space(struct crash_world *world)
{
    sim_disk_set_quota(world->disk, -1);
    sim_disk_set_quota_at_sync(world->disk, false);
    world->is_full = false;
}

/* --- events of the core --- */

struct reason_count {
    enum stele_trace_kind kind;
    enum stele_reason reason;
    enum crash_point point;
};

static const struct reason_count reason_points[] = {
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_SIZE, POINT_ROLL_SIZE},
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_TIME, POINT_ROLL_TIME},
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_OFFSET_INDEX_FULL, POINT_ROLL_OFFSET_INDEX_FULL},
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_TIME_INDEX_FULL, POINT_ROLL_TIME_INDEX_FULL},
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_OFFSET_RANGE, POINT_ROLL_OFFSET_RANGE},
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_RETENTION_ALL, POINT_ROLL_RETENTION_ALL},
    {STELE_TRACE_LOG_ROLLED, STELE_REASON_DAMAGE, POINT_ROLL_DAMAGE},
    {STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_RETENTION_TIME, POINT_DELETE_RETENTION_TIME},
    {STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_RETENTION_SIZE, POINT_DELETE_RETENTION_SIZE},
    {STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_LOG_START, POINT_DELETE_LOG_START},
    {STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_TRUNCATED, POINT_DELETE_TRUNCATED},
    {STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_AFTER_CUT, POINT_DELETE_AFTER_CUT},
    {STELE_TRACE_LOG_TRUNCATED, STELE_REASON_TORN_TAIL, POINT_CUT_TORN_TAIL},
    {STELE_TRACE_LOG_TRUNCATED, STELE_REASON_TRUNCATED, POINT_CUT_TRUNCATED},
    {STELE_TRACE_LOG_TRUNCATED, STELE_REASON_APPEND_FAILED, POINT_CUT_APPEND_FAILED},
    {STELE_TRACE_LOG_INDEX_REBUILT, STELE_REASON_INDEX_MISSING, POINT_REBUILD_INDEX_MISSING},
    {STELE_TRACE_LOG_INDEX_REBUILT, STELE_REASON_INDEX_WRONG, POINT_REBUILD_INDEX_WRONG},
    {STELE_TRACE_LOG_DAMAGED, STELE_REASON_DAMAGE, POINT_DAMAGE},
};

static void crash_trace(struct stele_env *env, const struct stele_trace_event *event)
{
    struct crash_world *world = STELE_CONTAINER_OF(env, struct crash_world, test.env);
    char text[512];
    (void)stele_trace_text(event, text, sizeof(text));
    if (world->is_verbose)
        (void)printf("    %s\n", text);
    world->had_damage |= event->kind == STELE_TRACE_LOG_DAMAGED; /* later starts look there again */
    world->had_lost_line |= event->kind == STELE_TRACE_CHECKPOINT_BAD && strstr(event->text, "history") != NULL;
    if (event->kind == STELE_TRACE_LOG_RESYNCED)
        world->reached[POINT_RESYNCED]++;
    if (event->kind == STELE_TRACE_LOG_SNAPSHOT_BAD)
        world->reached[POINT_SNAPSHOT_BAD]++;
    for (size_t i = 0; i < STELE_ARRAY_LEN(reason_points); i++) {
        const struct reason_count *row = &reason_points[i];
        if (row->kind == event->kind && event->text != NULL && strcmp(event->text, stele_reason_text(row->reason)) == 0)
            world->reached[row->point]++;
    }
}

/* --- faults --- */

static int64_t draw_calls(struct crash_world *world, int64_t most)
{
    int64_t limit = 1;
    while (limit < most && crash_chance(world, 3, 4))
        limit *= 2;
    return stele_prng_range(&world->prng, 1, stele_min_i64(limit, most));
}

/* Where offsets may have holes, a segment's lost tail looks like one: there the process dies but keeps its page cache.
 */
static enum crash_kind draw_kind(struct crash_world *world)
{
    enum crash_kind kind = (enum crash_kind)stele_prng_below(&world->prng, KIND_COUNT);
    return world->is_gappy ? KIND_KILL : kind;
}

/* The cache may drop what a failed sync left in it before the process is back. */
static void drop_lost_pages(struct crash_world *world)
{
    if (!world->has_lost_pages || world->is_gappy || !crash_chance(world, 1, 2))
        return;
    sim_disk_evict(world->disk);
    world->has_lost_pages = false;
    world->kept_end = stele_min_i64(world->kept_end, world->durable_end);
    world->reached[POINT_SYNC_EIO_EVICTED]++;
}

/* True when a sync failed since this was last asked. */
static bool note_sync_failures(struct crash_world *world)
{
    int64_t failures = sim_disk_stats(world->disk)->sync_failures;
    bool has_failed = failures > world->sync_failures;
    world->has_lost_pages |= has_failed;
    world->sync_failures = failures;
    return has_failed;
}

/* The process is gone; with the power, so is what was not synced. */
static void crash(struct crash_world *world, enum crash_kind kind)
{
    static const enum crash_point points[KIND_COUNT] = {POINT_CRASH_KILL, POINT_CRASH_POWER_ORDERED,
                                                        POINT_CRASH_POWER_ADVERSARIAL};
    static const enum sim_disk_crash_mode modes[KIND_COUNT] = {SIM_DISK_KILL, SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL};
    if (world->is_verbose)
        (void)printf("crash %lld: %s\n", (long long)world->crashes + 1, point_names[points[kind]]);
    world->crashes++;
    world->model.crashes = world->crashes;
    world->reached[points[kind]]++;
    sim_disk_crash(world->disk, modes[kind]);
    (void)note_sync_failures(world);
    drop_lost_pages(world);
    if (kind != KIND_KILL) {
        world->has_lost_pages = world->has_late_errors = false;
        world->power_was_lost = true;
        world->reached[POINT_TAIL_LOST] += world->kept_end > world->durable_end;
        world->kept_end = stele_min_i64(world->kept_end, world->durable_end);
    }
}

/* Takes a running log down as a crash does: no file is touched but to be closed. */
static void drop_log(struct crash_world *world)
{
    if (world->flush != NULL)
        stele_log_flush_end(world->log, world->flush, STELE_IO);
    world->flush = NULL;
    stele_log_free(world->log);
    world->log = NULL;
}

/* --- starts --- */

static enum stele_err open_log(struct crash_world *world, struct stele_recovery_report *out_report)
{
    struct crash_checkpoint *checkpoint = &world->checkpoint;
    struct stele_error error = {.err = STELE_OK};
    struct stele_log_open open = {.env = &world->test.env,
                                  .dir = CRASH_DIR,
                                  .name = "t-0",
                                  .config = world->config,
                                  .is_new = world->is_new,
                                  .is_compacted = world->is_gappy,
                                  .was_clean = checkpoint->is_clean,
                                  .recovery_point = checkpoint->recovery_point,
                                  .log_start_offset = checkpoint->log_start_offset,
                                  .high_watermark = checkpoint->high_watermark};
    world->is_named = !world->is_new; /* a start that is not the first syncs it */
    world->is_new = false;
    checkpoint->is_clean = false; /* the marker goes before a log is touched */
    world->model.doing = "recovery";
    enum stele_err err = stele_log_open(&open, &world->log, out_report, &error);
    if (err != STELE_OK && !disk_is_crashed(world))
        world->model.doing = "recovery that failed";
    if (err != STELE_OK)
        (void)snprintf(world->failure, sizeof(world->failure), "%s", error.text);
    else
        stele_log_attach(world->log, world->cache);
    return err;
}

static void check_log(struct crash_world *world)
{
    struct log_expected expected = {.env = &world->test.env,
                                    .known_from = world->start_max,
                                    .index_interval = world->config.index_interval_bytes,
                                    .read_bytes = (size_t)stele_prng_range(&world->prng, 1, 8192),
                                    .had_rot = world->had_rot,
                                    .refused = &world->reached[POINT_ROT_READ_REFUSED],
                                    .caught = &world->reached[POINT_ROT_READ_CAUGHT]};
    log_model_check(&world->model, world->log, &expected);
}

/* Another start finds nothing left to do; where the first one did not read, it may see rot. */
static void check_idempotent(struct crash_world *world)
{
    struct stele_recovery_report report;
    struct stele_log *log = world->log;
    int64_t start = stele_log_start_offset(log), end = stele_log_end_offset(log);
    int segments = stele_log_segment_count(log), damaged = stele_log_damaged_count(log);
    bool has_rot = log_model_has_rot(&world->model, 0, INT64_MAX);
    drop_log(world);
    enum stele_err err = open_log(world, &report);
    world->model.doing = "second recovery";
    MODEL_CHECK(&world->model, err == STELE_OK, "%s", world->failure);
    log = world->log;
    /* A segment that the first one made may have preallocated zeros to cut. */
    bool is_only_zeros = world->config.preallocate && report.cut_offset == end && report.segments_deleted == 0;
    MODEL_CHECK(&world->model,
                is_only_zeros || (report.bytes_cut == 0 && report.segments_deleted == 0 && report.cut_offset == -1),
                "it cut %lld bytes", (long long)report.bytes_cut);
    MODEL_CHECK(&world->model,
                start == stele_log_start_offset(log) && end == stele_log_end_offset(log) &&
                    segments == stele_log_segment_count(log) &&
                    (has_rot ? damaged <= stele_log_damaged_count(log) : damaged == stele_log_damaged_count(log)),
                "[%lld, %lld) in %d segments became [%lld, %lld) in %d", (long long)start, (long long)end, segments,
                (long long)stele_log_start_offset(log), (long long)stele_log_end_offset(log),
                stele_log_segment_count(log));
    world->reached[POINT_OPEN_TWICE]++;
}

/* Damage is below the point, and after a scan all that rotted where it read is known. */
static void check_damage(struct crash_world *world, const struct crash_checkpoint *before)
{
    struct log_model *model = &world->model;
    struct stele_log *log = world->log;
    int64_t point = stele_max_i64(before->high_watermark, before->recovery_point), from = 0;
    world->point_max = stele_max_i64(world->point_max, point);
    for (int i = 0; i < stele_log_damaged_count(log); i++)
        MODEL_CHECK(model, point <= 0 || stele_log_damaged(log, i)->first_offset < world->point_max,
                    "damage at %lld, above the point", (long long)stele_log_damaged(log, i)->first_offset);
    for (int i = 0; i < stele_log_segment_count(log); i++) {
        int64_t base_offset = stele_log_segment(log, i)->base_offset;
        if (base_offset <= stele_max_i64(before->recovery_point, stele_log_start_offset(log)))
            from = stele_max_i64(base_offset, stele_log_start_offset(log));
    }
    for (int i = log_model_find(model, from); i < model->count && !before->is_clean; i++) {
        const struct model_batch *batch = &model->batches[i];
        bool is_known = !batch->is_rotten || batch->last_offset >= stele_log_end_offset(log);
        for (int k = 0; k < stele_log_damaged_count(log) && !is_known; k++)
            is_known = batch->base_offset <= stele_log_damaged(log, k)->last_offset &&
                       batch->last_offset >= stele_log_damaged(log, k)->first_offset;
        MODEL_CHECK(model, is_known, "the rotten batch at %lld is in no damaged range", (long long)batch->base_offset);
        world->reached[POINT_ROT_REPORTED] += batch->is_rotten;
    }
    if (!before->is_clean)
        log_model_see(&world->model, from, before->recovery_point);
}

static void check_start(struct crash_world *world, const struct crash_checkpoint *before,
                        const struct stele_recovery_report *report)
{
    struct stele_log *log = world->log;
    int64_t start = stele_log_start_offset(log), point = stele_log_recovery_point(log);
    world->model.passed = world->had_lost_start ? world->start_max : 0;
    int64_t sound_end = log_model_sound_end(&world->model, log);
    world->model.doing = "check after recovery";
    world->reached[before->is_clean ? POINT_OPEN_CLEAN : POINT_OPEN_UNCLEAN]++;
    log_model_push_ghosts(&world->model, world->pending, world->pending_count);
    crash_drop_pending(world);
    int at = log_model_find(&world->model, world->kept_end);
    /* An end that a hole of the leader's log made is nowhere in the files. */
    if (world->is_gappy)
        world->kept_end = stele_min_i64(world->kept_end, at > 0 ? world->model.batches[at - 1].last_offset + 1
                                                                : before->log_start_offset);
    MODEL_CHECK(&world->model, sound_end >= world->kept_end, "the log ends at %lld, %lld was promised",
                (long long)sound_end, (long long)world->kept_end);
    MODEL_CHECK(&world->model, start >= before->log_start_offset && start <= world->start_max,
                "the log starts at %lld, not in [%lld, %lld]", (long long)start, (long long)before->log_start_offset,
                (long long)world->start_max);
    MODEL_CHECK(&world->model,
                !before->is_clean || report->segments_scanned == 0 || world->had_damage || world->had_rot,
                "a clean start scanned %d segments", report->segments_scanned);
    MODEL_CHECK(&world->model, point <= world->durable_end, "the recovery point %lld is above what was synced, %lld",
                (long long)point, (long long)world->durable_end);
    world->reached[POINT_PENDING_APPEND_SURVIVED] += sound_end > world->model.end;
    log_model_adopt(&world->model, log, world->kept_end);
    check_damage(world, before);
    if (world->power_was_lost)
        log_model_clear_ghosts(&world->model);
    check_log(world);
    bool may_see_more = before->is_clean && log_model_has_rot(&world->model, 0, INT64_MAX);
    /* What a line would have said, or the next one completes, is for the second start to find. */
    if (!may_see_more && !world->has_met_error && !world->had_lost_line && crash_chance(world, 1, 4)) {
        check_idempotent(world);
        check_log(world);
    }
}

/* The lost tail below the high watermark is fetched again by whoever has a leader; here it is given up. */
static void heal(struct crash_world *world)
{
    int64_t sound_end = log_model_sound_end(&world->model, world->log);
    bool is_cut = sound_end < stele_log_end_offset(world->log) || crash_chance(world, 1, 2);
    if (stele_log_damaged_count(world->log) > 0 && is_cut) {
        for (int i = 0; i < stele_log_damaged_count(world->log); i++)
            sound_end = stele_min_i64(sound_end, stele_log_damaged(world->log, i)->first_offset);
        enum stele_err err = crash_truncate(world, sound_end);
        MODEL_CHECK(&world->model, err == STELE_OK && stele_log_damaged_count(world->log) == 0,
                    "a truncation to the damage at %lld left it", (long long)sound_end);
        check_log(world);
    }
    if (crash_chance(world, 1, 2))
        world->epoch++;
    crash_meet_producers(world);
    world->kept_end = stele_log_end_offset(world->log);
    world->start_max = stele_max_i64(world->start_max, stele_log_start_offset(world->log));
}

static void start(struct crash_world *world)
{
    struct stele_recovery_report report;
    struct crash_checkpoint before = world->checkpoint;
    crash_lower_for_rot(world);
    for (int depth = 0;; depth++) {
        bool is_armed = depth < RECOVERY_DEPTH && crash_chance(world, 1, 3);
        before.is_clean = world->checkpoint.is_clean;
        bool is_crash = !is_armed || !crash_chance(world, 1, 4);
        if (is_armed)
            disk_arm(world, draw_calls(world, 256), is_crash, 0);
        enum stele_err err = open_log(world, &report);
        bool has_struck = sim_disk_has_struck(world->disk);
        world->has_met_error = has_struck; /* a line of history may be missing */
        disk_disarm(world);
        bool has_lost = note_sync_failures(world);
        if (has_struck ? is_crash || err != STELE_OK : has_lost && err == STELE_IO) {
            if (err == STELE_OK)
                drop_log(world);
            world->reached[is_crash ? POINT_CRASH_IN_RECOVERY : POINT_EIO_IN_RECOVERY]++;
            world->reached[POINT_SYNC_EIO_IN_RECOVERY] += has_lost;
            crash(world, draw_kind(world));
            continue;
        }
        if (err == STELE_OK)
            break;
        MODEL_CHECK(&world->model, err == STELE_NO_SPACE && world->is_full, "%s: %s", stele_err_name(err),
                    world->failure);
        world->reached[POINT_FULL_DISK_IN_RECOVERY]++;
        disk_free_space(world);
    }
    disk_free_space(world);
    world->reached[POINT_SYNC_EIO_SAME_BOOT] += world->has_lost_pages;
    check_start(world, &before, &report);
    if (world->has_lost_pages && !world->has_late_errors && crash_chance(world, 1, 2)) {
        sim_disk_evict(world->disk); /* nothing that is in use may change by it */
        check_log(world);
    }
    heal(world);
}

/* --- lives --- */

enum fault { FAULT_NONE, FAULT_CRASH, FAULT_EIO, FAULT_SYNC, FAULT_FULL };

static enum fault draw_fault(struct crash_world *world)
{
    uint64_t draw = stele_prng_below(&world->prng, 100);
    return draw < 22   ? FAULT_NONE
           : draw < 70 ? FAULT_CRASH
           : draw < 81 ? FAULT_EIO
           : draw < 90 ? FAULT_SYNC
                       : FAULT_FULL;
}

static void arm(struct crash_world *world, enum fault fault)
{
    if (fault == FAULT_CRASH)
        disk_arm(world, draw_calls(world, 1024), true, 0);
    if (fault == FAULT_EIO)
        disk_arm(world, draw_calls(world, 256), false, 0);
    if (fault == FAULT_SYNC && world->config.write_back_bytes > 0 && crash_chance(world, 1, 2))
        disk_set_rates(world, 500000);
    else if (fault == FAULT_SYNC)
        disk_arm(world, draw_calls(world, 32), false, SIM_DISK_BIT(SIM_DISK_SYNC) | SIM_DISK_BIT(SIM_DISK_SYNC_DIR));
    if (fault == FAULT_FULL)
        disk_fill(world, stele_prng_range(&world->prng, 0, 20000));
}

static void note_crash_place(struct crash_world *world)
{
    if (world->flush != NULL)
        world->reached[POINT_CRASH_IN_FLUSH]++;
    if (strcmp(world->model.doing, "close") == 0)
        world->reached[POINT_CRASH_IN_CLOSE]++;
    if (strcmp(world->model.doing, "truncation") == 0)
        world->reached[POINT_CRASH_IN_TRUNCATION]++;
}

/* Work until the fault strikes or enough is done. Returns how the log goes down. */
static enum crash_kind live(struct crash_world *world, enum fault fault)
{
    int ops = (int)stele_prng_range(&world->prng, 1, OPS_PER_LIFE);
    int64_t write_back_errors = sim_disk_stats(world->disk)->write_back_errors;
    enum stele_err err = STELE_OK;
    bool has_lost = false;
    for (int i = 0; i < ops && !disk_is_crashed(world) && !stele_log_is_failed(world->log); i++) {
        err = crash_work(world);
        has_lost |= note_sync_failures(world);
        bool is_expected = err == STELE_OK || disk_is_crashed(world) || has_lost || sim_disk_has_struck(world->disk) ||
                           (world->had_rot && (err == STELE_CORRUPT || err == STELE_DAMAGED_RANGE)) ||
                           (fault == FAULT_FULL && err == STELE_NO_SPACE);
        MODEL_CHECK(&world->model, is_expected, "%s", stele_err_name(err));
        if (err == STELE_NO_SPACE) {
            world->reached[POINT_FULL_DISK]++;
            if (crash_chance(world, 1, 4))
                disk_free_space(world);
        }
        if (crash_chance(world, 1, 100) && !disk_is_crashed(world) && fault == FAULT_NONE && err == STELE_OK)
            check_log(world);
    }
    bool is_running = !disk_is_crashed(world) && !stele_log_is_failed(world->log);
    if (is_running && fault != FAULT_FULL && crash_chance(world, 1, 3)) {
        err = crash_close(world);
        has_lost |= note_sync_failures(world);
        bool is_expected = err == STELE_OK || disk_is_crashed(world) || has_lost || sim_disk_has_struck(world->disk);
        MODEL_CHECK(&world->model, is_expected, "%s", stele_err_name(err));
    }
    if (fault == FAULT_EIO && sim_disk_has_struck(world->disk))
        world->reached[has_lost ? POINT_SYNC_EIO : POINT_READ_WRITE_EIO]++;
    world->reached[POINT_SYNC_EIO] += fault == FAULT_SYNC && has_lost;
    world->reached[POINT_FULL_DISK_AT_SYNC] += fault == FAULT_FULL && has_lost;
    bool is_late = sim_disk_stats(world->disk)->write_back_errors > write_back_errors;
    world->reached[POINT_WRITE_BACK_EIO] += is_late;
    world->has_late_errors |= is_late;
    disk_set_rates(world, 0);
    return draw_kind(world);
}

static void run_life(struct crash_world *world)
{
    enum fault fault = draw_fault(world);
    world->power_was_lost = false;
    arm(world, fault);
    enum crash_kind kind = live(world, fault);
    note_crash_place(world);
    drop_log(world);
    bool is_clean = world->checkpoint.is_clean;
    disk_disarm(world);
    /* A clean stop may be followed by a loss of power, or by nothing. */
    if (!is_clean || crash_chance(world, 1, 2))
        crash(world, kind);
    if (!crash_chance(world, 1, 3))
        disk_free_space(world);
    if (crash_chance(world, 1, 8))
        crash_rot(world);
    start(world);
}

/* --- runs --- */

static void draw_config(struct crash_world *world)
{
    struct stele_log_config *config = &world->config;
    struct stele_prng *prng = &world->prng;
    stele_log_config_default(config);
    config->segment_bytes = stele_prng_range(prng, 1500, 6000);
    config->segment_index_bytes = stele_prng_range(prng, 24, 200);
    config->index_interval_bytes = stele_prng_range(prng, 0, 600);
    config->segment_ms = 20000;
    config->retention_bytes = crash_chance(world, 1, 2) ? stele_prng_range(prng, 8000, 30000) : -1;
    config->retention_ms = crash_chance(world, 1, 2) ? 30000 : -1;
    config->file_delete_delay_ms = stele_prng_range(prng, 0, 2000);
    config->preallocate = crash_chance(world, 1, 4);
    config->write_back_bytes = crash_chance(world, 1, 2) ? 2000 : 0;
    config->producer_id_expiration_ms = INT64_MAX / 2;
    config->cleanup_delete = true;
    world->is_gappy = crash_chance(world, 1, 8);
    world->is_lossy_mark = crash_chance(world, 1, 2);
}

static void run_begin(struct crash_world *world, uint64_t seed)
{
    stele_test_env_init(&world->test, NULL);
    world->ops = *world->test.env.ops;
    world->ops.trace = crash_trace;
    world->test.env.ops = &world->ops;
    stele_prng_init(&world->prng, seed, 1);
    log_model_init(&world->model, seed);
    world->model.crashes = world->crashes;
    world->checkpoint = (struct crash_checkpoint){.high_watermark = -1};
    world->durable_end = 0;
    world->kept_end = 0;
    world->start_max = 0;
    world->point_max = 0;
    world->epoch = 0;
    world->had_damage = world->had_rot = world->had_lost_start = world->has_met_error = false;
    world->had_bad_epochs = world->had_lost_line = false;
    world->is_full = world->power_was_lost = false;
    world->hung_us = 0;
    memset(world->producers, 0, sizeof(world->producers)); /* a seed says all */
    world->has_lost_pages = world->has_late_errors = false;
    world->sync_failures = 0;
    draw_config(world);
    disk_new(world, seed);
    world->is_new = true;
    world->cache = stele_file_cache_new(&world->test.env, 4, 1 << 16);
    MODEL_CHECK(&world->model, world->cache != NULL, "no memory");
}

static void run_end(struct crash_world *world)
{
    drop_log(world);
    crash_drop_pending(world);
    stele_file_cache_free(world->cache);
    sim_disk_free(world->disk);
    log_model_deinit(&world->model);
    for (int tag = 0; tag < STELE_MEM_TAG_COUNT; tag++)
        MODEL_CHECK(&world->model, world->test.mem.mem.tag_blocks[tag] == 0, "memory still held: %s",
                    stele_mem_tag_name((enum stele_mem_tag)tag));
}

static void run(struct crash_world *world, uint64_t seed)
{
    run_begin(world, seed);
    start(world);
    for (int i = 0; i < CRASHES_PER_RUN; i++)
        run_life(world);
    run_end(world);
}

static bool print_reached(const struct crash_world *world, bool must_be_all)
{
    bool is_all = true;
    for (int i = 0; i < POINT_COUNT; i++) {
        (void)printf("%-28s %lld\n", point_names[i], (long long)world->reached[i]);
        is_all = is_all && world->reached[i] > 0;
        if (must_be_all && world->reached[i] == 0)
            (void)fprintf(stderr, "FAILED: no run reached %s\n", point_names[i]);
    }
    return is_all || !must_be_all;
}

int main(int argc, char **argv)
{
    struct crash_world *world = calloc(1, sizeof(*world));
    uint64_t first = 1, runs = 0;
    int64_t crashes = CRASHES_WANTED;
    if (world == NULL)
        return 2;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            world->is_verbose = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            first = strtoull(argv[++i], NULL, 10);
            runs = runs == 0 ? 1 : runs;
        } else if (i + 1 < argc && strcmp(argv[i], "--runs") == 0) {
            runs = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--crashes") == 0) {
            crashes = strtoll(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr, "usage: sim_log_crash [--seed N] [--runs N] [--crashes N] [--verbose]\n");
            free(world);
            return 2;
        }
    }
    uint64_t done = 0;
    while (runs > 0 ? done < runs : world->crashes < crashes)
        run(world, first + done++);
    (void)printf("%llu runs, %lld crashes\n", (unsigned long long)done, (long long)world->crashes);
    bool is_all = print_reached(world, runs == 0);
    free(world);
    return is_all ? 0 : 1;
}
