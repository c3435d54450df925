/* Apis whose messages exist and whose handlers are being written. */
#include "node/server_call.h"

#define UNSERVED(stem)                                                                                                 \
    void stele_handle_##stem(struct stele_server_call *call)                                                           \
    {                                                                                                                  \
        stele_server_call_fail(call, "a request of an api that is not served yet");                                    \
    }

UNSERVED(node_status)
