#include "storage/test/log_world.h"

#include "storage/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stele_vfs *world_vfs(struct log_world *w)
{
    return w->test.env.vfs;
}

/* --- life --- */

static void count_trace(struct stele_env *env, const struct stele_trace_event *event)
{
    struct log_world *w = STELE_CONTAINER_OF(env, struct log_world, test.env);
    w->test.traces[event->kind]++;
    for (int i = 0; i < STELE_REASON_COUNT && event->text != NULL; i++)
        w->traced[event->kind][i] += strcmp(event->text, stele_reason_text((enum stele_reason)i)) == 0;
}

void world_init(struct log_world *w, struct sim_disk *disk)
{
    memset(w, 0, sizeof(*w));
    stele_test_env_init(&w->test, NULL);
    w->ops = *w->test.env.ops;
    w->ops.trace = count_trace;
    w->test.env.ops = &w->ops;
    w->disk = disk;
    w->test.env.vfs = sim_disk_vfs(w->disk);
    sim_disk_allow_unsynced_rename(w->disk, "*.deleted");
    w->cache = stele_file_cache_new(&w->test.env, 4, 1 << 20);
    assert_non_null(w->cache);
    w->open = (struct stele_log_open){.env = &w->test.env, .dir = WORLD_DIR, .name = "t-0", .high_watermark = -1};
    stele_log_config_default(&w->open.config);
    w->open.config.segment_bytes = WORLD_SEGMENT_BYTES;
    w->open.config.segment_index_bytes = 1024;
    w->open.config.index_interval_bytes = 100;
    w->open.config.file_delete_delay_ms = 0;
    w->open.config.segment_ms = INT64_MAX / 4;
    w->open.config.retention_ms = -1;
    w->open.config.producer_id_expiration_ms = INT64_MAX / 2;
}

void world_deinit(struct log_world *w)
{
    world_drop(w);
    stele_file_cache_free(w->cache);
    assert_int_equal(sim_disk_in_use(w->disk), 0);
    if (sim_disk_violations(w->disk) > 0)
        fail_msg("%s", sim_disk_violation_text(w->disk));
    sim_disk_free(w->disk);
    stele_test_mem_check_empty(&w->test.mem);
}

int world_set_up(void **state)
{
    struct log_world *w = malloc(sizeof(*w));
    assert_non_null(w);
    world_init(w, sim_disk_new(1));
    assert_ok(world_vfs(w)->ops->mkdir(world_vfs(w), WORLD_DIR));
    *state = w;
    return 0;
}

int world_tear_down(void **state)
{
    world_deinit(*state);
    free(*state);
    return 0;
}

void world_drop(struct log_world *w)
{
    stele_log_free(w->log);
    w->log = NULL;
}

void world_open(struct log_world *w)
{
    w->error.text[0] = 0;
    enum stele_err err = stele_log_open(&w->open, &w->log, &w->report, &w->error);
    if (err != STELE_OK)
        print_error("%s\n", w->error.text);
    assert_ok(err);
    stele_log_attach(w->log, w->cache);
    stele_log_check(w->log);
}

void world_reopen(struct log_world *w, int64_t recovery_point, int64_t high_watermark)
{
    world_drop(w);
    w->open.was_clean = false;
    w->open.recovery_point = recovery_point;
    w->open.high_watermark = high_watermark;
    world_open(w);
}

void world_stop(struct log_world *w)
{
    w->open.was_clean = true;
    w->open.recovery_point = stele_log_end_offset(w->log);
    w->open.high_watermark = w->open.recovery_point;
    assert_ok(stele_log_close(w->log));
    world_drop(w);
}

/* --- appends --- */

struct stele_batch_options world_options(int64_t producer_id, int32_t sequence, int16_t attributes)
{
    return (struct stele_batch_options){.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                        .partition_leader_epoch = -1,
                                        .producer_id = producer_id,
                                        .producer_epoch = producer_id < 0 ? -1 : 0,
                                        .base_sequence = sequence,
                                        .attributes = attributes};
}

const char *world_value(int64_t offset, char out_text[17])
{
    (void)snprintf(out_text, 17, "%016lld", (long long)offset);
    return out_text;
}

static struct stele_buf *build(struct log_world *w, const struct stele_batch_options *options,
                               const struct stele_record_in *record)
{
    struct stele_buf *buf = NULL;
    struct stele_batch_builder *builder = stele_batch_builder_new(w->test.env.mem, options);
    assert_non_null(builder);
    assert_ok(stele_batch_builder_add(builder, record));
    assert_ok(stele_batch_builder_finish(builder, &buf));
    stele_batch_builder_free(builder);
    return buf;
}

struct stele_buf *world_build(struct log_world *w, const struct stele_batch_options *options, int64_t offset)
{
    char text[17];
    struct stele_record_in record = {
        .timestamp = WORLD_TIME + offset, .value = world_value(offset, text), .value_bytes = 16};
    return build(w, options, &record);
}

