#include "node/moves.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

#include <stdio.h>
#include <string.h>

enum move_state { MAKING, MOVING, SWAPPING, LEAVING, DROPPING, DELETING, LEFT };

struct stele_move {
    struct stele_list link;
    struct stele_controller *control;
    struct stele_local *local; /* until its shard has given it back */
    enum move_state state;
    char *topic;
    struct stele_log_dirs_move how;
    char *copy_name, *copy_path, *path;
    struct stele_mover mover;
    struct stele_list asks;  /* to be answered when it has begun */
    struct stele_list after; /* to be looked at again when it has ended */
    struct stele_checkpoint_wait wait;
    struct stele_timer timer;
    struct stele_job job;
    enum stele_err err;
    bool is_swapped;
};

static struct stele_move *move_at(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_move, link);
}

static struct stele_move *move_of(struct stele_mover *mover)
{
    return STELE_CONTAINER_OF(mover, struct stele_move, mover);
}

static struct stele_move *move_of_job(struct stele_job *job)
{
    return STELE_CONTAINER_OF(job, struct stele_move, job);
}

static bool is_serving(const struct stele_controller *control)
{
    return control->state == STELE_CONTROLLER_SERVING;
}

static void move_free(struct stele_move *move)
{
    struct stele_mem *mem = move->control->shard->env->mem;
    stele_timer_cancel(move->control->shard->wheel, &move->timer);
    stele_list_remove(&move->link);
    stele_list_remove(&move->wait.link);
    stele_mem_free(mem, move->mover.taken_path);
    stele_mem_free(mem, move->copy_name);
    stele_mem_free(mem, move->copy_path);
    stele_mem_free(mem, move->path);
    stele_mem_free(mem, move->topic);
    stele_mem_free(mem, move);
}

static void answer(struct stele_move_ask *ask, enum stele_err err, const char *message)
{
    ask->err = err;
    ask->message = message;
    ask->done(ask);
}

static const char *text_of(enum stele_err err)
{
    if (err == STELE_INVALID_TOPIC_EXCEPTION)
        return "the topic's name is too long for the directory of a copy (255 bytes)";
    if (err == STELE_KAFKA_STORAGE_ERROR)
        return "the log directory, or the replica, is offline; the node's log says why";
    return err == STELE_BROKER_NOT_AVAILABLE ? "the node stops" : "";
}

static void answer_all(struct stele_move *move, enum stele_err err)
{
    while (!stele_list_is_empty(&move->asks)) {
        struct stele_move_ask *ask = STELE_CONTAINER_OF(move->asks.next, struct stele_move_ask, link);
        stele_list_remove(&ask->link);
        answer(ask, err, text_of(err));
    }
}

static void job(struct stele_move *move, void (*work)(struct stele_job *), void (*done)(struct stele_job *))
{
    move->err = STELE_OK;
    move->job = (struct stele_job){.work = work, .done = done};
    stele_controller_job(move->control, &move->job);
}

static void tell(struct stele_move *move, enum stele_trace_kind kind)
{
    char name[STELE_TOPIC_NAME_MAX + 16];
    (void)snprintf(name, sizeof(name), "%s-%d", move->topic, (int)move->how.partition);
    stele_trace(move->control->shard->env, kind, name, stele_log_dirs_path(move->control->dirs, move->how.to), 0, 0, 0);
}

/* The end: files that nobody uses any more. */

static void end(struct stele_move *move)
{
    struct stele_controller *control = move->control;
    move_free(move);
    stele_controller_check_stopped(control);
}

static void deleted(struct stele_job *done)
{
    end(move_of_job(done));
}

/* What this leaves the next start deletes. */
static void delete_work(struct stele_job *work)
{
    struct stele_move *move = move_of_job(work);
    int dir = move->mover.is_moved ? move->how.from : move->how.to;
    enum stele_err err =
        stele_log_dirs_delete_moved(work->env, stele_log_dirs_path(move->control->dirs, dir), &move->how);
    if (err != STELE_OK)
        stele_trace(work->env, STELE_TRACE_LOG_UNLINK_FAILED, move->topic, stele_err_text(err), 0, 0, 0);
}

static void delete_files(struct stele_move *move)
{
    struct stele_env *env = move->control->shard->env;
    move->state = DELETING;
    move->job = (struct stele_job){.work = delete_work, .done = deleted, .lane = move};
    env->ops->job(env, &move->job);
}

