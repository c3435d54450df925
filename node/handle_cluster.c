/* The messages of a cluster: agreed on, and not served before this node can be part of one. */
#include "node/server_call.h"

#define EACH(NOT_SERVED)                                                                                               \
    NOT_SERVED(NODE_HEARTBEAT, node_heartbeat)                                                                         \
    NOT_SERVED(REGISTER_NODE, register_node)                                                                           \
    NOT_SERVED(UNREGISTER_NODE, unregister_node)

#define NOT_SERVED(name, stem)                                                                                         \
    void stele_handle_##stem(struct stele_server_call *call)                                                           \
    {                                                                                                                  \
        stele_server_call_fail(call, "a request between nodes of a cluster, which this version does not serve");       \
    }
EACH(NOT_SERVED)
#undef NOT_SERVED

bool stele_is_served(enum stele_api api)
{
#define NOT_SERVED(name, stem)                                                                                         \
    if (api == STELE_API_##name)                                                                                       \
        return false;
    EACH(NOT_SERVED)
#undef NOT_SERVED
    return true;
}
