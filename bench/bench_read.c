/* Reading: lookups and slices of the log sent with sendfile, beside sendfile of the same file; with the file in the
 * page cache and not; and the first reads of segments after a restart. */
#include "bench/bench_sink.h"
#include "bench/bench_util.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20, SEGMENTS_MAX = 400 };

struct read_case {
    struct bench_sink *sink;
    struct stele_log *log;
    char path[512]; /* of its one segment */
    int64_t bytes;  /* of the segment */
    int64_t batch_bytes, batch_records;
    bool is_cold;
};

/* Out of the page cache: the disk gives it anew. */
static void forget(const struct read_case *c)
{
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    bench_require(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, c->path);
    close(fd);
}

static struct bench_time run_bare(struct bench_world *world, void *arg)
{
    struct read_case *c = arg;
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    bench_require(fd >= 0, c->path);
    if (c->is_cold)
        forget(c);
    struct bench_time from = bench_time_now(world);
    for (int64_t pos = 0; pos < c->bytes; pos += READ_BYTES)
        bench_sink_file(c->sink, fd, pos, stele_min_i64(READ_BYTES, c->bytes - pos));
    bench_sink_wait(c->sink);
    struct bench_time time = bench_time_since(world, from);
    close(fd);
    return time;
}

/* A reader goes on at the first batch that it did not get whole, so a slice's last, cut batch is sent twice. */
static struct bench_time run_ours(struct bench_world *world, void *arg)
{
    struct read_case *c = arg;
    if (c->is_cold)
        forget(c);
    struct bench_time from = bench_time_now(world);
    for (int64_t offset = 0, end = stele_log_end_offset(c->log); offset < end;) {
        struct stele_read read = {.offset = offset, .bound = end, .max_bytes = READ_BYTES, .min_one = true};
        struct stele_slice slice;
        struct stele_file *file = NULL;
        bench_check(stele_log_read(c->log, &read, &slice), "a read");
        bench_check(stele_cached_file_pin(slice.file, &file), "a file");
        bench_sink_file(c->sink, file->vfs->ops->descriptor(file), slice.pos, (int64_t)slice.bytes);
        stele_cached_file_unpin(slice.file);
        offset += (int64_t)slice.bytes / c->batch_bytes * c->batch_records;
        stele_slice_release(&slice);
    }
    bench_sink_wait(c->sink);
    return bench_time_since(world, from);
}

static void compare_reads(struct bench_world *world)
{
    static const struct {
        const char *name;
        size_t batch_bytes;
        bool is_cold;
        double goal;
    } rows[] = {{"hot, 16 KiB batches", 16384, false, 0.85},
                {"hot, 64 KiB batches", 65536, false, 0.85},
                {"cold, 64 KiB batches", 65536, true, 0.85}};
    bench_title("read with 1 MiB a read, sent to a loopback socket");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct read_case c = {.sink = bench_sink_new(), .is_cold = rows[i].is_cold};
        struct stele_log_config config;
        struct bench_fill fill = {
            .bytes = bench_size(world, 128 << 20, 1 << 20), .batch_bytes = rows[i].batch_bytes, .value_bytes = 1024};
        bench_log_fill(world, &fill);
        stele_log_config_default(&config);
        c.log = bench_log_open(world, 0, &config, true);
        c.bytes = stele_log_bytes(c.log);
        c.batch_bytes = fill.out_batch_bytes;
        c.batch_records = fill.out_batch_records;
        (void)snprintf(c.path, sizeof(c.path), "%s/00000000000000000000.log", stele_log_dir(c.log));
        struct bench_row row = {.name = rows[i].name, .bytes = (double)c.bytes, .goal = rows[i].goal};
        bench_compare(world, &row, run_bare, run_ours, &c);
        bench_sink_free(c.sink);
        stele_log_free(c.log);
        bench_log_remove(world, 0);
    }
}

static int64_t middle_batch(const struct read_case *c, const struct stele_segment *seg)
{
    return seg->bytes / c->batch_bytes / 2;
}

