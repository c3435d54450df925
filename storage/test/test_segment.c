#include "storage/history.h"
#include "storage/test/segment_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct segment_world world; /* large; one test at a time */

static int setup(void **state)
{
    (void)state;
    segment_world_init(&world, 1000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    segment_world_deinit(&world);
    return 0;
}

static int64_t end_offset(void)
{
    return world.count == 0 ? world.base_offset : world.batches[world.count - 1].last_offset + 1;
}

/* A copy of one of the segment's files, as the content of a test. */
struct content {
    uint8_t *bytes;
    size_t count;
};

static struct content take(const char *suffix)
{
    struct content content = {0};
    const uint8_t *bytes = memory_vfs_bytes(&world.memory, segment_world_path(&world, suffix), &content.count);
    assert_non_null(bytes);
    content.bytes = malloc(content.count + 1);
    memcpy(content.bytes, bytes, content.count);
    return content;
}

static void put(const char *suffix, const struct content *content)
{
    memory_vfs_put(&world.memory, segment_world_path(&world, suffix), content->bytes, content->count);
}

static void check_content(const char *suffix, const struct content *want)
{
    size_t count = 0;
    const uint8_t *bytes = memory_vfs_bytes(&world.memory, segment_world_path(&world, suffix), &count);
    assert_int_equal(count, want->count);
    assert_memory_equal(bytes, want->bytes, count);
}

static int64_t rebuilds(void)
{
    return world.test.metrics.log_index_rebuilds;
}

/* Names are 20 digits and a suffix; anything else is no segment's file. */
static void names(void **state)
{
    static const struct {
        const char *name, *suffix;
        int64_t base_offset;
    } cases[] = {
        {"00000000000000000042.log", ".log", 42},
        {"00000000000000000000.timeindex.swap", ".timeindex.swap", 0},
        {"09000000000000000000.index", ".index", 9000000000000000000},
        {"000000000000000000042.log", ".log", 42},
        {"0000000000000000042.log", NULL, 0},
        {"00000000000000000042", NULL, 0},
        {"0000000000000000004x.log", NULL, 0},
        {"-0000000000000000042.log", NULL, 0},
        {"09223372036854775807.log", NULL, 0},
        {"99999999999999999999.log", NULL, 0},
        {"leader-epoch-checkpoint", NULL, 0},
        {".log", NULL, 0},
        {"", NULL, 0},
    };
    char name[STELE_SEGMENT_NAME_BYTES];
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        int64_t base_offset = -7;
        const char *suffix = NULL;
        assert_int_equal(stele_segment_name_parse(cases[i].name, &base_offset, &suffix), cases[i].suffix != NULL);
        assert_int_equal(base_offset, cases[i].suffix == NULL ? -7 : cases[i].base_offset);
        if (cases[i].suffix != NULL)
            assert_string_equal(suffix, cases[i].suffix);
    }
    stele_segment_name(42, ".log.deleted", name);
    assert_string_equal(name, "00000000000000000042.log.deleted");
}

/* Whatever was appended is found by offset and by time: while active, sealed, opened again, and appended to again. */
static void lookups_equal_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        stele_prng_init(&world.test.prng, seed, 0);
        world.config.index_interval_bytes = seed % 3 == 0 ? 0 : 256;
        segment_world_check_all(&world);
        segment_world_fill(&world, 60);
        segment_world_check_all(&world);
        assert_ok(stele_segment_seal(world.seg));
        segment_world_check_all(&world);
        segment_world_reopen(&world);
        segment_world_check_all(&world);
        segment_world_reopen(&world);
        assert_ok(stele_segment_activate(world.seg));
        segment_world_check_all(&world);
        segment_world_fill(&world, 20);
        segment_world_check_all(&world);
        assert_ok(stele_segment_seal(world.seg));
        segment_world_reopen(&world);
        segment_world_check_all(&world);
        assert_int_equal(rebuilds(), 0); /* no index of ours is found wrong */
        segment_world_deinit(&world);
        segment_world_init(&world, seed == 5 ? INT64_C(9000000000000000000) : 0);
    }
}