struct stele_buf *world_build_abort(struct log_world *w, int64_t producer_id)
{
    uint8_t key[4] = {0, 0, 0, STELE_CONTROL_ABORT}, value[6] = {0, 0, 0, 0, 0, 1};
    struct stele_batch_options options =
        world_options(producer_id, -1, STELE_BATCH_CONTROL | STELE_BATCH_TRANSACTIONAL);
    struct stele_record_in record = {
        .timestamp = WORLD_TIME, .key = key, .value = value, .key_bytes = 4, .value_bytes = 6};
    return build(w, &options, &record);
}

enum stele_err world_put(struct log_world *w, struct stele_buf *buf, enum stele_origin origin, int32_t epoch)
{
    struct stele_appended appended;
    struct stele_append append = {.bytes = buf->bytes, .count = buf->count, .origin = origin, .leader_epoch = epoch};
    enum stele_err err = stele_log_append(w->log, &append, &appended);
    stele_buf_unref(buf);
    return err;
}

static void append_one(struct log_world *w, const struct stele_batch_options *options, int32_t epoch)
{
    struct stele_buf *buf = world_build(w, options, stele_log_end_offset(w->log));
    assert_ok(world_put(w, buf, STELE_ORIGIN_CLIENT, epoch));
}

void world_append(struct log_world *w, int count, int32_t epoch)
{
    struct stele_batch_options options = world_options(-1, -1, 0);
    for (int i = 0; i < count; i++)
        append_one(w, &options, epoch);
}

/* A log holds no older epoch behind a newer one. */
static int32_t latest_epoch(struct log_world *w)
{
    int32_t epoch = stele_epoch_cache_latest(stele_log_epochs(w->log));
    return epoch < 0 ? 0 : epoch;
}

void world_append_txn(struct log_world *w, int64_t producer_id, int32_t sequence)
{
    struct stele_batch_options options = world_options(producer_id, sequence, STELE_BATCH_TRANSACTIONAL);
    append_one(w, &options, latest_epoch(w));
}

void world_append_abort(struct log_world *w, int64_t producer_id)
{
    assert_ok(world_put(w, world_build_abort(w, producer_id), STELE_ORIGIN_COORDINATOR, latest_epoch(w)));
}

void world_fill(struct log_world *w, int count)
{
    world_open(w);
    world_append(w, count, 0);
    assert_ok(stele_log_flush(w->log));
    assert_true(count < 20 || stele_log_segment_count(w->log) >= 3);
}

/* --- what is there --- */

int64_t world_base(struct log_world *w, int at)
{
    return stele_log_segment(w->log, at)->base_offset;
}

int64_t world_last_base(struct log_world *w)
{
    return world_base(w, stele_log_segment_count(w->log) - 1);
}

int64_t world_pos(struct log_world *w, int64_t offset, int64_t base_offset)
{
    struct stele_batch_header header;
    int64_t bytes = 0;
    assert_ok(stele_segment_header_at(stele_log_segment(w->log, 0), 0, &header, &bytes));
    return (offset - base_offset) * bytes;
}

/* The batch of a slice: its checksum, and its record's value but for a marker. */
static void check_batch(struct log_world *w, const struct stele_slice *slice)
{
    uint8_t bytes[256];
    char text[17];
    struct stele_file *file = NULL;
    struct stele_batch_header header;
    struct stele_record_walker walker;
    struct stele_record record;
    assert_true(slice->bytes <= sizeof(bytes));
    assert_ok(stele_cached_file_pin(slice->file, &file));
    assert_ok(stele_file_read(file, bytes, slice->bytes, slice->pos));
    stele_cached_file_unpin(slice->file);
    assert_ok(stele_batch_check(bytes, slice->bytes, &header));
    assert_int_equal(header.base_offset, slice->base_offset);
    if ((header.attributes & STELE_BATCH_CONTROL) != 0)
        return;
    assert_ok(stele_record_walker_init(&walker, w->test.env.mem, bytes, slice->bytes, 1000));
    assert_ok(stele_record_next(&walker, &record));
    assert_int_equal(record.timestamp, WORLD_TIME + record.offset);
    assert_int_equal(record.value_bytes, 16);
    assert_memory_equal(record.value, world_value(record.offset, text), 16);
    stele_record_walker_deinit(&walker);
}

enum stele_err world_read(struct log_world *w, int64_t offset, int64_t *out_base_offset)
{
    struct stele_slice slice;
    struct stele_read read = {.offset = offset, .bound = stele_log_end_offset(w->log), .max_bytes = 1, .min_one = true};
    enum stele_err err = stele_log_read(w->log, &read, &slice);
    if (err != STELE_OK)
        return err;
    if (slice.bytes > 0)
        check_batch(w, &slice);
    *out_base_offset = slice.base_offset;
    stele_slice_release(&slice);
    return STELE_OK;
}