static void timer_fired(struct stele_timer *timer)
{
    delete_files(STELE_CONTAINER_OF(timer, struct stele_move, timer));
}

static void dropped(struct stele_job *done)
{
    struct stele_move *move = move_of_job(done);
    tell(move, STELE_TRACE_MOVE_DROPPED);
    if (move->err == STELE_OK && is_serving(move->control))
        delete_files(move);
    else
        end(move);
}

static void drop_work(struct stele_job *work)
{
    struct stele_move *move = move_of_job(work);
    move->err = stele_log_dirs_condemn_copy(move->control->dirs, &move->how);
}

/* A stop leaves the copy: the next start goes on with it. */
static void drop_copy(struct stele_move *move)
{
    if (!is_serving(move->control)) {
        end(move);
        return;
    }
    move->state = DROPPING;
    job(move, drop_work, dropped);
}

static void left(struct stele_job *done)
{
    struct stele_move *move = move_of_job(done);
    struct stele_controller *control = move->control;
    int64_t delay_ms = stele_settings_int(control->node->settings, "log.segment.delete.delay.ms");
    move->state = LEFT;
    if (move->err != STELE_OK)
        stele_controller_look_for_failed(control, move->err, "a move between log directories could not be written");
    if (is_serving(control) && move->err == STELE_OK)
        stele_shard_arm(control->shard, &move->timer,
                        stele_env_mono_ms(control->shard->env) + stele_min_i64(delay_ms, INT32_MAX));
    else
        end(move);
}

static void leave_work(struct stele_job *work)
{
    struct stele_move *move = move_of_job(work);
    move->err = stele_log_dirs_leave(move->control->dirs, &move->how);
}

static void leave(struct stele_move *move)
{
    move->state = LEAVING;
    tell(move, STELE_TRACE_MOVE_ENDED);
    job(move, leave_work, left);
}

/* The partition has no move any more; `then` is what comes of the files. */
static void give_back(struct stele_move *move, void (*then)(struct stele_move *move))
{
    struct stele_controller *control = move->control;
    struct stele_list after;
    stele_list_init(&after);
    while (!stele_list_is_empty(&move->after)) {
        struct stele_list *link = move->after.next;
        stele_list_remove(link);
        stele_list_push(&after, link);
    }
    move->local->move = NULL;
    move->local = NULL;
    then(move);
    while (!stele_list_is_empty(&after)) {
        struct stele_move_ask *ask = STELE_CONTAINER_OF(after.next, struct stele_move_ask, link);
        stele_list_remove(&ask->link);
        stele_moves_ask(control, ask);
    }
    stele_reconcile_stir(&control->reconcile);
}

static void ended(struct stele_mover *mover, enum stele_err err)
{
    struct stele_move *move = move_of(mover);
    (void)err; /* the partition's shard has told */
    give_back(move, mover->is_moved ? leave : drop_copy);
}

/* The swap. */

static void swapped(struct stele_job *done)
{
    struct stele_move *move = move_of_job(done);
    struct stele_controller *control = move->control;
    move->state = MOVING;
    stele_mover_swapped(&move->mover, move->is_swapped, move->err);
    if (move->err != STELE_OK)
        stele_controller_look_for_failed(control, move->err, "a move between log directories could not be written");
}

static void swap_work(struct stele_job *work)
{
    struct stele_move *move = move_of_job(work);
    move->err = stele_log_dirs_swap(move->control->dirs, &move->how, &move->is_swapped);
}

static void written(struct stele_checkpoint_wait *wait, enum stele_err err)
{
    struct stele_move *move = STELE_CONTAINER_OF(wait, struct stele_move, wait);
    if (wait->has_written)
        err = stele_log_dirs_checkpoint_err(move->control->dirs, move->how.to);
    if (err == STELE_OK && move->mover.is_cancelled)
        err = STELE_CANCELLED;
    if (err == STELE_OK) {
        job(move, swap_work, swapped);
        return;
    }
    move->state = MOVING;
    stele_mover_swapped(&move->mover, false, err);
}

static void ready(struct stele_mover *mover)
{
    struct stele_move *move = move_of(mover);
    move->state = SWAPPING;
    move->wait.done = written;
    stele_controller_await_checkpoint(move->control, &move->wait);
}

