/* The messages of the metadata quorum between nodes. Each goes to the control shard, waits there for its turn with the
 * quorum's machine, and comes back with what the machine said. A fetch that finds nothing waits in a list there. */
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/session.h"

#include <string.h>

enum { CHUNK_BYTES_MAX = 4 << 20, FETCH_BYTES_MAX = 8 << 20, WAIT_MS_MAX = 5000 };

struct quorum_call {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_controller *control;
    struct stele_quorum_input input;
    struct stele_list link; /* of the fetches that wait */
    struct stele_timer timer;
    bool is_parked, was_parked, has_no_memory;
    int64_t deadline_ms;
    /* Somebody waits behind it: a message there, and back before the call ends. The session's shard's. */
    struct stele_task hurry;
    bool was_hurried, is_hurrying, is_home;
    struct stele_piece piece;
    struct stele_fetch_result result;
};

/* There and back. */

static void release(struct stele_server_call *call)
{
    struct quorum_call *asked = call->state;
    /* In lists and armed only when the node ends in the middle. */
    if (asked->is_parked)
        stele_timer_cancel(asked->control->shard->wheel, &asked->timer);
    stele_list_remove(&asked->link);
    stele_list_remove(&asked->input.link);
    stele_buf_unref(asked->piece.buf);
}

static void end_call(struct quorum_call *asked)
{
    asked->is_home = true;
    if (asked->is_hurrying)
        return;
    if (asked->has_no_memory)
        stele_server_call_fail(asked->call, "memory ran out");
    else
        stele_server_call_done(asked->call);
}

static void call_home(struct stele_task *task)
{
    end_call(STELE_CONTAINER_OF(task, struct quorum_call, task));
}

static void go_home(struct quorum_call *asked)
{
    struct stele_server_call *call = asked->call;
    if (asked->piece.buf != NULL && asked->piece.bytes > 0) {
        call->pieces = &asked->piece;
        call->piece_count = 1;
        call->piece_bytes = asked->piece.bytes;
    }
    asked->task.run = call_home;
    stele_shard_send(asked->control->shard, call->shard, &asked->task);
}

static void fired(struct stele_timer *timer);

static struct quorum_call *quorum_call_new(struct stele_server_call *call)
{
    struct quorum_call *asked = stele_arena_alloc(&call->arena, sizeof(*asked));
    if (asked == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return NULL;
    }
    asked->call = call;
    asked->control = &call->shard->node->control;
    stele_list_init(&asked->link);
    stele_list_init(&asked->input.link);
    stele_timer_init(&asked->timer, fired);
    call->state = asked;
    call->release = release;
    return asked;
}

static void go_there(struct quorum_call *asked, void (*arrived)(struct stele_task *task))
{
    asked->task.run = arrived;
    stele_shard_send(asked->call->shard, asked->control->shard, &asked->task);
}

/* Requests as the machine has them. */

static struct stele_uuid cluster_of(const char *text)
{
    struct stele_uuid uuid;
    if (stele_uuid_parse(text, strlen(text), &uuid) != STELE_OK)
        uuid = (struct stele_uuid){.bytes = {0}};
    return uuid;
}

static bool take_vote(const struct stele_vote_request *from, struct stele_quorum_request *out)
{
    *out = (struct stele_quorum_request){
        .kind = STELE_QUORUM_VOTE,
        .cluster_id = cluster_of(from->cluster_id),
        .from = {.node_id = from->candidate_id, .directory_id = from->candidate_directory_id},
        .to = {.node_id = from->voter_id, .directory_id = from->voter_directory_id},
        .epoch = from->epoch,
        .u.vote = {.last_epoch = from->last_epoch, .end_offset = from->last_offset, .is_pre_vote = from->is_pre_vote}};
    return true;
}

