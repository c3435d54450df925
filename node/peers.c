#include "node/peers.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "proto/record_batch.h"

#include <stdio.h>
#include <string.h>

enum {
    REQUEST_TIMEOUT_MS = 2000,
    SET_UP_TIMEOUT_MS = 2000,
    BACKOFF_MS = 20,
    BACKOFF_MAX_MS = 250,
    IN_FLIGHT_MAX = 16,
    MISNAMED_MAX = 40, /* some seconds of them */
    FETCH_WAIT_MS = 500,
    FETCH_BYTES = 1 << 20,
    SNAPSHOT_BYTES = 1 << 20
};

/* A request of the machine, then its answer. */
struct peer_call {
    struct stele_list link;
    struct stele_peer *peer;
    struct stele_call call;
    int64_t offset; /* FETCH: where it reads */
    struct stele_quorum_input input;
};

static void tick(struct stele_timer *timer);
static void arm(struct stele_peers *peers);

static struct stele_peer *peer_of(struct stele_link *link)
{
    struct stele_peers *peers = STELE_CONTAINER_OF(link->group, struct stele_peers, group);
    int at = 0;
    while (at < peers->count && &peers->items[at].control != link && &peers->items[at].fetch != link)
        at++;
    STELE_ASSERT(at < peers->count);
    return &peers->items[at];
}

static void next_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    const struct stele_peer *peer = peer_of(link);
    memcpy(out_address, peer->address, sizeof(peer->address));
}

static bool is_fetch(const struct peer_call *ask)
{
    enum stele_quorum_message kind = ask->input.event.u.answer.answer.kind;
    return kind == STELE_QUORUM_FETCH || kind == STELE_QUORUM_FETCH_SNAPSHOT;
}

static struct stele_link *link_of(struct peer_call *ask)
{
    return is_fetch(ask) ? &ask->peer->fetch : &ask->peer->control;
}

/* What the machine is told. */

static void closed_done(struct stele_quorum_input *input, const struct stele_quorum_answer *answer)
{
    struct stele_peer *peer = STELE_CONTAINER_OF(input, struct stele_peer, closed);
    (void)answer;
    peer->is_closed_queued = false;
}

static void tell_closed(struct stele_peer *peer)
{
    struct stele_peers *peers = peer->peers;
    if (peer->is_closed_queued || peers->is_ended || !peers->mlog->is_running)
        return;
    peer->is_closed_queued = true;
    peer->closed = (struct stele_quorum_input){.event = {.kind = STELE_QUORUM_CLOSED, .u.node_id = peer->node_id},
                                               .done = closed_done};
    stele_metadata_log_feed(peers->mlog, &peer->closed);
}

static void drop_call(struct peer_call *ask)
{
    stele_list_remove(&ask->link);
    stele_list_remove(&ask->input.link);
    stele_buf_unref(ask->input.records);
    stele_mem_free(ask->peer->peers->shard->env->mem, ask);
}

static void tell_change(struct stele_peer *peer, enum stele_err err)
{
    struct stele_peers *peers = peer->peers;
    bool was_up = peer->is_up;
    peer->is_up = err == STELE_OK;
    peer->is_gone = err != STELE_OK && !was_up && err != STELE_CANCELLED;
    if (peers->changed != NULL && err != STELE_CANCELLED)
        peers->changed(peers, peer, was_up);
}

/* Once until it greets: it is tried again many times a second. */
static void trace_senseless(struct stele_peer *peer, const struct stele_link *link, enum stele_err err)
{
    bool is_senseless = err == STELE_MALFORMED || err == STELE_TOO_LARGE;
    if (is_senseless && !peer->is_senseless)
        stele_trace(peer->peers->shard->env, STELE_TRACE_PEER_SENSELESS, link->address, stele_err_text(err),
                    peer->node_id, 0, 0);
    peer->is_senseless = err != STELE_OK && (is_senseless || peer->is_senseless);
}