/* A cut at any offset takes the batch that holds it and all after it, from log and indexes, in memory and on disk. */
static void truncate_at_every_offset(void **state)
{
    enum { BATCHES = 24 };
    (void)state;
    int64_t end = 1;
    for (int64_t cut = 0; cut <= end; cut++) {
        segment_world_deinit(&world);
        segment_world_init(&world, 0);
        segment_world_fill(&world, BATCHES);
        end = end_offset();
        struct stele_aborted_txn low = {7, 1, 3, 4}, high = {8, 5, end - 1, end};
        assert_ok(stele_txn_index_append(&world.seg->txns, &low));
        assert_ok(stele_txn_index_append(&world.seg->txns, &high));
        if (cut % 3 == 1)
            assert_ok(stele_segment_seal(world.seg));
        if (cut % 3 == 2)
            segment_world_reopen(&world); /* as after a crash: no index was written */
        assert_ok(stele_segment_truncate(world.seg, cut));
        world.count = segment_world_find(&world, cut);
        assert_int_equal(world.seg->txns.count, (cut > 3) + (cut > end - 1));
        segment_world_check_all(&world);
        segment_world_fill(&world, 5);
        segment_world_check_all(&world);
        assert_ok(stele_segment_seal(world.seg));
        segment_world_reopen(&world);
        segment_world_check_all(&world);
    }
}

/* Indexes rebuilt from the log are, byte for byte, those that the appends made. */
static void a_rebuild_equals_the_appends(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        stele_prng_init(&world.test.prng, seed, 0);
        segment_world_fill(&world, 100);
        assert_ok(stele_segment_seal(world.seg));
        struct content offsets = take(".index"), times = take(".timeindex");
        assert_true(offsets.count > 8 * 10);
        assert_true(times.count > 12 * 5);
        segment_world_reopen(&world);
        assert_ok(stele_segment_rebuild_indexes(world.seg, &world.config));
        assert_ok(stele_segment_seal(world.seg));
        check_content(".index", &offsets);
        check_content(".timeindex", &times);
        free(offsets.bytes);
        free(times.bytes);
        segment_world_deinit(&world);
        segment_world_init(&world, 77);
    }
}

/* A lookup compares O(log n) entries, scans at most one index interval and one batch, and needs a read or two. */
static void lookups_are_short(void **state)
{
    (void)state;
    segment_world_fill(&world, WORLD_BATCHES_MAX);
    assert_ok(stele_segment_seal(world.seg));
    segment_world_reopen(&world);
    int64_t entries = 0, most_entries = 4, batch_bytes = 0;
    assert_ok(stele_index_count(&world.seg->offsets, &entries));
    assert_true(entries > 100);
    for (int64_t left = entries; left > 0; left /= 2)
        most_entries++;
    for (int at = 0; at < world.count; at++)
        batch_bytes = stele_max_i64(batch_bytes, world.batches[at].bytes);
    segment_world_check_offset(&world, world.base_offset); /* opens and maps */
    for (int64_t offset = world.base_offset; offset < end_offset(); offset++) {
        struct stele_metrics *metrics = &world.test.metrics;
        int64_t compared = metrics->log_lookup_entries, scanned = metrics->log_lookup_bytes,
                lookups = metrics->log_lookups, reads = world.memory.reads, calls = world.memory.calls;
        segment_world_check_offset(&world, offset);
        assert_int_equal(metrics->log_lookups - lookups, 1);
        assert_true(metrics->log_lookup_entries - compared <= most_entries);
        assert_true(metrics->log_lookup_bytes - scanned <= world.config.index_interval_bytes + batch_bytes);
        assert_int_equal(world.memory.reads - reads, 1);
        assert_int_equal(world.memory.calls - calls, 1);
    }
}