static bool take_begin(const struct stele_begin_quorum_epoch_request *from, struct stele_quorum_request *out)
{
    *out = (struct stele_quorum_request){.kind = STELE_QUORUM_BEGIN,
                                         .cluster_id = cluster_of(from->cluster_id),
                                         .from = {.node_id = from->leader_id},
                                         .to = {.node_id = from->voter_id, .directory_id = from->voter_directory_id},
                                         .epoch = from->leader_epoch};
    return true;
}

static bool take_end(const struct stele_end_quorum_epoch_request *from, struct stele_quorum_request *out)
{
    *out = (struct stele_quorum_request){.kind = STELE_QUORUM_END,
                                         .cluster_id = cluster_of(from->cluster_id),
                                         .from = {.node_id = from->leader_id},
                                         .epoch = from->leader_epoch};
    if (from->successor_count > STELE_VOTERS_MAX)
        return false;
    out->u.successors.count = (int32_t)from->successor_count;
    for (size_t i = 0; i < from->successor_count; i++)
        out->u.successors.keys[i] = (struct stele_replica_key){.node_id = from->successors[i].node_id,
                                                               .directory_id = from->successors[i].directory_id};
    return true;
}

static bool take_fetch(const struct stele_fetch_request *from, struct stele_quorum_request *out)
{
    const struct stele_fetch_partition *partition = &from->partitions[0];
    *out = (struct stele_quorum_request){
        .kind = STELE_QUORUM_FETCH,
        .cluster_id = cluster_of(from->cluster_id),
        .from = {.node_id = from->replica_id, .directory_id = from->replica_directory_id},
        .epoch = partition->current_leader_epoch,
        .u.fetch = {.offset = partition->fetch_offset, .last_epoch = partition->last_fetched_epoch}};
    return true;
}

static bool take_fetch_snapshot(const struct stele_fetch_snapshot_request *from, struct stele_quorum_request *out)
{
    *out = (struct stele_quorum_request){
        .kind = STELE_QUORUM_FETCH_SNAPSHOT,
        .cluster_id = cluster_of(from->cluster_id),
        .from = {.node_id = from->replica_id, .directory_id = from->replica_directory_id},
        .epoch = from->current_leader_epoch,
        .u.snapshot = {.id = {.end_offset = from->end_offset, .epoch = from->epoch}, .position = from->position}};
    return true;
}

/* Answers. */

static void fill_fetch(struct quorum_call *asked, const struct stele_quorum_answer *answer)
{
    const struct stele_metadata_log *mlog = &asked->control->mlog;
    struct stele_fetch_result *result = &asked->result;
    *result = (struct stele_fetch_result){STELE_FETCH_RESULT_PLAIN,
                                          .err = answer->err,
                                          .topic_id = stele_metadata_topic_id(),
                                          .high_watermark = -1,
                                          .last_stable_offset = -1,
                                          .log_start_offset = -1,
                                          .records_bytes = (uint32_t)asked->piece.bytes,
                                          .current_leader_id = answer->leader_id,
                                          .current_leader_epoch = answer->epoch};
    if (answer->err == STELE_OK) {
        result->high_watermark = result->last_stable_offset = answer->u.fetch.high_watermark;
        result->log_start_offset = stele_log_start_offset(mlog->log);
        result->log_end_offset = stele_log_end_offset(mlog->log);
        if (answer->u.fetch.result == STELE_QUORUM_FETCH_DIVERGING) {
            result->diverging_epoch = answer->u.fetch.diverging.epoch;
            result->diverging_end_offset = answer->u.fetch.diverging.end_offset;
        } else if (answer->u.fetch.result == STELE_QUORUM_FETCH_OF_SNAPSHOT) {
            result->snapshot_end_offset = answer->u.fetch.snapshot.end_offset;
            result->snapshot_epoch = answer->u.fetch.snapshot.epoch;
        }
    }
    asked->call->response.body.fetch = (struct stele_fetch_response){.results = result, .result_count = 1};
}

