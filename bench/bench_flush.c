/* The flush settings: appending as fast as it goes beside a loop that writes the same and never syncs, or syncs as
 * often; and at a steady 50 MB/s, how long a producer waits for its acknowledgement. Flushes run as jobs, as in a node.
 */
#include "bench/bench_util.h"

#include "base/sort.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PACED_BYTES_PER_S = 50000000, SAMPLES_MAX = 20000 };

struct flusher {
    struct stele_log *log;
    struct stele_log_flush *flush;
    struct stele_job job;
    enum stele_err err;
    bool is_running, wants_again;
    int flushes;
};

struct flush_case {
    struct stele_log_config config;
    struct stele_buf *batch;
    int64_t count;     /* batches of a round */
    int group;         /* produce requests that wait for one sync; 0: none waits */
    bool is_bare_sync; /* the bare loop syncs after every group */
    int fd;
    struct flusher flusher;
};

static void start(struct bench_world *world, struct flusher *flusher);

static void flush_work(struct stele_job *job)
{
    struct flusher *flusher = STELE_CONTAINER_OF(job, struct flusher, job);
    flusher->err = stele_log_flush_run(flusher->flush);
}

static void flush_done(struct stele_job *job)
{
    struct flusher *flusher = STELE_CONTAINER_OF(job, struct flusher, job);
    bench_check(flusher->err, "a flush");
    stele_log_flush_end(flusher->log, flusher->flush, flusher->err);
    flusher->is_running = false;
    flusher->flushes++;
}

static void start(struct bench_world *world, struct flusher *flusher)
{
    if (flusher->is_running) {
        flusher->wants_again = true;
        return;
    }
    flusher->wants_again = false;
    bench_check(stele_log_flush_begin(flusher->log, &flusher->flush), "the start of a flush");
    flusher->is_running = true;
    flusher->job = (struct stele_job){.work = flush_work, .done = flush_done, .lane = flusher};
    world->env->ops->job(world->env, &flusher->job);
}

/* What a node's loop does between two requests. */
static void turn(struct bench_world *world, struct flusher *flusher)
{
    if (flusher->is_running)
        stele_loop_run_once(world->loop, 0);
    bool is_due = stele_log_flush_due(flusher->log) <= stele_env_mono_ms(world->env);
    if (!flusher->is_running && (flusher->wants_again || is_due))
        start(world, flusher);
}

static void wait_for(struct bench_world *world, struct flusher *flusher, int64_t offset)
{
    while (stele_log_recovery_point(flusher->log) < offset) {
        if (!flusher->is_running)
            start(world, flusher);
        stele_loop_run_once(world->loop, 1000);
    }
}

static void finish(struct bench_world *world, struct flusher *flusher)
{
    while (flusher->is_running)
        stele_loop_run_once(world->loop, 1000);
    flusher->wants_again = false;
}

static struct bench_time run_bare(struct bench_world *world, void *arg)
{
    struct flush_case *c = arg;
    int64_t pos = 0;
    struct bench_time from = bench_time_now(world);
    for (int64_t i = 0; i < c->count; i++) {
        ssize_t count = pwrite(c->fd, c->batch->bytes, c->batch->count, pos);
        bench_require(count == (ssize_t)c->batch->count, "pwrite");
        pos += count;
        if (c->is_bare_sync && (i + 1) % c->group == 0)
            bench_require(fsync(c->fd) == 0, "fsync");
    }
    struct bench_time time = bench_time_since(world, from);
    bench_require(ftruncate(c->fd, 0) == 0 && fsync(c->fd) == 0, "ftruncate");
    return time;
}

static struct bench_time run_ours(struct bench_world *world, void *arg)
{
    struct flush_case *c = arg;
    struct flusher *flusher = &c->flusher;
    struct stele_appended appended;
    struct bench_time from = bench_time_now(world);
    for (int64_t i = 0; i < c->count; i++) {
        bench_append(world, flusher->log, c->batch, &appended);
        if (c->group > 0 && (i + 1) % c->group == 0)
            wait_for(world, flusher, appended.last_offset + 1);
        else if (appended.wants_flush && c->group == 0)
            start(world, flusher);
        turn(world, flusher);
    }
    struct bench_time time = bench_time_since(world, from);
    finish(world, flusher);
    bench_check(stele_log_truncate(flusher->log, 0), "a truncation");
    bench_check(stele_log_flush(flusher->log), "a flush");
    return time;
}

