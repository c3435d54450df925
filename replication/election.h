/* What a partition's controller makes of its state: one pure function for every change.
 *
 * A change is worked out from the present state, what is wanted, and a view of the nodes. Whatever is wanted, each
 * change also brings the state in line with the view: a replica that may not lead leaves the ISR, a reassignment whose
 * targets are all in sync ends, a leader is elected where one is eligible. So fencing a node, its controlled shutdown,
 * a directory that went offline and a node that came back are all the same change, under another view.
 *
 * Rules (numbers of the facts about Kafka's replication):
 *   4.5  the leader is one of the ISR or, when that is empty, of the ELR; else only an unclean election names one
 *   4.6  the leader epoch moves with every change of the leader, to NO_NODE too, and when a replica leaves; never for a
 *        change of the ISR alone
 *   4.6  the partition epoch moves with every change; a change that changes nothing is none
 *   4.7  ELR (KIP-966): who left the ISR while it was below min.insync.replicas and has lost no memory; empty beside an
 *        ISR of that size. The ISR may become empty
 *   4.9  a reassignment ends inside any change in which every target is in sync
 *
 * Departures from Kafka: a reassignment that is started or cancelled does not take away replicas that were to be added
 * where they are needed for min.insync.replicas copies of what was committed, unless may_lose_isr says so; once enough
 * others are in sync it may be asked for again. Nobody of last_known_elr is elected without being asked (4.5.4), but
 * for the one replica of a partition that has no other: there is nothing to choose. An unclean election takes the
 * replica that the caller names (stele_forced_pick). */
#ifndef STELE_REPLICATION_ELECTION_H
#define STELE_REPLICATION_ELECTION_H

#include "base/err.h"
#include "replication/types.h"

/** What the controller knows of a node, and of its replica of one partition. */
struct stele_replica_view {
    int32_t node_id;
    int64_t node_epoch; /* of its registration */
    bool is_active;     /* registered, not fenced, not in controlled shutdown (4.4.1) */
    bool is_offline;    /* its directory, or this replica alone, failed */
};

/** All that a change looks at beside the state. A node that is not listed is not registered. */
struct stele_partition_view {
    struct stele_replica_view nodes[2 * STELE_REPLICAS_MAX]; /* replicas and targets; the order does not count */
    int32_t count;
    int32_t min_isr; /* min.insync.replicas of the topic; the number of replicas bounds it here (4.7.2) */
};

enum stele_elect_mode {
    STELE_ELECT_ONLINE,    /* keep a leader that may lead */
    STELE_ELECT_PREFERRED, /* the first replica, if it may */
    STELE_ELECT_UNCLEAN    /* anyone who is there when no one may lead cleanly */
};

enum stele_reassign { STELE_REASSIGN_NONE, STELE_REASSIGN_START, STELE_REASSIGN_CANCEL };

/** What is wanted; all zero: only what the view demands. */
struct stele_partition_change {
    enum stele_elect_mode mode;
    int32_t unclean_leader_id; /* mode UNCLEAN: who to take; NO_NODE: the first that is there */
    bool has_isr;              /* from the leader, checked by stele_alter_partition */
    struct stele_node_set isr;
    bool has_recovered; /* the leader says that it is no longer recovering */
    bool is_unsynced;   /* what was committed before need not be on any disk: flush.before.ack is switched on */
    bool has_synced;    /* the leader says that it is on the disks of `isr`; nothing while others may lead too (ELR) */
    struct stele_node_set
        lost_tail;                 /* lost memory that this partition rests on, or are gone for good (4.2.10, 4.3.14) */
    struct stele_node_set offline; /* replicas whose disk or log failed: what they had is lost, and they may not lead */
    enum stele_reassign reassign;
    struct stele_node_set target; /* REASSIGN_START: the new replicas, in order of preference */
    bool may_lose_isr;            /* although that leaves nobody eligible, or too few copies (4.9.4) */
};

