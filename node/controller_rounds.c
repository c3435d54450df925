/* The rounds of the control shard: checkpoints of all logs, free space of all directories. */
#include "base/check.h"
#include "node/controller.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/removal.h"
#include "replication/guard.h"

#include <stdio.h>
#include <string.h>

enum { SPACE_MS = 1000 };

/* One shard's part of a checkpoint round. */
struct gather {
    struct stele_task task;
    struct stele_shard *shard;
    struct stele_round *round;
    struct stele_log_points *points;
    int count;
    enum stele_err err;
};

struct stele_round {
    struct stele_controller *control;
    struct stele_job job;
    struct gather *gathers; /* one a data shard */
    int gather_count, pending;
    struct stele_log_points *points; /* of all */
    int count;
    enum stele_err err;
    bool has_written;
    struct stele_list waits; /* who asked before it began */
    void (*done)(struct stele_controller *control, enum stele_err err);
};

void stele_controller_round_free(struct stele_controller *control)
{
    struct stele_round *round = control->round;
    struct stele_mem *mem = control->shard->env->mem;
    if (round == NULL)
        return;
    for (int i = 0; i < round->gather_count; i++)
        stele_mem_free(mem, round->gathers[i].points);
    stele_mem_free(mem, round->gathers);
    stele_mem_free(mem, round->points);
    stele_mem_free(mem, round);
    control->round = NULL;
}

static void set_points(struct stele_log_points *points, const char *topic, int32_t number, int dir)
{
    *points = (struct stele_log_points){.dir = dir, .partition = number};
    (void)snprintf(points->topic, sizeof(points->topic), "%s", topic);
}

static void take_points(struct stele_log_points *points, const struct stele_log *log)
{
    points->recovery_point = stele_log_checkpoint_point(log);
    points->log_start_offset = stele_log_start_offset(log);
    /* Below a written high watermark a torn batch is damage that another replica heals. There is no other one: what a
     * loss of power takes behind the recovery point is cut away, or readers would stumble over it for ever. */
    points->high_watermark = stele_min_i64(stele_log_high_watermark(log), stele_log_recovery_point(log));
    points->first_segment_base = stele_log_first_base(log);
}

static void gather_points(struct gather *gather)
{
    struct stele_shard *shard = gather->shard;
    struct stele_partition *partition, *next;
    size_t count = HASH_COUNT(shard->partitions);
    HASH_ITER(hh, shard->partitions, partition, next)
    count += partition->mover != NULL;
    gather->points = stele_mem_array(shard->env->mem, STELE_MEM_NODE, count, sizeof(*gather->points));
    if (gather->points == NULL) {
        gather->err = STELE_NO_MEMORY;
        return;
    }
    HASH_ITER(hh, shard->partitions, partition, next)
    {
        if (partition->mover != NULL && stele_mover_points(partition->mover, &gather->points[gather->count]))
            gather->count++;
        struct stele_log_points *points = &gather->points[gather->count];
        if (partition->path[0] == 0)
            continue; /* on a directory that is offline and gets no checkpoint */
        if (partition->log == NULL && !STELE_GUARD(22))
            continue;
        set_points(points, partition->topic, partition->key.number, partition->dir);
        gather->count++;
        if (partition->log != NULL) {
            take_points(points, partition->log);
            stele_replica__cap_points(partition, points);
            if (!partition->is_named) /* a recovery point says that the names are synced */
                points->recovery_point = points->high_watermark = partition->open.recovery_point;
            continue;
        }
        /* One that is not open keeps what its checkpoints said. */
        points->recovery_point = partition->open.recovery_point;
        points->log_start_offset = partition->open.log_start_offset;
        points->high_watermark = stele_max_i64(partition->open.high_watermark, 0);
    }
}

static void take_waits(struct stele_list *from, struct stele_list *to)
{
    stele_list_init(to);
    while (!stele_list_is_empty(from)) {
        struct stele_list *link = from->next;
        stele_list_remove(link);
        stele_list_push(to, link);
    }
}

static void end_waits(struct stele_list *waits, enum stele_err err, bool has_written)
{
    while (!stele_list_is_empty(waits)) {
        struct stele_checkpoint_wait *wait = STELE_CONTAINER_OF(waits->next, struct stele_checkpoint_wait, link);
        stele_list_remove(&wait->link);
        wait->has_written = has_written;
        wait->done(wait, err);
    }
}

