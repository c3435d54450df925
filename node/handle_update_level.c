/* The level of the cluster's records: raised by a turn, when every registered node can run it. It never goes back, for
 * the records that a level brought stay in the log. */
#include "node/node_struct.h"
#include "node/server_call.h"

#include <string.h>

struct level_call {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_controller *control;
    struct stele_active_turn turn;
};

static void home(struct stele_task *task)
{
    stele_server_call_done(STELE_CONTAINER_OF(task, struct level_call, task)->call);
}

static void answer(struct level_call *level, enum stele_err err, const char *message)
{
    struct stele_server_call *call = level->call;
    const char *kept = stele_arena_string(&call->arena, message, strlen(message));
    call->response.body.update_level =
        (struct stele_update_level_response){.err = err, .message = kept != NULL ? kept : ""};
    level->task.run = home;
    stele_shard_send(level->control->shard, call->shard, &level->task);
}

/* Who votes reads every record, and says what it can run when it registers. */
static enum stele_err check_voters(const struct level_call *level, struct stele_error *error)
{
    const struct stele_metadata_log *mlog = &level->control->mlog;
    const struct stele_voters *voters = stele_quorum_voters(&mlog->quorum);
    for (int32_t i = 0; i < voters->count && level->control->peers.shard != NULL; i++) {
        if (stele_image_member_of(&mlog->image, voters->keys[i].node_id) == NULL)
            return stele_error_set(error, STELE_FEATURE_UPDATE_FAILED,
                                   "node %d votes and has not registered, so nobody knows which levels it runs: start "
                                   "it, or take it out of the voters",
                                   (int)voters->keys[i].node_id);
    }
    return STELE_OK;
}

static enum stele_err check(const struct level_call *level, int32_t wanted, struct stele_error *error)
{
    const struct stele_image *image = &level->control->mlog.image;
    if (wanted < image->level)
        return stele_error_set(error, STELE_FEATURE_UPDATE_FAILED,
                               "the cluster is at level %d: a level never goes back, not to %d", (int)image->level,
                               (int)wanted);
    if (wanted > STELE_METADATA_LEVEL)
        return stele_error_set(error, STELE_FEATURE_UPDATE_FAILED,
                               "the controller's version runs levels up to %d: bring every node to a newer one first",
                               (int)STELE_METADATA_LEVEL);
    for (const struct stele_image_member *member = image->members; member != NULL; member = member->next) {
        if (wanted < member->level_min || wanted > member->level_max)
            return stele_error_set(error, STELE_FEATURE_UPDATE_FAILED,
                                   "node %d (version %.60s) runs levels %d to %d: bring it to another version, or "
                                   "unregister it when it is gone",
                                   (int)member->node_id, member->software_version, (int)member->level_min,
                                   (int)member->level_max);
    }
    return check_voters(level, error);
}

static void begin(struct stele_active_turn *turn)
{
    struct level_call *level = STELE_CONTAINER_OF(turn, struct level_call, turn);
    int32_t wanted = level->call->request.body.update_level.level;
    struct stele_error error = {.text = ""};
    enum stele_err err = check(level, wanted, &error);
    if (err == STELE_OK && wanted != level->control->mlog.image.level)
        err = stele_active_add(
            turn, &(struct stele_metadata_record){.kind = STELE_METADATA_LEVEL_CHANGE, .u.level = {.level = wanted}});
    if (err == STELE_OK) {
        stele_active_write(turn);
        return;
    }
    stele_active_end(turn);
    answer(level, err, error.text[0] != 0 ? error.text : stele_metadata_log_why(err));
}

static void done(struct stele_active_turn *turn, enum stele_err err)
{
    answer(STELE_CONTAINER_OF(turn, struct level_call, turn), err, err == STELE_OK ? "" : stele_metadata_log_why(err));
}

static void arrived(struct stele_task *task)
{
    struct level_call *level = STELE_CONTAINER_OF(task, struct level_call, task);
    if (level->control->state != STELE_CONTROLLER_SERVING)
        answer(level, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    else
        stele_active_take(&level->control->active, &level->turn);
}

/* Only when the node ends in the middle is it still in turn. */
static void release(struct stele_server_call *call)
{
    struct level_call *level = call->state;
    stele_active_drop(&level->turn);
}

void stele_handle_update_level(struct stele_server_call *call)
{
    struct level_call *level = stele_arena_alloc(&call->arena, sizeof(*level));
    if (level == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    level->call = call;
    level->control = &call->shard->node->control;
    level->turn = (struct stele_active_turn){.begin = begin, .done = done};
    call->state = level;
    call->release = release;
    level->task.run = arrived;
    stele_shard_send(call->shard, level->control->shard, &level->task);
}