/* The beginning. */

static void began(struct stele_mover *mover, enum stele_err err)
{
    struct stele_move *move = move_of(mover);
    enum stele_err told = err == STELE_CANCELLED ? STELE_BROKER_NOT_AVAILABLE : err;
    if (err == STELE_OK)
        tell(move, STELE_TRACE_MOVE_BEGAN);
    answer_all(move, told);
    if (err != STELE_OK)
        give_back(move, drop_copy);
}

static bool make_paths(struct stele_move *move)
{
    char path[STELE_PATH_BYTES], name[STELE_TOPIC_NAME_MAX + 32];
    struct stele_controller *control = move->control;
    struct stele_mem *mem = control->shard->env->mem;
    (void)snprintf(name, sizeof(name), "%s-%d-future", move->topic, (int)move->how.partition);
    move->copy_name = stele_mem_string(mem, STELE_MEM_NODE, name);
    (void)snprintf(name, sizeof(name), "%s-%d", move->topic, (int)move->how.partition);
    if (stele_log_dirs_copy_path(control->dirs, &move->how, path) != STELE_OK)
        return false;
    move->copy_path = stele_mem_string(mem, STELE_MEM_NODE, path);
    if (stele_path_join(path, stele_log_dirs_path(control->dirs, move->how.to), name) != STELE_OK)
        return false;
    move->path = stele_mem_string(mem, STELE_MEM_NODE, path);
    move->mover.taken_path = stele_mem_string(mem, STELE_MEM_NODE, path);
    return move->copy_name != NULL && move->copy_path != NULL && move->path != NULL && move->mover.taken_path != NULL;
}

static void begin_moving(struct stele_move *move)
{
    struct stele_mover *mover = &move->mover;
    mover->partition = move->local->partition;
    mover->dir = move->how.to;
    mover->copy_name = move->copy_name;
    mover->copy_path = move->copy_path;
    mover->path = move->path;
    mover->began = began;
    mover->ready = ready;
    mover->ended = ended;
    move->state = MOVING;
    stele_mover_begin(mover);
}

static enum stele_err told_err(enum stele_err err)
{
    switch ((int)err) {
    case STELE_OK:
    case STELE_NO_MEMORY:
    case STELE_NO_SPACE:
        return err;
    case STELE_TOO_LARGE:
        return STELE_INVALID_TOPIC_EXCEPTION;
    default:
        return STELE_KAFKA_STORAGE_ERROR;
    }
}

static void made(struct stele_job *done)
{
    struct stele_move *move = move_of_job(done);
    struct stele_controller *control = move->control;
    enum stele_err err = told_err(move->err);
    if (move->err == STELE_OK && !make_paths(move))
        err = STELE_NO_MEMORY;
    else if (err == STELE_OK && !is_serving(control))
        err = STELE_BROKER_NOT_AVAILABLE;
    else if (err == STELE_OK && move->mover.is_cancelled)
        err = STELE_REPLICA_NOT_AVAILABLE;
    if (move->err != STELE_OK)
        stele_controller_look_for_failed(control, move->err, "the directory of a copy could not be made");
    if (err == STELE_OK) {
        begin_moving(move);
        return;
    }
    answer_all(move, err);
    give_back(move, move->err == STELE_OK ? drop_copy : end);
}

static void make_work(struct stele_job *work)
{
    struct stele_move *move = move_of_job(work);
    char path[STELE_PATH_BYTES];
    move->err = stele_log_dirs_begin_move(move->control->dirs, &move->how, path);
}

/* NULL without memory. */
static struct stele_move *move_new(struct stele_controller *control, struct stele_local *local, int to)
{
    struct stele_mem *mem = control->shard->env->mem;
    const struct stele_partition *partition = local->partition;
    struct stele_move *move = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*move));
    if (move == NULL)
        return NULL;
    move->control = control;
    move->topic = stele_mem_string(mem, STELE_MEM_NODE, partition->topic);
    move->how = (struct stele_log_dirs_move){.topic = move->topic,
                                             .partition = local->key.number,
                                             .topic_id = local->key.topic_id,
                                             .from = partition->dir,
                                             .to = to};
    stele_list_init(&move->asks);
    stele_list_init(&move->after);
    stele_list_init(&move->wait.link);
    stele_timer_init(&move->timer, timer_fired);
    stele_list_push(&control->moves.all, &move->link);
    if (move->topic == NULL) {
        move_free(move);
        return NULL;
    }
    move->local = local;
    local->move = move;
    return move;
}

