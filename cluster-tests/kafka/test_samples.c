/* Logs that real Kafka wrote, opened by our storage, against what Kafka's own tool says of them. */
#include "base/cursor.h"
#include "cluster-tests/kafka/expected_dump.h"
#include "cluster-tests/kafka/sample_files.h"
#include "proto/api.h"
#include "storage/log_dirs.h"
#include "storage/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *samples; /* where they were unpacked */

/* A partition and how it is opened. */
struct sample {
    const char *set, *partition;
    const char *dump;   /* prefix in expected/; the crashed set holds the logs of the clean one */
    int index_interval; /* 0: the default */
    bool log_alone;     /* indexes, snapshots and epochs are taken away first: all is made from the log */
};

static const struct sample cases[] = {
    {"clean", "__cluster_metadata-0", "clean", 0, false},
    {"clean", "__consumer_offsets-0", "clean", 0, false},
    {"clean", "__consumer_offsets-1", "clean", 0, false},
    {"clean", "__consumer_offsets-2", "clean", 0, false},
    {"clean", "__consumer_offsets-3", "clean", 0, false},
    {"clean", "__transaction_state-0", "clean", 0, false},
    {"clean", "__transaction_state-1", "clean", 0, false},
    {"clean", "appendtime-0", "clean", 512, false},
    {"clean", "codec.gzip-0", "clean", 2048, false},
    {"clean", "codec.lz4-0", "clean", 2048, false},
    {"clean", "codec.none-0", "clean", 2048, false},
    {"clean", "codec.snappy-0", "clean", 2048, false},
    {"clean", "codec.zstd-0", "clean", 2048, false},
    {"clean", "compacted-0", "clean", 0, false},
    {"clean", "plainoffsets-0", "clean", 0, false},
    {"clean", "segments.index-0", "clean", 1024, false},
    {"clean", "segments.size-0", "clean", 16384, false},
    {"clean", "trimmed-0", "clean", 0, false},
    {"clean", "txn-0", "clean", 512, false},
    {"crashed", "__cluster_metadata-0", "clean", 0, false},
    {"crashed", "__consumer_offsets-0", "clean", 0, false},
    {"crashed", "__consumer_offsets-1", "clean", 0, false},
    {"crashed", "__consumer_offsets-2", "clean", 0, false},
    {"crashed", "__consumer_offsets-3", "clean", 0, false},
    {"crashed", "__transaction_state-0", "clean", 0, false},
    {"crashed", "__transaction_state-1", "clean", 0, false},
    {"crashed", "appendtime-0", "clean", 512, false},
    {"crashed", "codec.gzip-0", "clean", 2048, false},
    {"crashed", "codec.lz4-0", "clean", 2048, false},
    {"crashed", "codec.none-0", "clean", 2048, false},
    {"crashed", "codec.snappy-0", "clean", 2048, false},
    {"crashed", "codec.zstd-0", "clean", 2048, false},
    {"crashed", "compacted-0", "clean", 0, false},
    {"crashed", "plainoffsets-0", "clean", 0, false},
    {"crashed", "segments.index-0", "clean", 1024, false},
    {"crashed", "segments.size-0", "clean", 16384, false},
    {"crashed", "trimmed-0", "clean", 0, false},
    {"crashed", "txn-0", "clean", 512, false},
    {"crashed", "segments.index-0", "clean", 1024, true},
    {"crashed", "txn-0", "clean", 512, true},
    {"crashed", "appendtime-0", "clean", 512, true},
    {"crashed", "trimmed-0", "clean", 0, true},
    {"crashed", "codec.zstd-0", "clean", 2048, true},
    {"diverged", "n1-before", "diverged", 0, false},
    {"diverged", "n1-after", "diverged", 0, false},
    {"diverged", "n2", "diverged", 0, false},
    {"diverged", "n3", "diverged", 0, false},
};

static struct {
    const struct sample *sample;
    struct stele_test_env test;
    struct sim_disk *disk;
    struct stele_file_cache *cache;
    struct stele_log *log;
    struct expected_partition expected;
    int64_t start, end; /* as expected */
    struct stele_recovery_report report;
    char dir[128]; /* of the partition */
    bool is_done;  /* the test came to its end: nothing may be held */
} world;

