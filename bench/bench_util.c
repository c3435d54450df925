#include "bench/bench_util.h"

#include "base/prng.h"
#include "base/sort.h"
#include "host/clock.h"
#include "host/heap.h"
#include "host/jobs.h"
#include "host/vfs_posix.h"
#include "storage/validate.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OPEN_MAX = 4096, MAP_BYTES_MAX = 256 << 20 };

void bench_require(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

void bench_check(enum stele_err err, const char *what)
{
    if (err == STELE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, stele_err_text(err));
    exit(1);
}

static double clock_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double bench_now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

double bench_cpu_s(void)
{
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

struct bench_time bench_time_now(const struct bench_world *world)
{
    struct bench_time now = {.wall_s = bench_now_s(), .cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID)};
    clockid_t clock;
    if (world->child > 0 && clock_getcpuclockid(world->child, &clock) == 0)
        now.cpu_s += clock_s(clock);
    return now;
}

struct bench_time bench_time_since(const struct bench_world *world, struct bench_time from)
{
    struct bench_time now = bench_time_now(world);
    return (struct bench_time){.wall_s = now.wall_s - from.wall_s, .cpu_s = now.cpu_s - from.cpu_s};
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double quantile(const double *values, int count, int quarter)
{
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof(double));
    stele_sort(sorted, (size_t)count, sizeof(double), compare_doubles);
    return sorted[(count - 1) * quarter / 4];
}

double bench_median(const double *values, int count)
{
    return quantile(values, count, 2);
}

int64_t bench_size(const struct bench_world *world, int64_t full, int64_t quick)
{
    return world->is_quick ? quick : full;
}

static void usage(const char *program)
{
    fprintf(stderr, "usage: %s [--quick] [--rounds N] [--dir DIR] [--input FILE]\n", program);
    exit(2);
}

void bench_open(struct bench_world *world, int argc, char **argv)
{
    const char *parent = ".";
    int rounds = 0;
    memset(world, 0, sizeof(*world));
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0)
            world->is_quick = true;
        else if (strcmp(argv[i], "--rounds") == 0 && has_value)
            rounds = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--dir") == 0 && has_value)
            parent = argv[++i];
        else if (strcmp(argv[i], "--input") == 0 && has_value)
            world->input = argv[++i];
        else
            usage(argv[0]);
    }
    if (rounds < 0 || rounds > BENCH_ROUNDS_MAX)
        usage(argv[0]);
    world->rounds = rounds > 0 ? rounds : (int)bench_size(world, 15, 1);
    (void)snprintf(world->dir, sizeof(world->dir), "%s/stele-bench-XXXXXX", parent);
    bench_require(mkdtemp(world->dir) != NULL, world->dir);
    stele_mem_init(&world->mem, stele_heap_source(), 0);
    world->vfs = stele_vfs_posix_new(&world->mem);
    world->jobs = stele_jobs_new(&world->mem, 1);
    world->loop =
        stele_loop_new(&(struct stele_loop_options){.mem = &world->mem, .vfs = world->vfs, .jobs = world->jobs});
    bench_require(world->vfs != NULL && world->jobs != NULL && world->loop != NULL, "the bench's world");
    world->env = stele_loop_env(world->loop);
    world->cache = stele_file_cache_new(world->env, OPEN_MAX, MAP_BYTES_MAX);
    bench_require(world->cache != NULL, "a file cache");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
    (void)stat;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_dir(const char *dir)
{
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void bench_close(struct bench_world *world)
{
    stele_jobs_free(world->jobs);
    stele_file_cache_free(world->cache);
    stele_loop_free(world->loop);
    stele_vfs_posix_free(world->vfs);
    if (!stele_mem_is_empty(&world->mem))
        fprintf(stderr, "memory is still held at the end\n");
    remove_dir(world->dir);
}

void bench_title(const char *title)
{
    printf("\n%-52s %9s %9s %6s %14s %6s %6s\n", title, "bare MB/s", "ours MB/s", "ratio", "quartiles", "cpu", "goal");
}

void bench_compare(struct bench_world *world, const struct bench_row *row, bench_run bare, bench_run ours, void *arg)
{
    double bare_s[BENCH_ROUNDS_MAX], ours_s[BENCH_ROUNDS_MAX], ratios[BENCH_ROUNDS_MAX], cpus[BENCH_ROUNDS_MAX];
    int count = world->rounds;
    for (int i = 0; i < count; i++) {
        struct bench_time our_time = {0}, bare_time;
        if (i % 2 == 1)
            our_time = ours(world, arg);
        bare_time = bare(world, arg);
        if (i % 2 == 0)
            our_time = ours(world, arg);
        bare_s[i] = bare_time.wall_s;
        ours_s[i] = our_time.wall_s;
        ratios[i] = bare_time.wall_s / our_time.wall_s;
        cpus[i] = bare_time.cpu_s / our_time.cpu_s;
    }
    double ratio = bench_median(ratios, count);
    printf("%-52s %9.0f %9.0f %6.2f   %4.2f .. %4.2f %6.2f", row->name, row->bytes / 1e6 / bench_median(bare_s, count),
           row->bytes / 1e6 / bench_median(ours_s, count), ratio, quantile(ratios, count, 1),
           quantile(ratios, count, 3), bench_median(cpus, count));
    if (row->goal > 0 && !world->is_quick)
        printf("   %.2f%s", row->goal, ratio >= row->goal ? "" : " MISSED");
    printf("\n");
    fflush(stdout);
}

/* Words of a small vocabulary: about as compressible as prose. */
static void fill_text(struct stele_prng *prng, char *out, int bytes)
{
    for (int at = 0; at < bytes;) {
        uint64_t word = stele_prng_below(prng, 2000);
        int letters = 2 + (int)(word % 9);
        for (int i = 0; i < letters && at < bytes; i++)
            out[at++] = (char)('a' + (word * 2654435761U >> (3 * i)) % 26);
        if (at < bytes)
            out[at++] = ' ';
    }
}

struct stele_buf *bench_batch(struct bench_world *world, size_t batch_bytes, int value_bytes, uint64_t seed)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    struct stele_batch_builder *builder = stele_batch_builder_new(&world->mem, &options);
    struct stele_buf *batch = NULL;
    struct stele_prng prng;
    char *value = malloc((size_t)value_bytes);
    int64_t now_ms = stele_clock_wall_ms();
    bench_require(builder != NULL && value != NULL, "a batch");
    stele_prng_init(&prng, seed, 7);
    for (;;) {
        struct stele_record_in record = {
            .timestamp = now_ms, .key = "0123456789", .key_bytes = 10, .value = value, .value_bytes = value_bytes};
        if (stele_batch_builder_count(builder) > 0 &&
            stele_batch_builder_bytes(builder) + stele_record_bytes_max(&record) > batch_bytes)
            break;
        fill_text(&prng, value, value_bytes);
        bench_check(stele_batch_builder_add(builder, &record), "a record");
    }
    bench_check(stele_batch_builder_finish(builder, &batch), "a batch");
    stele_batch_builder_free(builder);
    free(value);
    return batch;
}