static void fill(struct quorum_call *asked, const struct stele_quorum_answer *answer)
{
    struct stele_response *response = &asked->call->response;
    switch (answer->kind) {
    case STELE_QUORUM_VOTE:
        response->body.vote =
            (struct stele_vote_response){.err = answer->err,
                                         .leader_id = answer->leader_id,
                                         .leader_epoch = answer->epoch,
                                         .is_granted = answer->err == STELE_OK && answer->u.is_granted};
        break;
    case STELE_QUORUM_BEGIN:
        response->body.begin_quorum_epoch = (struct stele_begin_quorum_epoch_response){
            .err = answer->err, .leader_id = answer->leader_id, .leader_epoch = answer->epoch};
        break;
    case STELE_QUORUM_END:
        response->body.end_quorum_epoch = (struct stele_end_quorum_epoch_response){
            .err = answer->err, .leader_id = answer->leader_id, .leader_epoch = answer->epoch};
        break;
    case STELE_QUORUM_FETCH:
        fill_fetch(asked, answer);
        break;
    case STELE_QUORUM_FETCH_SNAPSHOT:
        response->body.fetch_snapshot =
            (struct stele_fetch_snapshot_response){.err = answer->err,
                                                   .leader_id = answer->leader_id,
                                                   .leader_epoch = answer->epoch,
                                                   .snapshot_bytes = answer->u.snapshot.size_bytes,
                                                   .position = answer->u.snapshot.position,
                                                   .records_bytes = (uint32_t)asked->piece.bytes};
        break;
    }
    go_home(asked);
}

/* A disk that cannot be read ends the log by itself; the fetch is refused. */
static enum stele_err read_records(struct quorum_call *asked)
{
    const struct stele_fetch_request *request = &asked->call->request.body.fetch;
    struct stele_metadata_log *mlog = &asked->control->mlog;
    int64_t bytes = stele_min_i64(stele_min_i64(request->max_bytes, request->partitions[0].max_bytes), FETCH_BYTES_MAX);
    enum stele_err err = stele_metadata_log_read(mlog, request->partitions[0].fetch_offset,
                                                 (size_t)stele_max_i64(bytes, 0), &asked->piece.buf);
    if (err == STELE_OK) {
        asked->piece.at = asked->piece.buf->bytes;
        asked->piece.bytes = asked->piece.buf->count;
    } else if (stele_log_is_failed(mlog->log)) {
        mlog->failed(mlog, err);
    }
    return err == STELE_OK || err == STELE_NO_MEMORY ? err : STELE_KAFKA_STORAGE_ERROR;
}

static void park(struct quorum_call *asked)
{
    stele_buf_unref(asked->piece.buf);
    asked->piece = (struct stele_piece){.buf = NULL};
    asked->is_parked = asked->was_parked = true;
    stele_list_push(&asked->control->parked, &asked->link);
    stele_shard_arm(asked->control->shard, &asked->timer, asked->deadline_ms);
}

static void fetched(struct quorum_call *asked, struct stele_quorum_answer *answer)
{
    const struct stele_fetch_partition *partition = &asked->call->request.body.fetch.partitions[0];
    bool is_valid = answer->err == STELE_OK && answer->u.fetch.result == STELE_QUORUM_FETCH_VALID;
    if (is_valid)
        answer->err = read_records(asked);
    bool is_empty = is_valid && answer->err == STELE_OK && asked->piece.bytes == 0 &&
                    answer->u.fetch.high_watermark <= partition->known_high_watermark;
    if (is_empty && stele_env_mono_ms(asked->control->shard->env) < asked->deadline_ms &&
        asked->control->state != STELE_CONTROLLER_STOPPING)
        park(asked);
    else
        fill(asked, answer);
}