static void load_expected(const char *prefix)
{
    char path[STELE_PATH_BYTES], name[128];
    size_t count = 0;
    struct expected_partition *expected = &world.expected;
    (void)snprintf(path, sizeof(path), "%.2000s/expected", samples);
    (void)snprintf(name, sizeof(name), "%s_%s", world.sample->dump, prefix);
    expected_load(expected, path, name);
    /* The crashed node's metadata log ends earlier: the dump's lines up to there are its. */
    while (expected->batch_count > 0) {
        const struct expected_batch *last = &expected->batches[expected->batch_count - 1];
        (void)snprintf(path, sizeof(path), "%s/%020lld.log", world.dir, (long long)last->segment_base);
        free(sample_get(world.disk, path, &count));
        if (last->pos + last->bytes <= (int64_t)count)
            break;
        expected->batch_count--;
        expected->record_count = last->first_record;
    }
}

/* The offset of a partition in a checkpoint; read here and not by our storage. */
static int64_t checkpointed(const char *name, int64_t otherwise)
{
    char path[STELE_PATH_BYTES], topic[256];
    size_t count = 0;
    long long offset;
    int partition;
    (void)snprintf(path, sizeof(path), "/%s/%s", world.sample->set, name);
    char *text = (char *)sample_get(world.disk, path, &count);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        char full[300];
        line += *line == '\n';
        if (sscanf(line, "%255s %d %lld", topic, &partition, &offset) != 3)
            continue;
        (void)snprintf(full, sizeof(full), "%s-%d", topic, partition);
        if (strcmp(full, world.sample->partition) == 0)
            otherwise = offset;
    }
    free(text);
    return otherwise;
}

/* What Kafka's loader starts from (log_dirs reads the same): the points of the checkpoints, 0 without. */
static void points_of(struct stele_log_open *open)
{
    struct stele_vfs *vfs = world.test.env.vfs;
    struct stele_checkpoint checkpoint;
    struct stele_error error = {.text = ""};
    enum stele_dir_kind kind;
    char topic[STELE_TOPIC_NAME_MAX + 1], dir[64];
    int32_t partition = 0;
    int64_t ignored = 0;
    (void)snprintf(dir, sizeof(dir), "/%s", world.sample->set);
    stele_checkpoint_init(&checkpoint, world.test.env.mem);
    if (stele_partition_dir_parse(world.sample->partition, topic, &partition, &kind) == STELE_OK) {
        assert_ok(stele_checkpoint_read(&checkpoint, vfs, dir, STELE_RECOVERY_POINT_FILE, &error));
        (void)stele_checkpoint_get(&checkpoint, topic, partition, &open->recovery_point);
        assert_ok(stele_checkpoint_read(&checkpoint, vfs, dir, STELE_LOG_START_FILE, &error));
        (void)stele_checkpoint_get(&checkpoint, topic, partition, &open->log_start_offset);
        assert_ok(stele_checkpoint_read(&checkpoint, vfs, dir, STELE_HIGH_WATERMARK_FILE, &error));
        (void)stele_checkpoint_get(&checkpoint, topic, partition, &open->high_watermark);
        assert_ok(stele_checkpoint_read(&checkpoint, vfs, dir, STELE_CLEANER_OFFSET_FILE, &error));
        open->is_compacted = stele_checkpoint_get(&checkpoint, topic, partition, &ignored);
    }
    stele_checkpoint_deinit(&checkpoint);
    (void)snprintf(dir, sizeof(dir), "/%s/" STELE_CLEAN_SHUTDOWN_FILE, world.sample->set);
    struct stele_stat stat;
    open->was_clean = vfs->ops->stat(vfs, dir, &stat) == STELE_OK;
}