/* Every flipped bit of the offset and the time index is either harmless or found and healed: no answer changes. */
static void a_flipped_index_changes_no_answer(void **state)
{
    static const char *const suffixes[2] = {".index", ".timeindex"};
    (void)state;
    segment_world_fill(&world, 40);
    assert_ok(stele_segment_seal(world.seg));
    struct content original[2] = {take(".index"), take(".timeindex")};
    int64_t healed[2] = {0, 0};
    for (int which = 0; which < 2; which++) {
        for (size_t at = 0; at < original[which].count * 8; at++) {
            struct content damaged = {.bytes = malloc(original[which].count), .count = original[which].count};
            memcpy(damaged.bytes, original[which].bytes, damaged.count);
            damaged.bytes[at / 8] = (uint8_t)(damaged.bytes[at / 8] ^ (1 << at % 8));
            segment_world_reopen(&world); /* gives up the maps */
            put(suffixes[which], &damaged);
            segment_world_reopen(&world);
            int64_t before = rebuilds();
            segment_world_check_all(&world);
            assert_true(rebuilds() - before <= 2);
            if (rebuilds() > before) {
                healed[which]++;
                check_content(".index", &original[0]);
                check_content(".timeindex", &original[1]);
            }
            segment_world_reopen(&world);
            put(suffixes[which], &original[which]);
            free(damaged.bytes);
        }
    }
    /* Each one in the offset index is found. In the time index many make an entry that no search ends at. */
    assert_int_equal(healed[0], original[0].count * 8);
    assert_true(healed[1] * 2 > (int64_t)original[1].count * 8);
    assert_int_equal(world.test.traces[STELE_TRACE_LOG_INDEX_REBUILT], rebuilds());
    free(original[0].bytes);
    free(original[1].bytes);
}

static void count_rebuild(void *arg, const struct stele_history_event *event)
{
    assert_int_equal(event->kind, STELE_HISTORY_REBUILD);
    assert_int_equal(event->reason, STELE_REASON_INDEX_WRONG);
    assert_int_equal(event->offset, world.base_offset);
    ++*(int *)arg;
}

/* Indexes that are gone, empty, of zeros, cut short or another segment's are made again once, and it is written down.
 */
static void lost_indexes_are_made_again(void **state)
{
    enum { GONE, EMPTY, ZEROS, HALF, SHIFTED, KINDS };
    (void)state;
    segment_world_fill(&world, 100);
    assert_ok(stele_segment_seal(world.seg));
    struct content original[2] = {take(".index"), take(".timeindex")};
    int events = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        segment_world_reopen(&world);
        for (int which = 0; which < 2; which++) {
            const char *suffix = which == 0 ? ".index" : ".timeindex";
            struct content lost = {.bytes = calloc(1, 4096), .count = kind == ZEROS ? 4096 : 0};
            if (kind == HALF)
                lost.count = original[which].count / 2;
            if (kind == SHIFTED)
                lost.count = original[which].count - 5;
            if (kind == HALF || kind == SHIFTED)
                memcpy(lost.bytes, original[which].bytes + (kind == SHIFTED ? 5 : 0), lost.count);
            put(suffix, &lost);
            if (kind == GONE)
                memory_vfs_remove(&world.memory, segment_world_path(&world, suffix));
            free(lost.bytes);
        }
        segment_world_reopen(&world);
        int64_t before = rebuilds();
        segment_world_check_all(&world);
        assert_int_equal(rebuilds(), before + 1);
        check_content(".index", &original[0]);
        check_content(".timeindex", &original[1]);
    }
    assert_ok(stele_history_read(&world.test.env, world.dir, count_rebuild, &events));
    assert_int_equal(events, KINDS);
    free(original[0].bytes);
    free(original[1].bytes);
}

/* On a full disk a wrong index is made again in memory and every answer is right; with room it can be written. */
static void healing_on_a_full_disk(void **state)
{
    (void)state;
    segment_world_fill(&world, 80);
    assert_ok(stele_segment_seal(world.seg));
    struct content offsets = take(".index"), garbage = {.bytes = calloc(1, 800), .count = 800};
    memset(garbage.bytes, 0x11, garbage.count);
    segment_world_reopen(&world);
    put(".index", &garbage);
    segment_world_reopen(&world);
    world.memory.is_full = true;
    segment_world_check_all(&world);
    assert_int_equal(rebuilds(), 1);
    check_content(".index", &garbage);
    world.memory.is_full = false;
    assert_ok(stele_segment_seal(world.seg));
    check_content(".index", &offsets);
    segment_world_check_all(&world);
    free(offsets.bytes);
    free(garbage.bytes);
}

/* A batch whose header is damaged is reported where it is; what lies before it and after the next index entry is still
 * found, and the indexes stay as they are. */
