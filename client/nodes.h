/* The nodes that a client knows, and who leads the partitions of a topic.
 *
 * Of one node nothing has to be known: it is where the bootstrap addresses lead, whatever it calls itself. Since a
 * second one was named, requests of a partition go to its leader, by the newest leader epoch that anybody told of. */
#ifndef STELE_CLIENT_NODES_H
#define STELE_CLIENT_NODES_H

#include "client/client_internal.h"

struct stele_leader {
    struct stele_client_node *node; /* NULL: there is none, or nobody said where */
    int32_t node_id, epoch;         /* -1: none, not known */
    bool is_new;                    /* what it says changed since the owner looked */
};

/** The leaders of a topic's partitions, by number. */
struct stele_leaders {
    struct stele_client *client;
    struct stele_uuid topic_id;
    struct stele_leader *at;
    int32_t count; /* of the topic's partitions */
};

/* nodes.c */

void stele_client__nodes_init(struct stele_client *client);
void stele_client__nodes_deinit(struct stele_client *client);
/** What a metadata answer or a hint says of nodes; those of before stay known. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_client__take_nodes(struct stele_client *client,
                                                         const struct stele_metadata_node *nodes, size_t count);
/** The one after that of the last call, so that all are asked by turns; NULL: none is known. */
struct stele_client_node *stele_client__next_node(struct stele_client *client);
/** Ticks a link of the owner's to the node, which may be elsewhere by now. */
void stele_client__tick_link(const struct stele_client_node *node, struct stele_link *link, int64_t now_ms);
/** Whether a call waits for a connection that could not be made. */
bool stele_client__is_unreached(const struct stele_client_node *node, enum stele_purpose purpose,
                                const struct stele_call *call);
/** The address of the next connection. */
void stele_client__node_address(const struct stele_client_node *node, struct stele_link *link,
                                char out_address[STELE_ADDRESS_BYTES]);

/* leaders.c */

void stele_leaders__free(struct stele_leaders *leaders);
/** Takes what is not older than what is known. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_leaders__take(struct stele_leaders *leaders,
                                                    const struct stele_metadata_topic *topic);
/** What comes with an error of a partition: its leader, if that is news, and the nodes that may be new. */
struct stele_leader_hint {
    int32_t partition, node_id, epoch;
    const struct stele_metadata_node *nodes;
    size_t node_count;
};
/** True when it is news. */
bool stele_leaders__hint(struct stele_leaders *leaders, const struct stele_leader_hint *hint);
/** The node that requests of the partition go to; NULL: not known. */
struct stele_client_node *stele_leaders__route(const struct stele_leaders *leaders, int32_t partition);
/** For requests, by which a node that was replaced notices; -1: not known, or there is one node. */
int32_t stele_leaders__epoch(const struct stele_leaders *leaders, int32_t partition);
/** Whether something is to be learned still. */
bool stele_leaders__has_gap(const struct stele_leaders *leaders);
/** True once after a change. */
bool stele_leaders__look(struct stele_leaders *leaders, int32_t partition);

#endif
