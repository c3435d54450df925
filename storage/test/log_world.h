/* A log of small segments on a simulated disk, for the tests of recovery, failures and reasons.
 *
 * A batch holds one record, and all of world_append's have one size. The record at offset n has the timestamp
 * WORLD_TIME + n and the value world_value(n), so that what is read tells whether it is right. */
#ifndef STELE_STORAGE_TEST_LOG_WORLD_H
#define STELE_STORAGE_TEST_LOG_WORLD_H

#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"
#include "storage/log.h"

enum { WORLD_SEGMENT_BYTES = 600, WORLD_TIME = 1000000 };
#define WORLD_DIR "log"

struct log_world {
    struct stele_test_env test;
    struct stele_env_ops ops; /* the test env's, and the trace's own */
    struct sim_disk *disk;
    struct stele_file_cache *cache;
    struct stele_log *log; /* NULL when it is not open */
    struct stele_log_open open;
    struct stele_recovery_report report;
    struct stele_error error;
    int64_t traced[STELE_TRACE_KIND_COUNT][STELE_REASON_COUNT]; /* events whose text was that of the reason */
};

/* The whole path of a file in the log's directory. */
struct path {
    char text[STELE_PATH_BYTES];
};

/** For cmocka: an empty disk with the directory; tear_down checks that nothing is still held. */
int world_set_up(void **state);
int world_tear_down(void **state);
/** The same on a copy of `disk`, which this world then owns. */
void world_init(struct log_world *w, struct sim_disk *disk);
void world_deinit(struct log_world *w);
struct stele_vfs *world_vfs(struct log_world *w);

/** Opens by w->open; must succeed. */
void world_open(struct log_world *w);
/** Frees the log as the death of the process does. */
void world_drop(struct log_world *w);
/** As after the death of the process: unclean, with these checkpoints. */
void world_reopen(struct log_world *w, int64_t recovery_point, int64_t high_watermark);
/** Stops cleanly; the next world_open finds the marker. */
void world_stop(struct log_world *w);

struct stele_batch_options world_options(int64_t producer_id, int32_t sequence, int16_t attributes);
const char *world_value(int64_t offset, char out_text[17]);
/** A batch of one record, its value that of `offset`. */
struct stele_buf *world_build(struct log_world *w, const struct stele_batch_options *options, int64_t offset);
/** A marker that aborts what the producer has open. */
struct stele_buf *world_build_abort(struct log_world *w, int64_t producer_id);
/** Appends and forgets the buffer. */
enum stele_err world_put(struct log_world *w, struct stele_buf *buf, enum stele_origin origin, int32_t epoch);
/** Appends `count` batches of no producer. */
void world_append(struct log_world *w, int count, int32_t epoch);
/** These two of the latest epoch. */
void world_append_txn(struct log_world *w, int64_t producer_id, int32_t sequence);
void world_append_abort(struct log_world *w, int64_t producer_id);
/** Opens an empty log and appends `count` batches of epoch 0, flushed. */
void world_fill(struct log_world *w, int count);

int64_t world_base(struct log_world *w, int at);
int64_t world_last_base(struct log_world *w);
/** Where the batch of `offset` starts in the segment at `base_offset`. */
int64_t world_pos(struct log_world *w, int64_t offset, int64_t base_offset);
/** Reads the one batch at `offset`; on OK it is checked, with its records, and *out_base_offset is its base. */
enum stele_err world_read(struct log_world *w, int64_t offset, int64_t *out_base_offset);
void world_check_readable(struct log_world *w, int64_t first, int64_t end);
/** One damaged range, and reads in it say so. */
void world_check_damaged(struct log_world *w, int64_t first, int64_t last);
/** The last open changed nothing. */
void world_check_untouched(struct log_world *w);

struct path world_path(const char *name);
struct path world_file(int64_t base_offset, const char *suffix);
bool world_has(struct log_world *w, struct path path);
int64_t world_size(struct log_world *w, struct path path);
void world_write(struct log_world *w, struct path path, const void *bytes, size_t count, int64_t pos);
void world_copy(struct log_world *w, struct path from, struct path to, int64_t to_pos);
void world_resize(struct log_world *w, struct path path, int64_t bytes);
void world_flip(struct log_world *w, struct path path, int64_t pos);
void world_delete(struct log_world *w, struct path path);

/* Where a log stands. */
struct world_standing {
    int64_t start, end, high_watermark, recovery_point;
    int aborted, damaged, epochs;
    int32_t latest_epoch;
    uint8_t *producers; /* a snapshot */
    size_t producers_bytes;
};
void world_stand(struct log_world *w, struct world_standing *out_at);
void world_leave(struct log_world *w, struct world_standing *at);
/** All but the recovery point and the epochs, whose file may know more. Prints the first difference. */
bool world_is_same(const struct world_standing *a, const struct world_standing *b);

/* A kind of failing call, and what happens to the machine afterwards. */
struct world_fault {
    const char *name;
    bool is_memory, is_lasting;
    enum stele_err err;
    unsigned ops;
    enum sim_disk_crash_mode crash;
};
enum { WORLD_FAULTS = 8 };
extern const struct world_fault world_faults[WORLD_FAULTS];
/** The `at`-th call or allocation from now fails. */
void world_arm(struct log_world *w, const struct world_fault *fault, int64_t at);
void world_disarm(struct log_world *w);
bool world_has_struck(struct log_world *w, const struct world_fault *fault);

/** Syncs every file and the directory. */
void world_sync(struct log_world *w);
/** No file in the directory but those of segments and a log's own: nothing was left behind. */
bool world_has_only_known_names(struct log_world *w);
/** How often history tells of `kind` with `reason`. */
int world_history(struct log_world *w, enum stele_history_kind kind, enum stele_reason reason);

#endif
