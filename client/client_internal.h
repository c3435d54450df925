/* The inside of libstele: a client over an env and a net, which the host (or a simulator) hands it. */
#ifndef STELE_CLIENT_CLIENT_INTERNAL_H
#define STELE_CLIENT_CLIENT_INTERNAL_H

#include "base/address.h"
#include "base/env.h"
#include "base/list.h"
#include "base/net.h"
#include "base/settings.h"
#include "client/stele.h"
#include "proto/codec.h"

/** Waits until something happened or until_ms (monotonic) passed, and runs the net's handlers. Owned by the client. */
struct stele_client_driver {
    void (*wait)(struct stele_client_driver *driver, int64_t until_ms);
    void (*free)(struct stele_client_driver *driver);
    struct stele_env *env;
    struct stele_net *net;
};

/** The constructor behind stele_client_new; the driver is the client's on success. */
STELE_MUST_CHECK enum stele_err stele_client__new(struct stele_client_driver *driver, const char *bootstrap,
                                                  const struct stele_setting *settings,
                                                  struct stele_client **out_client, struct stele_error *error);

/* What a connection is for. Besides, every consumer has one of its own: a node answers a parked fetch at once when
 * another request comes behind it, and a fetch delays no produce. */
enum stele_purpose { STELE_FOR_CONTROL, STELE_FOR_PRODUCE, STELE_PURPOSE_COUNT };

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

struct stele_link {
    struct stele_client *client;
    struct stele_conn *conn;           /* NULL: not connected */
    bool is_ready;                     /* hello was answered */
    int64_t set_up_ms;                 /* when a connection that is not ready is given up */
    struct stele_backoff backoff;      /* no new connection before; reset by a hello that succeeds */
    char address[STELE_ADDRESS_BYTES]; /* of the connection */
    int address_at;                    /* of the bootstrap list: the next to try */
    int32_t sent_count;                /* calls that wait for an answer */
    size_t queued_bytes;               /* handed to the net and not sent */
    struct stele_list calls;           /* sent ones first, in order; then those that wait */
    struct stele_call hello;
    uint8_t head[8];
    size_t head_bytes;
    struct stele_buf *incoming;
    uint32_t message_bytes;
};

struct stele_client {
    struct stele_client_driver *driver;
    struct stele_env *env;
    struct stele_settings *settings;
    char *bootstrap;
    struct stele_link links[STELE_PURPOSE_COUNT];
    struct stele_arena arena; /* scratch of encoding and decoding */
    uint64_t next_correlation_id;
    struct stele_list producers, consumers; /* of struct stele_client_part */
    int callbacks;
    bool is_polling;
    bool has_queued;                      /* sent or connected since the driver waited last */
    char trouble[STELE_ERROR_TEXT_BYTES]; /* why the last connection ended or was not made; "" when all is well */
};

/** What a producer or consumer is to its client. */
struct stele_client_part {
    struct stele_list link;
    struct stele_link *connection; /* its own; NULL: none */
    void (*tick)(struct stele_client_part *part, int64_t now_ms);
    int64_t (*deadline)(const struct stele_client_part *part);
};

/** The monotonic ms when the client has something to do by itself; INT64_MAX: never. 0 when something waits to be
 * handed to the net by the driver. */
int64_t stele_client__deadline(struct stele_client *client);

/** Queues a request; `call->done` is called exactly once, from poll, unless cancelled. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_client__call(struct stele_client *client, enum stele_purpose purpose,
                                                   struct stele_call *call, struct stele_request *request,
                                                   struct stele_buf *records);
/** Forgets a call: `done` is not called any more. A sent one closes its connection, since its answer would come. */
void stele_client__cancel(struct stele_client *client, enum stele_purpose purpose, struct stele_call *call);
/** The same over a link that is not the client's own. */
STELE_MUST_CHECK enum stele_err stele_link__call(struct stele_link *link, struct stele_call *call,
                                                 struct stele_request *request, struct stele_buf *records);
void stele_link__cancel(struct stele_link *link, struct stele_call *call);
void stele_link__init(struct stele_link *link, struct stele_client *client);
/** No call may be left. */
void stele_link__close(struct stele_link *link);
int64_t stele_client__now_ms(const struct stele_client *client);
struct stele_result stele_client__result(enum stele_err err, const char *text);
/** Topic id and partition count, asking the node. Polls. */
STELE_MUST_CHECK enum stele_err stele_client__topic(struct stele_client *client, const char *topic,
                                                    struct stele_uuid *out_topic_id, int32_t *out_partitions,
                                                    struct stele_error *error);
/** The same for a producer or consumer: with allow.auto.create.topics a topic that is missing is made. */
STELE_MUST_CHECK enum stele_err stele_client__topic_to_use(struct stele_client *client, const char *topic,
                                                           struct stele_uuid *out_topic_id, int32_t *out_partitions,
                                                           struct stele_error *error);
/** All at their defaults; NULL without memory. */
STELE_MUST_CHECK struct stele_settings *stele_client__settings_new(struct stele_mem *mem);
STELE_MUST_CHECK enum stele_err stele_client__set_all(struct stele_settings *set, const struct stele_setting *settings,
                                                      struct stele_error *error);
/** A settings set of the client's table with the client's values and `settings` laid over. */
STELE_MUST_CHECK enum stele_err stele_client__settings(struct stele_client *client,
                                                       const struct stele_setting *settings,
                                                       struct stele_settings **out, struct stele_error *error);

/** The one place that decides on a retry: by the error's class only. */
bool stele_client__may_retry(enum stele_err err);
/** Whether to try again after `err`, and then when: retry.backoff.ms, doubled with every attempt up to
 * retry.backoff.max.ms, 20 % more or less by chance. */
bool stele_client__retry(struct stele_client *client, struct stele_backoff *backoff, enum stele_err err);
/** The same when it was decided already. */
void stele_client__wait_before_retry(struct stele_client *client, struct stele_backoff *backoff);
/** The code for `err` and a formatted text. */
struct stele_result stele_client__failure(enum stele_err err, const char *format, ...) STELE_PRINTF(2, 3);

/** Kafka's murmur2 of a key and the partition it gives. */
uint32_t stele_murmur2(const void *bytes, size_t count);
int32_t stele_partition_of_key(const void *key, size_t bytes, int32_t partitions);

#endif