static void a_damaged_log_is_told_from_a_wrong_index(void **state)
{
    (void)state;
    segment_world_fill(&world, 60);
    assert_ok(stele_segment_seal(world.seg));
    struct content original = take(".log"), offsets = take(".index");
    for (int victim = 0; victim < world.count; victim++) {
        struct content damaged = {.bytes = malloc(original.count), .count = original.count};
        const struct world_batch *batch = &world.batches[victim];
        memcpy(damaged.bytes, original.bytes, original.count);
        memset(damaged.bytes + batch->pos + STELE_BATCH_POS_LENGTH, victim % 2 == 0 ? 0xff : 0x7f, 4);
        put(".log", &damaged);
        segment_world_reopen(&world);
        int64_t entry_after = INT64_MAX;
        for (int64_t at = 0; at < (int64_t)offsets.count / 8; at++) {
            struct stele_offset_entry entry;
            assert_ok(stele_offset_index_entry(&world.seg->offsets, at, &entry));
            if (entry.pos > batch->pos)
                entry_after = stele_min_i64(entry_after, entry.offset);
        }
        for (int64_t offset = world.base_offset; offset < end_offset(); offset++) {
            struct stele_batch_header header;
            int64_t pos = -1;
            if (segment_world_find(&world, offset) < victim || offset >= entry_after) {
                segment_world_check_offset(&world, offset);
                continue;
            }
            enum stele_err err = stele_segment_find(world.seg, offset, &pos, &header);
            assert_int_equal(err, STELE_CORRUPT);
            assert_int_equal(pos, batch->pos);
        }
        free(damaged.bytes);
    }
    assert_int_equal(rebuilds(), 0);
    check_content(".index", &offsets);
    put(".log", &original);
    free(original.bytes);
    free(offsets.bytes);
}

/* Damage in the records of the batch that a time leads to is an error, never a wrong offset. */
static void damaged_records_are_no_answer(void **state)
{
    struct world_next next = {.record_count = 3, .value_bytes = 20, .timestamp = 5000, .timestamp_step = 10};
    struct stele_time_search search = {.timestamp = 5000, .unpacked_bytes_max = SIZE_MAX};
    int64_t pos = -1;
    struct stele_time_found found;
    (void)state;
    next.timestamp = 4000;
    assert_ok(segment_world_append(&world, &next));
    next.timestamp = 5000;
    assert_ok(segment_world_append(&world, &next));
    struct content damaged = take(".log");
    damaged.bytes[world.batches[1].pos + STELE_BATCH_HEADER_BYTES + 5] ^= 0x20;
    put(".log", &damaged);
    assert_int_equal(segment_world_lookup_time(&world, &search, &found, &pos), STELE_CORRUPT);
    assert_int_equal(pos, world.batches[0].bytes);
    search.timestamp = 6000;
    assert_int_equal(segment_world_lookup_time(&world, &search, &found, &pos), STELE_END);
    free(damaged.bytes);
}

/* A file that another program made shorter is damage, not an end. */
static void a_shorter_file_is_damage(void **state)
{
    struct stele_batch_header header;
    int64_t pos = 0;
    (void)state;
    segment_world_fill(&world, 30);
    struct content shorter = take(".log");
    shorter.count = (size_t)world.batches[10].pos + 30;
    put(".log", &shorter);
    assert_int_equal(stele_segment_find(world.seg, end_offset() - 1, &pos, &header), STELE_CORRUPT);
    free(shorter.bytes);
}

/* Batches without timestamps make no time entries, and the file's time stands in for the largest timestamp. */
static void no_timestamps(void **state)
{
    struct world_next next = {.record_count = 2, .value_bytes = 100, .timestamp = -1};
    int64_t largest = 0;
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_ok(segment_world_append(&world, &next));
    assert_ok(stele_segment_seal(world.seg));
    struct content times = take(".timeindex");
    assert_int_equal(times.count, 0);
    free(times.bytes);
    assert_ok(stele_segment_largest_timestamp(world.seg, &largest));
    assert_int_equal(largest, world.test.wall_ms);
    segment_world_reopen(&world);
    assert_ok(stele_segment_largest_timestamp(world.seg, &largest));
    assert_int_equal(largest, world.memory.now_ms);
    segment_world_check_all(&world);
}

/* A header that rotted since a start: an index that is made anew ends there, and so does what is known of the times.
 * What is kept by its age is so by the youngest record behind it, and by the age of the file for the batch itself,
 * which nobody can read: also after a restart that believes the new index, and also where the file is older than its
 * records.
 */
