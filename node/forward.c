#include "node/forward.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/peers.h"
#include "node/server_call.h"
#include "node/session.h"

#include <stdio.h>
#include <string.h>

enum {
    FOREVER_MS = 1000000,
    GRACE_MS = 500, /* the controller answers at the time-out; that has a way to go */
    SET_UP_TIMEOUT_MS = 2000,
    BACKOFF_MS = 20,
    BACKOFF_MAX_MS = 250,
    REFUSED_MS = 50, /* until the next try */
    APPLY_MS = 5000, /* for the image to hold what was done */
    STOP_MS = 1000
};

static const char nothing_done[] = "no controller could be asked in time, and nothing was done: try again, or look why "
                                   "the metadata quorum has no leader";
static const char not_known[] = "the controller was asked and did not answer: whether it was done is not known; look, "
                                "then try again";
static const char stopping[] = "the node stops, and nothing was done: ask another";

static int64_t now_ms_of(const struct stele_forward *forward)
{
    return stele_env_mono_ms(forward->control->shard->env);
}

static bool is_controller(const struct stele_controller *control)
{
    return control->state == STELE_CONTROLLER_SERVING && control->active.is_active;
}

/* Ends. */

static void finish(struct stele_forward_ask *ask, enum stele_forward_end how)
{
    stele_list_remove(&ask->link);
    ask->forward->count--;
    ask->forward = NULL;
    ask->done(ask, how);
}

static void finish_with(struct stele_forward_ask *ask, enum stele_err err, const char *message)
{
    stele_forward__answer_with(ask->response, ask->request->header.api, err, message);
    finish(ask, STELE_FORWARD_ANSWERED);
}

static void wait_again(struct stele_forward_ask *ask)
{
    struct stele_forward *forward = ask->forward;
    ask->on = NULL;
    if (forward->is_stopping) {
        finish_with(ask, STELE_NOT_CONTROLLER, stopping);
        return;
    }
    stele_list_push(&forward->waiting, &ask->link);
}

/* What it leaves may be done or not. */
static void lost(struct stele_forward_ask *ask)
{
    if (stele_forward__is_change(ask->request))
        finish_with(ask, STELE_REQUEST_TIMED_OUT, not_known);
    else
        wait_again(ask);
}

static void answered(struct stele_forward_ask *ask, const struct stele_answer *answer)
{
    struct stele_forward *forward = ask->forward;
    int64_t now_ms = now_ms_of(forward);
    if (answer->response->header.is_refused) {
        forward->retry_ms = now_ms + REFUSED_MS;
        wait_again(ask);
        return;
    }
    size_t bytes = (size_t)(answer->records - answer->frame->bytes);
    if (stele_response_decode(ask->arena, answer->frame->bytes, bytes, ask->response) != STELE_OK) {
        finish(ask, STELE_FORWARD_NO_MEMORY); /* the link could decode it */
        return;
    }
    if (stele_forward__err_of(ask->response, ask->request->header.api) ==
        STELE_NOT_CONTROLLER) { /* it lost that in the middle */
        forward->retry_ms = now_ms + REFUSED_MS;
        lost(ask);
        return;
    }
    ask->apply_offset = ask->response->header.metadata_offset;
    ask->response->header.metadata_offset = 0;
    if (!stele_forward__is_change(ask->request) || ask->apply_offset <= forward->control->mlog.applied_offset) {
        finish(ask, STELE_FORWARD_ANSWERED);
        return;
    }
    ask->deadline_ms = now_ms + APPLY_MS;
    stele_list_push(&forward->applying, &ask->link);
}

static void call_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_forward_ask *ask = STELE_CONTAINER_OF(call, struct stele_forward_ask, call);
    struct stele_forward *forward = ask->forward;
    ask->on->ask = NULL;
    ask->on = NULL;
    if (err == STELE_OK)
        answered(ask, answer);
    else if (call->is_sent)
        lost(ask);
    else
        wait_again(ask);
    stele_forward_look(forward);
}

/* Sending. */

static int32_t leader_of(const struct stele_forward *forward)
{
    const struct stele_metadata_log *mlog = &forward->control->mlog;
    return mlog->is_running ? mlog->quorum.election.leader_id : STELE_NO_NODE;
}

static void next_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    struct stele_forward_link *of = STELE_CONTAINER_OF(link, struct stele_forward_link, link);
    const struct stele_peer *peer = stele_peers_find(&of->forward->control->peers, of->node_id);
    STELE_ASSERT(peer != NULL);
    memcpy(out_address, peer->address, sizeof(peer->address));
}