static void open_log(void)
{
    struct stele_log_open open = {
        .env = &world.test.env, .dir = world.dir, .name = world.sample->partition, .high_watermark = -1};
    struct stele_error error = {.text = ""};
    stele_log_config_default(&open.config);
    open.config.producer_id_expiration_ms = INT64_MAX; /* the samples grow old */
    open.config.retention_ms = -1;
    if (world.sample->index_interval > 0)
        open.config.index_interval_bytes = world.sample->index_interval;
    points_of(&open);
    if (stele_log_open(&open, &world.log, &world.report, &error) != STELE_OK)
        fail_msg("%s: %s", world.dir, error.text);
    stele_log_attach(world.log, world.cache);
    stele_log_set_high_watermark(world.log, stele_log_end_offset(world.log)); /* one node: as its leader does */
}

static enum stele_err remove_derived(void *arg, const char *name)
{
    char path[STELE_PATH_BYTES];
    const char *suffix = strrchr(name, '.');
    (void)arg;
    if (strcmp(name, STELE_LEADER_EPOCH_FILE) != 0 &&
        (suffix == NULL || strcmp(suffix, ".log") == 0 || strcmp(suffix, ".metadata") == 0))
        return STELE_OK;
    (void)snprintf(path, sizeof(path), "%s/%.255s", world.dir, name);
    sample_remove(world.disk, path);
    return STELE_OK;
}

static int setup(void **state)
{
    char path[STELE_PATH_BYTES], set[64];
    memset(&world, 0, sizeof(world));
    world.sample = *state;
    world.disk = sim_disk_new(1);
    stele_test_env_init(&world.test, sim_disk_vfs(world.disk));
    (void)snprintf(path, sizeof(path), "%.2000s/%s/%s", samples, world.sample->set, world.sample->partition);
    (void)snprintf(set, sizeof(set), "/%s", world.sample->set);
    (void)snprintf(world.dir, sizeof(world.dir), "%s/%s", set, world.sample->partition);
    assert_ok(world.test.env.vfs->ops->mkdir(world.test.env.vfs, set));
    sample_load(world.disk, path, world.dir);
    static const char *const beside[] = {STELE_RECOVERY_POINT_FILE, STELE_LOG_START_FILE, STELE_HIGH_WATERMARK_FILE,
                                         STELE_CLEANER_OFFSET_FILE, STELE_CLEAN_SHUTDOWN_FILE};
    for (size_t i = 0; i < STELE_ARRAY_LEN(beside); i++) {
        size_t count = 0;
        (void)snprintf(path, sizeof(path), "%.2000s/%s/%s", samples, world.sample->set, beside[i]);
        uint8_t *bytes = sample_read(path, &count);
        (void)snprintf(path, sizeof(path), "%s/%s", set, beside[i]);
        if (bytes != NULL)
            sample_put(world.disk, path, bytes, count);
        free(bytes);
    }
    if (world.sample->log_alone)
        assert_ok(world.test.env.vfs->ops->list(world.test.env.vfs, world.dir, remove_derived, NULL));
    load_expected(world.sample->partition);
    world.start = stele_max_i64(checkpointed(STELE_LOG_START_FILE, 0), world.expected.bases[0]);
    world.end = expected_end(&world.expected);
    world.cache = stele_file_cache_new(&world.test.env, 64, 1 << 24);
    assert_non_null(world.cache);
    open_log();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!world.is_done)
        return 0;
    stele_log_free(world.log);
    stele_file_cache_free(world.cache);
    expected_free(&world.expected);
    stele_test_mem_check_empty(&world.test.mem);
    assert_int_equal(sim_disk_in_use(world.disk), 0);
    sim_disk_free(world.disk);
    return 0;
}

/* Offset of the first transaction that is open after the last batch, by the dump's lines; INT64_MAX: none. */
static int64_t expected_unstable(void)
{
    enum { PRODUCERS_MAX = 64 };
    int64_t ids[PRODUCERS_MAX], first[PRODUCERS_MAX], unstable = INT64_MAX;
    int count = 0;
    for (int i = 0; i < world.expected.batch_count; i++) {
        const struct expected_batch *batch = &world.expected.batches[i];
        int at = 0;
        if (!batch->is_transactional)
            continue;
        while (at < count && ids[at] != batch->producer_id)
            at++;
        if (at == count) {
            assert_true(count < PRODUCERS_MAX);
            ids[count] = batch->producer_id;
            first[count++] = INT64_MAX;
        }
        first[at] = batch->is_control ? INT64_MAX : stele_min_i64(first[at], batch->base_offset);
    }
    for (int i = 0; i < count; i++)
        unstable = stele_min_i64(unstable, first[i]);
    return unstable;
}