void bench_path(const struct bench_world *world, const char *name, char out_path[512])
{
    (void)snprintf(out_path, 512, "%s/%s", world->dir, name);
}

static void log_path(const struct bench_world *world, int number, char out_path[512])
{
    char name[32];
    (void)snprintf(name, sizeof(name), "bench-%d", number);
    bench_path(world, name, out_path);
}

struct stele_log *bench_log_open(struct bench_world *world, int number, const struct stele_log_config *config,
                                 bool was_clean)
{
    char dir[512], name[32];
    struct stele_recovery_report report;
    struct stele_error error = {.text = ""};
    struct stele_log *log = NULL;
    log_path(world, number, dir);
    bench_require(mkdir(dir, 0755) == 0 || errno == EEXIST, dir);
    (void)snprintf(name, sizeof(name), "bench-%d", number);
    struct stele_log_open open = {
        .env = world->env, .dir = dir, .name = name, .config = *config, .was_clean = was_clean, .high_watermark = -1};
    if (stele_log_open(&open, &log, &report, &error) != STELE_OK) {
        fprintf(stderr, "%s: %s\n", dir, error.text);
        exit(1);
    }
    stele_log_attach(log, world->cache);
    stele_log_set_high_watermark(log, stele_log_end_offset(log));
    return log;
}

void bench_append(struct bench_world *world, struct stele_log *log, struct stele_buf *batch, struct stele_appended *out)
{
    struct stele_validated validated = {.rebuilt = NULL};
    memset(batch->bytes, 0, 8); /* the last append stamped its offset here */
    bench_check(stele_validate(&world->mem, stele_log_config(log), batch->bytes, batch->count,
                               stele_env_wall_ms(world->env), &validated, NULL),
                "validation");
    struct stele_append append = {.bytes = batch->bytes, .count = validated.bytes, .origin = STELE_ORIGIN_CLIENT};
    bench_check(stele_log_append(log, &append, out), "an append");
    struct stele_slice written = {.file = NULL};
    struct stele_file *file = NULL;
    if (stele_log_take_write_back(log, &written, &file)) { /* here and now, as the bare loop does */
        file->vfs->ops->sync_range(file, written.pos, (int64_t)written.bytes);
        stele_slice_release(&written);
    }
    stele_log_set_high_watermark(log, stele_log_end_offset(log));
}

void bench_log_fill(struct bench_world *world, struct bench_fill *fill)
{
    struct stele_log_config config;
    struct stele_appended appended;
    struct stele_batch_header header;
    stele_log_config_default(&config);
    if (fill->segment_bytes > 0)
        config.segment_bytes = fill->segment_bytes;
    struct stele_log *log = bench_log_open(world, 0, &config, true);
    struct stele_buf *batch = bench_batch(world, fill->batch_bytes, fill->value_bytes, 1);
    bench_check(stele_batch_header_read(batch->bytes, batch->count, &header), "a header");
    fill->out_batch_bytes = (int64_t)batch->count;
    fill->out_batch_records = header.record_count;
    while (stele_log_bytes(log) < fill->bytes)
        bench_append(world, log, batch, &appended);
    stele_buf_unref(batch);
    bench_check(stele_log_close(log), "a close");
    stele_log_free(log);
}

void bench_remove(const struct bench_world *world, const char *name)
{
    char dir[512];
    bench_path(world, name, dir);
    remove_dir(dir);
}

void bench_log_remove(struct bench_world *world, int number)
{
    char dir[512];
    log_path(world, number, dir);
    remove_dir(dir);
}
