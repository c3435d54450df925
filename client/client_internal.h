/* The inside of libstele: a client over an env and a net, which the host (or a simulator) hands it. */
#ifndef STELE_CLIENT_CLIENT_INTERNAL_H
#define STELE_CLIENT_CLIENT_INTERNAL_H

#include "base/address.h"
#include "base/env.h"
#include "base/settings.h"
#include "client/stele.h"
#include "proto/link.h"

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

/* What a connection is for: looking comes as an admin, whom a node answers before it is ready. Besides, every consumer
 * has its own: a node answers a parked fetch at once when another request comes behind it, and a fetch delays no
 * produce. */
enum stele_purpose { STELE_FOR_CONTROL, STELE_FOR_PRODUCE, STELE_FOR_LOOKING, STELE_PURPOSE_COUNT };

/** Where requests go; its connections are made when there is something to say. */
struct stele_client_node {
    struct stele_list link; /* in its client's */
    struct stele_client *client;
    int32_t node_id; /* -1: whoever answers at the bootstrap addresses, or in a cluster at any other */
    char address[STELE_ADDRESS_BYTES];
    struct stele_link links[STELE_PURPOSE_COUNT];
};

struct stele_client {
    struct stele_client_driver *driver;
    struct stele_env *env;
    struct stele_settings *settings;
    char *bootstrap;
    struct stele_link_group group; /* of all its links */
    struct stele_client_node any;
    struct stele_list nodes; /* of struct stele_client_node, that were named (nodes.h) */
    int32_t node_count;
    uint32_t node_turn;
    bool is_cluster;                        /* more than one was */
    struct stele_list producers, consumers; /* of struct stele_client_part */
    int callbacks;
    bool is_polling;
};

/** What a producer or consumer is to its client. */
struct stele_client_part {
    struct stele_list link;
    void (*tick)(struct stele_client_part *part, int64_t now_ms);
    int64_t (*deadline)(const struct stele_client_part *part);
    /* The connection to that node for produces is gone; of producers alone. */
    void (*cut_off)(struct stele_client_part *part, const struct stele_client_node *node);
};

/** The monotonic ms when the client has something to do by itself; INT64_MAX: never. 0 when something waits to be
 * handed to the net by the driver. */
int64_t stele_client__deadline(struct stele_client *client);

/** Queues a request; `call->done` is called exactly once, from poll, unless cancelled. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_client__call(struct stele_client_node *node, enum stele_purpose purpose,
                                                   struct stele_call *call, struct stele_request *request,
                                                   struct stele_buf *records);
/** Forgets a call: `done` is not called any more. A sent one closes its connection, since its answer would come. */
void stele_client__cancel(struct stele_client_node *node, enum stele_purpose purpose, struct stele_call *call);
/** The node of that id; NULL: none that was named. */
struct stele_client_node *stele_client__node(const struct stele_client *client, int32_t node_id);
void stele_client__tick_nodes(struct stele_client *client, int64_t now_ms);
int64_t stele_client__nodes_deadline(struct stele_client *client);
int64_t stele_client__now_ms(const struct stele_client *client);
struct stele_result stele_client__result(enum stele_err err, const char *text);
struct stele_leaders;
/** Id, partitions and leaders of a topic, asking a node. Polls. */
STELE_MUST_CHECK enum stele_err stele_client__topic(struct stele_client *client, const char *topic,
                                                    struct stele_leaders *leaders, struct stele_error *error);
/** The same for a producer or consumer: with allow.auto.create.topics a topic that is missing is made. */
STELE_MUST_CHECK enum stele_err stele_client__topic_to_use(struct stele_client *client, const char *topic,
                                                           struct stele_leaders *leaders, struct stele_error *error);
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