/* Start, end and last stable offset. */
static void check_points(void)
{
    int64_t unstable = expected_unstable();
    assert_false(world.report.found_damage);
    assert_int_equal(world.report.bytes_cut, 0);
    assert_int_equal(world.report.cut_offset, -1);
    assert_int_equal(stele_log_start_offset(world.log), world.start);
    assert_int_equal(stele_log_end_offset(world.log), world.end);
    assert_int_equal(stele_log_last_stable_offset(world.log), stele_min_i64(unstable, world.end));
    assert_int_equal(stele_log_segment_count(world.log), world.expected.base_count);
    for (int i = 0; i < world.expected.base_count; i++)
        assert_int_equal(stele_log_segment(world.log, i)->base_offset, world.expected.bases[i]);
    if (strcmp(world.sample->partition, "txn-0") == 0)
        assert_int_equal(stele_log_last_stable_offset(world.log), 88);
}

/* The epoch of every batch, and where each begins. */
static void check_epochs(void)
{
    const struct stele_epoch_cache *epochs = stele_log_epochs(world.log);
    int32_t last = -1;
    int seen = 0;
    for (int i = 0; i < world.expected.batch_count; i++) {
        const struct expected_batch *batch = &world.expected.batches[i];
        if (batch->last_offset < world.start)
            continue;
        assert_int_equal(stele_epoch_cache_epoch_at(epochs, stele_max_i64(batch->base_offset, world.start)),
                         batch->leader_epoch);
        seen += batch->leader_epoch != last;
        last = batch->leader_epoch;
    }
    if (world.expected.batch_count > 0)
        assert_int_equal(epochs->count, seen);
    assert_true(epochs->count == 0 || epochs->entries[epochs->count - 1].start_offset <= world.end);
}

static void each_producer(void *arg, const struct stele_producer_entry *entry)
{
    int *count = arg;
    int matches = 0;
    for (int i = 0; i < world.expected.producer_count; i++) {
        const struct expected_producer *want = &world.expected.producers[i];
        if (want->snapshot != world.end || want->producer_id != entry->producer_id)
            continue;
        matches++;
        assert_int_equal(entry->producer_epoch, want->producer_epoch);
        assert_int_equal(entry->coordinator_epoch, want->coordinator_epoch);
        assert_int_equal(entry->txn_first_offset, want->txn_first_offset);
        assert_int_equal(entry->timestamp, want->last_timestamp);
        assert_int_equal(entry->last_sequence, want->last_sequence);
        assert_int_equal(entry->last_offset, want->last_offset);
        assert_int_equal(entry->offset_delta, want->offset_delta);
    }
    assert_int_equal(matches, 1);
    ++*count;
}

/* Producers as in the snapshot that Kafka took at the end, also where we had to read the log for them. */
static void check_producers(void)
{
    int count = 0, want = 0;
    bool has_snapshot = world.end == 0;
    for (int i = 0; i < world.expected.producer_count; i++)
        want += world.expected.producers[i].snapshot == world.end;
    for (int i = 0; i < world.expected.batch_count && want == 0; i++)
        has_snapshot = has_snapshot || world.expected.batches[i].producer_id >= 0;
    if (want == 0 && has_snapshot)
        return; /* no snapshot of this very end is in the samples (its producers are known to the clean twin) */
    stele_producers_each(stele_log_producers(world.log), each_producer, &count);
    assert_int_equal(count, want);
}

