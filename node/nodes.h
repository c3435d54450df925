/* What a shard knows of the nodes of the cluster: made by the control shard from its image, never changed, shared by
 * counting. */
#ifndef STELE_NODE_NODES_H
#define STELE_NODE_NODES_H

#include "base/address.h"
#include "base/arena.h"
#include "base/mem.h"
#include "proto/api.h"
#include "replication/leader.h"

struct stele_node;
struct stele_shard;

enum { STELE_HINTS_MAX = 64 };

/** The nodes that an answer names. */
struct stele_hints {
    struct stele_metadata_node *items;
    size_t count;
};

struct stele_known_listener {
    const char *name, *host;
    int32_t port;
};

struct stele_known_node {
    struct stele_node_status status;
    char peer_address[STELE_ADDRESS_BYTES]; /* "HOST:PORT" where other nodes reach it; "": not known */
    const char *rack;                       /* "": none */
    const struct stele_known_listener *listeners;
    int listener_count;
};

struct stele_nodes {
    struct stele_mem *mem;
    _Atomic int32_t refs;
    int count;
    struct stele_known_node items[];
};

/** A view with one reference; `items` are copied. NULL without memory. */
STELE_MUST_CHECK struct stele_nodes *stele_nodes_new(struct stele_mem *mem, const struct stele_known_node *items,
                                                     int count);
/** From any thread. */
struct stele_nodes *stele_nodes_ref(struct stele_nodes *nodes);
/** NULL is fine. */
void stele_nodes_unref(struct stele_nodes *nodes);
/** NULL when it is not there; `nodes` may be NULL. */
const struct stele_known_node *stele_nodes_find(const struct stele_nodes *nodes, int32_t node_id);
/** Its listener of that name, or NULL. */
const struct stele_known_listener *stele_known_listener_of(const struct stele_known_node *known, const char *name);

/** For an answer that names leaders: adds the node to `items` in arena memory, once, with the address that it tells by
 * a listener of that name. Nothing is added when that is not known, or without memory. */
void stele_nodes_add_hint(const struct stele_nodes *nodes, struct stele_arena *arena, const char *listener,
                          int32_t node_id, struct stele_hints *hints);

/** On the control shard: hands the view to every data shard, takes a reference of its own. The latest wins. */
void stele_node_tell_nodes(struct stele_node *node, struct stele_nodes *nodes);
/** On the shard: uses the view from now on; its leading partitions learn what changed. */
void stele_shard_take_nodes(struct stele_shard *shard, struct stele_nodes *nodes);

#endif