/* The connection could not be made or is gone: what was not sent goes too, for the machine decides anew. */
static void link_changed(struct stele_link *link, enum stele_err err)
{
    struct stele_peer *peer = peer_of(link);
    struct stele_peers *peers = peer->peers;
    arm(peers);
    if (peers->is_ended)
        return;
    trace_senseless(peer, link, err);
    if (link == &peer->control)
        tell_change(peer, err);
    if (err == STELE_OK)
        return;
    struct stele_list *at = peers->calls.next;
    while (at != &peers->calls) {
        struct peer_call *ask = STELE_CONTAINER_OF(at, struct peer_call, link);
        at = at->next;
        if (link_of(ask) != link || ask->call.is_sent)
            continue;
        stele_link_cancel(link, &ask->call);
        drop_call(ask);
    }
    tell_closed(peer);
}

/* Where the batches of an answer end that go on from the fetch's offset; checked when they are appended. */
static int64_t records_end(const struct peer_call *ask)
{
    const struct stele_quorum_input *input = &ask->input;
    int64_t end = ask->offset;
    size_t at = 0;
    while (input->records_bytes - at >= STELE_BATCH_HEADER_BYTES) {
        struct stele_batch_header header;
        int64_t size = stele_batch_size(input->records_at + at);
        if (size <= 0 || (size_t)size > input->records_bytes - at ||
            stele_batch_header_read(input->records_at + at, (size_t)size, &header) != STELE_OK ||
            header.base_offset != end || header.last_offset_delta < 0)
            break;
        end = stele_batch_last_offset(&header) + 1;
        at += (size_t)size;
    }
    /* Bytes without a batch are damage: the machine lets them be appended, which finds it. */
    return at == 0 && input->records_bytes > 0 ? end + 1 : end;
}

static void prepare_answer(struct stele_metadata_log *mlog, struct stele_quorum_input *input)
{
    const struct peer_call *ask = STELE_CONTAINER_OF(input, struct peer_call, input);
    const struct stele_quorum_answer *answer = &input->event.u.answer.answer;
    if (answer->kind != STELE_QUORUM_FETCH)
        return;
    input->event.u.answer.records_end = records_end(ask);
    stele_metadata_log_epoch_end(mlog, answer->u.fetch.diverging.epoch, &input->event.u.answer.epoch_end);
}

static void answer_taken(struct stele_quorum_input *input, const struct stele_quorum_answer *answer)
{
    (void)answer;
    drop_call(STELE_CONTAINER_OF(input, struct peer_call, input));
}

/* Answers. */

static void take_fetch(struct stele_quorum_answer *answer, const struct stele_fetch_response *response)
{
    const struct stele_fetch_result *result = response->result_count == 1 ? &response->results[0] : NULL;
    answer->err = result == NULL ? (response->err != STELE_OK ? response->err : STELE_INVALID_REQUEST) : result->err;
    answer->leader_id = STELE_NO_NODE;
    if (result == NULL)
        return;
    answer->epoch = result->current_leader_epoch;
    answer->leader_id = result->current_leader_id;
    answer->u.fetch.high_watermark = result->high_watermark;
    if (result->diverging_epoch >= 0) {
        answer->u.fetch.result = STELE_QUORUM_FETCH_DIVERGING;
        answer->u.fetch.diverging =
            (struct stele_epoch_end){.epoch = result->diverging_epoch, .end_offset = result->diverging_end_offset};
    } else if (result->snapshot_end_offset >= 0) {
        answer->u.fetch.result = STELE_QUORUM_FETCH_OF_SNAPSHOT;
        answer->u.fetch.snapshot =
            (struct stele_snapshot_id){.end_offset = result->snapshot_end_offset, .epoch = result->snapshot_epoch};
    }
}

static void take_snapshot(struct peer_call *ask, const struct stele_answer *got)
{
    const struct stele_fetch_snapshot_response *response = &got->response->body.fetch_snapshot;
    struct stele_quorum_answer *answer = &ask->input.event.u.answer.answer;
    answer->err = response->err;
    answer->epoch = response->leader_epoch;
    answer->leader_id = response->leader_id;
    answer->u.snapshot.position = response->position;
    answer->u.snapshot.size_bytes = response->snapshot_bytes;
    answer->u.snapshot.chunk_bytes = (int64_t)got->records_bytes;
}

