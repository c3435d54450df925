/* What happens to a machine: deaths of every kind at any moment, restarts, a disk that errs, fills up and is slow; and
 * which of all that this run has. Each class is off in half of the runs; some runs have none. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "storage/history.h"

#include <stdio.h>
#include <string.h>

enum { CALLS_MAX = 300, DISK_FAULT_US_MAX = 3000000 };

static struct stele_prng *stream(struct run *run, enum sim_stream stream_)
{
    return sim_stream(&run->world, stream_);
}

static bool half(struct stele_prng *prng)
{
    return sim_chance(prng, 1, 2);
}

static void draw_net(struct run *run, struct stele_prng *prng, bool is_calm)
{
    static const int64_t chunks[] = {0, 0, 1, 16, 300, 3000};
    struct sim_net_rates *net = &run->faults.net;
    *net = (struct sim_net_rates){.latency_us_max = sim_draw_log(prng, 200000) + 10,
                                  .stall_us_max = 8000000,
                                  .pipe_bytes_min = 65536,
                                  .pipe_bytes_max = 65536};
    net->chunk_bytes_max = (size_t)chunks[stele_prng_below(prng, STELE_ARRAY_LEN(chunks))];
    if (net->chunk_bytes_max > 0 && net->chunk_bytes_max < 300)
        net->latency_us_max = stele_min_i64(net->latency_us_max, 300);
    if (half(prng)) {
        net->pipe_bytes_min = 40;
        net->pipe_bytes_max = half(prng) ? 600 : 6000;
        net->latency_us_max = stele_min_i64(net->latency_us_max, 3000);
    }
    int64_t reset_us = half(prng) ? stele_prng_range(prng, 300000, 5000000) : 0;
    int64_t stall_us = half(prng) ? stele_prng_range(prng, 300000, 5000000) : 0;
    int64_t silence_us = half(prng) ? stele_prng_range(prng, 1000000, 8000000) : 0;
    bool has_refusals = half(prng);
    if (is_calm)
        return;
    net->reset_us = reset_us;
    net->stall_us = stall_us;
    net->silence_us = silence_us;
    net->refused = net->blackholed = has_refusals ? 100 : 0;
}

static void draw_disk(struct run *run, struct stele_prng *prng, bool is_calm)
{
    struct sim_disk_rates *disk = &run->faults.disk;
    bool is_slow = half(prng), is_short = half(prng), has_stalls = half(prng);
    *disk = (struct sim_disk_rates){.call_us_min = 1, .call_us_max = is_slow ? 3000 : 10};
    run->faults.has_errors = sim_chance(prng, 1, 4) && !is_calm;
    run->faults.has_full_disks = sim_chance(prng, 1, 4) && !is_calm;
    run->faults.has_rot = sim_chance(prng, 1, 4) && !is_calm;
    run->faults.disk_us = stele_prng_range(prng, 1000000, 6000000);
    if (is_calm)
        return;
    if (is_short)
        disk->short_read = disk->short_write = 20000;
    if (has_stalls) {
        disk->stall = 2000;
        disk->stall_us_min = 1000;
        disk->stall_us_max = 1500000;
    }
}

static void set_text(struct run *run, const char *name, const char *text)
{
    struct stele_error error = {.text = ""};
    if (stele_settings_set(run->server.settings, name, text, "run", &error) != STELE_OK)
        sim_world_fail(&run->world, "%s", error.text);
}

static void set_node(struct run *run, const char *name, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    set_text(run, name, text);
}

static void draw_node(struct run *run, struct stele_prng *prng)
{
    run->dir_count = half(prng) ? 1 : 2;
    set_text(run, "log.dirs", run->dir_count == 1 ? "a" : "a,b");
    set_node(run, "log.dir.reserve.bytes", 0);
    set_text(run, "auto.create.topics.enable", "false");
    if (half(prng))
        set_node(run, "metadata.log.max.record.bytes.between.snapshots", stele_prng_range(prng, 100, 2000));
    int64_t interval_ms = stele_prng_range(prng, 100, 6000);
    set_node(run, "replica.high.watermark.checkpoint.interval.ms", interval_ms);
    set_node(run, "log.flush.offset.checkpoint.interval.ms", interval_ms);
    set_node(run, "log.flush.start.offset.checkpoint.interval.ms", interval_ms);
    set_node(run, "log.retention.check.interval.ms", stele_prng_range(prng, 200, 20000));
    set_node(run, "log.segment.delete.delay.ms", stele_prng_range(prng, 0, 20000));
    if (half(prng))
        set_node(run, "open.files.max", 16);
    run->server.shard_count = STELE_SHARD_DATA + (int)stele_prng_range(prng, 1, SIM_SHARDS_MAX - STELE_SHARD_DATA);
    set_node(run, "num.network.threads", run->server.shard_count - STELE_SHARD_DATA);
    run->server.wall_skew_ms = run->skew_max_ms = stele_prng_range(prng, -30000, 30000);
}

static void draw_topic(struct run *run, struct stele_prng *prng, int number)
{
    struct run_topic *topic = &run->topics[number];
    int count = 0;
    bool expires = sim_chance(prng, 1, 4);
    (void)snprintf(topic->name, sizeof(topic->name), "t%d", number);
    topic->partition_count = (int)stele_prng_range(prng, 1, RUN_PARTITIONS_MAX - 1);
    topic->retention_ms = INT64_MAX;
    topic->late_us = topic->deleted_us = INT64_MIN;
    for (int i = 0; i < RUN_TUNED; i++)
        topic->tuned[i].late_us = INT64_MIN;
    topic->flushes_before_ack = half(prng);
    struct {
        const char *name;
        int64_t low, high;
        uint64_t of_four; /* chances */
        int64_t value;
        bool is_set;
    } rows[] = {{.name = "segment.bytes", .low = 2000, .high = 60000, .of_four = 2},
                {.name = "index.interval.bytes", .low = 0, .high = 2000, .of_four = 2},
                {.name = "flush.messages", .low = 1, .high = 50, .of_four = 1},
                {.name = "flush.ms", .low = 10, .high = 3000, .of_four = 1},
                {.name = "write.back.bytes", .low = 500, .high = 20000, .of_four = 2},
                {.name = "retention.ms", .low = 1000, .high = 60000, .of_four = expires ? 3 : 0},
                {.name = "retention.bytes", .low = 3000, .high = 60000, .of_four = expires ? 1 : 0},
                {.name = "segment.ms", .low = 300, .high = 20000, .of_four = 1}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        rows[i].value = stele_prng_range(prng, rows[i].low, rows[i].high);
        rows[i].is_set = sim_chance(prng, rows[i].of_four, 4);
    }
    topic->segment_bytes = rows[0].is_set ? rows[0].value : INT64_MAX;
    topic->retention_ms = rows[5].is_set ? rows[5].value : INT64_MAX;
    topic->has_retention_bytes = rows[6].is_set;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        if (!rows[i].is_set)
            continue;
        (void)snprintf(topic->texts[count], sizeof(topic->texts[count]), "%lld", (long long)rows[i].value);
        topic->settings[count] = (struct stele_setting){.name = rows[i].name, .value = topic->texts[count]};
        count++;
    }
    /* A timestamp may be older than the default, and the node's clock far ahead. */
    if (!rows[5].is_set)
        topic->settings[count++] = (struct stele_setting){.name = "retention.ms", .value = "-1"};
    if (topic->flushes_before_ack)
        topic->settings[count++] = (struct stele_setting){.name = "flush.before.ack", .value = "true"};
}

