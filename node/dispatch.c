#include "node/authorize.h"
#include "node/forward.h"
#include "node/node_struct.h"
#include "node/observe.h"
#include "node/server_call.h"
#include "node/session.h"

#include <stdio.h>
#include <string.h>

enum { STRANGER_TOLD_MS = 60000 };

static enum stele_operation operation_of(enum stele_api api)
{
    switch (api) {
    case STELE_API_PRODUCE:
    case STELE_API_INIT_PRODUCER_ID:
        return STELE_OPERATION_WRITE;
    case STELE_API_FETCH:
    case STELE_API_LIST_OFFSETS:
        return STELE_OPERATION_READ;
    case STELE_API_CREATE_TOPIC:
        return STELE_OPERATION_CREATE;
    case STELE_API_DELETE_TOPIC:
    case STELE_API_DELETE_RECORDS:
        return STELE_OPERATION_DELETE;
    case STELE_API_CREATE_PARTITIONS:
    case STELE_API_ALTER_LOG_DIRS:
    case STELE_API_ALTER_SETTINGS:
    case STELE_API_ALTER_VOTERS:
    case STELE_API_ELECT_LEADERS:
    case STELE_API_REASSIGN:
    case STELE_API_UNREGISTER_NODE:
    case STELE_API_UPDATE_LEVEL:
        return STELE_OPERATION_ALTER;
    case STELE_API_ALTER_PARTITION:
    case STELE_API_BEGIN_QUORUM_EPOCH:
    case STELE_API_END_QUORUM_EPOCH:
    case STELE_API_FETCH_SNAPSHOT:
    case STELE_API_FORM:
    case STELE_API_NODE_HEARTBEAT:
    case STELE_API_REGISTER_NODE:
    case STELE_API_VOTE:
        return STELE_OPERATION_CLUSTER;
    case STELE_API_HELLO:
    case STELE_API_METADATA:
    case STELE_API_DESCRIBE_CLUSTER:
    case STELE_API_DESCRIBE_LOG:
    case STELE_API_DESCRIBE_LOG_DIRS:
    case STELE_API_DESCRIBE_QUORUM:
    case STELE_API_DESCRIBE_SETTINGS:
    case STELE_API_DESCRIBE_TOPIC:
    case STELE_API_NODE_STATUS:
        return STELE_OPERATION_DESCRIBE;
    }
    return STELE_OPERATION_DESCRIBE;
}

/* Before the node knows what its cluster knows. */
static bool may_come_early(const struct stele_server_call *call)
{
    enum stele_api api = call->request.header.api;
    return api == STELE_API_HELLO || api == STELE_API_FETCH_SNAPSHOT || api == STELE_API_FORM ||
           api == STELE_API_VOTE || api == STELE_API_BEGIN_QUORUM_EPOCH || api == STELE_API_END_QUORUM_EPOCH ||
           api == STELE_API_DESCRIBE_QUORUM || api == STELE_API_ALTER_PARTITION || api == STELE_API_REGISTER_NODE ||
           api == STELE_API_NODE_HEARTBEAT || (api == STELE_API_FETCH && stele_is_metadata_fetch(call));
}

static void handle(struct stele_server_call *call)
{
    switch (call->request.header.api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case STELE_API_##name:                                                                                             \
        stele_handle_##stem(call);                                                                                     \
        return;
#include "proto/api.def"
#undef STELE_API
    }
    stele_server_call_fail(call, "a request of an api that is not served");
}

void stele_dispatch(struct stele_server_call *call)
{
    size_t message_bytes = (size_t)(call->records - call->frame->bytes);
    enum stele_err err = stele_request_decode(&call->arena, call->frame->bytes, message_bytes, &call->request);
    if (err != STELE_OK) {
        STELE_METRIC_ADD(call->shard->env->metrics, connections_refused, 1);
        stele_server_call_fail(call, err == STELE_UNSUPPORTED_VERSION
                                         ? "a request of an api or version that is not served"
                                     : err == STELE_NO_MEMORY ? "memory ran out"
                                                              : "a message that does not decode");
        return;
    }
    if (stele_session_depart(call))
        return;
    enum stele_api api = call->request.header.api;
    stele_observe_request(call);
    if (!call->session->is_greeted && api != STELE_API_HELLO) {
        stele_server_call_fail(call, "a request before hello");
        return;
    }
    if (call->records_bytes > 0 && api != STELE_API_PRODUCE) {
        stele_server_call_fail(call, "records behind a request that has none");
        return;
    }
    if (!stele_authorize(NULL, operation_of(api), NULL)) {
        stele_server_call_fail(call, "it is not allowed");
        return;
    }
    if (!call->shard->node->is_ready && stele_forward_refuse(call))
        return;
    if (!call->shard->node->is_ready && !may_come_early(call)) {
        stele_server_call_fail(call, "the node is not ready to serve yet");
        return;
    }
    if (!stele_forward_call(call, handle))
        handle(call);
}

/* It tries again many times a second. */
static void tell_stranger(const struct stele_server_call *call)
{
    const struct stele_hello_request *request = &call->request.body.hello;
    struct stele_shard *shard = call->shard;
    int64_t *told_ms = &shard->strangers_told_ms[(uint32_t)request->node_id % STELE_STRANGERS_MAX];
    int64_t now_ms = stele_env_mono_ms(shard->env);
    char subject[32 + STELE_UUID_TEXT_BYTES], text[96 + STELE_UUID_TEXT_BYTES];
    if (now_ms < *told_ms)
        return;
    *told_ms = now_ms + STRANGER_TOLD_MS;
    (void)snprintf(subject, sizeof(subject), "one of cluster %.22s", request->cluster_id);
    (void)snprintf(text, sizeof(text), "this is cluster %.22s: check the addresses of both (--peers) and the disk",
                   shard->node->cluster_id);
    stele_trace(shard->env, STELE_TRACE_PEER_REFUSED, subject, text, request->node_id, 0, 0);
}

void stele_handle_hello(struct stele_server_call *call)
{
    static const struct stele_api_range all[] = {
#define STELE_API(key, name, stem, version_min, version_max) {(key), (version_min), (version_max)},
#include "proto/api.def"
#undef STELE_API
    };
    const struct stele_node *node = call->shard->node;
    const char *cluster_id = node->has_cluster_id ? node->cluster_id : "";
    const struct stele_hello_request *request = &call->request.body.hello;
    struct stele_hello_response *response = &call->response.body.hello;
    *response = (struct stele_hello_response){.message = "",
                                              .cluster_id = cluster_id,
                                              .node_id = node->node_id,
                                              .software_name = "steled",
                                              .software_version = STELE_VERSION,
                                              .apis = all,
                                              .api_count = STELE_ARRAY_LEN(all)};
    bool is_of_node = request->role == STELE_ROLE_NODE && call->session->listener->is_peer;
    bool is_other = request->cluster_id[0] != 0 && cluster_id[0] != 0 && strcmp(request->cluster_id, cluster_id) != 0;
    if (is_other) {
        response->err = STELE_INVALID_REQUEST;
        response->message = "this node belongs to another cluster: check the addresses";
        call->close_why = "it looked for another cluster";
        if (is_of_node)
            tell_stranger(call);
    } else if (is_of_node) {
        call->session->is_of_node = true;
    } else if (!node->is_ready && request->role != STELE_ROLE_ADMIN) {
        response->err = STELE_BROKER_NOT_AVAILABLE;
        response->message = "this node waits for the others of its cluster: ask another, or later";
        call->close_why = "clients are not served yet";
    }
    stele_server_call_done(call);
}
