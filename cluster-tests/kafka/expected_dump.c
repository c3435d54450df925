#include "cluster-tests/kafka/expected_dump.h"

#include "cluster-tests/kafka/sample_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more of `bytes` each. */
static void *grow(void *array, int count, size_t bytes)
{
    if (count % 64 != 0)
        return array;
    void *grown = realloc(array, (size_t)(count + 64) * bytes);
    assert_non_null(grown);
    return grown;
}

/* The word after " NAME: " (or at the line's beginning); NULL when the line has none. */
static const char *word_of(const char *line, const char *name)
{
    char pattern[64];
    int bytes = snprintf(pattern, sizeof(pattern), " %s: ", name);
    if (strncmp(line, pattern + 1, (size_t)bytes - 1) == 0)
        return line + bytes - 1;
    const char *at = strstr(line, pattern);
    return at == NULL ? NULL : at + bytes;
}

static int64_t number_of(const char *line, const char *name)
{
    const char *word = word_of(line, name);
    if (word == NULL)
        fail_msg("no %s in: %s", name, line);
    if (strncmp(word, "OptionalLong.empty", 18) == 0)
        return -1;
    return strtoll(strncmp(word, "OptionalLong[", 13) == 0 ? word + 13 : word, NULL, 10);
}

static bool flag_of(const char *line, const char *name)
{
    const char *word = word_of(line, name);
    assert_non_null(word);
    return strncmp(word, "true", 4) == 0;
}

static int64_t time_of(const char *line)
{
    return number_of(line, word_of(line, "CreateTime") != NULL ? "CreateTime" : "LogAppendTime");
}

static void add_batch(struct expected_partition *expected, int64_t base, const char *line)
{
    expected->batches = grow(expected->batches, expected->batch_count, sizeof(*expected->batches));
    expected->batches[expected->batch_count++] = (struct expected_batch){
        .segment_base = base,
        .pos = number_of(line, "position"),
        .bytes = number_of(line, "size"),
        .base_offset = number_of(line, "baseOffset"),
        .last_offset = number_of(line, "lastOffset"),
        .producer_id = number_of(line, "producerId"),
        .max_timestamp = time_of(line),
        .record_count = (int32_t)number_of(line, "count"),
        .base_sequence = (int32_t)number_of(line, "baseSequence"),
        .last_sequence = (int32_t)number_of(line, "lastSequence"),
        .producer_epoch = (int32_t)number_of(line, "producerEpoch"),
        .leader_epoch = (int32_t)number_of(line, "partitionLeaderEpoch"),
        .is_transactional = flag_of(line, "isTransactional"),
        .is_control = flag_of(line, "isControl"),
        .is_valid = flag_of(line, "isvalid"),
        .crc = (uint32_t)number_of(line, "crc"),
        .first_record = expected->record_count,
    };
}

static void add_record(struct expected_partition *expected, const char *line)
{
    const char *marker = word_of(line, "endTxnMarker");
    expected->records = grow(expected->records, expected->record_count, sizeof(*expected->records));
    expected->records[expected->record_count++] = (struct expected_record){
        .offset = number_of(line, "offset"),
        .timestamp = time_of(line),
        .is_abort = marker != NULL && strncmp(marker, "ABORT", 5) == 0,
        .is_commit = marker != NULL && strncmp(marker, "COMMIT", 6) == 0,
    };
}

static void add_txn(struct expected_partition *expected, int64_t base, const char *line)
{
    expected->txns = grow(expected->txns, expected->txn_count, sizeof(*expected->txns));
    expected->txns[expected->txn_count++] =
        (struct expected_txn){.segment_base = base,
                              .producer_id = number_of(line, "producerId"),
                              .first_offset = number_of(line, "firstOffset"),
                              .last_offset = number_of(line, "lastOffset"),
                              .last_stable_offset = number_of(line, "lastStableOffset")};
}