void faults_draw(struct run *run)
{
    struct stele_prng *prng = stream(run, SIM_STREAM_SETUP);
    struct run_faults *faults = &run->faults;
    bool is_calm = sim_chance(prng, 1, 16);
    draw_net(run, prng, is_calm);
    draw_disk(run, prng, is_calm);
    faults->has_kills = half(prng);
    faults->has_power_losses = half(prng);
    draw_node(run, prng);
    faults->has_crashes_in_calls = half(prng);
    faults->has_stops = half(prng);
    faults->death_us = is_calm ? 0 : stele_prng_range(prng, 1000000, 8000000);
    faults->restart_us_max = half(prng) ? 10000 : 4000000;
    faults->has_clock_steps = half(prng) && !is_calm;
    faults->has_client_deaths = half(prng);
    faults->has_topic_deaths = half(prng);
    faults->has_tuning = half(prng);
    faults->no_memory = sim_chance(prng, 1, 8) && !is_calm ? (uint32_t)stele_prng_range(prng, 10, 2000) : 0;
    run->calm_us = run->world.now_us + stele_prng_range(prng, 3000000, 25000000);
    run->world.task_us_max = half(prng) ? 20 : 20000;
    run->world.job_us_max = half(prng) ? 2000 : 100000;
    run->world.timer_us_max = half(prng) ? 100 : 10000;
    run->topic_count = (int)stele_prng_range(prng, 1, RUN_TOPICS_MAX);
    for (int i = 0; i < run->topic_count; i++)
        draw_topic(run, prng, i);
}

