/* Words that every machine of replication uses: sets of nodes, the state of a partition as its controller decided it,
 * answers of an epoch index. Everything is a plain value of bounded size: machines take no memory.
 *
 * Three counters fence three things and are never merged: the leader epoch (who may append and serve), the partition
 * epoch (which version of the partition's state a change rests on), the node epoch (which life of a node; Kafka's
 * broker epoch). */
#ifndef STELE_REPLICATION_TYPES_H
#define STELE_REPLICATION_TYPES_H

#include "base/uuid.h"

#include <stdbool.h>

enum {
    STELE_REPLICAS_MAX = 16, /* of one partition, those that come and go in a reassignment counted */
    STELE_NO_NODE = -1
};

/** Nodes without order or, where said (replicas of a partition), in order of preference. No id is in it twice. */
struct stele_node_set {
    int32_t ids[STELE_REPLICAS_MAX];
    int32_t count;
};

/** An entry of an epoch index: `epoch` ends before `end_offset`. (-1, -1): not known (KIP-101, KIP-279). */
struct stele_epoch_end {
    int32_t epoch;
    int64_t end_offset;
};

/** What the metadata log says of one partition. Invariants: isr, elr, adding, removing, offline are subsets of
 * replicas; isr and elr are disjoint; the leader is in isr or NO_NODE. */
struct stele_partition_state {
    int32_t leader_id; /* NO_NODE: none */
    int32_t leader_epoch, partition_epoch;
    struct stele_node_set replicas; /* the preferred leader first */
    struct stele_node_set isr;
    struct stele_node_set elr;            /* eligible to lead without being in sync (KIP-966) */
    struct stele_node_set last_known_elr; /* would be, had they not stopped uncleanly */
    struct stele_node_set adding, removing;
    bool is_recovering;            /* after an unclean election, until its leader says otherwise */
    struct stele_node_set offline; /* their disk or log failed in the present life of their node */
    bool is_unsynced; /* since flush.before.ack was switched on, until its leader says that what was committed by then
                         is on the disks of all that may lead */
};

/** A replica of the metadata quorum: a node with a disk. Another disk is another replica (KIP-853). */
struct stele_replica_key {
    int32_t node_id;
    struct stele_uuid directory_id; /* zero: not known, equals any */
};

bool stele_node_set_has(const struct stele_node_set *set, int32_t node_id);
/** Adds at the end; nothing when it is there. False when the set is full. */
STELE_MUST_CHECK bool stele_node_set_add(struct stele_node_set *set, int32_t node_id);
/** Keeps the order of the others; nothing when it is not there. */
void stele_node_set_remove(struct stele_node_set *set, int32_t node_id);
/** Same members; the order does not count. */
bool stele_node_set_equal(const struct stele_node_set *a, const struct stele_node_set *b);
bool stele_node_set_is_subset(const struct stele_node_set *part, const struct stele_node_set *whole);
/** Same node, and same directory where both are known. */
bool stele_replica_key_equal(const struct stele_replica_key *a, const struct stele_replica_key *b);

#endif
