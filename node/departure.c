/* Connections that go to the shard of the partition that they are used for.
 *
 * Invariant: a departure is in its old shard's list until it comes home, so that neither shard stops meanwhile. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/session.h"

struct departure {
    struct stele_list link;
    struct stele_shard *from, *to;
    const struct stele_listener *listener;
    bool is_of_node;
    struct stele_frame_header header;
    struct stele_buf *frame;       /* of the request that it goes with */
    struct stele_session *session; /* the new one, with a reference; NULL: none */
    struct stele_task task;
};

static void departure_free(struct departure *departure)
{
    stele_list_remove(&departure->link);
    stele_buf_unref(departure->frame);
    stele_mem_free(departure->from->env->mem, departure);
}

static void came_home(struct stele_task *task)
{
    struct departure *departure = STELE_CONTAINER_OF(task, struct departure, task);
    struct stele_shard *from = departure->from;
    departure_free(departure);
    stele_shard_check_stopped(from);
}

/* When the connection is the new shard's: only then may an answer be sent. */
static void begin(struct stele_task *task)
{
    struct departure *departure = STELE_CONTAINER_OF(task, struct departure, task);
    struct stele_session *session = departure->session;
    struct stele_buf *frame = departure->frame;
    if (session != NULL) {
        departure->session = NULL;
        departure->frame = NULL;
        stele_session_arrive(session, &departure->header, frame);
        stele_session_unref(session);
    }
    task->run = came_home;
    departure->from->env->ops->post(departure->from->env, task);
}

static enum stele_err taken(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                            void **out_arg)
{
    struct departure *departure = arg;
    struct stele_shard *to = departure->to;
    enum stele_err err = stele_session_new(to, departure->listener, conn, out_handler, out_arg);
    if (err == STELE_OK) {
        struct stele_session *session = *out_arg;
        session->is_greeted = session->is_settled = true;
        session->is_of_node = departure->is_of_node;
        session->paused |= STELE_PAUSE_ARRIVAL;
        session->refs++;
        departure->session = session;
    }
    departure->task.run = begin;
    to->env->ops->post(to->env, &departure->task);
    return err;
}

/* Where a connection is used for partitions. Fetches of consumers do not count: many read the same partition, and the
 * sending is better shared. */
static bool is_of_partitions(const struct stele_server_call *call)
{
    const struct stele_request *request = &call->request;
    if (request->header.api == STELE_API_PRODUCE)
        return request->body.produce.partition_count > 0;
    return request->header.api == STELE_API_FETCH && call->session->is_of_node && request->body.fetch.replica_id >= 0 &&
           request->body.fetch.partition_count > 0 && !stele_is_metadata_fetch(call);
}

static struct stele_shard *shard_at(const struct stele_server_call *call, size_t i)
{
    struct stele_node *node = call->shard->node;
    const struct stele_request *request = &call->request;
    if (request->header.api == STELE_API_PRODUCE)
        return stele_shard_of(node, &request->body.produce.partitions[i].topic_id,
                              request->body.produce.partitions[i].partition);
    return stele_shard_of(node, &request->body.fetch.partitions[i].topic_id,
                          request->body.fetch.partitions[i].partition);
}

/* The shard that all its partitions are of; NULL: there is none. */
static struct stele_shard *shard_of(const struct stele_server_call *call)
{
    const struct stele_request *request = &call->request;
    size_t count = request->header.api == STELE_API_PRODUCE ? request->body.produce.partition_count
                                                            : request->body.fetch.partition_count;
    for (size_t i = 1; i < count; i++) {
        if (shard_at(call, i) != shard_at(call, 0))
            return NULL;
    }
    return shard_at(call, 0);
}

static bool may_leave(const struct stele_session *session)
{
    const struct stele_shard *shard = session->shard;
    return !session->is_settled && session->is_greeted && session->call_count == 1 && session->queued_bytes == 0 &&
           !session->is_cut && session->replica == NULL && session->life_node_id == STELE_NO_NODE &&
           session->conn != NULL && shard->net->ops->move != NULL && !shard->is_stopping && shard->node->is_ready;
}

bool stele_session_depart(struct stele_server_call *call)
{
    struct stele_session *session = call->session;
    struct stele_shard *from = call->shard;
    if (!may_leave(session) || !is_of_partitions(call))
        return false;
    session->is_settled = true;
    struct stele_shard *to = shard_of(call);
    if (to == NULL || to == from)
        return false;
    struct departure *departure = stele_mem_alloc(from->env->mem, STELE_MEM_CONNECTION, sizeof(*departure));
    if (departure == NULL)
        return false; /* it is as well served here, only slower */
    departure->from = from;
    departure->to = to;
    departure->listener = session->listener;
    departure->is_of_node = session->is_of_node;
    departure->header = session->frame_header;
    departure->frame = stele_buf_ref(call->frame);
    stele_list_push(&from->departures, &departure->link);
    struct stele_conn *conn = session->conn;
    struct stele_conn_taker taker = {.taken = taken, .arg = departure};
    stele_session_leave(session);
    from->net->ops->move(conn, to->net, &taker);
    return true;
}

void stele_departures_free(struct stele_shard *shard)
{
    while (!stele_list_is_empty(&shard->departures)) {
        struct departure *departure = STELE_CONTAINER_OF(shard->departures.next, struct departure, link);
        departure->to->is_stopping = false; /* nobody is told any more */
        if (departure->session != NULL)
            stele_session_unref(departure->session);
        departure_free(departure);
    }
}