static void add_producer(struct expected_partition *expected, int64_t snapshot, const char *line)
{
    bool has_batch = word_of(line, "lastOffset") != NULL;
    expected->producers = grow(expected->producers, expected->producer_count, sizeof(*expected->producers));
    expected->producers[expected->producer_count++] =
        (struct expected_producer){.snapshot = snapshot,
                                   .producer_id = number_of(line, "producerId"),
                                   .txn_first_offset = number_of(line, "currentTxnFirstOffset"),
                                   .last_timestamp = number_of(line, "lastTimestamp"),
                                   .producer_epoch = (int32_t)number_of(line, "producerEpoch"),
                                   .coordinator_epoch = (int32_t)number_of(line, "coordinatorEpoch"),
                                   .last_sequence = has_batch ? number_of(line, "lastSequence") : -1,
                                   .last_offset = has_batch ? number_of(line, "lastOffset") : -1,
                                   .offset_delta = has_batch ? number_of(line, "offsetDelta") : 0};
}

static void add_entry(struct expected_partition *expected, int64_t base, const char *line, bool is_time)
{
    struct expected_entry entry = {.segment_base = base,
                                   .offset = number_of(line, "offset"),
                                   .value = number_of(line, is_time ? "timestamp" : "position")};
    if (is_time) {
        expected->times = grow(expected->times, expected->time_count, sizeof(entry));
        expected->times[expected->time_count++] = entry;
    } else {
        expected->offsets = grow(expected->offsets, expected->offset_count, sizeof(entry));
        expected->offsets[expected->offset_count++] = entry;
    }
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* One line of the dump of a file with this suffix; what else the tool says is none of these. */
static void add_line(struct expected_partition *expected, int64_t base, const char *suffix, const char *line)
{
    if (starts_with(suffix, ".log") && starts_with(line, "baseOffset: "))
        add_batch(expected, base, line);
    else if (starts_with(suffix, ".log") && starts_with(line, "| offset: "))
        add_record(expected, line + 2);
    else if (starts_with(suffix, ".index") && starts_with(line, "offset: "))
        add_entry(expected, base, line, false);
    else if (starts_with(suffix, ".timeindex") && starts_with(line, "timestamp: "))
        add_entry(expected, base, line, true);
    else if (starts_with(suffix, ".txnindex") && starts_with(line, "version: "))
        add_txn(expected, base, line);
    else if (starts_with(suffix, ".snapshot") && starts_with(line, "producerId: "))
        add_producer(expected, base, line);
}

static void load_file(struct expected_partition *expected, const char *path, const char *name)
{
    size_t count = 0;
    char *text = (char *)sample_read(path, &count), *suffix = NULL;
    assert_non_null(text);
    int64_t base = strtoll(name, &suffix, 10);
    if (starts_with(suffix, ".log")) {
        assert_true(expected->base_count < EXPECTED_SEGMENTS_MAX);
        expected->bases[expected->base_count++] = base;
    }
    for (char *line = text, *end; line != NULL && *line != 0; line = end == NULL ? NULL : end + 1) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end = 0;
        add_line(expected, base, suffix, line);
    }
    free(text);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

void expected_load(struct expected_partition *expected, const char *dir, const char *prefix)
{
    struct dirent **names = NULL;
    char path[STELE_PATH_BYTES];
    size_t bytes = strlen(prefix);
    memset(expected, 0, sizeof(*expected));
    int count = scandir(dir, &names, NULL, by_name);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        (void)snprintf(path, sizeof(path), "%.2000s/%.255s", dir, name);
        if (strncmp(name, prefix, bytes) == 0 && name[bytes] == '_')
            load_file(expected, path, name + bytes + 1);
        free(names[i]);
    }
    free(names);
    if (expected->base_count == 0)
        fail_msg("%s says nothing of %s", dir, prefix);
}

void expected_free(struct expected_partition *expected)
{
    free(expected->batches);
    free(expected->records);
    free(expected->txns);
    free(expected->offsets);
    free(expected->times);
    free(expected->producers);
}

int64_t expected_end(const struct expected_partition *expected)
{
    return expected->batch_count == 0 ? expected->bases[0]
                                      : expected->batches[expected->batch_count - 1].last_offset + 1;
}

const struct expected_batch *expected_find(const struct expected_partition *expected, int64_t offset)
{
    for (int i = 0; i < expected->batch_count; i++) {
        if (expected->batches[i].last_offset >= offset)
            return &expected->batches[i];
    }
    return NULL;
}
