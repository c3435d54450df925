/* Who votes in the metadata quorum: one is added, removed or readmitted with another disk (KIP-853). The quorum's
 * machine decides and has the records written; what it refuses because it is too early for it is tried again until the
 * request's time is over: the node is to have all of the log, and one change is made at a time. */
#include "node/node_struct.h"
#include "node/server_call.h"

#include <string.h>

enum { TIME_OUT_MS = 10000, TIME_OUT_MS_MAX = 600000, RETRY_MS = 100 };

struct stele_voters_call {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_controller *control;
    struct stele_quorum_input input;
    struct stele_timer timer; /* the next try */
    int64_t deadline_ms;
};

static void home(struct stele_task *task)
{
    stele_server_call_done(STELE_CONTAINER_OF(task, struct stele_voters_call, task)->call);
}

static void answer(struct stele_voters_call *voters, enum stele_err err, const char *message)
{
    struct stele_server_call *call = voters->call;
    call->response.body.alter_voters = (struct stele_alter_voters_response){.err = err, .message = message};
    voters->task.run = home;
    stele_shard_send(voters->control->shard, call->shard, &voters->task);
}

static enum stele_quorum_change_kind kind_of(enum stele_voter_change change)
{
    switch (change) {
    case STELE_VOTER_ADD:
        return STELE_QUORUM_ADD_VOTER;
    case STELE_VOTER_REMOVE:
        return STELE_QUORUM_REMOVE_VOTER;
    case STELE_VOTER_READMIT:
        break;
    }
    return STELE_QUORUM_READMIT_VOTER;
}

/* The disk that the node has now, when none was named: of one that is to go the voter's, else that which fetches.
 * False: there is none. */
static bool find_key(const struct stele_voters_call *voters, struct stele_replica_key *out_key)
{
    const struct stele_alter_voters_request *request = &voters->call->request.body.alter_voters;
    const struct stele_quorum *quorum = &voters->control->mlog.quorum;
    const struct stele_voters *all = stele_quorum_voters(quorum);
    int64_t contact_ms = -1;
    *out_key = (struct stele_replica_key){.node_id = request->node_id, .directory_id = request->directory_id};
    if (!stele_uuid_is_zero(&request->directory_id))
        return true;
    int32_t at = stele_voters_find_node(all, request->node_id);
    if (at >= 0)
        *out_key = all->keys[at];
    if (request->change == STELE_VOTER_REMOVE)
        return at >= 0;
    for (int32_t i = 0; i < quorum->observer_count; i++) {
        const struct stele_quorum_progress *observer = &quorum->observers[i];
        if (observer->key.node_id != request->node_id || observer->contact_ms <= contact_ms)
            continue;
        contact_ms = observer->contact_ms;
        *out_key = observer->key;
    }
    return at >= 0 || contact_ms >= 0; /* of a voter without another disk the machine says so */
}

static const char *text_of(enum stele_err err, bool is_written)
{
    switch ((int)err) {
    case STELE_OK:
        return "";
    case STELE_REQUEST_TIMED_OUT:
        return is_written ? "it was written, but no majority had it in time: it may still be done; look at the quorum"
                          : "nothing was changed: the node does not have all of the metadata log yet, too few voters "
                            "are in touch, or another change is under way";
    case STELE_DUPLICATE_VOTER:
        return "that node votes already, with the disk that it has";
    case STELE_VOTER_NOT_FOUND:
        return "that node, or that disk of it, does not vote";
    case STELE_INVALID_REQUEST:
        return "the last voter cannot go, a leader cannot readmit itself, and there may be 16 voters at most";
    case STELE_NOT_CONTROLLER:
        return stele_metadata_log_why(err);
    }
    return stele_err_text(err);
}

static void end(struct stele_voters_call *voters, enum stele_err err, bool is_written)
{
    if (err == STELE_NOT_LEADER_OR_FOLLOWER)
        err = STELE_NOT_CONTROLLER;
    answer(voters, err, text_of(err, is_written));
}

static void try_later(struct stele_voters_call *voters)
{
    struct stele_controller *control = voters->control;
    int64_t now_ms = stele_env_mono_ms(control->shard->env);
    if (now_ms >= voters->deadline_ms)
        end(voters, STELE_REQUEST_TIMED_OUT, false);
    else
        stele_shard_arm(control->shard, &voters->timer, stele_min_i64(voters->deadline_ms, now_ms + RETRY_MS));
}

void stele_voters_call_ended(struct stele_controller *control, enum stele_err err)
{
    struct stele_voters_call *voters = control->voters_call;
    control->voters_call = NULL;
    if (voters != NULL) /* NULL: its node ends, or it began under another leader's life */
        end(voters, err, true);
}

static void fed(struct stele_quorum_input *input, const struct stele_quorum_answer *none)
{
    struct stele_voters_call *voters = STELE_CONTAINER_OF(input, struct stele_voters_call, input);
    const struct stele_quorum_update *update = &voters->control->mlog.update;
    (void)none;
    if (!update->has_change_refused)
        voters->control->voters_call = voters;
    else if (update->change_err == STELE_REQUEST_TIMED_OUT)
        try_later(voters);
    else
        end(voters, update->change_err, false);
}

static void feed(struct stele_voters_call *voters)
{
    struct stele_controller *control = voters->control;
    struct stele_replica_key key;
    if (control->state != STELE_CONTROLLER_SERVING || !control->active.is_active) {
        answer(voters, STELE_NOT_CONTROLLER, "this node is not the controller any more, and nothing was changed");
        return;
    }
    if (!find_key(voters, &key)) {
        if (voters->call->request.body.alter_voters.change == STELE_VOTER_REMOVE)
            end(voters, STELE_VOTER_NOT_FOUND, false);
        else
            try_later(voters); /* it may come */
        return;
    }
    enum stele_quorum_change_kind kind = kind_of(voters->call->request.body.alter_voters.change);
    voters->input = (struct stele_quorum_input){
        .event = {.kind = STELE_QUORUM_CHANGE, .u.change = {.kind = kind, .key = key}}, .done = fed};
    stele_metadata_log_feed(&control->mlog, &voters->input);
}

static void fired(struct stele_timer *timer)
{
    feed(STELE_CONTAINER_OF(timer, struct stele_voters_call, timer));
}

static void arrived(struct stele_task *task)
{
    struct stele_voters_call *voters = STELE_CONTAINER_OF(task, struct stele_voters_call, task);
    int64_t wait_ms = voters->call->request.body.alter_voters.timeout_ms;
    voters->deadline_ms = stele_env_mono_ms(voters->control->shard->env) +
                          (wait_ms > 0 ? stele_min_i64(wait_ms, TIME_OUT_MS_MAX) : TIME_OUT_MS);
    feed(voters);
}

/* Held only when the node ends in the middle. */
static void release(struct stele_server_call *call)
{
    struct stele_voters_call *voters = call->state;
    struct stele_controller *control = voters->control;
    if (!control->node->is_freeing)
        return;
    stele_timer_cancel(control->shard->wheel, &voters->timer);
    stele_list_remove(&voters->input.link);
    if (control->voters_call == voters)
        control->voters_call = NULL;
}

void stele_handle_alter_voters(struct stele_server_call *call)
{
    struct stele_voters_call *voters = stele_arena_alloc(&call->arena, sizeof(*voters));
    if (voters == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    voters->call = call;
    voters->control = &call->shard->node->control;
    stele_list_init(&voters->input.link);
    stele_timer_init(&voters->timer, fired);
    call->state = voters;
    call->release = release;
    voters->task.run = arrived;
    stele_shard_send(call->shard, voters->control->shard, &voters->task);
}