static void damage_makes_no_segment_older(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        for (int bad = 1; bad < 19; bad++) {
            struct world_next next = {.record_count = 2, .value_bytes = 100, .timestamp = 1000, .timestamp_step = 1};
            int64_t largest = 0, keep = 0, youngest = 0;
            size_t count = 0;
            segment_world_deinit(&world);
            segment_world_init(&world, 1000);
            for (int i = 0; i < 20; i++) {
                next.timestamp += 10;
                assert_ok(segment_world_append(&world, &next));
                youngest = stele_max_i64(youngest, i == bad ? 0 : world.batches[i].max_timestamp);
            }
            assert_ok(stele_segment_seal(world.seg));
            const uint8_t *bytes = memory_vfs_bytes(&world.memory, segment_world_path(&world, ".log"), &count);
            uint8_t *spoilt = test_malloc(count);
            memcpy(spoilt, bytes, count);
            memset(spoilt + world.batches[bad].pos, 0xa5, STELE_BATCH_HEADER_BYTES);
            world.memory.now_ms = old ? 1 : 5000;
            memory_vfs_put(&world.memory, segment_world_path(&world, ".log"), spoilt, count);
            test_free(spoilt);
            segment_world_reopen(&world);
            assert_ok(stele_segment_rebuild_indexes(world.seg, &world.config));
            for (int life = 0; life < 2; life++) {
                assert_ok(stele_segment_largest_timestamp(world.seg, &largest));
                assert_true(largest < youngest || bad == 18);
                assert_ok(stele_segment_keep_timestamp(world.seg, &keep));
                assert_int_equal(keep, stele_max_i64(youngest, world.seg->mtime_ms));
                assert_ok(stele_segment_seal(world.seg));
                segment_world_reopen(&world);
            }
        }
    }
}

/* Write-back is due every so many bytes, covers each byte once, and is off at 0. */
static void write_back_is_paced(void **state)
{
    struct world_next next = {.record_count = 1, .value_bytes = 932, .timestamp = 1};
    int64_t pos = -1, bytes = -1, end = 0;
    int times = 0;
    (void)state;
    world.config.write_back_bytes = 0;
    assert_ok(segment_world_append(&world, &next));
    assert_false(stele_segment_take_write_back(world.seg, &world.config, &pos, &bytes));
    world.config.write_back_bytes = 10000;
    for (int i = 0; i < 99; i++) {
        assert_ok(segment_world_append(&world, &next));
        if (!stele_segment_take_write_back(world.seg, &world.config, &pos, &bytes))
            continue;
        times++;
        assert_int_equal(pos, end);
        assert_true(bytes >= 10000);
        assert_true(bytes < 12000);
        end = pos + bytes;
        assert_in_range(world.seg->bytes - end, 2000, 3000);
    }
    assert_true(times >= 9);
    assert_true(times <= 10);
}

static void sync_all(const char *want)
{
    struct stele_segment_sync sync;
    world.memory.synced[0] = '\0';
    assert_ok(stele_segment_sync_begin(world.seg, &sync));
    assert_ok(stele_segment_sync_run(&sync));
    stele_segment_sync_release(&sync);
    assert_string_equal(world.memory.synced, want);
}

/* A sync covers log, offset, time and transaction index in this order; of an active segment, whose index files are
 * empty, the log and the transactions. An index file that is missing is made again by the seal. */
static void sync_order(void **state)
{
    struct stele_aborted_txn txn = {.producer_id = 1, .first_offset = 1000, .last_offset = 1002};
    (void)state;
    segment_world_fill(&world, 20);
    int64_t entries = world.seg->offsets.count;
    sync_all(".log");
    struct content offsets = take(".index");
    assert_int_equal(offsets.count, 0);
    free(offsets.bytes);
    assert_ok(stele_txn_index_append(&world.seg->txns, &txn));
    sync_all(".log.txnindex");
    memory_vfs_remove(&world.memory, segment_world_path(&world, ".index"));
    assert_ok(stele_segment_rebuild_indexes(world.seg, &world.config));
    assert_ok(stele_segment_seal(world.seg));
    sync_all(".log.index.timeindex.txnindex");
    offsets = take(".index");
    assert_int_equal(offsets.count, 8 * entries);
    free(offsets.bytes);
}