static void open_case(struct bench_world *world, struct flush_case *c)
{
    char path[512];
    bench_path(world, "bare", path);
    c->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bench_require(c->fd >= 0, path);
    (void)unlink(path);
    c->batch = bench_batch(world, BENCH_BATCH_BYTES, 1024, 1);
    c->flusher = (struct flusher){.log = bench_log_open(world, 0, &c->config, true)};
}

static void close_case(struct bench_world *world, struct flush_case *c)
{
    close(c->fd);
    stele_buf_unref(c->batch);
    stele_log_free(c->flusher.log);
    bench_log_remove(world, 0);
}

struct flush_row {
    const char *name;
    int64_t messages, ms;
    int group;
};

static const struct flush_row rows[] = {
    {"default: never", INT64_MAX, INT64_MAX, 0},
    {"log.flush.interval.messages=1000", 1000, INT64_MAX, 0},
    {"log.flush.interval.ms=1000", INT64_MAX, 1000, 0},
    {"flush.before.ack, one request at a time", INT64_MAX, INT64_MAX, 1},
    {"flush.before.ack, 16 requests share a sync", INT64_MAX, INT64_MAX, 16},
};

static struct flush_case make_case(const struct flush_row *row)
{
    struct flush_case c = {.group = row->group};
    stele_log_config_default(&c.config);
    c.config.flush_messages = row->messages;
    c.config.flush_ms = row->ms;
    c.config.flush_before_ack = row->group > 0;
    return c;
}

static void compare_rates(struct bench_world *world)
{
    bench_title("append by flush setting, 64 KiB batches");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct flush_case c = make_case(&rows[i]);
        open_case(world, &c);
        c.is_bare_sync = rows[i].group > 0;
        c.count = bench_size(world, rows[i].group == 1 ? 64 : 512, 16);
        struct bench_row row = {.name = rows[i].name, .bytes = (double)c.batch->count * (double)c.count};
        bench_compare(world, &row, run_bare, run_ours, &c);
        close_case(world, &c);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* One batch every so often, until `seconds` passed; microseconds from the append to its acknowledgement. */
static void run_paced(struct bench_world *world, const struct flush_row *row, double seconds)
{
    struct flush_case c = make_case(row);
    double *us = calloc(SAMPLES_MAX, sizeof(*us));
    int count = 0;
    bench_require(us != NULL, "samples");
    open_case(world, &c);
    double interval = (double)c.batch->count / PACED_BYTES_PER_S, began = bench_now_s();
    while (count < SAMPLES_MAX) {
        struct stele_appended appended;
        double due = began + count * interval;
        if (due > began + seconds)
            break;
        while (bench_now_s() < due)
            turn(world, &c.flusher);
        double from = bench_now_s();
        bench_append(world, c.flusher.log, c.batch, &appended);
        if (c.group > 0)
            wait_for(world, &c.flusher, appended.last_offset + 1);
        us[count++] = (bench_now_s() - from) * 1e6;
        if (appended.wants_flush && c.group == 0)
            start(world, &c.flusher);
    }
    double rate = (double)c.batch->count * count / (bench_now_s() - began) / 1e6;
    finish(world, &c.flusher);
    stele_sort(us, (size_t)count, sizeof(*us), compare_doubles);
    printf("%-52s %6.0f %8.0f %8.0f %8.0f %7d\n", row->name, rate, us[count / 2], us[count * 99 / 100], us[count - 1],
           c.flusher.flushes);
    fflush(stdout);
    close_case(world, &c);
    free(us);
}

int main(int argc, char **argv)
{
    struct bench_world world;
    bench_open(&world, argc, argv);
    compare_rates(&world);
    printf("\n%-52s %6s %8s %8s %8s %7s\n", "append at 50 MB/s, us to the acknowledgement", "MB/s", "median", "99%",
           "most", "flushes");
    for (size_t i = 0; i + 1 < STELE_ARRAY_LEN(rows); i++)
        run_paced(&world, &rows[i], world.is_quick ? 0.1 : 4);
    bench_close(&world);
    return 0;
}