/* Every offset gives the batch that the dump lists: where it lies, how large, with which checksum, and sound. */
static void check_reads(void)
{
    for (int64_t offset = world.start; offset < world.end; offset++) {
        const struct expected_batch *batch = expected_find(&world.expected, offset);
        struct stele_read read = {.offset = offset, .bound = world.end, .max_bytes = 1, .min_one = true};
        struct stele_slice slice;
        struct stele_file *file = NULL;
        struct stele_batch_header header;
        char path[STELE_PATH_BYTES];
        assert_ok(stele_log_read(world.log, &read, &slice));
        assert_non_null(batch);
        assert_non_null(slice.file);
        (void)snprintf(path, sizeof(path), "%s/%020lld.log", world.dir, (long long)batch->segment_base);
        assert_string_equal(stele_cached_file_path(slice.file), path);
        assert_int_equal(slice.pos, batch->pos);
        assert_int_equal(slice.bytes, batch->bytes);
        assert_int_equal(slice.base_offset, batch->base_offset);
        uint8_t *bytes = malloc(slice.bytes);
        assert_non_null(bytes);
        assert_ok(stele_cached_file_pin(slice.file, &file));
        assert_ok(stele_file_read(file, bytes, slice.bytes, slice.pos));
        stele_cached_file_unpin(slice.file);
        assert_ok(stele_batch_check(bytes, slice.bytes, &header));
        assert_int_equal(header.crc, batch->crc);
        assert_int_equal(header.record_count, batch->record_count);
        free(bytes);
        stele_slice_release(&slice);
    }
    struct stele_slice slice;
    struct stele_read read = {.offset = world.end, .bound = world.end, .max_bytes = 1, .min_one = true};
    assert_ok(stele_log_read(world.log, &read, &slice));
    assert_null(slice.file);
    read.offset = world.end + 1;
    assert_int_equal(stele_log_read(world.log, &read, &slice), STELE_OFFSET_OUT_OF_RANGE);
    read.offset = world.start - 1;
    assert_int_equal(stele_log_read(world.log, &read, &slice), STELE_OFFSET_OUT_OF_RANGE);
}

/* The offset up to which a reader of this slice is told of aborts (facts 5.3): of the first index entry of Kafka's at
 * or after its end, else the next segment's base, else the log's end. */
static int64_t expected_upper(int64_t base, int64_t end_pos)
{
    for (int i = 0; i < world.expected.offset_count; i++) {
        const struct expected_entry *entry = &world.expected.offsets[i];
        if (entry->segment_base == base && entry->value >= end_pos)
            return entry->offset;
    }
    for (int i = 0; i < world.expected.base_count; i++) {
        if (world.expected.bases[i] > base)
            return world.expected.bases[i];
    }
    return world.end;
}

static void check_aborted_of(int64_t offset, size_t max_bytes)
{
    struct stele_read read = {.offset = offset, .bound = world.end, .max_bytes = max_bytes, .min_one = true};
    struct stele_slice slice;
    struct stele_aborted_txn *txns = NULL;
    size_t count = 0, want = 0;
    assert_ok(stele_log_read(world.log, &read, &slice));
    assert_non_null(slice.file);
    assert_ok(stele_log_aborted(world.log, offset, &slice, &txns, &count));
    const struct expected_batch *batch = expected_find(&world.expected, offset);
    int64_t upper = expected_upper(batch->segment_base, slice.pos + (int64_t)slice.bytes);
    for (int i = 0; i < world.expected.txn_count; i++) {
        const struct expected_txn *txn = &world.expected.txns[i];
        if (txn->last_offset < offset || txn->first_offset >= upper)
            continue;
        assert_true(want < count);
        assert_int_equal(txns[want].producer_id, txn->producer_id);
        assert_int_equal(txns[want].first_offset, txn->first_offset);
        assert_int_equal(txns[want].last_offset, txn->last_offset);
        assert_int_equal(txns[want].last_stable_offset, txn->last_stable_offset);
        want++;
    }
    assert_int_equal(count, want);
    stele_mem_free(world.test.env.mem, txns);
    stele_slice_release(&slice);
}

/* Aborted transactions of slices from every offset on, of several sizes. */
static void check_aborted(void)
{
    static const size_t sizes[] = {1, 200, 1000, 4000, 1 << 20};
    for (int64_t offset = world.start; offset < world.end; offset++) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(sizes); i++)
            check_aborted_of(offset, sizes[i]);
    }
}