static struct stele_forward_link *idle_link(struct stele_forward *forward)
{
    for (int i = 0; i < STELE_FORWARD_LINKS; i++) {
        if (forward->links[i].ask == NULL)
            return &forward->links[i];
    }
    return NULL;
}

static void send_on(struct stele_forward_link *on, struct stele_forward_ask *ask, int32_t leader_id)
{
    if (on->link.conn != NULL && on->node_id != leader_id)
        stele_link_drop(&on->link);
    if (on->node_id != leader_id)
        on->link.backoff = (struct stele_backoff){0};
    on->node_id = leader_id;
    ask->call = (struct stele_call){.done = call_done};
    stele_list_remove(&ask->link);
    on->ask = ask;
    ask->on = on;
    struct stele_request copy = *ask->request; /* the link has a header of its own */
    enum stele_err err = stele_link_call(&on->link, &ask->call, &copy, NULL);
    if (err != STELE_OK) {
        on->ask = NULL;
        ask->on = NULL;
        finish_with(ask, err, stele_err_text(err));
        return;
    }
    ask->call.deadline_ms = ask->deadline_ms + GRACE_MS;
}

/* Those that wait for a connection to a node that does not lead any more. */
static void take_back(struct stele_forward *forward, int32_t leader_id)
{
    for (int i = 0; i < STELE_FORWARD_LINKS; i++) {
        struct stele_forward_link *on = &forward->links[i];
        struct stele_forward_ask *ask = on->ask;
        if (ask == NULL || ask->call.is_sent || on->node_id == leader_id)
            continue;
        on->ask = NULL;
        stele_link_cancel(&on->link, &ask->call);
        stele_link_drop(&on->link);
        wait_again(ask);
    }
}

static void finish_applied(struct stele_forward *forward, int64_t now_ms)
{
    struct stele_list *at = forward->applying.next;
    while (at != &forward->applying) {
        struct stele_forward_ask *ask = STELE_CONTAINER_OF(at, struct stele_forward_ask, link);
        at = at->next;
        if (ask->apply_offset <= forward->control->mlog.applied_offset || ask->deadline_ms <= now_ms)
            finish(ask, STELE_FORWARD_ANSWERED);
    }
}

static void finish_late(struct stele_forward *forward, int64_t now_ms)
{
    struct stele_list *at = forward->waiting.next;
    while (at != &forward->waiting) {
        struct stele_forward_ask *ask = STELE_CONTAINER_OF(at, struct stele_forward_ask, link);
        at = at->next;
        if (ask->deadline_ms <= now_ms)
            finish_with(ask, STELE_NOT_CONTROLLER, nothing_done);
    }
}

static void send_waiting(struct stele_forward *forward, int64_t now_ms)
{
    int32_t leader_id = leader_of(forward);
    while (!stele_list_is_empty(&forward->waiting)) {
        struct stele_forward_ask *ask = STELE_CONTAINER_OF(forward->waiting.next, struct stele_forward_ask, link);
        if (is_controller(forward->control)) {
            finish(ask, STELE_FORWARD_HERE);
            continue;
        }
        struct stele_forward_link *on = idle_link(forward);
        if (on == NULL || now_ms < forward->retry_ms || stele_peers_find(&forward->control->peers, leader_id) == NULL)
            return;
        send_on(on, ask, leader_id);
    }
}

static void arm(struct stele_forward *forward)
{
    int64_t deadline_ms = stele_list_is_empty(&forward->waiting) || forward->retry_ms <= now_ms_of(forward)
                              ? INT64_MAX
                              : forward->retry_ms;
    for (int i = 0; i < STELE_FORWARD_LINKS; i++)
        deadline_ms = stele_min_i64(deadline_ms, stele_link_deadline(&forward->links[i].link));
    const struct stele_list *const lists[] = {&forward->waiting, &forward->applying};
    for (size_t i = 0; i < STELE_ARRAY_LEN(lists); i++) {
        for (struct stele_list *at = lists[i]->next; at != lists[i]; at = at->next)
            deadline_ms =
                stele_min_i64(deadline_ms, STELE_CONTAINER_OF(at, struct stele_forward_ask, link)->deadline_ms);
    }
    if (deadline_ms == INT64_MAX)
        stele_timer_cancel(forward->control->shard->wheel, &forward->timer);
    else
        stele_shard_arm(forward->control->shard, &forward->timer, deadline_ms);
}

