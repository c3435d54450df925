/* Which requests are the controller's, and what their answers have in common. */
#include "node/forward.h"

enum {
    TIME_OUT_MS = 10000,     /* of a request that names none */
    TIME_OUT_MS_MAX = 600000 /* of one that does */
};

#define EACH(F)                                                                                                        \
    F(CREATE_TOPIC, create_topic)                                                                                      \
    F(CREATE_PARTITIONS, create_partitions)                                                                            \
    F(DELETE_TOPIC, delete_topic)                                                                                      \
    F(ALTER_SETTINGS, alter_settings)                                                                                  \
    F(INIT_PRODUCER_ID, init_producer_id)                                                                              \
    F(ELECT_LEADERS, elect_leaders)                                                                                    \
    F(REASSIGN, reassign)                                                                                              \
    F(UNREGISTER_NODE, unregister_node)                                                                                \
    F(UPDATE_LEVEL, update_level)                                                                                      \
    F(ALTER_VOTERS, alter_voters)                                                                                      \
    F(DESCRIBE_CLUSTER, describe_cluster)                                                                              \
    F(DESCRIBE_QUORUM, describe_quorum)

bool stele_forward__is_for_controller(const struct stele_request *request)
{
    switch ((int)request->header.api) {
    case STELE_API_DESCRIBE_CLUSTER:
        return !request->body.describe_cluster.is_local;
    case STELE_API_DESCRIBE_QUORUM:
        return !request->body.describe_quorum.is_local;
#define CASE(name, stem)                                                                                               \
    case STELE_API_##name:                                                                                             \
        return true;
        CASE(CREATE_TOPIC, create_topic)
        CASE(CREATE_PARTITIONS, create_partitions)
        CASE(DELETE_TOPIC, delete_topic)
        CASE(ALTER_SETTINGS, alter_settings)
        CASE(INIT_PRODUCER_ID, init_producer_id)
        CASE(ELECT_LEADERS, elect_leaders)
        CASE(REASSIGN, reassign)
        CASE(UNREGISTER_NODE, unregister_node)
        CASE(UPDATE_LEVEL, update_level)
        CASE(ALTER_VOTERS, alter_voters)
#undef CASE
    }
    return false;
}

bool stele_forward__is_change(const struct stele_request *request)
{
    switch ((int)request->header.api) {
    case STELE_API_INIT_PRODUCER_ID:
    case STELE_API_DESCRIBE_CLUSTER:
    case STELE_API_DESCRIBE_QUORUM:
        return false;
    case STELE_API_CREATE_TOPIC:
        return !request->body.create_topic.validate_only;
    case STELE_API_CREATE_PARTITIONS:
        return !request->body.create_partitions.validate_only;
    case STELE_API_ALTER_SETTINGS:
        return !request->body.alter_settings.validate_only;
    }
    return true;
}

int64_t stele_forward__time_out_ms(const struct stele_request *request)
{
    int64_t ms = 0;
    switch ((int)request->header.api) {
#define CASE(name, stem)                                                                                               \
    case STELE_API_##name:                                                                                             \
        ms = request->body.stem.timeout_ms;                                                                            \
        break;
        CASE(CREATE_TOPIC, create_topic)
        CASE(CREATE_PARTITIONS, create_partitions)
        CASE(DELETE_TOPIC, delete_topic)
        CASE(ELECT_LEADERS, elect_leaders)
        CASE(REASSIGN, reassign)
        CASE(ALTER_VOTERS, alter_voters)
#undef CASE
    }
    return ms > 0 ? stele_min_i64(ms, TIME_OUT_MS_MAX) : TIME_OUT_MS;
}

void stele_forward__answer_with(struct stele_response *response, enum stele_api api, enum stele_err err,
                                const char *message)
{
    *response = (struct stele_response){.header = {.api = api}};
    switch ((int)api) {
#define CASE(name, stem)                                                                                               \
    case STELE_API_##name:                                                                                             \
        response->body.stem.err = err;                                                                                 \
        response->body.stem.message = message;                                                                         \
        break;
        EACH(CASE)
#undef CASE
    }
}

enum stele_err stele_forward__err_of(const struct stele_response *response, enum stele_api api)
{
    switch ((int)api) {
#define CASE(name, stem)                                                                                               \
    case STELE_API_##name:                                                                                             \
        return response->body.stem.err;
        EACH(CASE)
#undef CASE
    }
    return STELE_OK;
}