static void take_answer(struct peer_call *ask, const struct stele_answer *got)
{
    struct stele_quorum_answer *answer = &ask->input.event.u.answer.answer;
    const struct stele_response *response = got->response;
    switch (answer->kind) {
    case STELE_QUORUM_VOTE:
        answer->err = response->body.vote.err;
        answer->epoch = response->body.vote.leader_epoch;
        answer->leader_id = response->body.vote.leader_id;
        answer->u.is_granted = response->body.vote.is_granted;
        break;
    case STELE_QUORUM_BEGIN:
        answer->err = response->body.begin_quorum_epoch.err;
        answer->epoch = response->body.begin_quorum_epoch.leader_epoch;
        answer->leader_id = response->body.begin_quorum_epoch.leader_id;
        break;
    case STELE_QUORUM_END:
        answer->err = response->body.end_quorum_epoch.err;
        answer->epoch = response->body.end_quorum_epoch.leader_epoch;
        answer->leader_id = response->body.end_quorum_epoch.leader_id;
        break;
    case STELE_QUORUM_FETCH:
        take_fetch(answer, &response->body.fetch);
        break;
    case STELE_QUORUM_FETCH_SNAPSHOT:
        take_snapshot(ask, got);
        break;
    }
}

/* What a person must know of: the nodes do not belong together. */
static void trace_refusal(struct stele_peer *peer, enum stele_err err)
{
    bool is_odd = err == STELE_INCONSISTENT_CLUSTER_ID || err == STELE_INVALID_VOTER_KEY;
    if (is_odd && peer->told != err)
        stele_trace(peer->peers->shard->env, STELE_TRACE_PEER_REFUSES, peer->address, stele_err_text(err),
                    peer->node_id, 0, 0);
    peer->told = is_odd ? err : peer->told;
}

/* So they say for a while after this node led and died. When it goes on, another node has its number. */
static void look_for_double(struct stele_peer *peer, const struct stele_quorum_answer *answer)
{
    struct stele_peers *peers = peer->peers;
    const struct stele_quorum *quorum = &peers->mlog->quorum;
    bool leads = quorum->role == STELE_QUORUM_LEADER || quorum->role == STELE_QUORUM_RESIGNED;
    if (answer->leader_id != quorum->self.node_id || leads) {
        peers->misnamed_count = answer->leader_id == STELE_NO_NODE ? peers->misnamed_count : 0;
        return;
    }
    if (++peers->misnamed_count == MISNAMED_MAX)
        stele_trace(peers->shard->env, STELE_TRACE_PEER_REFUSES, peer->address,
                    "it hears a leader that has this node's number: check node.id (--node) of all", peer->node_id, 0,
                    0);
}

static void call_done(struct stele_call *call, enum stele_err err, const struct stele_answer *got)
{
    struct peer_call *ask = STELE_CONTAINER_OF(call, struct peer_call, call);
    struct stele_peer *peer = ask->peer;
    struct stele_peers *peers = peer->peers;
    if (err != STELE_OK || peers->is_ended || !peers->mlog->is_running) {
        drop_call(ask);
        if (err != STELE_OK)
            tell_closed(peer);
        return;
    }
    take_answer(ask, got);
    trace_refusal(peer, ask->input.event.u.answer.answer.err);
    look_for_double(peer, &ask->input.event.u.answer.answer);
    ask->input.records = stele_buf_ref(got->frame);
    ask->input.records_at = got->records;
    ask->input.records_bytes = got->records_bytes;
    stele_list_remove(&ask->link);
    stele_list_push(&peers->answers, &ask->link);
    stele_metadata_log_feed(peers->mlog, &ask->input);
}

/* Requests. */

static void fill_fetch(const struct stele_peers *peers, const struct stele_quorum_request *from,
                       struct stele_fetch_partition *partition, struct stele_request *out)
{
    *partition = (struct stele_fetch_partition){.topic_id = stele_metadata_topic_id(),
                                                .fetch_offset = from->u.fetch.offset,
                                                .max_bytes = FETCH_BYTES,
                                                .current_leader_epoch = from->epoch,
                                                .last_fetched_epoch = from->u.fetch.last_epoch,
                                                .log_start_offset = -1,
                                                .synced_offset = from->u.fetch.offset,
                                                .known_high_watermark = peers->mlog->quorum.high_watermark,
                                                .damaged_offset = -1,
                                                .doubted_offset = -1};
    out->header.api = STELE_API_FETCH;
    out->body.fetch = (struct stele_fetch_request){.replica_id = from->from.node_id,
                                                   .max_wait_ms = FETCH_WAIT_MS,
                                                   .min_bytes = 1,
                                                   .max_bytes = FETCH_BYTES,
                                                   .partitions = partition,
                                                   .partition_count = 1,
                                                   .cluster_id = peers->cluster_id,
                                                   .replica_directory_id = from->from.directory_id,
                                                   .replica_epoch = -1,
                                                   .session_epoch = -1,
                                                   .rack = ""};
}

