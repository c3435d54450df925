/* What the measuring programs share: a world of the real host in a scratch directory, a clock, rounds in which the bare
 * loop and ours alternate, and the table's rows. A program that meets an error ends with a message: there is nothing to
 * measure then. */
#ifndef STELE_BENCH_BENCH_UTIL_H
#define STELE_BENCH_BENCH_UTIL_H

#include "host/loop.h"
#include "proto/record_batch.h"
#include "storage/file_cache.h"
#include "storage/log.h"

#include <sys/types.h>

enum { BENCH_ROUNDS_MAX = 64, BENCH_BATCH_BYTES = 65536 };

struct bench_world {
    struct stele_mem mem;
    struct stele_vfs *vfs;
    struct stele_jobs *jobs;
    struct stele_loop *loop;
    struct stele_env *env; /* the loop's */
    struct stele_file_cache *cache;
    char dir[256]; /* scratch; removed at the end */
    bool is_quick; /* tiny sizes: a test that the program runs */
    int rounds;    /* of every row */
    char *input;   /* --input FILE; NULL without */
    pid_t child;   /* a process whose CPU time counts too; 0 none */
};

/** Options: --quick, --rounds N, --dir DIR (the scratch directory is made there; default: here), --input FILE. */
void bench_open(struct bench_world *world, int argc, char **argv);
void bench_close(struct bench_world *world);
/** `full`, or `quick` with --quick. */
int64_t bench_size(const struct bench_world *world, int64_t full, int64_t quick);

double bench_now_s(void);
/** CPU seconds of this thread. */
double bench_cpu_s(void);

/** What a piece of work took: seconds by the clock, and CPU seconds of all threads and of the child. */
struct bench_time {
    double wall_s, cpu_s;
};
struct bench_time bench_time_now(const struct bench_world *world);
struct bench_time bench_time_since(const struct bench_world *world, struct bench_time from);
double bench_median(const double *values, int count);
/** Ends the program when err is not OK. */
void bench_check(enum stele_err err, const char *what);
/** Ends the program, with errno's text, when `ok` is false. */
void bench_require(bool ok, const char *what);

struct bench_row {
    const char *name;
    double bytes; /* moved in a round by each */
    double goal;  /* least ratio; 0: none */
};

/** A way to do the work once; it returns the time that counts. */
typedef struct bench_time (*bench_run)(struct bench_world *world, void *arg);
/** Runs both `world->rounds` times, in turns, each first in every second round, and prints the row: both in MB/s, the
 * median of the rounds' ratios of time and their quartiles, and the median ratio of CPU time. */
void bench_compare(struct bench_world *world, const struct bench_row *row, bench_run bare, bench_run ours, void *arg);
void bench_title(const char *title);

/** A fresh batch of about `batch_bytes` with values of `value_bytes`, of text that compresses as text does. */
struct stele_buf *bench_batch(struct bench_world *world, size_t batch_bytes, int value_bytes, uint64_t seed);

/** Opens (and makes, when missing) the log `number` in the scratch directory. */
struct stele_log *bench_log_open(struct bench_world *world, int number, const struct stele_log_config *config,
                                 bool was_clean);
/** Validates and appends one batch as a node does for a produce request. */
void bench_append(struct bench_world *world, struct stele_log *log, struct stele_buf *batch,
                  struct stele_appended *out);
/** What log 0 is filled with. */
struct bench_fill {
    int64_t bytes;
    size_t batch_bytes; /* about */
    int value_bytes;
    int64_t segment_bytes; /* 0: the default */
    int64_t out_batch_bytes, out_batch_records;
};
/** Makes log 0, fills it with equal batches and closes it cleanly. */
void bench_log_fill(struct bench_world *world, struct bench_fill *fill);
/** Removes the directory of log `number`. */
void bench_log_remove(struct bench_world *world, int number);
/** Removes a directory below the scratch directory with all that is in it. */
void bench_remove(const struct bench_world *world, const char *name);
void bench_path(const struct bench_world *world, const char *name, char out_path[512]);

#endif
