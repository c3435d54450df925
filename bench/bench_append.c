/* Appending: validation and append of batches as a node does them for produce requests, beside a loop that writes the
 * same batches to a file and starts their write-back at the same places. */
#include "bench/bench_util.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH_KINDS = 8 };

struct append_case {
    struct stele_buf *batches[BATCH_KINDS]; /* in turns, so that not one batch stays in the nearest cache */
    int64_t count;                          /* of appends in a round */
    int64_t write_back_bytes;
    int partitions; /* in turns */
    struct stele_log *logs[1000];
    int fds[1000];
    int64_t written[1000];
};

static void make_batches(struct bench_world *world, struct append_case *c, size_t bytes, int value_bytes)
{
    for (uint64_t i = 0; i < BATCH_KINDS; i++)
        c->batches[i] = bench_batch(world, bytes, value_bytes, i + 1);
}

static void free_batches(struct append_case *c)
{
    for (int i = 0; i < BATCH_KINDS; i++)
        stele_buf_unref(c->batches[i]);
}

/* Files and logs live as long as the row: a file made soon after another was deleted costs a search for an inode. */
static void open_all(struct bench_world *world, struct append_case *c)
{
    struct stele_log_config config;
    char path[512], name[32];
    stele_log_config_default(&config);
    config.write_back_bytes = c->write_back_bytes;
    for (int i = 0; i < c->partitions; i++) {
        (void)snprintf(name, sizeof(name), "bare-%d", i);
        bench_path(world, name, path);
        c->fds[i] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        bench_require(c->fds[i] >= 0, path);
        (void)unlink(path);
        c->logs[i] = bench_log_open(world, i, &config, true);
    }
}

static void close_all(struct bench_world *world, struct append_case *c)
{
    for (int i = 0; i < c->partitions; i++) {
        close(c->fds[i]);
        stele_log_free(c->logs[i]);
        bench_log_remove(world, i);
    }
}

static struct bench_time run_bare(struct bench_world *world, void *arg)
{
    struct append_case *c = arg;
    int64_t write_back = c->write_back_bytes;
    for (int i = 0; i < c->partitions; i++)
        c->written[i] = 0;
    struct bench_time from = bench_time_now(world);
    for (int64_t i = 0; i < c->count; i++) {
        const struct stele_buf *batch = c->batches[i % BATCH_KINDS];
        int at = (int)(i % c->partitions);
        int64_t pos = c->written[at];
        bench_require(pwrite(c->fds[at], batch->bytes, batch->count, pos) == (ssize_t)batch->count, "pwrite");
        c->written[at] += (int64_t)batch->count;
        if (write_back > 0 && c->written[at] / write_back != pos / write_back)
            (void)!sync_file_range(c->fds[at], c->written[at] - write_back, write_back, SYNC_FILE_RANGE_WRITE);
    }
    struct bench_time time = bench_time_since(world, from);
    for (int i = 0; i < c->partitions; i++)
        bench_require(ftruncate(c->fds[i], 0) == 0, "ftruncate");
    return time;
}

static struct bench_time run_ours(struct bench_world *world, void *arg)
{
    struct append_case *c = arg;
    struct stele_appended appended;
    struct bench_time from = bench_time_now(world);
    for (int64_t i = 0; i < c->count; i++)
        bench_append(world, c->logs[i % c->partitions], c->batches[i % BATCH_KINDS], &appended);
    struct bench_time time = bench_time_since(world, from);
    for (int i = 0; i < c->partitions; i++)
        bench_check(stele_log_truncate(c->logs[i], 0), "a truncation");
    return time;
}

static void compare(struct bench_world *world, struct append_case *c, const char *name, double goal)
{
    struct bench_row row = {.name = name, .goal = goal};
    open_all(world, c);
    for (int64_t i = 0; i < c->count; i++)
        row.bytes += (double)c->batches[i % BATCH_KINDS]->count;
    bench_compare(world, &row, run_bare, run_ours, c);
    close_all(world, c);
}

/* Sizes of batches and of the records in them. */
static void compare_sizes(struct bench_world *world)
{
    static const struct {
        const char *name;
        size_t batch_bytes;
        int value_bytes;
        int64_t total, write_back_bytes;
        double goal;
    } rows[] = {
        {"64 KiB batches, records of 1 KiB", 65536, 1024, 64 << 20, 0, 0.7},
        {"64 KiB batches, records of 100 bytes", 65536, 100, 64 << 20, 0, 0.7},
        {"16 KiB batches, records of 1 KiB", 16384, 1024, 64 << 20, 0, 0},
        {"1 MB batches, records of 1 KiB", 1000000, 1024, 64 << 20, 0, 0},
        {"batches of one record of 100 bytes", 100, 100, 4 << 20, 0, 0},
        {"64 KiB batches, write-back started every 4 MiB", 65536, 1024, 64 << 20, 4 << 20, 0.7},
    };
    bench_title("append to one partition");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct append_case *c = calloc(1, sizeof(*c));
        bench_require(c != NULL, "a case");
        c->partitions = 1;
        c->write_back_bytes = rows[i].write_back_bytes;
        make_batches(world, c, rows[i].batch_bytes, rows[i].value_bytes);
        c->count = bench_size(world, rows[i].total / (int64_t)c->batches[0]->count, 16);
        compare(world, c, rows[i].name, rows[i].goal);
        free_batches(c);
        free(c);
    }
}

static void compare_partitions(struct bench_world *world)
{
    static const struct {
        const char *name;
        int partitions;
    } rows[] = {{"1 partition", 1}, {"100 partitions", 100}, {"1,000 partitions", 1000}};
    bench_title("append to many, 64 KiB batches in turns");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct append_case *c = calloc(1, sizeof(*c));
        bench_require(c != NULL, "a case");
        c->partitions = (int)stele_min_i64(rows[i].partitions, bench_size(world, 1000, 10));
        make_batches(world, c, BENCH_BATCH_BYTES, 1024);
        c->count = bench_size(world, 3000, 20);
        compare(world, c, rows[i].name, 0);
        free_batches(c);
        free(c);
    }
}

int main(int argc, char **argv)
{
    struct bench_world world;
    bench_open(&world, argc, argv);
    compare_sizes(&world);
    compare_partitions(&world);
    bench_close(&world);
    return 0;
}