static void snapshot_fetched(struct quorum_call *asked, struct stele_quorum_answer *answer)
{
    const struct stele_fetch_snapshot_request *request = &asked->call->request.body.fetch_snapshot;
    struct stele_metadata_point at = {.end_offset = request->end_offset, .epoch = request->epoch};
    struct stele_metadata_chunk chunk = {.bytes = NULL};
    if (answer->err == STELE_OK) {
        size_t bytes = (size_t)stele_min_i64(stele_max_i64(request->max_bytes, 1), CHUNK_BYTES_MAX);
        answer->err = stele_metadata_log_read_snapshot(&asked->control->mlog, &at, request->position, bytes, &chunk);
    }
    if (answer->err == STELE_OK) {
        asked->piece = (struct stele_piece){.buf = chunk.bytes, .at = chunk.bytes->bytes, .bytes = chunk.bytes->count};
        answer->u.snapshot.position = request->position;
        answer->u.snapshot.size_bytes = chunk.size_bytes;
    }
    fill(asked, answer);
}

/* The machine has no words. */
static void tell_refusal(const struct quorum_call *asked)
{
    const struct stele_fetch_request *request = &asked->call->request.body.fetch;
    stele_trace(asked->control->shard->env, STELE_TRACE_PEER_REFUSED, "a voter of the metadata quorum",
                "it asks for less of the metadata log than its disk had acknowledged. A request came late; or, if the "
                "node ends now, an older copy of the disk was put back, or it lost what it had synced",
                request->replica_id, request->partitions[0].fetch_offset, 0);
}

static void answered(struct stele_quorum_input *input, const struct stele_quorum_answer *answer)
{
    struct quorum_call *asked = STELE_CONTAINER_OF(input, struct quorum_call, input);
    struct stele_quorum_answer mine = *answer;
    if (mine.kind == STELE_QUORUM_FETCH && mine.err == STELE_INVALID_VOTER_KEY)
        tell_refusal(asked);
    if (mine.kind == STELE_QUORUM_FETCH)
        fetched(asked, &mine);
    else if (mine.kind == STELE_QUORUM_FETCH_SNAPSHOT)
        snapshot_fetched(asked, &mine);
    else
        fill(asked, &mine);
}

/* The turns. */

static void prepare(struct stele_metadata_log *mlog, struct stele_quorum_input *input)
{
    const struct quorum_call *asked = STELE_CONTAINER_OF(input, struct quorum_call, input);
    struct stele_quorum_event *event = &input->event;
    if (event->u.request.request.kind != STELE_QUORUM_FETCH)
        return;
    stele_metadata_log_view(mlog, event->u.request.request.u.fetch.last_epoch, &event->u.request.view);
    event->u.request.view.is_parked = asked->was_parked;
}

static void feed(struct quorum_call *asked)
{
    struct stele_metadata_log *mlog = &asked->control->mlog;
    if (!mlog->is_running) {
        struct stele_quorum_answer none = {.kind = asked->input.event.u.request.request.kind,
                                           .err = STELE_BROKER_NOT_AVAILABLE,
                                           .leader_id = STELE_NO_NODE};
        fill(asked, &none);
        return;
    }
    asked->input.event.kind = STELE_QUORUM_REQUEST;
    asked->input.prepare = prepare;
    asked->input.done = answered;
    stele_metadata_log_feed(mlog, &asked->input);
}

static void unpark(struct quorum_call *asked)
{
    asked->is_parked = false;
    stele_list_remove(&asked->link);
    stele_timer_cancel(asked->control->shard->wheel, &asked->timer);
    feed(asked);
}

static void fired(struct stele_timer *timer)
{
    unpark(STELE_CONTAINER_OF(timer, struct quorum_call, timer));
}

static void hurry_home(struct stele_task *task)
{
    struct quorum_call *asked = STELE_CONTAINER_OF(task, struct quorum_call, hurry);
    asked->is_hurrying = false;
    if (asked->is_home)
        end_call(asked);
}

static void hurry_arrived(struct stele_task *task)
{
    struct quorum_call *asked = STELE_CONTAINER_OF(task, struct quorum_call, hurry);
    asked->deadline_ms = 0; /* one that does not wait yet will not */
    if (asked->is_parked)
        unpark(asked);
    task->run = hurry_home;
    stele_shard_send(asked->control->shard, asked->call->shard, task);
}