/** Bits of what a change was. */
enum {
    STELE_CHANGED_LEADER = 1 << 0, /* another one, or none */
    STELE_CHANGED_ISR = 1 << 1,
    STELE_CHANGED_ELR = 1 << 2,      /* ELR or last known ELR */
    STELE_CHANGED_REPLICAS = 1 << 3, /* replicas, adding or removing */
    STELE_CHANGED_RECOVERY = 1 << 4,
    STELE_CHANGED_UNCLEAN = 1 << 5,      /* an unclean election: committed records may be gone */
    STELE_CHANGED_SOLE_REPLICA = 1 << 6, /* the only replica leads again after it lost memory: likewise */
    STELE_CHANGED_FROM_ELR = 1 << 7,     /* a clean election of one that was not in sync */
    STELE_CHANGED_REASSIGN_STARTED = 1 << 8,
    STELE_CHANGED_REASSIGN_DONE = 1 << 9,
    STELE_CHANGED_REASSIGN_CANCELLED = 1 << 10,
    STELE_CHANGED_EPOCH_ONLY = 1 << 11, /* the same leader under a new leader epoch (4.6.3) */
    STELE_CHANGED_OFFLINE = 1 << 12,
    STELE_CHANGED_SYNCED = 1 << 13 /* is_unsynced */
};

struct stele_partition_outcome {
    struct stele_partition_state next; /* equals the present one when nothing changed */
    uint32_t changed;                  /* 0: no record is to be written (4.6.6) */
};

/** min.insync.replicas as it counts for a partition of `replica_count` (4.7.2): between 1 and that. */
int32_t stele_partition_min_isr(int32_t min_isr, int32_t replica_count);

/** Works out a change. `out_outcome->next` holds every invariant of struct stele_partition_state if `state` does, its
 * ISR has only active nodes with the directory online, and its ELR is empty when the ISR is large enough.
 * Errors:
 *   INVALID_REPLICA_ASSIGNMENT   start: the target is empty, or with those that leave more than STELE_REPLICAS_MAX; or
 *                                it, or a cancel, would leave nobody who may lead (4.9.4), or of the replicas that
 *                                have all that was committed fewer than the minimum, and !may_lose_isr
 *   NO_REASSIGNMENT_IN_PROGRESS  cancel: there is none */
STELE_MUST_CHECK enum stele_err stele_partition_change(const struct stele_partition_state *state,
                                                       const struct stele_partition_change *change,
                                                       const struct stele_partition_view *view,
                                                       struct stele_partition_outcome *out_outcome);

/** An election that somebody asked for; mode ONLINE is not one. `leader_id` as unclean_leader_id above.
 * Errors:
 *   ELECTION_NOT_NEEDED             PREFERRED: it leads; UNCLEAN: somebody does
 *   PREFERRED_LEADER_NOT_AVAILABLE  it is not eligible
 *   ELIGIBLE_LEADERS_NOT_AVAILABLE  no replica, or not the named one, is there */
STELE_MUST_CHECK enum stele_err stele_partition_elect(const struct stele_partition_state *state,
                                                      enum stele_elect_mode mode, int32_t leader_id,
                                                      const struct stele_partition_view *view,
                                                      struct stele_partition_outcome *out_outcome);

/** The first state of a partition (4.10.2, 4.10.3): its ISR are the replicas that are active; the first of them leads.
 * Errors: INVALID_REPLICA_ASSIGNMENT (none is, or there are no replicas). */
STELE_MUST_CHECK enum stele_err stele_partition_create(const struct stele_node_set *replicas,
                                                       const struct stele_partition_view *view,
                                                       struct stele_partition_state *out_state);

/** True when the node may lead: active, and its replica online. */
bool stele_partition_view_accepts(const struct stele_partition_view *view, int32_t node_id);
/** NULL: not registered. */
const struct stele_replica_view *stele_partition_view_find(const struct stele_partition_view *view, int32_t node_id);

/** True when the first replica does not lead but may (4.11.1). */
bool stele_partition_wants_preferred(const struct stele_partition_state *state,
                                     const struct stele_partition_view *view);
/** True when nobody leads or may lead cleanly, but some replica is there (4.11.2). */
bool stele_partition_wants_unclean(const struct stele_partition_state *state, const struct stele_partition_view *view);

/** Whether a state keeps its invariants (struct stele_partition_state; D13); for whoever reads one from a log. */
bool stele_partition_state_is_sound(const struct stele_partition_state *state);

#endif