static void check_time(int64_t timestamp)
{
    struct stele_time_offset found;
    assert_ok(stele_log_offset_at(world.log, timestamp, &found));
    for (int i = 0; i < world.expected.record_count; i++) {
        const struct expected_record *record = &world.expected.records[i];
        if (record->offset < world.start || record->timestamp < timestamp)
            continue;
        assert_int_equal(found.offset, record->offset);
        assert_int_equal(found.timestamp, record->timestamp);
        assert_int_equal(found.leader_epoch, expected_find(&world.expected, record->offset)->leader_epoch);
        return;
    }
    assert_int_equal(found.offset, -1);
}

/* By every record's time, and the ones beside it; the first, the last, the largest. */
static void check_times(void)
{
    const struct expected_record *largest = NULL;
    struct stele_time_offset found;
    for (int i = 0; i < world.expected.record_count; i++) {
        const struct expected_record *record = &world.expected.records[i];
        if (largest == NULL || record->timestamp > largest->timestamp)
            largest = record;
        for (int64_t step = -1; step <= 1; step++)
            check_time(record->timestamp + step);
    }
    check_time(0);
    check_time(INT64_MAX);
    assert_ok(stele_log_offset_at(world.log, STELE_TIME_EARLIEST, &found));
    assert_int_equal(found.offset, world.start);
    assert_ok(stele_log_offset_at(world.log, STELE_TIME_LATEST, &found));
    assert_int_equal(found.offset, world.end);
    assert_ok(stele_log_offset_at(world.log, STELE_TIME_MAX_TIMESTAMP, &found));
    assert_int_equal(found.offset, largest == NULL ? -1 : largest->offset);
    assert_int_equal(found.timestamp, largest == NULL ? -1 : largest->timestamp);
}

/* The entries that a rebuild of segment `at` makes, by the dump's batches and the rule of facts 3.4. `times` end with
 * the closing entry. */
struct rebuilt {
    uint8_t offsets[1 << 14], times[1 << 14];
    size_t offset_bytes, time_bytes;
};

static void add_time(struct rebuilt *rebuilt, int64_t *inout_last, int64_t timestamp, int64_t relative)
{
    if (timestamp <= *inout_last)
        return;
    *inout_last = timestamp;
    stele_put_i64(rebuilt->times + rebuilt->time_bytes, timestamp);
    stele_put_i32(rebuilt->times + rebuilt->time_bytes + 8, (int32_t)relative);
    rebuilt->time_bytes += STELE_TIME_ENTRY_BYTES;
}

static void rebuild(int at, struct rebuilt *out)
{
    int64_t base = world.expected.bases[at], since = 0, largest = -1, largest_at = 0, last = -1;
    int64_t interval = world.sample->index_interval > 0 ? world.sample->index_interval : 4096;
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < world.expected.batch_count; i++) {
        const struct expected_batch *batch = &world.expected.batches[i];
        if (batch->segment_base != base)
            continue;
        if (batch->max_timestamp > largest) {
            largest = batch->max_timestamp;
            largest_at = batch->last_offset - base;
        }
        if (since > interval) {
            stele_put_i32(out->offsets + out->offset_bytes, (int32_t)(batch->last_offset - base));
            stele_put_i32(out->offsets + out->offset_bytes + 4, (int32_t)batch->pos);
            out->offset_bytes += STELE_OFFSET_ENTRY_BYTES;
            add_time(out, &last, largest, largest_at);
            since = 0;
        }
        since += batch->bytes;
    }
    add_time(out, &last, largest, largest_at);
}

/* What the open log holds in memory; the active segment's closing entry comes later. */
static void check_open_indexes(int at)
{
    struct stele_segment *seg = stele_log_segment(world.log, at);
    static struct rebuilt rebuilt;
    int64_t count = 0;
    rebuild(at, &rebuilt);
    assert_ok(stele_index_count(&seg->offsets, &count));
    assert_int_equal(count * STELE_OFFSET_ENTRY_BYTES, rebuilt.offset_bytes);
    for (int64_t i = 0; i < count; i++) {
        struct stele_offset_entry entry;
        assert_ok(stele_offset_index_entry(&seg->offsets, i, &entry));
        const uint8_t *want = rebuilt.offsets + i * STELE_OFFSET_ENTRY_BYTES;
        assert_int_equal(entry.offset - seg->base_offset, stele_get_i32(want));
        assert_int_equal(entry.pos, stele_get_i32(want + 4));
    }
    assert_ok(stele_index_count(&seg->times, &count));
    int64_t missing = (int64_t)rebuilt.time_bytes / STELE_TIME_ENTRY_BYTES - count;
    assert_true(missing == 0 || (missing == 1 && at == world.expected.base_count - 1));
    for (int64_t i = 0; i < count; i++) {
        struct stele_time_entry entry;
        assert_ok(stele_time_index_entry(&seg->times, i, &entry));
        const uint8_t *want = rebuilt.times + i * STELE_TIME_ENTRY_BYTES;
        assert_int_equal(entry.timestamp, stele_get_i64(want));
        assert_int_equal(entry.offset - seg->base_offset, stele_get_i32(want + 8));
    }
}