static void fill_end(const struct stele_peers *peers, const struct stele_quorum_request *from,
                     struct stele_quorum_replica replicas[STELE_VOTERS_MAX], struct stele_request *out)
{
    for (int32_t i = 0; i < from->u.successors.count; i++)
        replicas[i] = (struct stele_quorum_replica){.node_id = from->u.successors.keys[i].node_id,
                                                    .directory_id = from->u.successors.keys[i].directory_id};
    out->header.api = STELE_API_END_QUORUM_EPOCH;
    out->body.end_quorum_epoch =
        (struct stele_end_quorum_epoch_request){.cluster_id = peers->cluster_id,
                                                .leader_id = from->from.node_id,
                                                .leader_epoch = from->epoch,
                                                .successors = replicas,
                                                .successor_count = (size_t)from->u.successors.count};
}

static enum stele_err ask_peer(struct stele_peers *peers, struct peer_call *ask,
                               const struct stele_quorum_request *from)
{
    struct stele_request out = {.header = {.api = STELE_API_VOTE}};
    struct stele_quorum_replica replicas[STELE_VOTERS_MAX];
    struct stele_fetch_partition partition;
    struct stele_link *link = &ask->peer->control;
    switch (from->kind) {
    case STELE_QUORUM_VOTE:
        out.body.vote = (struct stele_vote_request){.cluster_id = peers->cluster_id,
                                                    .voter_id = from->to.node_id,
                                                    .voter_directory_id = from->to.directory_id,
                                                    .candidate_id = from->from.node_id,
                                                    .candidate_directory_id = from->from.directory_id,
                                                    .epoch = from->epoch,
                                                    .last_epoch = from->u.vote.last_epoch,
                                                    .last_offset = from->u.vote.end_offset,
                                                    .is_pre_vote = from->u.vote.is_pre_vote};
        break;
    case STELE_QUORUM_BEGIN:
        out.header.api = STELE_API_BEGIN_QUORUM_EPOCH;
        out.body.begin_quorum_epoch =
            (struct stele_begin_quorum_epoch_request){.cluster_id = peers->cluster_id,
                                                      .voter_id = from->to.node_id,
                                                      .voter_directory_id = from->to.directory_id,
                                                      .leader_id = from->from.node_id,
                                                      .leader_epoch = from->epoch};
        break;
    case STELE_QUORUM_END:
        fill_end(peers, from, replicas, &out);
        break;
    case STELE_QUORUM_FETCH:
        link = &ask->peer->fetch;
        ask->offset = from->u.fetch.offset;
        fill_fetch(peers, from, &partition, &out);
        break;
    case STELE_QUORUM_FETCH_SNAPSHOT:
        link = &ask->peer->fetch;
        out.header.api = STELE_API_FETCH_SNAPSHOT;
        out.body.fetch_snapshot = (struct stele_fetch_snapshot_request){.cluster_id = peers->cluster_id,
                                                                        .replica_id = from->from.node_id,
                                                                        .replica_directory_id = from->from.directory_id,
                                                                        .current_leader_epoch = from->epoch,
                                                                        .end_offset = from->u.snapshot.id.end_offset,
                                                                        .epoch = from->u.snapshot.id.epoch,
                                                                        .position = from->u.snapshot.position,
                                                                        .max_bytes = SNAPSHOT_BYTES};
        break;
    }
    return stele_link_call(link, &ask->call, &out, NULL);
}