static void round_end(struct stele_round *round)
{
    struct stele_controller *control = round->control;
    enum stele_err err = round->err;
    bool has_written = round->has_written;
    struct stele_list waits;
    void (*done)(struct stele_controller *, enum stele_err) = round->done;
    take_waits(&round->waits, &waits);
    stele_controller_round_free(control);
    stele_removals_go_on(control);
    end_waits(&waits, err, has_written);
    if (!stele_list_is_empty(&control->waits) && control->round == NULL)
        (void)stele_controller_checkpoint(control, NULL);
    if (done != NULL)
        done(control, err);
    else
        stele_controller_check_stopped(control);
}

static void fail_arrived(struct stele_task *task);

/* A directory that failed takes its partitions offline; without the first one the node cannot go on. */
void stele_controller_look_for_failed(struct stele_controller *control, enum stele_err err, const char *what)
{
    struct stele_node *node = control->node;
    for (int i = 0; i < node->dir_count; i++) {
        if (!stele_log_dirs_is_offline(control->dirs, i))
            continue;
        if (i == 0) {
            stele_controller_fatal(control, err, what);
            return;
        }
        if (node->dirs[i].is_failed)
            continue;
        node->dirs[i].is_failed = true;
        stele_life_look_at_directories(&control->life);
        for (int at = STELE_SHARD_DATA; at < node->shard_count; at++) {
            struct stele_dir_note *note = &node->notes[i * node->shard_count + at];
            *note = (struct stele_dir_note){.task.run = fail_arrived, .shard = &node->shards[at], .dir = i};
            stele_shard_send(control->shard, note->shard, &note->task);
        }
    }
}

static void fail_arrived(struct stele_task *task)
{
    struct stele_dir_note *note = STELE_CONTAINER_OF(task, struct stele_dir_note, task);
    struct stele_partition *partition, *next;
    HASH_ITER(hh, note->shard->partitions, partition, next)
    {
        if (partition->mover != NULL && partition->mover->dir == note->dir)
            stele_mover_hurry(partition->mover);
        if (partition->dir == note->dir)
            stele_partition_fail(partition);
    }
}

static void write_work(struct stele_job *job)
{
    struct stele_round *round = STELE_CONTAINER_OF(job, struct stele_round, job);
    round->err = stele_log_dirs_checkpoint(round->control->dirs, round->points, round->count);
    round->has_written = true;
}

static void write_done(struct stele_job *job)
{
    struct stele_round *round = STELE_CONTAINER_OF(job, struct stele_round, job);
    struct stele_controller *control = round->control;
    if (round->err != STELE_OK) {
        /* Full disk, no memory: the next round tries again. */
        control->shard->is_changed = true;
        stele_controller_look_for_failed(control, round->err, "a checkpoint could not be written");
    }
    round_end(round);
}

static void all_gathered(struct stele_round *round)
{
    struct stele_controller *control = round->control;
    struct stele_mem *mem = control->shard->env->mem;
    int count = 1; /* the metadata log's */
    for (int i = 0; i < round->gather_count; i++) {
        count += round->gathers[i].count;
        if (round->gathers[i].err != STELE_OK)
            round->err = round->gathers[i].err;
    }
    round->points = stele_mem_array(mem, STELE_MEM_NODE, (size_t)count, sizeof(*round->points));
    if (round->points == NULL)
        round->err = STELE_NO_MEMORY;
    if (round->err != STELE_OK) {
        control->shard->is_changed = true;
        round_end(round);
        return;
    }
    set_points(&round->points[0], STELE_METADATA_TOPIC_NAME, 0, 0);
    take_points(&round->points[0], control->mlog.log);
    if (stele_formation_is_wanted(&control->formation)) { /* what is not committed may yet be cut off */
        round->points[0].recovery_point =
            stele_min_i64(round->points[0].recovery_point, control->mlog.quorum.high_watermark);
    }
    round->count = 1;
    for (int i = 0; i < round->gather_count; i++) {
        const struct gather *gather = &round->gathers[i];
        if (gather->count > 0)
            memcpy(&round->points[round->count], gather->points, (size_t)gather->count * sizeof(*round->points));
        round->count += gather->count;
    }
    round->job = (struct stele_job){.work = write_work, .done = write_done};
    stele_controller_job(control, &round->job);
}

static void gather_home(struct stele_task *task)
{
    struct gather *gather = STELE_CONTAINER_OF(task, struct gather, task);
    if (--gather->round->pending == 0)
        all_gathered(gather->round);
}