void stele_forward_look(struct stele_forward *forward)
{
    if (!forward->is_open || forward->is_looking || forward->control->node->is_freeing)
        return;
    forward->is_looking = true;
    int64_t now_ms = now_ms_of(forward);
    finish_applied(forward, now_ms);
    take_back(forward, leader_of(forward));
    finish_late(forward, now_ms);
    send_waiting(forward, now_ms);
    forward->is_looking = false;
    arm(forward);
}

static void fired(struct stele_timer *timer)
{
    struct stele_forward *forward = STELE_CONTAINER_OF(timer, struct stele_forward, timer);
    int64_t now_ms = now_ms_of(forward);
    for (int i = 0; i < STELE_FORWARD_LINKS; i++)
        stele_link_tick(&forward->links[i].link, now_ms);
    stele_forward_look(forward);
}

static void link_changed(struct stele_link *link, enum stele_err err)
{
    (void)err;
    stele_forward_look(STELE_CONTAINER_OF(link, struct stele_forward_link, link)->forward);
}

void stele_forward_take(struct stele_forward *forward, struct stele_forward_ask *ask)
{
    STELE_ASSERT(forward->is_open && ask->forward == NULL);
    ask->forward = forward;
    forward->count++;
    ask->deadline_ms = now_ms_of(forward) + stele_forward__time_out_ms(ask->request);
    stele_list_init(&ask->link);
    if (forward->is_stopping) {
        finish_with(ask, STELE_NOT_CONTROLLER, stopping);
    } else if (is_controller(forward->control)) {
        finish(ask, STELE_FORWARD_HERE);
    } else if (forward->count > STELE_FORWARD_MAX) {
        finish_with(ask, STELE_THROTTLING_QUOTA_EXCEEDED,
                    "too many requests wait for the controller, and nothing was done: try again later");
    } else {
        stele_list_push(&forward->waiting, &ask->link);
        stele_forward_look(forward);
    }
}

void stele_forward_drop(struct stele_forward_ask *ask)
{
    if (ask->forward == NULL)
        return;
    struct stele_forward_link *on = ask->on;
    stele_list_remove(&ask->link);
    ask->forward->count--;
    ask->forward = NULL;
    if (on != NULL) {
        on->ask = NULL;
        stele_link_cancel(&on->link, &ask->call);
    }
}

/* Life. */

void stele_forward_open(struct stele_forward *forward, struct stele_controller *control)
{
    *forward = (struct stele_forward){.control = control, .is_open = true};
    stele_list_init(&forward->waiting);
    stele_list_init(&forward->applying);
    stele_timer_init(&forward->timer, fired);
    stele_link_group_init(&forward->group, control->shard->env, control->shard->net, STELE_MEM_METADATA);
    forward->group.client_id = "forward";
    forward->group.software_name = "steled";
    forward->group.role = STELE_ROLE_NODE;
    forward->group.node_id = control->node->node_id;
    forward->group.cluster_id = control->peers.cluster_id;
    forward->group.request_timeout_ms = FOREVER_MS; /* each ask has a time-out of its own */
    forward->group.set_up_timeout_ms = SET_UP_TIMEOUT_MS;
    forward->group.backoff_ms = BACKOFF_MS;
    forward->group.backoff_max_ms = BACKOFF_MAX_MS;
    forward->group.in_flight_max = 1;
    for (int i = 0; i < STELE_FORWARD_LINKS; i++) {
        struct stele_forward_link *on = &forward->links[i];
        on->forward = forward;
        on->node_id = STELE_NO_NODE;
        stele_link_init(&on->link, &forward->group);
        on->link.next_address = next_address;
        on->link.changed = link_changed;
    }
}

void stele_forward_stop(struct stele_forward *forward)
{
    if (!forward->is_open || forward->is_stopping)
        return;
    int64_t until_ms = now_ms_of(forward) + STOP_MS;
    forward->is_stopping = forward->is_looking = true;
    take_back(forward, STELE_NO_NODE);
    forward->is_looking = false;
    for (int i = 0; i < STELE_FORWARD_LINKS; i++) {
        struct stele_forward_ask *ask = forward->links[i].ask;
        if (ask != NULL)
            ask->call.deadline_ms = stele_min_i64(ask->call.deadline_ms, until_ms);
    }
    while (!stele_list_is_empty(&forward->waiting))
        finish_with(STELE_CONTAINER_OF(forward->waiting.next, struct stele_forward_ask, link), STELE_NOT_CONTROLLER,
                    stopping);
    while (!stele_list_is_empty(&forward->applying))
        finish(STELE_CONTAINER_OF(forward->applying.next, struct stele_forward_ask, link), STELE_FORWARD_ANSWERED);
    arm(forward);
}