void world_check_readable(struct log_world *w, int64_t first, int64_t end)
{
    for (int64_t offset = first; offset < end; offset++) {
        int64_t base_offset = -1;
        assert_ok(world_read(w, offset, &base_offset));
        assert_int_equal(base_offset, offset);
    }
}

void world_check_damaged(struct log_world *w, int64_t first, int64_t last)
{
    int64_t ignored;
    assert_true(w->report.found_damage);
    assert_int_equal(stele_log_damaged_count(w->log), 1);
    assert_int_equal(stele_log_damaged(w->log, 0)->first_offset, first);
    assert_int_equal(stele_log_damaged(w->log, 0)->last_offset, last);
    for (int64_t offset = first; offset <= last; offset++)
        assert_int_equal(world_read(w, offset, &ignored), STELE_DAMAGED_RANGE);
}

void world_check_untouched(struct log_world *w)
{
    assert_int_equal(w->report.bytes_cut, 0);
    assert_int_equal(w->report.segments_deleted, 0);
    assert_int_equal(w->report.cut_offset, -1);
    assert_int_equal(w->report.indexes_rebuilt, 0);
    assert_false(w->report.found_damage);
}

/* --- files --- */

struct path world_path(const char *name)
{
    struct path path;
    assert_ok(stele_path_join(path.text, WORLD_DIR, name));
    return path;
}

struct path world_file(int64_t base_offset, const char *suffix)
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(base_offset, suffix, name);
    return world_path(name);
}

bool world_has(struct log_world *w, struct path path)
{
    struct stele_stat stat;
    return world_vfs(w)->ops->stat(world_vfs(w), path.text, &stat) == STELE_OK;
}

int64_t world_size(struct log_world *w, struct path path)
{
    struct stele_stat stat;
    assert_ok(world_vfs(w)->ops->stat(world_vfs(w), path.text, &stat));
    return stat.bytes;
}

void world_write(struct log_world *w, struct path path, const void *bytes, size_t count, int64_t pos)
{
    struct stele_file *file = NULL;
    assert_ok(world_vfs(w)->ops->open(world_vfs(w), path.text, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    assert_ok(stele_file_write(file, bytes, count, pos));
    assert_ok(file->vfs->ops->sync(file));
    world_vfs(w)->ops->close(file);
}

void world_copy(struct log_world *w, struct path from, struct path to, int64_t to_pos)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    assert_ok(stele_vfs_read_whole(world_vfs(w), w->test.env.mem, STELE_MEM_TOOL, from.text, 1 << 20, &bytes, &count));
    world_write(w, to, bytes, count, to_pos);
    stele_mem_free(w->test.env.mem, bytes);
}

void world_resize(struct log_world *w, struct path path, int64_t bytes)
{
    struct stele_file *file = NULL;
    assert_ok(world_vfs(w)->ops->open(world_vfs(w), path.text, STELE_OPEN_WRITE, &file));
    assert_ok(file->vfs->ops->truncate(file, bytes));
    world_vfs(w)->ops->close(file);
}

void world_flip(struct log_world *w, struct path path, int64_t pos)
{
    assert_ok(sim_disk_flip(w->disk, path.text, pos, 0x10));
}

void world_delete(struct log_world *w, struct path path)
{
    assert_ok(world_vfs(w)->ops->unlink(world_vfs(w), path.text));
}

static enum stele_err check_name(void *arg, const char *name)
{
    static const char *const known[] = {".log",      ".index",           ".timeindex",           ".txnindex",
                                        ".snapshot", STELE_HISTORY_FILE, STELE_LEADER_EPOCH_FILE};
    bool *is_known = arg;
    const char *suffix = name;
    int64_t base_offset;
    bool is_named = false;
    if (!stele_segment_name_parse(name, &base_offset, &suffix))
        suffix = name;
    for (size_t i = 0; i < STELE_ARRAY_LEN(known); i++)
        is_named = is_named || strcmp(suffix, known[i]) == 0;
    if (!is_named)
        print_error("left behind: %s\n", name);
    *is_known = *is_known && is_named;
    return STELE_OK;
}

bool world_has_only_known_names(struct log_world *w)
{
    bool is_known = true;
    assert_ok(world_vfs(w)->ops->list(world_vfs(w), WORLD_DIR, check_name, &is_known));
    return is_known;
}

struct history_count {
    enum stele_history_kind kind;
    enum stele_reason reason;
    int count;
};

static void count_event(void *arg, const struct stele_history_event *event)
{
    struct history_count *history = arg;
    history->count += event->kind == history->kind && event->reason == history->reason;
}

int world_history(struct log_world *w, enum stele_history_kind kind, enum stele_reason reason)
{
    struct history_count history = {.kind = kind, .reason = reason};
    assert_ok(stele_history_read(&w->test.env, WORLD_DIR, count_event, &history));
    return history.count;
}

/* --- standing --- */

void world_stand(struct log_world *w, struct world_standing *out_at)
{
    const struct stele_log *log = w->log;
    *out_at = (struct world_standing){.start = stele_log_start_offset(log),
                                      .end = stele_log_end_offset(log),
                                      .high_watermark = stele_log_high_watermark(log),
                                      .recovery_point = stele_log_checkpoint_point(log),
                                      .damaged = stele_log_damaged_count(log),
                                      .epochs = stele_log_epochs(log)->count,
                                      .latest_epoch = stele_epoch_cache_latest(stele_log_epochs(log))};
    for (int i = 0; i < stele_log_segment_count(log); i++) {
        struct stele_txn_index *txns = &stele_log_segment(log, i)->txns;
        assert_ok(stele_txn_index_load(txns));
        out_at->aborted += txns->count;
    }
    assert_ok(stele_producers_snapshot(stele_log_producers(log), &out_at->producers, &out_at->producers_bytes));
}

void world_leave(struct log_world *w, struct world_standing *at)
{
    stele_mem_free(w->test.env.mem, at->producers);
}

bool world_is_same(const struct world_standing *a, const struct world_standing *b)
{
    const struct {
        const char *name;
        int64_t a, b;
    } parts[] = {{"start", a->start, b->start},
                 {"end", a->end, b->end},
                 {"high watermark", a->high_watermark, b->high_watermark},
                 {"aborted", a->aborted, b->aborted},
                 {"damaged", a->damaged, b->damaged},
                 {"bytes of producers", (int64_t)a->producers_bytes, (int64_t)b->producers_bytes}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(parts); i++) {
        if (parts[i].a == parts[i].b)
            continue;
        print_error("%s: %lld and %lld\n", parts[i].name, (long long)parts[i].a, (long long)parts[i].b);
        return false;
    }
    return memcmp(a->producers, b->producers, a->producers_bytes) == 0;
}

/* --- faults --- */

enum {
    TAKES_ROOM = SIM_DISK_BIT(SIM_DISK_OPEN) | SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_ALLOCATE) |
                 SIM_DISK_BIT(SIM_DISK_RENAME) | SIM_DISK_BIT(SIM_DISK_SYNC)
};