static void check_file(int at, const char *suffix, const uint8_t *want, size_t want_bytes)
{
    char path[STELE_PATH_BYTES];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "%s/%020lld%s", world.dir, (long long)world.expected.bases[at], suffix);
    uint8_t *bytes = sample_get(world.disk, path, &count);
    assert_non_null(bytes);
    assert_int_equal(count, want_bytes);
    assert_memory_equal(bytes, want, want_bytes);
    free(bytes);
}

static void fail_on(void *arg, const struct stele_finding *finding)
{
    (void)arg;
    fail_msg("%s at %lld: %s", finding->path, (long long)finding->pos, finding->text);
}

/* The indexes are those of a rebuild, in memory after the open and in the files after a close, and the verifier finds
 * the closed log sound, without a leftover. */
static void check_indexes(void)
{
    static struct rebuilt rebuilt;
    struct stele_verify_options options = {.found = fail_on};
    struct stele_verify_report report;
    for (int at = 0; at < world.expected.base_count; at++)
        check_open_indexes(at);
    assert_ok(stele_log_close(world.log));
    for (int at = 0; at < world.expected.base_count; at++) {
        rebuild(at, &rebuilt);
        check_file(at, ".index", rebuilt.offsets, rebuilt.offset_bytes);
        check_file(at, ".timeindex", rebuilt.times, rebuilt.time_bytes);
    }
    options.is_compacted = strcmp(world.sample->partition, "compacted-0") == 0;
    assert_ok(stele_verify(&world.test.env, world.dir, &options, &report));
    if (strcmp(world.sample->partition, "__cluster_metadata-0") == 0)
        report.batches -= 3; /* of the metadata's snapshot */
    assert_int_equal(report.batches, world.expected.batch_count);
    assert_int_equal(report.damages + report.crash_leftovers, 0);
}

/* All that Kafka's tool says of a partition holds for the log that we open. */
static void test_opens_as_kafka_says(void **state)
{
    (void)state;
    check_points();
    check_epochs();
    check_producers();
    check_reads();
    check_aborted();
    check_times();
    check_indexes();
    world.is_done = true;
}