void stele_peers_send(struct stele_peers *peers, const struct stele_quorum_request *request)
{
    struct stele_peer *peer = peers->shard == NULL ? NULL : stele_peers_find(peers, request->to.node_id);
    if (peer == NULL || peers->is_ended)
        return; /* the machine's own time-out stands for the answer */
    struct stele_mem *mem = peers->shard->env->mem;
    struct peer_call *ask = stele_mem_alloc(mem, STELE_MEM_METADATA, sizeof(*ask));
    if (ask == NULL) {
        tell_closed(peer);
        return;
    }
    ask->peer = peer;
    ask->call.done = call_done;
    stele_list_init(&ask->input.link);
    ask->input.event.kind = STELE_QUORUM_ANSWER;
    ask->input.event.u.answer.answer =
        (struct stele_quorum_answer){.kind = request->kind, .generation = request->generation, .from = peer->node_id};
    if (request->kind == STELE_QUORUM_FETCH_SNAPSHOT)
        ask->input.event.u.answer.answer.u.snapshot.id = request->u.snapshot.id;
    ask->input.prepare = prepare_answer;
    ask->input.done = answer_taken;
    stele_list_push(&peers->calls, &ask->link);
    enum stele_err err = ask_peer(peers, ask, request);
    if (err != STELE_OK) { /* nothing was queued */
        drop_call(ask);
        tell_closed(peer);
    }
    arm(peers);
}

enum stele_err stele_peers_call(struct stele_peer *peer, struct stele_call *call, struct stele_request *request)
{
    enum stele_err err = stele_link_call(&peer->control, call, request, NULL);
    arm(peer->peers);
    return err;
}

/* Time. */

static void arm(struct stele_peers *peers)
{
    int64_t deadline_ms = INT64_MAX;
    for (int i = 0; i < peers->count; i++) {
        deadline_ms = stele_min_i64(deadline_ms, stele_link_deadline(&peers->items[i].control));
        deadline_ms = stele_min_i64(deadline_ms, stele_link_deadline(&peers->items[i].fetch));
    }
    if (deadline_ms == INT64_MAX || peers->is_ended)
        stele_timer_cancel(peers->shard->wheel, &peers->timer);
    else
        stele_shard_arm(peers->shard, &peers->timer, deadline_ms);
}

static void tick(struct stele_timer *timer)
{
    struct stele_peers *peers = STELE_CONTAINER_OF(timer, struct stele_peers, timer);
    int64_t now_ms = stele_env_mono_ms(peers->shard->env);
    for (int i = 0; i < peers->count; i++) {
        stele_link_tick(&peers->items[i].control, now_ms);
        stele_link_tick(&peers->items[i].fetch, now_ms);
    }
    arm(peers);
}

/* Life. */

static void make_peer(struct stele_peers *peers, struct stele_peer *peer, int32_t node_id, const char *address)
{
    *peer = (struct stele_peer){.peers = peers, .node_id = node_id};
    (void)snprintf(peer->address, sizeof(peer->address), "%s", address);
    stele_list_init(&peer->closed.link);
    stele_link_init(&peer->control, &peers->group);
    stele_link_init(&peer->fetch, &peers->group);
    peer->control.next_address = peer->fetch.next_address = next_address;
    peer->control.changed = peer->fetch.changed = link_changed;
}

void stele_peers_init(struct stele_peers *peers, struct stele_shard *shard, struct stele_metadata_log *mlog,
                      const struct stele_peer_list *list)
{
    *peers = (struct stele_peers){.shard = shard, .mlog = mlog};
    stele_list_init(&peers->calls);
    stele_list_init(&peers->answers);
    stele_timer_init(&peers->timer, tick);
    stele_link_group_init(&peers->group, shard->env, shard->net, STELE_MEM_METADATA);
    peers->group.client_id = "peer";
    peers->group.software_name = "steled";
    peers->group.role = STELE_ROLE_NODE;
    peers->group.node_id = shard->node->node_id;
    peers->group.cluster_id = peers->cluster_id;
    peers->group.request_timeout_ms = REQUEST_TIMEOUT_MS;
    peers->group.set_up_timeout_ms = SET_UP_TIMEOUT_MS;
    peers->group.backoff_ms = BACKOFF_MS;
    peers->group.backoff_max_ms = BACKOFF_MAX_MS;
    peers->group.in_flight_max = IN_FLIGHT_MAX;
    for (int i = 0; i < list->count; i++) {
        if (i + 1 != shard->node->node_id)
            make_peer(peers, &peers->items[peers->count++], i + 1, list->addresses[i]);
    }
}

static bool votes(const struct stele_peers *peers, int32_t node_id)
{
    return stele_voters_find_node(stele_quorum_voters(&peers->mlog->quorum), node_id) >= 0;
}

