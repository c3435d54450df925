/* A fetch of a follower, on the shard of its connection: what is asked of each data shard, the wait, the answer. The
 * parts of the session do the rest (node/replica_session.h).
 *
 * States of a fetch: WAITING (behind another of its connection) -> ASKING (parts have it) -> answered. */
#include "base/check.h"
#include "node/node.h"
#include "node/node_struct.h"
#include "node/replica_session.h"
#include "node/session.h"

#include <string.h>

struct stele_replica_fetch {
    struct stele_list link; /* in the session's waiting ones */
    struct stele_replica_session *session;
    struct stele_server_call *call;
    struct stele_timer timer;
    int pending; /* parts that did not reply, hurries that did not come back */
    bool is_hurried;
    enum stele_err err;
    struct stele_replica_result *results;
    struct stele_fetch_result *out;
    size_t result_count;
};

static void begin_next(struct stele_replica_session *session);

/* Only what was sent and what is to be sent is held. */
static void release(struct stele_server_call *call)
{
    struct stele_replica_fetch *fetch = call->state;
    stele_timer_cancel(call->shard->wheel, &fetch->timer);
    stele_list_remove(&fetch->link);
    for (size_t i = 0; i < fetch->result_count; i++) {
        struct stele_fetch_hold *hold = fetch->results[i].hold;
        if (hold == NULL)
            continue;
        hold->pending = NULL;
        stele_fetch_hold_unref(hold);
    }
    if (fetch->session->current == fetch)
        fetch->session->current = NULL; /* the node ends in the middle */
}

/* The answer. */

static void finish(struct stele_replica_fetch *fetch, enum stele_err err, const char *why)
{
    struct stele_replica_session *session = fetch->session;
    struct stele_server_call *call = fetch->call;
    stele_timer_cancel(call->shard->wheel, &fetch->timer);
    if (session->current == fetch)
        session->current = NULL;
    call->response.body.fetch.err = err;
    call->response.body.fetch.session_id = session->words.id;
    session->is_finishing = true; /* the call may take the connection with it */
    if (why != NULL)
        stele_server_call_fail(call, why);
    else
        stele_server_call_done(call);
    session->is_finishing = false;
    if (!session->is_over)
        begin_next(session);
    else if (!session->is_beginning)
        stele_replica_session_end(session);
}

static void fill(struct stele_fetch_result *out, const struct stele_replica_result *result)
{
    const struct stele_fetch_answer *answer = &result->answer;
    *out = (struct stele_fetch_result){STELE_FETCH_RESULT_PLAIN,
                                       .err = answer->err,
                                       .topic_id = result->key.topic_id,
                                       .partition = result->key.number,
                                       .high_watermark = answer->high_watermark,
                                       .last_stable_offset = -1,
                                       .log_start_offset = answer->log_start_offset,
                                       .current_leader_id = -1,
                                       .current_leader_epoch = -1};
    out->log_end_offset = answer->log_end_offset;
    out->diverging_epoch = answer->diverging.epoch;
    out->diverging_end_offset = answer->diverging.end_offset;
    if (answer->err == STELE_NOT_LEADER_OR_FOLLOWER || answer->err == STELE_FENCED_LEADER_EPOCH) {
        out->current_leader_id = answer->leader_id;
        out->current_leader_epoch = answer->current_leader_epoch;
    }
}

static void answer(struct stele_replica_fetch *fetch)
{
    struct stele_server_call *call = fetch->call;
    if (fetch->result_count > 0 && fetch->err == STELE_OK) {
        fetch->out = stele_arena_array(&call->arena, fetch->result_count, sizeof(*fetch->out));
        call->pieces = stele_arena_array(&call->arena, fetch->result_count, sizeof(*call->pieces));
        if (fetch->out == NULL || call->pieces == NULL)
            fetch->err = STELE_NO_MEMORY;
    }
    if (fetch->err != STELE_OK) {
        finish(fetch, STELE_OK, "memory ran out");
        return;
    }
    for (size_t i = 0; i < fetch->result_count; i++) {
        struct stele_fetch_hold *hold = fetch->results[i].hold;
        fill(&fetch->out[i], &fetch->results[i]);
        if (hold == NULL || hold->pending == NULL)
            continue;
        hold->pending = NULL;
        fetch->out[i].records_bytes = (uint32_t)hold->slice.bytes;
        call->pieces[call->piece_count++] =
            (struct stele_piece){.file = &hold->send, .pos = hold->slice.pos, .bytes = hold->slice.bytes};
        call->piece_bytes += hold->slice.bytes;
    }
    STELE_METRIC_ADD(call->shard->env->metrics, replication_sent, call->piece_bytes);
    call->response.body.fetch.results = fetch->out;
    call->response.body.fetch.result_count = fetch->result_count;
    finish(fetch, STELE_OK, NULL);
}

