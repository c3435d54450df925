/* The connections of the control shard to the other nodes, and what goes over them: the quorum's requests and the
 * messages of formation. Each node has two, so that a vote never waits behind records: one for fetches of the metadata
 * log, one for everything else.
 *
 * Invariants
 *  1. A request lives until its link has told its end; then its answer lives until the quorum's machine has taken it.
 *  2. Of a connection that ends the machine is told once, by CLOSED; requests that were not sent go with it.
 *  3. There are STELE_VOTERS_MAX places. The one of a node that neither votes nor is registered goes to another that
 *     does when there is none free, once nothing is under way by it; so a voter always has one. Of registered nodes
 *     beyond the places the controller hears by their heartbeats alone. */
#ifndef STELE_NODE_PEERS_H
#define STELE_NODE_PEERS_H

#include "base/timing_wheel.h"
#include "node/metadata_log.h"
#include "node/peer_list.h"
#include "proto/link.h"

struct stele_peers;

struct stele_peer {
    struct stele_peers *peers;
    int32_t node_id;
    char address[STELE_ADDRESS_BYTES];
    struct stele_link control, fetch;
    struct stele_quorum_input closed; /* an event under way */
    bool is_closed_queued;
    bool is_up;          /* the control connection is there, and was greeted */
    bool is_gone;        /* it could not be made when that was tried last */
    bool is_senseless;   /* what it said last was no answer, and that was traced */
    enum stele_err told; /* the last refusal that was traced */
};

struct stele_peers {
    struct stele_shard *shard; /* NULL: there are none */
    struct stele_metadata_log *mlog;
    struct stele_link_group group;
    struct stele_uuid directory_id;
    char cluster_id[STELE_UUID_TEXT_BYTES]; /* "" until it is known */
    struct stele_peer items[STELE_VOTERS_MAX];
    int count;
    struct stele_list calls;   /* not yet answered */
    struct stele_list answers; /* with the machine */
    struct stele_timer timer;
    bool is_ended;          /* nothing is sent any more */
    int32_t misnamed_count; /* answers in a row by which this node leads, which it does not */
    /* The control connection of a peer was made, closed, or could not be made; NULL: nobody wants to know. */
    void (*changed)(struct stele_peers *peers, struct stele_peer *peer, bool was_up);
};

/** Makes a link to every node of the list but this one; none is connected before there is something to say. */
void stele_peers_init(struct stele_peers *peers, struct stele_shard *shard, struct stele_metadata_log *mlog,
                      const struct stele_peer_list *list);
/** Makes links to the voters and the registered nodes that the list does not name, and takes up where the voters'
 * record says that nodes are. */
void stele_peers_look(struct stele_peers *peers);
/** The cluster is known: every connection from now on names it. */
void stele_peers_set_identity(struct stele_peers *peers, const char *cluster_id, const struct stele_uuid *directory_id);
/** Sends a request of the machine; its answer, or CLOSED, is fed to it. Never calls back. */
void stele_peers_send(struct stele_peers *peers, const struct stele_quorum_request *request);
/** Asks a node something that is not the quorum's; as stele_link_call. */
STELE_MUST_CHECK enum stele_err stele_peers_call(struct stele_peer *peer, struct stele_call *call,
                                                 struct stele_request *request);
/** NULL: it is none of them. */
struct stele_peer *stele_peers_find(struct stele_peers *peers, int32_t node_id);
/** No request waits for its answer. */
bool stele_peers_is_idle(const struct stele_peers *peers);
/** Drops connections and requests; those of stele_peers_call must be cancelled before. */
void stele_peers_end(struct stele_peers *peers);

#endif