/* Whoever asks something of a peer has a call on its link until it is answered; answers are with the machine still. */
static bool is_at_rest(struct stele_peers *peers, const struct stele_peer *peer)
{
    for (struct stele_list *at = peers->answers.next; at != &peers->answers; at = at->next) {
        if (STELE_CONTAINER_OF(at, struct peer_call, link)->peer == peer)
            return false;
    }
    return !peer->is_closed_queued && peer->node_id != peers->mlog->quorum.election.leader_id &&
           stele_list_is_empty(&peer->control.calls) && stele_list_is_empty(&peer->fetch.calls);
}

/* NULL: all are taken by nodes that need theirs as much. */
static struct stele_peer *place_for(struct stele_peers *peers, int32_t node_id)
{
    if (peers->count < STELE_VOTERS_MAX)
        return &peers->items[peers->count++];
    for (int round = 0; round < (votes(peers, node_id) ? 2 : 1); round++) {
        for (int i = 0; i < peers->count; i++) {
            struct stele_peer *peer = &peers->items[i];
            bool is_member = stele_image_member_of(&peers->mlog->image, peer->node_id) != NULL;
            if (votes(peers, peer->node_id) || (is_member && round == 0) || !is_at_rest(peers, peer))
                continue;
            peer->node_id = STELE_NO_NODE; /* nobody is told of its end */
            stele_link_close(&peer->control);
            stele_link_close(&peer->fetch);
            return peer;
        }
    }
    return NULL;
}

/* A connection to where the node was before ends by itself when it is not there any more. */
static void look_at(struct stele_peers *peers, int32_t node_id)
{
    char address[STELE_ADDRESS_BYTES];
    struct stele_peer *peer = stele_peers_find(peers, node_id);
    if (node_id == peers->shard->node->node_id ||
        !stele_controller_peer_address(&peers->shard->node->control, node_id, address))
        return;
    if (peer != NULL)
        memcpy(peer->address, address, sizeof(peer->address));
    else if ((peer = place_for(peers, node_id)) != NULL)
        make_peer(peers, peer, node_id, address);
}

void stele_peers_look(struct stele_peers *peers)
{
    if (peers->shard == NULL || peers->is_ended || !peers->mlog->is_running)
        return;
    const struct stele_voters *voters = stele_quorum_voters(&peers->mlog->quorum);
    const struct stele_image *image = &peers->mlog->image;
    for (int32_t i = 0; i < voters->count; i++)
        look_at(peers, voters->keys[i].node_id);
    for (const struct stele_image_member *member = image->members; member != NULL; member = member->next)
        look_at(peers, member->node_id);
}

void stele_peers_set_identity(struct stele_peers *peers, const char *cluster_id, const struct stele_uuid *directory_id)
{
    (void)snprintf(peers->cluster_id, sizeof(peers->cluster_id), "%s", cluster_id);
    peers->directory_id = *directory_id;
}

struct stele_peer *stele_peers_find(struct stele_peers *peers, int32_t node_id)
{
    for (int i = 0; i < peers->count; i++) {
        if (peers->items[i].node_id == node_id)
            return &peers->items[i];
    }
    return NULL;
}

bool stele_peers_is_idle(const struct stele_peers *peers)
{
    return peers->shard == NULL || stele_list_is_empty(&peers->calls);
}

void stele_peers_end(struct stele_peers *peers)
{
    if (peers->shard == NULL || peers->is_ended)
        return;
    peers->is_ended = true;
    stele_timer_cancel(peers->shard->wheel, &peers->timer);
    for (int i = 0; i < peers->count; i++)
        stele_list_remove(&peers->items[i].closed.link);
    while (!stele_list_is_empty(&peers->calls)) {
        struct peer_call *ask = STELE_CONTAINER_OF(peers->calls.next, struct peer_call, link);
        stele_link_cancel(link_of(ask), &ask->call); /* of one that was sent others of the connection end too */
        drop_call(ask);
    }
    while (!stele_list_is_empty(&peers->answers))
        drop_call(STELE_CONTAINER_OF(peers->answers.next, struct peer_call, link));
    for (int i = 0; i < peers->count; i++) {
        stele_link_close(&peers->items[i].control);
        stele_link_close(&peers->items[i].fetch);
    }
    stele_link_group_deinit(&peers->group);
}
