/* A node in memory that a test scripts, or several: it answers over byte pipes that cut anywhere, on virtual time. Its
 * own memory does not come from the client's, so that failing the n-th allocation hits the client alone. The nodes of a
 * cluster share one log a partition; what differs is who leads, who is there, and who knows of it. */
#ifndef STELE_CLIENT_TEST_PEER_H
#define STELE_CLIENT_TEST_PEER_H

#include "base/test/support.h"
#include "client/client_internal.h"
#include "proto/record_batch.h"

enum { PEER_PARTITIONS = 4, PEER_PRODUCERS = 8, PEER_BATCHES = 4096, PEER_SCRIPT = 16, PEER_NODES = 4 };

struct peer_batch {
    uint8_t *bytes;
    size_t count;
    int64_t base_offset, last_offset;
};

/* What a log knows of a producer, by Kafka's rules. */
struct peer_producer {
    int64_t id;
    int16_t epoch;
    int batch_count;
    struct {
        int32_t first, last;
        int64_t base_offset;
    } batches[5];
};

struct peer_log {
    struct peer_producer producers[PEER_PRODUCERS];
    int producer_count;
    struct peer_batch batches[PEER_BATCHES];
    int batch_count;
    int64_t start_offset, end_offset;
};

struct peer_leader {
    int32_t node_id, epoch;
};

struct peer_node {
    int32_t id;
    char host[16];
    int32_t port;
    bool is_down;                                      /* refuses connections */
    bool is_stale;                                     /* learns of no new leader */
    bool has_old_topic;                                /* has not heard that the topic was made anew */
    bool is_mute;                                      /* reads and never answers */
    bool holds_produces;                               /* reads none until it is false again, */
    int produces_let;                                  /* but so many */
    bool holds_answers;                                /* sends none until it is false again */
    struct peer_leader leaders[PEER_PARTITIONS];       /* as it knows them */
    int connects, produces, fetches, lists, metadatas; /* requests that it answered */
};

struct peer {
    struct stele_client_driver driver;
    struct stele_net net;
    struct stele_test_env env; /* the client's */
    struct stele_test_mem own; /* the peer's */
    struct stele_prng prng;
    struct stele_list conns;
    struct peer_log logs[PEER_PARTITIONS];
    int32_t partition_count;
    const char *topic;
    const char *address; /* at which it is; elsewhere is nobody */
    struct stele_uuid topic_id;
    struct peer_node nodes[PEER_NODES];
    int node_count; /* 0: one node, whatever it is called */
    struct peer_leader leaders[PEER_PARTITIONS];
    bool gives_hints;      /* of the leader, with errors */
    int32_t replica_id;    /* to which leaders send who has a rack; 0: none */
    int64_t replica_start; /* what is below was deleted there, and not yet at the leader */

    /* the script */
    size_t chunk_max;              /* bytes that arrive at once, 1 to this many */
    int refusals;                  /* connections to refuse */
    int drops_before, drops_after; /* produces to lose, and answers to produces to lose, with the connection */
    int garbage;                   /* answers to replace by noise */
    bool checks_topic_id;          /* UNKNOWN_TOPIC_ID for another one, in produces and fetches */
    bool holds_produces;           /* reads none until it is false again */
    bool is_mute;                  /* reads and never answers */
    enum stele_err produce_errs[PEER_SCRIPT]; /* of the next produces */
    int produce_err_count;
    enum stele_err fetch_errs[PEER_SCRIPT];
    int fetch_err_count;
    enum stele_err metadata_err, hello_err, create_err, init_err;
    bool is_unready;                /* takes admins alone */
    struct stele_api_range apis[4]; /* that hello says are served */
    size_t api_count;               /* 0: it does not say */
    int16_t init_epoch;
    enum stele_err late_errs[PEER_SCRIPT]; /* of the next produces, which are written all the same */
    int late_err_count;
    int damaged_fetches;              /* answers in which a byte is flipped */
    int doubts;                       /* fetches that doubted what came before */
    int64_t doubted_offset;           /* of the last one */
    uint8_t *rotten;                  /* a byte that is put right when it is doubted; NULL: none */
    int64_t damaged_from, damaged_to; /* reads of these offsets are refused, and no answer reaches into them */
    bool cuts_first_batch;            /* a batch larger than max_bytes is cut too */
    size_t batch_bytes_max;           /* beyond: MESSAGE_TOO_LARGE; 0 none */
    enum stele_err list_errs[PEER_SCRIPT];
    int list_err_count;
    int64_t by_time; /* the offset found for a time */
    /* The other apis: looks at the request and fills the answer. */
    void (*admin)(struct peer *peer, const struct stele_request *request, struct stele_response *response);
    void *admin_arg, *scratch;
    struct stele_aborted_transaction aborted[4];
    size_t aborted_count;
    unsigned fault_percent; /* of requests that meet a random fault */

    /* what it saw */
    char addresses[64]; /* that were tried, one behind the other */
    int connects, produces, fetches, metadatas, creates, inits, duplicates;
    bool may_make;        /* the last one: a missing topic */
    int produce_requests; /* also those that it did not answer */
    int64_t last_time;    /* that was asked for */
    int32_t last_acks;
    size_t last_setting_count;
    int32_t last_replicas; /* of a topic that was made */
    int32_t last_admin_node;
    int strays; /* requests to a node that did not lead, or with another epoch */
};

void peer_init(struct peer *peer);
/** The log of a partition forgets its producers, or all but the last batch of each. */
void peer_forget_producers(struct peer *peer, int32_t partition, bool all);
/** Makes it a cluster of nodes 1 to `count` at "n1:1" and so on; partition p is led by node 1 + p % count. */
void peer_cluster(struct peer *peer, int count);
/** The node of that id. */
struct peer_node *peer_node(struct peer *peer, int32_t id);
/** The partition gets a new leader epoch with this leader; -1: none. */
void peer_move(struct peer *peer, int32_t partition, int32_t node_id);
/** The node is gone, and its connections with it. */
void peer_down(struct peer *peer, int32_t node_id);
/** Cuts a log at a batch's base offset, as an unclean election does. */
void peer_truncate(struct peer *peer, int32_t partition, int64_t offset);
/** Ends every connection, with the answers that are still on their way. */
void peer_drop(struct peer *peer);
void peer_deinit(struct peer *peer);
/** A client of this peer. */
struct stele_client *peer_client(struct peer *peer, const struct stele_setting *settings);
/** Appends a batch of `count` records "r<offset>" with the options' attributes. */
void peer_append(struct peer *peer, int32_t partition, int count, const struct stele_batch_options *options);
/** In all partitions together the records "v0" to "v<count - 1>" are there once each, in each in growing order. */
void peer_check_once(struct peer *peer, int count);
/** The value of a stored record, or NULL. */
bool peer_has(struct peer *peer, int32_t partition, int64_t offset, const char *value);

#endif