/* Replies. */

static void revoked(struct stele_fetch_hold *hold)
{
    struct stele_replica_result *result = hold->arg;
    result->answer.err = STELE_NOT_LEADER_OR_FOLLOWER;
}

static void take_results(struct stele_replica_fetch *fetch, struct stele_replica_part *part)
{
    size_t count = part->result_count;
    part->result_count = 0;
    if (count == 0)
        return;
    struct stele_replica_result *all =
        stele_arena_array(&fetch->call->arena, fetch->result_count + count, sizeof(*all));
    if (all == NULL)
        fetch->err = STELE_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct stele_fetch_hold *hold = part->results[i].hold;
        if (hold != NULL)
            stele_fetch_hold_arrived(hold);
        if (hold != NULL && all == NULL)
            stele_fetch_hold_unref(hold);
    }
    if (all == NULL)
        return;
    if (fetch->result_count > 0)
        memcpy(all, fetch->results, fetch->result_count * sizeof(*all));
    memcpy(all + fetch->result_count, part->results, count * sizeof(*all));
    fetch->results = all;
    fetch->result_count += count;
    for (size_t i = 0; i < fetch->result_count; i++) {
        struct stele_fetch_hold *hold = all[i].hold;
        if (hold == NULL)
            continue;
        if (i >= fetch->result_count - count)
            hold->pending = &hold->slice;
        hold->revoked = revoked;
        hold->arg = &all[i];
    }
}

static void hurry_parts(struct stele_replica_fetch *fetch)
{
    struct stele_replica_session *session = fetch->session;
    fetch->is_hurried = true;
    for (int i = 0; i < session->part_count; i++) {
        struct stele_replica_part *part = &session->parts[i];
        if (!part->is_asked || part->is_hurried)
            continue;
        fetch->pending++;
        stele_replica_part_hurry(part);
    }
}

static void one_back(struct stele_replica_session *session)
{
    struct stele_replica_fetch *fetch = session->current;
    if (--fetch->pending == 0)
        answer(fetch);
}

static void replied(struct stele_replica_session *session, struct stele_replica_part *part)
{
    struct stele_replica_fetch *fetch = session->current;
    if (part->err != STELE_OK)
        fetch->err = part->err;
    take_results(fetch, part);
    hurry_parts(fetch);
    one_back(session);
}

static void hurried(struct stele_replica_session *session, struct stele_replica_part *part)
{
    (void)part;
    one_back(session);
}

/* With nothing asked of anybody it is answered when its time is over. */
static void come_to_an_end(struct stele_replica_fetch *fetch)
{
    if (fetch->session->current != fetch)
        return; /* its turn is not yet: call->is_hurried says so */
    if (fetch->pending == 0)
        answer(fetch);
    else if (!fetch->is_hurried)
        hurry_parts(fetch);
}

static void timer_fired(struct stele_timer *timer)
{
    come_to_an_end(STELE_CONTAINER_OF(timer, struct stele_replica_fetch, timer));
}

static void hurry(struct stele_server_call *call)
{
    come_to_an_end(call->state);
}

/* Questions. */

static int part_of(const struct stele_replica_session *session, const struct stele_uuid *topic_id, int32_t number)
{
    return stele_shard_of(session->home->node, topic_id, number)->index - STELE_SHARD_DATA;
}

static bool share_out(struct stele_replica_fetch *fetch)
{
    const struct stele_fetch_request *request = &fetch->call->request.body.fetch;
    struct stele_replica_session *session = fetch->session;
    struct stele_arena *arena = &fetch->call->arena;
    for (size_t i = 0; i < request->partition_count; i++)
        session->parts[part_of(session, &request->partitions[i].topic_id, request->partitions[i].partition)]
            .question.line_count++;
    for (size_t i = 0; i < request->forgotten_count; i++)
        session->parts[part_of(session, &request->forgotten[i].topic_id, request->forgotten[i].partition)]
            .question.forgotten_count++;
    for (int i = 0; i < session->part_count; i++) {
        struct stele_replica_question *question = &session->parts[i].question;
        question->lines = stele_arena_array(arena, question->line_count, sizeof(const void *));
        question->forgotten = stele_arena_array(arena, question->forgotten_count, sizeof(const void *));
        if (question->lines == NULL || question->forgotten == NULL)
            return false;
        question->line_count = question->forgotten_count = 0;
    }
    for (size_t i = 0; i < request->partition_count; i++) {
        const struct stele_fetch_partition *line = &request->partitions[i];
        struct stele_replica_question *question =
            &session->parts[part_of(session, &line->topic_id, line->partition)].question;
        question->lines[question->line_count++] = line;
    }
    for (size_t i = 0; i < request->forgotten_count; i++) {
        const struct stele_forgotten_partition *one = &request->forgotten[i];
        struct stele_replica_question *question =
            &session->parts[part_of(session, &one->topic_id, one->partition)].question;
        question->forgotten[question->forgotten_count++] = one;
    }
    return true;
}