static void hurry_fetch(struct stele_server_call *call)
{
    struct quorum_call *asked = call->state;
    if (asked->was_hurried)
        return;
    asked->was_hurried = asked->is_hurrying = true;
    asked->hurry.run = hurry_arrived;
    stele_shard_send(call->shard, asked->control->shard, &asked->hurry);
}

void stele_quorum_calls_wake(struct stele_controller *control)
{
    struct stele_list woken;
    stele_list_init(&woken);
    while (!stele_list_is_empty(&control->parked)) { /* those that wait again are not met again */
        struct stele_list *first = control->parked.next;
        stele_list_remove(first);
        stele_list_push(&woken, first);
    }
    while (!stele_list_is_empty(&woken))
        unpark(STELE_CONTAINER_OF(woken.next, struct quorum_call, link));
}

static void arrived(struct stele_task *task)
{
    struct quorum_call *asked = STELE_CONTAINER_OF(task, struct quorum_call, task);
    if (asked->input.event.u.request.request.kind == STELE_QUORUM_FETCH) {
        int64_t wait_ms = stele_min_i64(asked->call->request.body.fetch.max_wait_ms, WAIT_MS_MAX);
        asked->deadline_ms = stele_env_mono_ms(asked->control->shard->env) + stele_max_i64(wait_ms, 0);
    }
    feed(asked);
}

static bool is_of_peer(struct stele_server_call *call)
{
    if (call->session->listener->is_peer)
        return true;
    stele_server_call_fail(call, "a request between nodes, on a listener that is not theirs");
    return false;
}

