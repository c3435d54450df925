/* How nodes that were started with the same list of peers become a cluster, once, without a ceremony.
 *
 * Every node asks every other with FORM until it is formed; each question and each answer tells the node's place, its
 * disk, how far it is, and the cluster. The id of the cluster is worked out from the list and the disks of all, so two
 * nodes that name the same id agree on everything, and nobody has to lead.
 *
 * Invariants
 *  1. What a node tells of itself is on its disk, synced.
 *  2. EMPTY -> FORMING(id) only after every listed peer was heard with the same list, each EMPTY or FORMING(id).
 *  3. FORMING(id) -> FORMED(id) only after every other was heard FORMING(id) or FORMED(id), or one FORMED(id), which
 *     says the same of all. So of two ids at most one is ever formed by disks that live.
 *  4. EMPTY -> FORMED(id) without voters when a peer is FORMED(id): the node comes to a cluster that is there, as an
 *     observer. Disks that were wiped never make a second cluster beside the one they were of.
 *  5. FORMING and FORMED are never taken back. */
#ifndef STELE_NODE_FORMATION_H
#define STELE_NODE_FORMATION_H

#include "node/formation_file.h"
#include "node/peers.h"

struct stele_controller;

/** What a peer said last. */
struct stele_formation_heard {
    bool is_heard, is_asking;
    struct stele_uuid directory_id, cluster_id;
    enum stele_form_stage stage;
    int trouble; /* what of it was traced last; 0: nothing */
    struct stele_call call;
    struct stele_formation *formation;
};

struct stele_formation {
    struct stele_controller *control;
    struct stele_formation_file file; /* as it is on the disk; no peers: a node that is alone */
    bool is_begun;
    struct stele_formation_heard heard[STELE_VOTERS_MAX]; /* of node i + 1 */
    struct stele_timer timer;
    int64_t tell_ms; /* when it is told next whom this node waits for */
    struct stele_job job;
    struct stele_formation_file next; /* being written */
    enum stele_err job_err;
    bool is_writing, is_ended;
    void (*formed)(struct stele_formation *formation); /* or came to a cluster; once */
    void (*failed)(struct stele_formation *formation, enum stele_err err);
};

/** Looks at what is on the disk and in the settings (job). `dir` is the metadata log's. Errors: FOREIGN, INVALID_CONFIG
 * (they contradict each other), CORRUPT, IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_formation_load(struct stele_formation *formation, struct stele_env *env,
                                                     const char *dir, struct stele_error *error);
/** True for a node that is or wants to be of a cluster. */
bool stele_formation_is_wanted(const struct stele_formation *formation);
/** On the control shard, when there are links to the peers: goes on with forming until it is formed. */
void stele_formation_begin(struct stele_formation *formation);
void stele_formation_end(struct stele_formation *formation);

#endif