static void gather_arrived(struct stele_task *task)
{
    struct gather *gather = STELE_CONTAINER_OF(task, struct gather, task);
    struct stele_shard *shard = gather->shard;
    gather_points(gather);
    task->run = gather_home;
    stele_shard_send(shard, gather->round->control->shard, task);
}

bool stele_controller_checkpoint(struct stele_controller *control,
                                 void (*done)(struct stele_controller *control, enum stele_err err))
{
    struct stele_node *node = control->node;
    struct stele_mem *mem = control->shard->env->mem;
    if (control->round != NULL)
        return false;
    int count = node->shard_count - 1;
    struct stele_round *round = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*round));
    struct gather *gathers = stele_mem_array(mem, STELE_MEM_NODE, (size_t)count, sizeof(*gathers));
    if (round == NULL || gathers == NULL) {
        stele_mem_free(mem, round);
        stele_mem_free(mem, gathers);
        control->shard->is_changed = true;
        end_waits(&control->waits, STELE_NO_MEMORY, false);
        if (done != NULL)
            done(control, STELE_NO_MEMORY);
        return true;
    }
    *round = (struct stele_round){
        .control = control, .gathers = gathers, .gather_count = count, .pending = count, .done = done};
    take_waits(&control->waits, &round->waits);
    control->round = round;
    for (int i = 0; i < count; i++) {
        struct gather *gather = &gathers[i];
        gather->shard = &node->shards[STELE_SHARD_DATA + i];
        gather->shard->is_changed = false; /* before its offsets are read: what moves after counts for the next round */
        gather->round = round;
        gather->task.run = gather_arrived;
        stele_shard_send(control->shard, gather->shard, &gather->task);
    }
    return true;
}

void stele_controller_await_checkpoint(struct stele_controller *control, struct stele_checkpoint_wait *wait)
{
    stele_list_push(&control->waits, &wait->link);
    if (control->round == NULL)
        (void)stele_controller_checkpoint(control, NULL);
}

static bool is_changed(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    for (int i = 0; i < node->shard_count; i++) {
        if (node->shards[i].is_changed)
            return true;
    }
    return false;
}

static void checkpoint_fired(struct stele_timer *timer)
{
    struct stele_controller *control = STELE_CONTAINER_OF(timer, struct stele_controller, checkpoint_timer);
    struct stele_shard *shard = control->shard;
    stele_shard_arm(shard, timer, stele_env_mono_ms(shard->env) + control->node->limits.checkpoint_ms);
    if (!is_changed(control))
        return;
    shard->is_changed = false;
    (void)stele_controller_checkpoint(control, NULL); /* one that is under way is as good */
}

/* Free space. */

static void space_work(struct stele_job *job)
{
    struct stele_controller *control = STELE_CONTAINER_OF(job, struct stele_controller, space_job);
    for (int i = 0; i < control->node->dir_count; i++)
        stele_log_dirs_measure(control->dirs, i);
}

static void space_done(struct stele_job *job)
{
    struct stele_controller *control = STELE_CONTAINER_OF(job, struct stele_controller, space_job);
    control->is_measuring = false;
    stele_controller_check_stopped(control);
}

static void space_fired(struct stele_timer *timer)
{
    struct stele_controller *control = STELE_CONTAINER_OF(timer, struct stele_controller, space_timer);
    struct stele_node *node = control->node;
    bool is_due = false;
    stele_shard_arm(control->shard, timer, stele_env_mono_ms(control->shard->env) + SPACE_MS);
    for (int i = 0; i < node->dir_count; i++)
        is_due = is_due || stele_log_dirs_is_measure_due(control->dirs, i);
    if (!is_due || control->is_measuring)
        return;
    control->is_measuring = true;
    control->space_job = (struct stele_job){.work = space_work, .done = space_done};
    stele_controller_job(control, &control->space_job);
}

void stele_controller_init_rounds(struct stele_controller *control)
{
    stele_timer_init(&control->checkpoint_timer, checkpoint_fired);
    stele_timer_init(&control->space_timer, space_fired);
}

void stele_controller_begin_rounds(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    int64_t now_ms = stele_env_mono_ms(control->shard->env);
    stele_shard_arm(control->shard, &control->checkpoint_timer, now_ms + node->limits.checkpoint_ms);
    stele_shard_arm(control->shard, &control->space_timer, now_ms + SPACE_MS);
    for (int i = STELE_SHARD_DATA; i < node->shard_count; i++)
        stele_shard_begin_rounds(&node->shards[i]);
}
