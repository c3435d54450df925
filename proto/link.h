/* The asking side of the native protocol: a connection that is made when there is something to say, the hello in front
 * of everything, requests that leave in order and are answered in the same order. Clients and nodes use it alike.
 *
 * `done` and `changed` are called by the net's handlers, by tick, by cancel and drop (for other calls), never from
 * inside stele_link_call. */
#ifndef STELE_PROTO_LINK_H
#define STELE_PROTO_LINK_H

#include "base/address.h"
#include "base/env.h"
#include "base/list.h"
#include "base/net.h"
#include "proto/codec.h"

/** What a request brought; borrowed for the call of `done`. Ref `frame` to keep the record bytes, which lie in it. */
struct stele_answer {
    const struct stele_response *response;
    struct stele_buf *frame;
    const uint8_t *records;
    size_t records_bytes;
};

struct stele_call;
/** The answer is all NULL unless err is OK, and for a oneway call. A connection that ends is told as CLOSED or
 * REQUEST_TIMED_OUT: whether the node did what was asked is not known then. */
typedef void (*stele_call_done)(struct stele_call *call, enum stele_err err, const struct stele_answer *answer);

/** One request under way; embedded in what waits for it. */
struct stele_call {
    struct stele_list link;
    enum stele_api api;
    uint64_t correlation_id;
    int64_t deadline_ms;
    struct stele_buf *frame;   /* header and message; the call's */
    struct stele_buf *records; /* or NULL; a reference of the call's */
    bool is_sent;
    bool is_oneway; /* no answer comes (acks=0): done, without a response, once it is sent */
    stele_call_done done;
};

/** When the next try may be made; all zero before the first failure. */
struct stele_backoff {
    int32_t attempts;
    int64_t at_ms;
};

/** The time after the next failure: `first_ms`, doubled with every attempt up to `most_ms`, 20 % more or less by chance
 * so that many do not come at once. */
void stele_backoff_next(struct stele_backoff *backoff, struct stele_env *env, int64_t first_ms, int64_t most_ms);

/** What the links of one program have in common. The texts are the owner's. */
struct stele_link_group {
    struct stele_env *env;
    struct stele_net *net;
    enum stele_mem_tag tag;
    struct stele_arena arena; /* scratch of encoding and decoding */
    uint64_t next_correlation_id;

    const char *client_id;
    const char *software_name;
    enum stele_role role;
    int32_t node_id;
    const char *cluster_id;

    int64_t request_timeout_ms, set_up_timeout_ms;
    int64_t backoff_ms, backoff_max_ms; /* between two connections */
    int32_t in_flight_max;              /* requests without an answer, on one connection */
    bool looks_at_apis;                 /* what the other side does not serve fails with UNSUPPORTED_VERSION */

    bool has_queued;                      /* sent or connected since the owner last looked */
    char trouble[STELE_ERROR_TEXT_BYTES]; /* why the last connection ended or was not made; "" when all is well */
};

struct stele_link {
    struct stele_link_group *group;
    /* The address of the next connection, "HOST:PORT". */
    void (*next_address)(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES]);
    /* It is ready (OK) or gone; may be NULL. */
    void (*changed)(struct stele_link *link, enum stele_err err);

    struct stele_conn *conn;           /* NULL: not connected */
    bool is_admin;                     /* the owner's: it comes as ADMIN, whatever the group is */
    bool is_ready;                     /* hello was answered, */
    uint64_t served;                   /* and these apis are served: bits, in the order of api.def */
    enum stele_err failure;            /* of a send; the next tick ends the connection */
    int64_t set_up_ms;                 /* when a connection that is not ready is given up */
    struct stele_backoff backoff;      /* no new connection before; reset by a hello that succeeds */
    char address[STELE_ADDRESS_BYTES]; /* of the connection */
    int32_t address_at;                /* the owner's, for next_address */
    int32_t sent_count;                /* calls that wait for an answer */
    size_t queued_bytes;               /* handed to the net and not sent */
    struct stele_list calls;           /* sent ones first, in order; then those that wait */
    struct stele_call hello;
    uint8_t head[8];
    size_t head_bytes;
    struct stele_buf *incoming;
    uint32_t message_bytes;
};

/** Everything else zero, then set by the owner. */
void stele_link_group_init(struct stele_link_group *group, struct stele_env *env, struct stele_net *net,
                           enum stele_mem_tag tag);
void stele_link_group_deinit(struct stele_link_group *group);

void stele_link_init(struct stele_link *link, struct stele_link_group *group);
/** No call may be left. */
void stele_link_close(struct stele_link *link);
/** Forgets everything without a call: the net is gone, or goes with what it has of the link. */
void stele_link_abandon(struct stele_link *link);
/** Queues a request; `call->done` is called exactly once unless it is cancelled. The deadline is request_timeout_ms
 * from now. Errors: NO_MEMORY, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_link_call(struct stele_link *link, struct stele_call *call,
                                                struct stele_request *request, struct stele_buf *records);
/** Forgets a call: `done` is not called any more. A sent one closes its connection, since its answer would come. */
void stele_link_cancel(struct stele_link *link, struct stele_call *call);
/** Ends the connection, if there is one: calls that were sent fail with CLOSED. */
void stele_link_drop(struct stele_link *link);
/** Does what is due: connects, gives up what is late. */
void stele_link_tick(struct stele_link *link, int64_t now_ms);
/** When tick has something to do; INT64_MAX: never. */
int64_t stele_link_deadline(const struct stele_link *link);

#endif
