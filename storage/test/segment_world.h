/* A segment of batches that are known one by one: what the tests and fuzzers of segments share. */
#ifndef STELE_STORAGE_TEST_SEGMENT_WORLD_H
#define STELE_STORAGE_TEST_SEGMENT_WORLD_H

#include "storage/segment.h"
#include "storage/test/memory_vfs.h"

enum { WORLD_BATCHES_MAX = 512, WORLD_RECORDS_MAX = 4 };

struct world_batch {
    int64_t base_offset, last_offset, pos, bytes, max_timestamp;
    int32_t epoch;
    int record_count;
    int64_t timestamps[WORLD_RECORDS_MAX]; /* of the records base_offset, base_offset + 1, ... */
};

struct segment_world {
    struct memory_vfs memory;
    struct stele_test_env test;
    struct stele_file_cache *cache;
    struct stele_log_config config;
    struct stele_segment *seg;
    char dir[8];
    int64_t base_offset;
    struct world_batch batches[WORLD_BATCHES_MAX];
    int count;
};

/** An empty active segment with index.interval.bytes 256. */
void segment_world_init(struct segment_world *world, int64_t base_offset);
/** Closes it and checks that nothing is held. */
void segment_world_deinit(struct segment_world *world);

struct world_next {
    int record_count;   /* 1..WORLD_RECORDS_MAX */
    int value_bytes;    /* of each record */
    int64_t offset_gap; /* between the last offset and this batch, as in a compacted log */
    int64_t timestamp;  /* of the first record; -1: none has one */
    int64_t timestamp_step;
    enum stele_codec codec;
};
/** Appends a batch to log and model. */
STELE_MUST_CHECK enum stele_err segment_world_append(struct segment_world *world, const struct world_next *next);
/** Appends `count` batches with drawn sizes, gaps, codecs and timestamps around a rising clock. */
void segment_world_fill(struct segment_world *world, int count);

/** Frees the segment and opens its files again, sealed. */
void segment_world_reopen(struct segment_world *world);
/** The path of one of its files; borrowed until the next call. */
const char *segment_world_path(struct segment_world *world, const char *suffix);

/** Index of the first batch with last offset >= offset; count when there is none. */
int segment_world_find(const struct segment_world *world, int64_t offset);
/** Compares one lookup with the model. */
void segment_world_check_offset(struct segment_world *world, int64_t offset);
/** The search by time with all its steps; *out_pos is the batch. */
enum stele_err segment_world_lookup_time(struct segment_world *world, const struct stele_time_search *search,
                                         struct stele_time_found *out_found, int64_t *out_pos);
void segment_world_check_time(struct segment_world *world, int64_t timestamp, int64_t offset_min);
void segment_world_check_max(struct segment_world *world);
/** That no batch before `pos` reaches the offset that offset_after tells. */
void segment_world_check_after(struct segment_world *world, int64_t pos);
/** Every offset, every distinct time, the largest timestamp, every batch's position. */
void segment_world_check_all(struct segment_world *world);

#endif
