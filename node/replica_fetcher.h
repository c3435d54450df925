/* Fetches what a shard's partitions follow: one connection to each node that leads some of them, an incremental session
 * on it, a request that waits there for more, and a second one behind it when there is something to tell.
 *
 * Invariants
 *  1. A partition is in the fetcher of its leader, by a line that outlives its stay until the server was told.
 *  2. An answer is of the question that the server knew when it made it: the latest one of that request or before.
 * States: idle -> asking (kick) -> idle (answers), any -> lost (the connection ends) -> idle (a while later). */
#ifndef STELE_NODE_REPLICA_FETCHER_H
#define STELE_NODE_REPLICA_FETCHER_H

#include "node/partition.h"
#include "proto/link.h"

struct stele_replica_line {
    struct stele_fetcher_entry entry;
    struct stele_partition *partition; /* NULL: it left */
    struct stele_partition_key key;
    struct stele_fetch_line sent; /* the latest, in this session */
    bool is_used_up;              /* an answer was of it that the server makes once for each line */
    struct {
        uint64_t request; /* the number of the request that it went with; 0: none */
        struct stele_follower_ticket ticket;
    } asked[STELE_FETCHES_IN_FLIGHT]; /* the newest first */
};

void stele_replica_fetchers_init(struct stele_shard *shard);
/** No more questions. */
void stele_replica_fetchers_stop(struct stele_shard *shard);
/** At the end of the node. */
void stele_replica_fetchers_free(struct stele_shard *shard);

/** The links of a shard's replicas have it in common. */
struct stele_link_group *stele_replica_fetchers_group(struct stele_shard *shard);

/** The partition follows `leader_id` from now on; its question is due. False: there is no memory, or nobody knows where
 * that node is. */
bool stele_replica_fetcher_join(struct stele_partition *partition, int32_t leader_id);
/** Of one that is in none it is fine. */
void stele_replica_fetcher_leave(struct stele_partition *partition);
/** The node that it fetches from; NO_NODE: from none. */
int32_t stele_replica_fetcher_leader(const struct stele_partition *partition);
/** Its question is due. */
void stele_replica_fetcher_touch(struct stele_partition *partition);

#endif