void stele_forward_end(struct stele_forward *forward)
{
    if (!forward->is_open)
        return;
    STELE_ASSERT(forward->count == 0);
    forward->is_open = false;
    for (int i = 0; i < STELE_FORWARD_LINKS; i++)
        stele_link_close(&forward->links[i].link);
    stele_timer_cancel(forward->control->shard->wheel, &forward->timer);
    stele_link_group_deinit(&forward->group);
}

/* Calls. */

struct forwarded {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is the control shard's until the task goes home */
    void (*handle)(struct stele_server_call *call);
    struct stele_forward_ask ask;
    enum stele_forward_end how;
};

static void release(struct stele_server_call *call)
{
    struct forwarded *forwarded = call->state;
    stele_forward_drop(&forwarded->ask); /* only when the node ends in the middle */
}

static void home(struct stele_task *task)
{
    struct forwarded *forwarded = STELE_CONTAINER_OF(task, struct forwarded, task);
    struct stele_server_call *call = forwarded->call;
    call->release = NULL;
    call->state = NULL;
    switch (forwarded->how) {
    case STELE_FORWARD_HERE:
        forwarded->handle(call);
        break;
    case STELE_FORWARD_ANSWERED:
        stele_server_call_done(call);
        break;
    case STELE_FORWARD_NO_MEMORY:
        stele_server_call_fail(call, "memory ran out");
        break;
    }
}

static void go_home(struct forwarded *forwarded, enum stele_forward_end how)
{
    struct stele_server_call *call = forwarded->call;
    forwarded->how = how;
    forwarded->task.run = home;
    stele_shard_send(call->shard->node->control.shard, call->shard, &forwarded->task);
}

static void refuse(struct stele_server_call *call)
{
    stele_forward__answer_with(&call->response, call->request.header.api, STELE_NOT_CONTROLLER,
                               "this node is not the controller, and nothing was done");
    call->response.header.is_refused = true;
}

static void ask_done(struct stele_forward_ask *ask, enum stele_forward_end how)
{
    go_home(STELE_CONTAINER_OF(ask, struct forwarded, ask), how);
}

static void arrived(struct stele_task *task)
{
    struct forwarded *forwarded = STELE_CONTAINER_OF(task, struct forwarded, task);
    struct stele_server_call *call = forwarded->call;
    struct stele_controller *control = &call->shard->node->control;
    if (!call->session->is_of_node) {
        stele_forward_take(&control->forward, &forwarded->ask);
    } else if (is_controller(control)) {
        call->tells_offset = true;
        go_home(forwarded, STELE_FORWARD_HERE);
    } else {
        refuse(call);
        go_home(forwarded, STELE_FORWARD_ANSWERED);
    }
}

/* To the controller this node is another one. */
static bool name_self(struct stele_server_call *call)
{
    struct stele_alter_settings_request *request = &call->request.body.alter_settings;
    char text[16];
    if (call->request.header.api != STELE_API_ALTER_SETTINGS || request->kind != STELE_SUBJECT_NODE ||
        request->subject[0] != 0)
        return true;
    (void)snprintf(text, sizeof(text), "%d", (int)call->shard->node->node_id);
    request->subject = stele_arena_string(&call->arena, text, strlen(text));
    return request->subject != NULL;
}

bool stele_forward_call(struct stele_server_call *call, void (*handle)(struct stele_server_call *call))
{
    struct stele_node *node = call->shard->node;
    /* Whether there are peers is constant once the node is ready. */
    if (!node->is_ready || node->control.peers.shard == NULL || !stele_forward__is_for_controller(&call->request))
        return false;
    struct forwarded *forwarded = stele_arena_alloc(&call->arena, sizeof(*forwarded));
    if (forwarded == NULL || !name_self(call)) {
        stele_server_call_fail(call, "memory ran out");
        return true;
    }
    *forwarded = (struct forwarded){.task = {.run = arrived}, .call = call, .handle = handle};
    forwarded->ask = (struct stele_forward_ask){
        .request = &call->request, .response = &call->response, .arena = &call->arena, .done = ask_done};
    stele_list_init(&forwarded->ask.link);
    call->state = forwarded;
    call->release = release;
    stele_shard_send(call->shard, node->control.shard, &forwarded->task);
    return true;
}

bool stele_forward_refuse(struct stele_server_call *call)
{
    if (!call->session->is_of_node || !stele_forward__is_for_controller(&call->request))
        return false;
    refuse(call);
    stele_server_call_done(call);
    return true;
}
