/* Recovery: opening a log of one segment after an unclean stop, beside a loop that reads the same file through a buffer
 * of the same size and computes the checksum of every byte. Both with the file in the page cache. What the start syncs
 * afterwards is the disk's time and is told apart. */
#include "base/crc32c.h"
#include "bench/bench_util.h"
#include "storage/scan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct recovery_case {
    char path[512];
    int64_t bytes;
};

/* The real vfs, but for counting the time of its syncs. */
static const struct stele_vfs_ops *real_ops;
static struct stele_vfs_ops timed_ops;
static double sync_s;

static enum stele_err timed_sync(struct stele_file *file)
{
    double from = bench_now_s();
    enum stele_err err = real_ops->sync(file);
    sync_s += bench_now_s() - from;
    return err;
}

static enum stele_err timed_sync_dir(struct stele_vfs *vfs, const char *path)
{
    double from = bench_now_s();
    enum stele_err err = real_ops->sync_dir(vfs, path);
    sync_s += bench_now_s() - from;
    return err;
}

static struct bench_time run_bare(struct bench_world *world, void *arg)
{
    struct recovery_case *c = arg;
    uint8_t *buffer = malloc(STELE_SCAN_BUFFER_BYTES);
    uint32_t crc = 0;
    ssize_t count;
    bench_require(buffer != NULL, "a buffer");
    struct bench_time from = bench_time_now(world);
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    bench_require(fd >= 0, c->path);
    for (int64_t pos = 0; (count = pread(fd, buffer, STELE_SCAN_BUFFER_BYTES, pos)) > 0; pos += count)
        crc = stele_crc32c(crc, buffer, (size_t)count);
    close(fd);
    struct bench_time time = bench_time_since(world, from);
    bench_require(count == 0 && crc != 0, "read");
    free(buffer);
    return time;
}

static struct bench_time run_ours(struct bench_world *world, void *arg)
{
    struct recovery_case *c = arg;
    struct stele_log_config config;
    stele_log_config_default(&config);
    sync_s = 0;
    struct bench_time from = bench_time_now(world);
    struct stele_log *log = bench_log_open(world, 0, &config, false);
    struct bench_time time = bench_time_since(world, from);
    time.wall_s -= sync_s;
    bench_require(stele_log_bytes(log) == c->bytes, "the log is whole");
    stele_log_free(log);
    return time;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t batch_bytes;
        int value_bytes;
        double goal;
    } rows[] = {{"64 KiB batches", 65536, 1024, 0.5},
                {"16 KiB batches", 16384, 1024, 0.5},
                {"batches of one record of 1 KiB", 1024, 1024, 0},
                {"batches of one record of 100 bytes", 100, 100, 0}};
    struct bench_world world;
    bench_open(&world, argc, argv);
    real_ops = world.vfs->ops;
    timed_ops = *real_ops;
    timed_ops.sync = timed_sync;
    timed_ops.sync_dir = timed_sync_dir;
    world.vfs->ops = &timed_ops;
    bench_title("recovery of one segment in the page cache");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct bench_fill fill = {.bytes = bench_size(&world, 128 << 20, 1 << 20),
                                  .batch_bytes = rows[i].batch_bytes,
                                  .value_bytes = rows[i].value_bytes};
        struct recovery_case c = {.bytes = 0};
        bench_log_fill(&world, &fill);
        c.bytes = (fill.bytes + fill.out_batch_bytes - 1) / fill.out_batch_bytes * fill.out_batch_bytes;
        bench_path(&world, "bench-0/00000000000000000000.log", c.path);
        struct bench_row row = {.name = rows[i].name, .bytes = (double)c.bytes, .goal = rows[i].goal};
        bench_compare(&world, &row, run_bare, run_ours, &c);
        bench_log_remove(&world, 0);
    }
    world.vfs->ops = real_ops;
    bench_close(&world);
    return 0;
}