/* Deaths and restarts */

static enum sim_death draw_death(struct run *run)
{
    struct stele_prng *prng = stream(run, SIM_STREAM_KILL);
    bool is_power = run->faults.has_power_losses && (!run->faults.has_kills || half(prng));
    bool is_ordered = half(prng);
    if (!is_power)
        return SIM_DEATH_KILL;
    return is_ordered ? SIM_DEATH_POWER_ORDERED : SIM_DEATH_POWER_ADVERSARIAL;
}

static void again(struct run *run, struct sim_event *event, enum sim_stream stream_, int64_t mean_us)
{
    if (!run->is_calm && mean_us > 0)
        sim_event_after(&run->world, event, stele_prng_range(stream(run, stream_), 1, 2 * mean_us));
}

static void arm_crash(struct run *run)
{
    struct stele_prng *prng = stream(run, SIM_STREAM_KILL);
    struct sim_disk_fault fault = {.err = STELE_IO, .is_crash = true};
    int64_t calls = 1 + sim_draw_log(prng, CALLS_MAX);
    sim_world_log(&run->world, "faults: the machine stops at the disk's call %lld from now", (long long)calls);
    sim_disk_arm(run->server.disk, calls, &fault);
}

static void run_death(struct sim_event *event)
{
    struct run *run = STELE_CONTAINER_OF(event, struct run, death);
    struct run_faults *faults = &run->faults;
    struct stele_prng *prng = stream(run, SIM_STREAM_KILL);
    bool is_up = run->server.state != SIM_SERVER_DOWN && run->server.end.slot == 0;
    uint64_t draw = stele_prng_below(prng, 3);
    again(run, event, SIM_STREAM_KILL, faults->death_us);
    if (!is_up)
        return;
    if (draw == 0 && faults->has_crashes_in_calls)
        arm_crash(run);
    else if (draw == 1 && faults->has_stops && run->server.state == SIM_SERVER_SERVING)
        sim_server_stop(&run->server);
    else if (faults->has_kills || faults->has_power_losses)
        sim_server_die(&run->server, draw_death(run));
}

static void before_death(struct sim_server *server)
{
    struct run *run = server->arg;
    const struct sim_disk_stats *stats = sim_disk_stats(server->disk);
    if (stats->sync_failures != run->sync_failures_seen)
        run->sync_failed = true;
    run->sync_failures_seen = stats->sync_failures;
    if (sim_disk_is_stopped(server->disk))
        server->death = draw_death(run);
    /* Where no call works a failed sync leaves no mark either: such a machine comes back only without its cache. */
    if (run->sync_failed && run->all_failed)
        server->death = SIM_DEATH_POWER_ORDERED;
    run->reached[RUN_POINT_NO_MEMORY] += server->process.no_memory_count;
    model_death(run);
    if (server->death == SIM_DEATH_POWER_ORDERED || server->death == SIM_DEATH_POWER_ADVERSARIAL)
        run->sync_failed = run->all_failed = false;
    else if (run->sync_failed) /* the next start meets a page cache that says more than the disk has */
        run_reach(run, RUN_POINT_KILL_AFTER_SYNC_FAILED);
}

static void dead(struct sim_server *server)
{
    struct run *run = server->arg;
    if (!run->is_flushed)
        sim_event_after(&run->world, &run->restart,
                        1 + sim_draw_log(stream(run, SIM_STREAM_KILL), run->faults.restart_us_max));
}

/* What a start can make anew from the log, or the log. */
static void rot(struct run *run)
{
    static const char *const kinds[] = {"*.index", "*.timeindex", "*.snapshot"};
    struct stele_prng *prng = stream(run, SIM_STREAM_DISK_FAULT);
    char path[STELE_PATH_BYTES];
    int64_t pos = 0;
    const char *kind = kinds[stele_prng_below(prng, STELE_ARRAY_LEN(kinds))];
    if (!run->faults.has_rot || run->is_calm || !half(prng))
        return;
    if (half(prng)) {
        rot_log(run, prng);
        return;
    }
    if (sim_disk_rot(run->server.disk, kind, path, &pos) != STELE_OK)
        return;
    sim_world_log(&run->world, "faults: %s rots at byte %lld", path, (long long)pos);
    run_reach(run, RUN_POINT_INDEX_ROT);
}