#define HANDLER(stem)                                                                                                  \
    void stele_handle_##stem(struct stele_server_call *call)                                                           \
    {                                                                                                                  \
        struct quorum_call *asked = is_of_peer(call) ? quorum_call_new(call) : NULL;                                   \
        if (asked == NULL)                                                                                             \
            return;                                                                                                    \
        if (take_##stem(&call->request.body.stem, &asked->input.event.u.request.request))                              \
            go_there(asked, arrived);                                                                                  \
        else                                                                                                           \
            stele_server_call_fail(call, "a request of another node that makes no sense");                             \
    }

#define take_begin_quorum_epoch take_begin
#define take_end_quorum_epoch take_end
HANDLER(vote)
HANDLER(begin_quorum_epoch)
HANDLER(end_quorum_epoch)
HANDLER(fetch_snapshot)

bool stele_is_metadata_fetch(const struct stele_server_call *call)
{
    const struct stele_fetch_request *request = &call->request.body.fetch;
    struct stele_uuid metadata = stele_metadata_topic_id();
    for (size_t i = 0; i < request->partition_count; i++) {
        if (stele_uuid_equal(&request->partitions[i].topic_id, &metadata))
            return true;
    }
    return false;
}

void stele_handle_metadata_fetch(struct stele_server_call *call)
{
    const struct stele_fetch_request *request = &call->request.body.fetch;
    struct quorum_call *asked = is_of_peer(call) ? quorum_call_new(call) : NULL;
    if (asked == NULL)
        return;
    if (request->partition_count == 1 && request->partitions[0].partition == 0 &&
        take_fetch(request, &asked->input.event.u.request.request)) {
        call->hurry = hurry_fetch;
        go_there(asked, arrived);
    } else
        stele_server_call_fail(call, "a fetch of the metadata log beside others");
}

/* What is known of the quorum. */

static const char *const roles[] = {
    [STELE_QUORUM_UNATTACHED] = "unattached", [STELE_QUORUM_PROSPECTIVE] = "prospective",
    [STELE_QUORUM_CANDIDATE] = "candidate",   [STELE_QUORUM_LEADER] = "leader",
    [STELE_QUORUM_FOLLOWER] = "follower",     [STELE_QUORUM_RESIGNED] = "resigned"};

static struct stele_described_voter describe(struct quorum_call *asked, const struct stele_replica_key *key,
                                             const struct stele_quorum_progress *progress)
{
    struct stele_metadata_log *mlog = &asked->control->mlog;
    int64_t now_ms = stele_env_mono_ms(asked->control->shard->env);
    bool is_self = stele_replica_key_equal(key, &mlog->quorum.self);
    struct stele_described_voter out = {.node_id = key->node_id,
                                        .directory_id = key->directory_id,
                                        .host = "",
                                        .log_end_offset = is_self ? mlog->quorum.synced_offset : -1,
                                        .last_fetch_ms = is_self ? 0 : -1,
                                        .last_caught_up_ms = is_self ? 0 : -1};
    char host[STELE_HOST_BYTES], address[STELE_ADDRESS_BYTES];
    if (stele_controller_peer_address(asked->control, key->node_id, address) &&
        stele_address_split(address, host, &out.port) == STELE_OK) {
        const char *kept = stele_arena_string(&asked->call->arena, host, strlen(host));
        asked->has_no_memory = asked->has_no_memory || kept == NULL;
        out.host = kept != NULL ? kept : "";
    }
    if (!is_self && progress != NULL && mlog->quorum.role == STELE_QUORUM_LEADER) {
        out.log_end_offset = progress->synced_offset;
        out.last_fetch_ms = progress->synced_offset >= 0 ? now_ms - progress->contact_ms : -1;
        out.last_caught_up_ms = progress->caught_up_ms >= 0 ? now_ms - progress->caught_up_ms : -1;
    }
    return out;
}

static void describe_arrived(struct stele_task *task)
{
    struct quorum_call *asked = STELE_CONTAINER_OF(task, struct quorum_call, task);
    struct stele_server_call *call = asked->call;
    const struct stele_quorum *quorum = &asked->control->mlog.quorum;
    struct stele_describe_quorum_response *response = &call->response.body.describe_quorum;
    bool is_running = asked->control->mlog.is_running, is_leader = quorum->role == STELE_QUORUM_LEADER;
    *response = (struct stele_describe_quorum_response){
        .message = "", .node_id = asked->control->node->node_id, .role = "", .leader_id = STELE_NO_NODE};
    if (!is_running || (!is_leader && !call->request.body.describe_quorum.is_local)) {
        response->err = is_running ? STELE_NOT_CONTROLLER : STELE_BROKER_NOT_AVAILABLE;
        response->message = is_running ? "this node does not lead the quorum: ask the one that does, or locally"
                                       : "the node takes no part in a quorum yet";
    }
    if (is_running) {
        const struct stele_voters *voters = stele_quorum_voters(quorum);
        size_t observers = is_leader ? (size_t)quorum->observer_count : 0;
        struct stele_described_voter *all =
            stele_arena_array(&call->arena, (size_t)voters->count + observers, sizeof(*all));
        asked->has_no_memory = all == NULL;
        for (int32_t i = 0; i < voters->count && all != NULL; i++)
            all[i] = describe(asked, &voters->keys[i], &quorum->voters[i]);
        for (size_t i = 0; i < observers && all != NULL; i++)
            all[(size_t)voters->count + i] = describe(asked, &quorum->observers[i].key, &quorum->observers[i]);
        response->role = roles[quorum->role];
        response->leader_id = quorum->election.leader_id;
        response->leader_epoch = quorum->election.epoch;
        response->high_watermark = quorum->high_watermark;
        response->voters = all;
        response->voter_count = (size_t)voters->count;
        response->observers = all + voters->count;
        response->observer_count = observers;
    }
    go_home(asked);
}

void stele_handle_describe_quorum(struct stele_server_call *call)
{
    struct quorum_call *asked = quorum_call_new(call);
    if (asked != NULL)
        go_there(asked, describe_arrived);
}