/* Why a partition cannot be moved; it has no move. */
static enum stele_err check(const struct stele_controller *control, const struct stele_local *local, int dir)
{
    const struct stele_partition *partition = local->partition;
    if (stele_log_dirs_is_offline(control->dirs, dir) || partition->path[0] == 0 ||
        stele_log_dirs_is_offline(control->dirs, partition->dir))
        return STELE_KAFKA_STORAGE_ERROR;
    return STELE_OK;
}

void stele_moves_ask(struct stele_controller *control, struct stele_move_ask *ask)
{
    struct stele_local *local = stele_reconcile_find(&control->reconcile, &ask->key);
    stele_list_init(&ask->link);
    if (!is_serving(control)) {
        answer(ask, STELE_BROKER_NOT_AVAILABLE, text_of(STELE_BROKER_NOT_AVAILABLE));
        return;
    }
    if (local == NULL || local->state != STELE_LOCAL_OPEN ||
        stele_reconcile__wants(&control->reconcile, &ask->key) == NULL) {
        answer(ask, STELE_REPLICA_NOT_AVAILABLE, "this node has no replica of it, or not yet");
        return;
    }
    struct stele_move *move = local->move;
    if (move != NULL) {
        bool is_same = move->how.to == ask->dir && !move->mover.is_cancelled;
        if (!is_same) {
            move->mover.is_cancelled = true;
            stele_list_push(&move->after, &ask->link);
        } else if (move->state == MAKING) {
            stele_list_push(&move->asks, &ask->link);
        } else {
            answer(ask, STELE_OK, "");
        }
        return;
    }
    enum stele_err err = check(control, local, ask->dir);
    if (err != STELE_OK || local->partition->dir == ask->dir) {
        answer(ask, err, text_of(err));
        return;
    }
    move = move_new(control, local, ask->dir);
    if (move == NULL) {
        answer(ask, STELE_NO_MEMORY, "");
        return;
    }
    stele_list_push(&move->asks, &ask->link);
    job(move, make_work, made);
}

static void resume(struct stele_controller *control, const struct stele_found_future *future)
{
    struct stele_partition_key key = {.topic_id = future->log.topic_id, .number = future->log.partition};
    struct stele_local *local = stele_reconcile_find(&control->reconcile, &key);
    if (local == NULL || local->state != STELE_LOCAL_OPEN || local->move != NULL ||
        check(control, local, future->log.dir) != STELE_OK || local->partition->dir == future->log.dir)
        return;
    struct stele_move *move = move_new(control, local, future->log.dir);
    if (move == NULL)
        return; /* the next start has another chance */
    memcpy(move->how.mark, future->mark, sizeof(move->how.mark));
    move->mover.is_resumed = true;
    if (make_paths(move)) {
        begin_moving(move);
        return;
    }
    local->move = NULL;
    move_free(move);
}

void stele_moves_resume(struct stele_controller *control)
{
    for (int i = 0; i < stele_log_dirs_future_count(control->dirs); i++)
        resume(control, stele_log_dirs_future(control->dirs, i));
}

bool stele_moves_hold(struct stele_local *local)
{
    if (local->move != NULL)
        local->move->mover.is_cancelled = true;
    return local->move != NULL;
}

/* Life. */

void stele_moves_init(struct stele_moves *moves)
{
    stele_list_init(&moves->all);
}

void stele_moves_free(struct stele_controller *control)
{
    while (!stele_list_is_empty(&control->moves.all))
        move_free(move_at(control->moves.all.next));
}

void stele_moves_stop(struct stele_controller *control)
{
    struct stele_list *all = &control->moves.all, *at = all->next;
    while (at != all) {
        struct stele_move *move = move_at(at);
        at = at->next;
        if (move->state == LEFT)
            move_free(move);
    }
}

bool stele_moves_are_idle(const struct stele_controller *control)
{
    const struct stele_list *all = &control->moves.all;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        if (move_at(at)->state != LEFT)
            return false;
    }
    return true;
}