/* A new segment takes the place of stale files; preallocated room goes when it is sealed, and is left nowhere when the
 * disk is full. */
static void creation(void **state)
{
    static const char *const suffixes[] = {".log", ".index", ".timeindex", ".txnindex"};
    struct stele_segment *seg = NULL;
    (void)state;
    stele_segment_free(world.seg);
    for (size_t i = 0; i < STELE_ARRAY_LEN(suffixes); i++)
        memory_vfs_put(&world.memory, segment_world_path(&world, suffixes[i]), "stale", 5);
    world.config.preallocate = true;
    world.config.segment_bytes = 100000;
    assert_ok(
        stele_segment_create(&world.test.env, world.cache, world.dir, world.base_offset, &world.config, &world.seg));
    struct content log = take(".log");
    assert_int_equal(log.count, 100000);
    free(log.bytes);
    /* Kafka expects the indexes to be there, also after a crash. */
    for (size_t i = 1; i < 3; i++) {
        struct content index = take(suffixes[i]);
        assert_int_equal(index.count, 0);
        free(index.bytes);
    }
    assert_false(memory_vfs_exists(&world.memory, segment_world_path(&world, ".txnindex")));
    segment_world_fill(&world, 10);
    segment_world_check_all(&world);
    assert_ok(stele_segment_seal(world.seg));
    log = take(".log");
    assert_int_equal(log.count, world.seg->bytes);
    free(log.bytes);
    world.memory.is_full = true;
    assert_int_equal(stele_segment_create(&world.test.env, world.cache, world.dir, 5000, &world.config, &seg),
                     STELE_NO_SPACE);
    assert_false(memory_vfs_exists(&world.memory, "t-0/00000000000000005000.log"));
    world.memory.is_full = false;
    assert_int_equal(stele_segment_open(&world.test.env, world.cache, world.dir, 5000, &world.config, &seg),
                     STELE_NOT_FOUND);
}

/* Deletion renames what is there, readers that hold the file go on, and the files go later. */
static void deletion(void **state)
{
    struct stele_file *file = NULL;
    uint8_t bytes[16];
    (void)state;
    segment_world_fill(&world, 5);
    assert_ok(stele_index_write(&world.seg->offsets));
    memory_vfs_remove(&world.memory, segment_world_path(&world, ".timeindex"));
    assert_ok(stele_cached_file_pin(world.seg->file, &file));
    assert_ok(stele_segment_mark_deleted(world.seg));
    assert_false(memory_vfs_exists(&world.memory, segment_world_path(&world, ".log")));
    assert_true(memory_vfs_exists(&world.memory, segment_world_path(&world, ".log.deleted")));
    assert_true(memory_vfs_exists(&world.memory, segment_world_path(&world, ".index.deleted")));
    assert_ok(stele_file_read(file, bytes, sizeof(bytes), 0));
    stele_cached_file_unpin(world.seg->file);
    assert_ok(stele_segment_unlink_deleted(&world.memory.vfs, world.dir, world.base_offset));
    assert_ok(stele_segment_unlink_deleted(&world.memory.vfs, world.dir, world.base_offset)); /* again is fine */
    assert_false(memory_vfs_exists(&world.memory, segment_world_path(&world, ".log.deleted")));
    assert_false(memory_vfs_exists(&world.memory, segment_world_path(&world, ".index.deleted")));
}