/* The bytes of a partition's first segment as it is in a set. */
static uint8_t *read_log(const char *set, const char *partition, size_t *out_count)
{
    char path[STELE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.2000s/%s/%s/%020d.log", samples, set, partition, 0);
    uint8_t *bytes = sample_read(path, out_count);
    assert_non_null(bytes);
    return bytes;
}

/* A leader that died with records that nobody else had: cut back to where its successor's log says the epoch ended and
 * fed from there, it has byte for byte what Kafka's own rejoined leader has. */
static void test_diverged_leader_rejoins(void **state)
{
    struct stele_epoch_cache leader;
    char leader_dir[STELE_PATH_BYTES];
    size_t old_bytes = 0, new_bytes = 0, count = 0;
    int32_t epoch = -1;
    int64_t end = -1;
    (void)state;
    sample_load(world.disk, (snprintf(leader_dir, sizeof(leader_dir), "%.2000s/diverged/n2", samples), leader_dir),
                "/leader");
    stele_epoch_cache_init(&leader, world.test.env.mem);
    assert_ok(stele_epoch_cache_load(&leader, world.test.env.vfs, "/leader"));
    assert_int_equal(stele_log_end_offset(world.log), 90);
    stele_epoch_cache_end_offset(&leader, stele_epoch_cache_latest(stele_log_epochs(world.log)), 110, &epoch, &end);
    assert_int_equal(epoch, 0);
    assert_int_equal(end, 60);
    stele_epoch_cache_deinit(&leader);

    uint8_t *old = read_log("diverged", "n1-before", &old_bytes), *new = read_log("diverged", "n1-after", &new_bytes);
    assert_ok(stele_log_truncate(world.log, 60));
    assert_int_equal(stele_log_end_offset(world.log), 60);
    size_t kept = (size_t)stele_log_bytes(world.log);
    assert_true(kept < old_bytes && kept < new_bytes);
    assert_memory_equal(old, new, kept);
    struct stele_append append = {
        .bytes = new + kept, .count = new_bytes - kept, .origin = STELE_ORIGIN_REPLICATION, .leader_epoch = 1};
    struct stele_appended appended;
    assert_ok(stele_log_append(world.log, &append, &appended));
    assert_int_equal(appended.first_offset, 60);
    assert_int_equal(appended.last_offset, 109);
    assert_ok(stele_log_close(world.log));

    char path[STELE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%020d.log", world.dir, 0);
    uint8_t *got = sample_get(world.disk, path, &count);
    assert_int_equal(count, new_bytes);
    assert_memory_equal(got, new, new_bytes);
    free(got);
    (void)snprintf(path, sizeof(path), "%s/" STELE_LEADER_EPOCH_FILE, world.dir);
    char *epochs = (char *)sample_get(world.disk, path, &count);
    assert_string_equal(epochs, "0\n2\n0 0\n1 60\n");
    free(epochs);
    free(old);
    free(new);
    world.is_done = true;
}

/* A real Kafka's directory is not ours: refused before anything in it changes, the clean marker included. */
static void test_kafka_directory_is_foreign(void **state)
{
    const char *paths[] = {"/clean"};
    struct stele_log_dirs_options options = {.env = &world.test.env, .paths = paths, .count = 1};
    struct stele_log_dirs *dirs = NULL;
    struct stele_error error = {.text = ""};
    char path[STELE_PATH_BYTES];
    (void)state;
    (void)snprintf(path, sizeof(path), "%.2000s/clean", samples);
    world.disk = sim_disk_new(1);
    stele_test_env_init(&world.test, sim_disk_vfs(world.disk));
    sample_load(world.disk, path, "/clean");
    int64_t writes = sim_disk_stats(world.disk)->calls[SIM_DISK_WRITE];
    int64_t unlinks = sim_disk_stats(world.disk)->calls[SIM_DISK_UNLINK];
    int64_t locks = sim_disk_stats(world.disk)->calls[SIM_DISK_LOCK];
    assert_int_equal(stele_log_dirs_open(&options, &dirs, &error), STELE_FOREIGN);
    assert_non_null(strstr(error.text, "/clean"));
    assert_int_equal(sim_disk_stats(world.disk)->calls[SIM_DISK_WRITE], writes);
    assert_int_equal(sim_disk_stats(world.disk)->calls[SIM_DISK_UNLINK], unlinks);
    assert_int_equal(sim_disk_stats(world.disk)->calls[SIM_DISK_LOCK], locks);
    stele_test_mem_check_empty(&world.test.mem);
    sim_disk_free(world.disk);
}

int main(int argc, char **argv)
{
    static const struct sample rejoining = {"diverged", "n1-before", "diverged", 0, false};
    enum { CASES = STELE_ARRAY_LEN(cases) };
    struct CMUnitTest tests[CASES + 2];
    static char names[CASES][64];
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR (made by unpack.sh)\n", argv[0]);
        return 2;
    }
    samples = argv[1];
    for (size_t i = 0; i < CASES; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%s/%s%s", cases[i].set, cases[i].partition,
                       cases[i].log_alone ? ", the log alone" : "");
        tests[i] =
            (struct CMUnitTest){names[i], test_opens_as_kafka_says, setup, teardown, (void *)(uintptr_t)&cases[i]};
    }
    tests[CASES] = (struct CMUnitTest){"a diverged leader rejoins", test_diverged_leader_rejoins, setup, teardown,
                                       (void *)(uintptr_t)&rejoining};
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(test_kafka_directory_is_foreign);
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