/* One read of 64 KiB in the middle of every segment; microseconds each. */
static double read_segments(const struct read_case *c)
{
    int count = stele_log_segment_count(c->log);
    double from = bench_now_s();
    for (int i = 0; i < count; i++) {
        const struct stele_segment *seg = stele_log_segment(c->log, i);
        struct stele_read read = {.offset = seg->base_offset + middle_batch(c, seg) * c->batch_records,
                                  .bound = stele_log_end_offset(c->log),
                                  .max_bytes = BENCH_BATCH_BYTES,
                                  .min_one = true};
        struct stele_slice slice;
        struct stele_file *file = NULL;
        bench_check(stele_log_read(c->log, &read, &slice), "a read");
        bench_check(stele_cached_file_pin(slice.file, &file), "a file");
        bench_sink_file(c->sink, file->vfs->ops->descriptor(file), slice.pos, (int64_t)slice.bytes);
        stele_cached_file_unpin(slice.file);
        stele_slice_release(&slice);
    }
    double us = (bench_now_s() - from) * 1e6 / count;
    bench_sink_wait(c->sink);
    return us;
}

static double read_bare(const struct read_case *c)
{
    int fds[SEGMENTS_MAX], count = stele_log_segment_count(c->log);
    double from = bench_now_s();
    for (int i = 0; i < count; i++) {
        char path[600];
        const struct stele_segment *seg = stele_log_segment(c->log, i);
        int64_t pos = middle_batch(c, seg) * c->batch_bytes;
        (void)snprintf(path, sizeof(path), "%s/%020lld.log", stele_log_dir(c->log), (long long)seg->base_offset);
        fds[i] = open(path, O_RDWR | O_CLOEXEC);
        bench_require(fds[i] >= 0, path);
        bench_sink_file(c->sink, fds[i], pos, stele_min_i64(BENCH_BATCH_BYTES, seg->bytes - pos));
    }
    double us = (bench_now_s() - from) * 1e6 / count;
    bench_sink_wait(c->sink);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    return us;
}

/* The page cache outlives the process, so what a restart costs a reader is opening files and finding places. */
static void first_reads(struct bench_world *world)
{
    double bare[BENCH_ROUNDS_MAX], first[BENCH_ROUNDS_MAX], again[BENCH_ROUNDS_MAX], opened[BENCH_ROUNDS_MAX];
    struct bench_fill fill = {.bytes = bench_size(world, 200 << 20, 4 << 20),
                              .batch_bytes = 8192,
                              .value_bytes = 1024,
                              .segment_bytes = 1 << 20};
    struct stele_log_config config;
    int count = 0;
    bench_log_fill(world, &fill);
    stele_log_config_default(&config);
    for (int i = 0; i < world->rounds; i++) {
        struct read_case c = {
            .sink = bench_sink_new(), .batch_bytes = fill.out_batch_bytes, .batch_records = fill.out_batch_records};
        double from = bench_now_s();
        c.log = bench_log_open(world, 0, &config, true);
        opened[i] = (bench_now_s() - from) * 1e6;
        count = stele_log_segment_count(c.log);
        bench_require(count <= SEGMENTS_MAX, "segments");
        bare[i] = read_bare(&c);
        first[i] = read_segments(&c);
        again[i] = read_segments(&c);
        stele_log_free(c.log);
        bench_sink_free(c.sink);
    }
    bench_log_remove(world, 0);
    printf("\n%-52s %10s\n", "after a restart, in the page cache", "us");
    printf("start of a log of %-3d segments, clean                %10.0f\n", count,
           bench_median(opened, world->rounds));
    printf("%-52s %10.1f\n", "bare open and sendfile of 64 KiB of a segment", bench_median(bare, world->rounds));
    printf("%-52s %10.1f\n", "first read of 64 KiB of a segment", bench_median(first, world->rounds));
    printf("%-52s %10.1f\n", "the same again", bench_median(again, world->rounds));
}

int main(int argc, char **argv)
{
    struct bench_world world;
    bench_open(&world, argc, argv);
    compare_reads(&world);
    first_reads(&world);
    bench_close(&world);
    return 0;
}