/* Ten thousand segments answer within a hundred descriptors. */
static void ten_thousand_segments(void **state)
{
    enum { SEGMENTS = 10000, OPEN_MAX = 100 };
    struct stele_segment **segs = calloc(SEGMENTS, sizeof(struct stele_segment *));
    struct world_next next = {.record_count = 1, .value_bytes = 5, .timestamp = 1234};
    struct stele_file_cache *cache = stele_file_cache_new(&world.test.env, OPEN_MAX, 1 << 20);
    struct stele_batch_header header;
    (void)state;
    assert_ok(segment_world_append(&world, &next));
    struct content log = take(".log");
    world.memory.open_limit = OPEN_MAX + 2;
    for (int i = 0; i < SEGMENTS; i++) {
        stele_put_i64(log.bytes, 10 * i);
        assert_ok(stele_batch_header_read(log.bytes, log.count, &header));
        assert_ok(stele_segment_create(&world.test.env, cache, world.dir, 10 * i, &world.config, &segs[i]));
        assert_ok(stele_segment_append(segs[i], &world.config, log.bytes, log.count, &header, 1));
        assert_ok(stele_segment_seal(segs[i]));
        stele_segment_free(segs[i]);
        assert_ok(stele_segment_open(&world.test.env, cache, world.dir, 10 * i, &world.config, &segs[i]));
    }
    for (int i = 0; i < 2 * SEGMENTS; i++) {
        int at = (i * 7919) % SEGMENTS;
        int64_t pos = -1, largest = -1;
        assert_ok(stele_segment_find(segs[at], 10 * at, &pos, &header));
        assert_int_equal(header.base_offset, 10 * at);
        assert_ok(stele_segment_largest_timestamp(segs[at], &largest));
        assert_int_equal(largest, 1234);
    }
    assert_true(world.memory.map_count <= (1 << 20) / 4096);
    for (int i = 0; i < SEGMENTS; i++)
        stele_segment_free(segs[i]);
    stele_file_cache_free(cache);
    free(segs);
    free(log.bytes);
}

static enum stele_err flush(void)
{
    struct stele_segment_sync sync;
    enum stele_err err = stele_segment_sync_begin(world.seg, &sync);
    if (err != STELE_OK)
        return err;
    err = stele_segment_sync_run(&sync);
    stele_segment_sync_release(&sync);
    return err;
}

/* Appends, a flush, a seal and an activation of the world's segment; the first error ends it. */
static enum stele_err life(void)
{
    struct world_next next = {.record_count = 2, .value_bytes = 100, .timestamp = 1000, .timestamp_step = 1};
    enum stele_err err = STELE_OK;
    int64_t largest = 0;
    for (int i = 0; i < 24 && err == STELE_OK; i++) {
        next.timestamp += 10;
        err = segment_world_append(&world, &next);
        if (err == STELE_OK && i == 12)
            err = flush();
        if (err == STELE_OK && i == 16)
            err = stele_segment_seal(world.seg);
        if (err == STELE_OK && i == 16)
            err = stele_segment_largest_timestamp(world.seg, &largest);
        if (err == STELE_OK && i == 16)
            err = stele_segment_activate(world.seg);
    }
    return err == STELE_OK ? stele_segment_seal(world.seg) : err;
}

/* Whichever allocation or file call fails, every acknowledged batch is found, and the segment can go on. */
static void every_call_may_fail(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        bool has_failed = true;
        for (int64_t at = 1; has_failed; at++) {
            segment_world_deinit(&world);
            segment_world_init(&world, 50);
            world.memory.piece_bytes = kind == 2 ? 97 : 0;
            stele_test_mem_fail(&world.test.mem, kind == 0 ? at : 0, false);
            memory_vfs_fail(&world.memory, kind > 0 ? at : 0, kind == 1 ? STELE_NO_SPACE : STELE_IO, false);
            enum stele_err err = life();
            has_failed = world.test.mem.has_failed || world.memory.has_failed;
            assert_int_equal(err == STELE_OK, !has_failed);
            stele_test_mem_fail(&world.test.mem, 0, false);
            memory_vfs_fail(&world.memory, 0, STELE_OK, false);
            segment_world_check_all(&world);
            assert_ok(stele_segment_activate(world.seg));
            segment_world_fill(&world, 10);
            assert_ok(stele_segment_seal(world.seg));
            segment_world_reopen(&world);
            segment_world_check_all(&world);
            assert_int_equal(rebuilds(), 0);
        }
    }
}