static void run_restart(struct sim_event *event)
{
    struct run *run = STELE_CONTAINER_OF(event, struct run, restart);
    if (run->server.state != SIM_SERVER_DOWN)
        return;
    run->must_restart = false;
    rot(run);
    sim_server_start(&run->server);
    if (!run->is_calm && run->faults.has_crashes_in_calls && sim_chance(stream(run, SIM_STREAM_KILL), 1, 3))
        arm_crash(run);
}

static void ready(struct sim_server *server)
{
    struct run *run = server->arg;
    model_ready(run);
    run->started_us = run->world.now_us;
    server->process.no_memory = run->is_calm ? 0 : run->faults.no_memory;
}

/* Clocks of machines are set, back and forth; drift is many small steps. */
static void run_clock(struct sim_event *event)
{
    struct run *run = STELE_CONTAINER_OF(event, struct run, clock);
    struct stele_prng *prng = stream(run, SIM_STREAM_CLOCK);
    int64_t by_ms = sim_draw_log(prng, half(prng) ? 3 : 100000) * (half(prng) ? -1 : 1);
    int who = (int)stele_prng_below(prng, 1 + RUN_CLIENTS);
    again(run, event, SIM_STREAM_CLOCK, 1000000);
    run_reach(run, RUN_POINT_CLOCK_STEP);
    if (who > 0) {
        run->clients[who - 1].sim.process.wall_skew_ms += by_ms;
        return;
    }
    run->server.wall_skew_ms += by_ms;
    run->server.process.wall_skew_ms = run->server.wall_skew_ms;
    run->skew_max_ms = stele_max_i64(run->skew_max_ms, run->server.wall_skew_ms);
}

static bool is_because(const struct stele_trace_event *event, enum stele_trace_kind kind, enum stele_reason reason)
{
    return event->kind == kind && event->text != NULL && strcmp(event->text, stele_reason_text(reason)) == 0;
}

static void traced(struct sim_server *server, const struct stele_trace_event *event)
{
    struct run *run = server->arg;
    run->reached[RUN_POINT_ROLL_TIME] += is_because(event, STELE_TRACE_LOG_ROLLED, STELE_REASON_TIME);
    run->reached[RUN_POINT_EXPIRED] +=
        is_because(event, STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_RETENTION_TIME) ||
        is_because(event, STELE_TRACE_LOG_SEGMENT_DELETED, STELE_REASON_RETENTION_SIZE);
    run->reached[RUN_POINT_METADATA_SNAPSHOT] += event->kind == STELE_TRACE_METADATA_SNAPSHOT;
    run->reached[RUN_POINT_RESYNC] += event->kind == STELE_TRACE_LOG_RESYNCED;
    run->reached[RUN_POINT_REPLICA_MOVED] += event->kind == STELE_TRACE_MOVE_ENDED;
    run->reached[RUN_POINT_MOVE_DROPPED] += event->kind == STELE_TRACE_MOVE_DROPPED;
    run->reached[RUN_POINT_ROLL] += event->kind == STELE_TRACE_LOG_ROLLED;
    run->reached[RUN_POINT_RECOVERY] += event->kind == STELE_TRACE_LOG_RECOVERED;
    run->reached[RUN_POINT_RECOVERY_CUT] += event->kind == STELE_TRACE_LOG_RECOVERED && event->c > 0;
    run->reached[RUN_POINT_LOG_OFFLINE] += event->kind == STELE_TRACE_LOG_FAILED;
    if (event->kind == STELE_TRACE_LOG_OPENED)
        synced_opened(run, event);
    rot_traced(run, event);
    if (event->kind == STELE_TRACE_LOG_FAILED || event->kind == STELE_TRACE_DIR_FAILED)
        run->must_restart = true;
}

/* The disk */

static void run_disk_heal(struct sim_event *event)
{
    struct run *run = STELE_CONTAINER_OF(event, struct run, disk_heal);
    sim_world_log(&run->world, "faults: the disk is well again");
    sim_disk_mend(run->server.disk, "*");
    sim_disk_mend(run->server.disk, "*.log");
    sim_disk_set_quota(run->server.disk, -1);
}