static void ask(struct stele_replica_fetch *fetch, enum stele_fetch_session_kind kind)
{
    struct stele_replica_session *session = fetch->session;
    struct stele_server_call *call = fetch->call;
    const struct stele_fetch_request *request = &call->request.body.fetch;
    for (int i = 0; i < session->part_count; i++) {
        session->parts[i].question = (struct stele_replica_question){
            .node_id = request->replica_id,
            .node_epoch = request->replica_epoch,
            .drops_all = kind != STELE_SESSION_INCREMENTAL,
            .is_full = kind != STELE_SESSION_INCREMENTAL,
            .is_hurried = call->is_hurried || request->max_wait_ms <= 0,
            .bytes_max = stele_min_i64(request->max_bytes, call->shard->node->limits.fetch_bytes_max)};
    }
    if (!share_out(fetch)) {
        finish(fetch, STELE_OK, "memory ran out");
        return;
    }
    for (int i = 0; i < session->part_count; i++) {
        struct stele_replica_part *part = &session->parts[i];
        if (part->entry_count == 0 && part->question.line_count == 0)
            continue;
        fetch->pending++;
        stele_replica_part_ask(part);
    }
    if (fetch->pending == 0 && (call->is_hurried || kind != STELE_SESSION_INCREMENTAL))
        answer(fetch);
    else
        stele_shard_arm(call->shard, &fetch->timer,
                        stele_env_mono_ms(call->shard->env) + stele_max_i64(request->max_wait_ms, 0));
}

static void begin(struct stele_replica_fetch *fetch)
{
    struct stele_replica_session *session = fetch->session;
    const struct stele_fetch_request *request = &fetch->call->request.body.fetch;
    enum stele_fetch_session_kind kind;
    session->current = fetch;
    if (fetch->call->session->conn == NULL) { /* nobody would hear of what it moves */
        finish(fetch, STELE_OK, NULL);
        return;
    }
    session->last_id = session->last_id == INT32_MAX ? 1 : session->last_id + 1;
    enum stele_err err = stele_fetch_session_begin(&session->words, request->session_id, request->session_epoch,
                                                   session->last_id, &kind);
    if (err != STELE_OK)
        finish(fetch, err, NULL);
    else
        ask(fetch, kind);
}

static void begin_next(struct stele_replica_session *session)
{
    if (session->current != NULL || stele_list_is_empty(&session->waiting) || session->is_beginning)
        return;
    session->is_beginning = true; /* one that ends at once comes here again */
    while (session->current == NULL && !stele_list_is_empty(&session->waiting)) {
        struct stele_replica_fetch *fetch = STELE_CONTAINER_OF(session->waiting.next, struct stele_replica_fetch, link);
        stele_list_remove(&fetch->link);
        begin(fetch);
    }
    session->is_beginning = false;
    if (session->is_over)
        stele_replica_session_end(session);
}

void stele_handle_replica_fetch(struct stele_server_call *call)
{
    static const struct stele_replica_session_owner owner = {.replied = replied, .hurried = hurried};
    const struct stele_fetch_request *request = &call->request.body.fetch;
    struct stele_session *connection = call->session;
    struct stele_replica_fetch *fetch = stele_arena_alloc(&call->arena, sizeof(*fetch));
    if (!connection->is_of_node) {
        stele_server_call_fail(call, "a replica's fetch by who is no node, or by a listener that is not for nodes");
        return;
    }
    if (request->cluster_id[0] != 0 && strcmp(request->cluster_id, call->shard->node->cluster_id) != 0) {
        call->response.body.fetch.err = STELE_INCONSISTENT_CLUSTER_ID;
        stele_server_call_done(call);
        return;
    }
    if (connection->replica == NULL)
        connection->replica = stele_replica_session_new(call->shard, connection->id);
    if (fetch == NULL || connection->replica == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    connection->replica->owner = &owner;
    fetch->session = connection->replica;
    fetch->call = call;
    stele_timer_init(&fetch->timer, timer_fired);
    stele_list_push(&fetch->session->waiting, &fetch->link);
    call->state = fetch;
    call->release = release;
    call->hurry = hurry;
    begin_next(fetch->session);
}