/* Whichever call of a lookup, of a healing or of a cut fails, doing it again gives what was asked for. */
static void every_lookup_may_fail(void **state)
{
    struct content garbage = {.bytes = calloc(1, 400), .count = 400};
    (void)state;
    memset(garbage.bytes, 0x11, garbage.count);
    for (int kind = 0; kind < 4; kind++) {
        bool has_failed = true;
        for (int64_t at = 1; has_failed; at++) {
            struct stele_time_found found;
            struct stele_batch_header header;
            int64_t pos = 0, cut = 90;
            segment_world_deinit(&world);
            segment_world_init(&world, 50);
            segment_world_fill(&world, 40);
            assert_ok(stele_segment_seal(world.seg));
            put(kind < 2 ? ".index" : ".timeindex", &garbage);
            segment_world_reopen(&world);
            stele_test_mem_fail(&world.test.mem, kind % 2 == 0 ? at : 0, false);
            memory_vfs_fail(&world.memory, kind % 2 == 1 ? at : 0, STELE_IO, false);
            struct stele_time_search search = {
                .timestamp = world.batches[25].max_timestamp, .offset_min = 60, .unpacked_bytes_max = SIZE_MAX};
            enum stele_err err = segment_world_lookup_time(&world, &search, &found, &pos);
            if (err == STELE_OK)
                err = stele_segment_find(world.seg, cut, &pos, &header);
            if (err == STELE_OK)
                err = stele_segment_truncate(world.seg, cut);
            has_failed = world.test.mem.has_failed || world.memory.has_failed;
            stele_test_mem_fail(&world.test.mem, 0, false);
            memory_vfs_fail(&world.memory, 0, STELE_OK, false);
            if (err != STELE_OK) {
                assert_true(has_failed);
                assert_ok(stele_segment_truncate(world.seg, cut));
            }
            world.count = segment_world_find(&world, cut);
            segment_world_check_all(&world);
            assert_ok(stele_segment_seal(world.seg));
            segment_world_reopen(&world);
            segment_world_check_all(&world);
        }
    }
    free(garbage.bytes);
}

/* The last batches that were appended are found without the file, just as with it, and no others: nothing before the
 * first append, nothing that is cut away or was opened again. */
static void recent_batches(void **state)
{
    struct stele_batch_header known, read;
    int64_t known_pos = 0, read_pos = 0;
    (void)state;
    assert_false(stele_segment_find_recent(world.seg, world.base_offset, &known_pos, &known));
    for (int count = 1; count <= 3 * STELE_RECENT_MAX; count++) {
        segment_world_fill(&world, 1);
        for (int i = 0; i < world.count; i++) {
            int64_t offset = world.batches[i].base_offset;
            bool is_recent = stele_segment_find_recent(world.seg, offset, &known_pos, &known);
            assert_int_equal(is_recent, i >= world.count - STELE_RECENT_MAX);
            if (!is_recent)
                continue;
            assert_ok(stele_segment_find(world.seg, offset, &read_pos, &read));
            assert_int_equal(known_pos, read_pos);
            assert_int_equal(known.base_offset, read.base_offset);
            assert_int_equal(known.length, read.length);
            assert_int_equal(known.last_offset_delta, read.last_offset_delta);
        }
    }
    int64_t last = world.batches[world.count - 1].base_offset, first = world.batches[world.count - 2].base_offset;
    assert_false(
        stele_segment_find_recent(world.seg, world.batches[world.count - 1].last_offset + 1, &known_pos, &known));
    assert_ok(stele_segment_truncate(world.seg, last));
    assert_false(stele_segment_find_recent(world.seg, last, &known_pos, &known));
    assert_false(stele_segment_find_recent(world.seg, first, &known_pos, &known));
    segment_world_reopen(&world);
    assert_false(stele_segment_find_recent(world.seg, first, &known_pos, &known));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names, setup, teardown),
        cmocka_unit_test_setup_teardown(lookups_equal_the_model, setup, teardown),
        cmocka_unit_test_setup_teardown(truncate_at_every_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rebuild_equals_the_appends, setup, teardown),
        cmocka_unit_test_setup_teardown(lookups_are_short, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flipped_index_changes_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_indexes_are_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(healing_on_a_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_log_is_told_from_a_wrong_index, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_records_are_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shorter_file_is_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(no_timestamps, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_makes_no_segment_older, setup, teardown),
        cmocka_unit_test_setup_teardown(write_back_is_paced, setup, teardown),
        cmocka_unit_test_setup_teardown(sync_order, setup, teardown),
        cmocka_unit_test_setup_teardown(creation, setup, teardown),
        cmocka_unit_test_setup_teardown(recent_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(deletion, setup, teardown),
        cmocka_unit_test_setup_teardown(ten_thousand_segments, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(every_lookup_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