const struct world_fault world_faults[WORLD_FAULTS] = {
    {"a failing call", false, false, STELE_IO, 0, SIM_DISK_KILL},
    {"a failing call, then no power", false, false, STELE_IO, 0, SIM_DISK_ORDERED},
    {"failing calls", false, true, STELE_IO, 0, SIM_DISK_KILL},
    {"failing calls, then no power", false, true, STELE_IO, 0, SIM_DISK_ADVERSARIAL},
    {"no room once", false, false, STELE_NO_SPACE, TAKES_ROOM, SIM_DISK_KILL},
    {"no room", false, true, STELE_NO_SPACE, TAKES_ROOM, SIM_DISK_ORDERED},
    {"no memory once", true, false, STELE_NO_MEMORY, 0, SIM_DISK_KILL},
    {"no memory", true, true, STELE_NO_MEMORY, 0, SIM_DISK_KILL},
};

void world_arm(struct log_world *w, const struct world_fault *fault, int64_t at)
{
    struct sim_disk_fault call = {.ops = fault->ops, .err = fault->err, .is_lasting = fault->is_lasting};
    if (fault->is_memory)
        stele_test_mem_fail(&w->test.mem, at, fault->is_lasting);
    else
        sim_disk_arm(w->disk, at, &call);
}

void world_disarm(struct log_world *w)
{
    w->test.mem.fail_at = 0;
    sim_disk_heal(w->disk);
}

bool world_has_struck(struct log_world *w, const struct world_fault *fault)
{
    return fault->is_memory ? w->test.mem.has_failed : sim_disk_has_struck(w->disk);
}

static enum stele_err sync_name(void *arg, const char *name)
{
    struct log_world *w = arg;
    struct path path = world_path(name);
    struct stele_file *file = NULL;
    assert_ok(world_vfs(w)->ops->open(world_vfs(w), path.text, STELE_OPEN_WRITE, &file));
    assert_ok(file->vfs->ops->sync(file));
    world_vfs(w)->ops->close(file);
    return STELE_OK;
}

void world_sync(struct log_world *w)
{
    assert_ok(world_vfs(w)->ops->list(world_vfs(w), WORLD_DIR, sync_name, w));
    assert_ok(world_vfs(w)->ops->sync_dir(world_vfs(w), WORLD_DIR));
    assert_ok(world_vfs(w)->ops->sync_dir(world_vfs(w), "/"));
}