static void run_disk_fault(struct sim_event *event)
{
    struct run *run = STELE_CONTAINER_OF(event, struct run, disk_fault);
    struct run_faults *faults = &run->faults;
    struct stele_prng *prng = stream(run, SIM_STREAM_DISK_FAULT);
    static const unsigned ops[] = {SIM_DISK_BIT(SIM_DISK_WRITE), SIM_DISK_BIT(SIM_DISK_READ),
                                   SIM_DISK_BIT(SIM_DISK_SYNC), 0};
    int64_t for_us = 1 + sim_draw_log(prng, DISK_FAULT_US_MAX);
    unsigned op = ops[stele_prng_below(prng, STELE_ARRAY_LEN(ops))];
    int64_t more = sim_draw_log(prng, 20000);
    bool is_full = faults->has_full_disks && (!faults->has_errors || half(prng));
    again(run, event, SIM_STREAM_DISK_FAULT, faults->disk_us);
    if (run->disk_heal.slot != 0)
        return;
    if (is_full) {
        sim_world_log(&run->world, "faults: the disk has %lld bytes left for %lld us", (long long)more,
                      (long long)for_us);
        run_reach(run, RUN_POINT_DISK_FULL);
        sim_disk_set_quota(run->server.disk, sim_disk_used_bytes(run->server.disk) + more);
    } else if (faults->has_errors) {
        bool is_logs = half(prng);
        sim_world_log(&run->world, "faults: the disk errs in calls %#x of %s for %lld us", op, is_logs ? "*.log" : "*",
                      (long long)for_us);
        run_reach(run, RUN_POINT_DISK_EIO);
        run->all_failed = run->all_failed || op == 0;
        sim_disk_break(run->server.disk, is_logs ? "*.log" : "*", op, STELE_IO, 0);
    }
    sim_event_after(&run->world, &run->disk_heal, for_us);
}

/* From now on all must go well; a node whose disk was ill is started anew, as its operator would. */
static void run_calm(struct sim_event *event)
{
    struct run *run = STELE_CONTAINER_OF(event, struct run, calm);
    struct sim_disk_rates rates = {.call_us_min = 1, .call_us_max = 10};
    sim_world_log(&run->world, "faults: no more");
    run->is_calm = true;
    run->server.process.no_memory = 0;
    sim_net_heal(&run->world);
    faults_stop(run);
    sim_disk_heal(run->server.disk); /* one that is stopped stays so until its death */
    sim_disk_set_rates(run->server.disk, &rates);
    if (run->server.state == SIM_SERVER_DOWN) {
        if (run->restart.slot == 0)
            sim_event_after(&run->world, &run->restart, 1);
    } else if (run->must_restart && run->server.end.slot == 0) {
        sim_server_die(&run->server, draw_death(run));
    }
}

void faults_begin(struct run *run)
{
    struct run_faults *faults = &run->faults;
    run->server.arg = run;
    run->server.before_death = before_death;
    run->server.dead = dead;
    run->server.ready = ready;
    run->server.traced = traced;
    run->server.sync_failed = synced_failed;
    sim_net_set_rates(&run->world, &faults->net);
    sim_disk_set_rates(run->server.disk, &faults->disk);
    sim_event_init(&run->calm, "calm", NULL, run_calm);
    sim_event_init(&run->death, "kill", NULL, run_death);
    sim_event_init(&run->restart, "restart", NULL, run_restart);
    sim_event_init(&run->disk_fault, "fault", NULL, run_disk_fault);
    sim_event_init(&run->disk_heal, "heal", NULL, run_disk_heal);
    sim_event_init(&run->clock, "clock", NULL, run_clock);
    sim_event_at(&run->world, &run->calm, run->calm_us);
    if (faults->has_clock_steps)
        again(run, &run->clock, SIM_STREAM_CLOCK, 1000000);
    sim_event_after(&run->world, &run->restart, 1);
    again(run, &run->death, SIM_STREAM_KILL, faults->death_us);
    if (faults->has_errors || faults->has_full_disks)
        again(run, &run->disk_fault, SIM_STREAM_DISK_FAULT, faults->disk_us);
}

void faults_stop(struct run *run)
{
    sim_event_cancel(&run->world, &run->calm);
    sim_event_cancel(&run->world, &run->death);
    sim_event_cancel(&run->world, &run->disk_fault);
    sim_event_cancel(&run->world, &run->disk_heal);
    sim_event_cancel(&run->world, &run->clock);
}
