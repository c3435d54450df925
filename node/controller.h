/* The control side of a node: its log directories, the metadata log, what is made of them at start,
 * the checkpoint and space rounds, the end. Belongs to the control shard and touches no data file.
 *
 * Invariants
 *  1. Every call on the log directories is a job of one lane, so two never overlap; the loop keeps what they said.
 * States: NEW -> STARTING (start) -> SERVING | FAILED, SERVING -> STOPPING (stop) -> STOPPED. */
#ifndef STELE_NODE_CONTROLLER_H
#define STELE_NODE_CONTROLLER_H

#include "base/timing_wheel.h"
#include "node/active.h"
#include "node/active_nodes.h"
#include "node/active_scan.h"
#include "node/formation.h"
#include "node/forward.h"
#include "node/isr_wishes.h"
#include "node/life.h"
#include "node/metadata_log.h"
#include "node/moves.h"
#include "node/peers.h"
#include "node/reconcile.h"
#include "storage/log_dirs.h"

struct stele_node;
struct stele_partition;
struct stele_round;
struct stele_voters_call;

enum stele_controller_state {
    STELE_CONTROLLER_NEW,
    STELE_CONTROLLER_STARTING,
    STELE_CONTROLLER_SERVING,
    STELE_CONTROLLER_FAILED,
    STELE_CONTROLLER_STOPPING,
    STELE_CONTROLLER_STOPPED
};

/** Producer ids that were taken from the metadata log and are not given yet (node/handle_producer_id.c). */
struct stele_producer_ids {
    int64_t next, end;
    struct stele_list asking; /* for the next block */
    bool is_taking;
    struct stele_active_turn turn;
    int64_t taken_end; /* of the block that is being taken */
    int32_t epoch;     /* in which this one led when it took the block */
};

struct stele_controller {
    struct stele_node *node;
    struct stele_shard *shard;
    enum stele_controller_state state;
    bool wants_stop; /* stop came while starting */
    bool is_leaving; /* stop came; it serves on until the cluster lets it go */
    struct stele_log_dirs *dirs;
    struct stele_metadata_log mlog;
    struct stele_formation formation;
    struct stele_peers peers;
    struct stele_active active;
    struct stele_active_scan scan;
    struct stele_isr_wishes wishes;
    struct stele_forward forward;
    struct stele_active_nodes active_nodes;
    struct stele_life life;
    struct stele_voters_call *voters_call; /* whose change of the voters is under way; NULL: none */
    struct stele_list parked;              /* fetches of the metadata log that wait (handle_quorum.c) */
    int64_t setting_records;               /* of the image, when settings were taken last */
    struct stele_log_config log_config;    /* of a topic without settings of its own, by */
    const struct stele_settings *log_config_of;
    struct stele_quorum_input stop_input; /* that this node stops, under way */
    struct stele_timer stop_timer;        /* gives up waiting for what others answer to it */

    /* starting, and the directory jobs of it */
    struct stele_job job;
    enum stele_err job_err;
    struct stele_error error;
    struct stele_log *opened; /* the metadata log, until attached */
    struct stele_metadata_begin begin;
    struct stele_recovery_report report;
    bool is_formatted; /* the image was complete once */
    bool is_joining;   /* it waits for other nodes, and no job of the start is under way */
    bool has_told_stop, has_waited;
    int32_t traced_epoch;

    struct stele_reconcile reconcile;
    struct stele_moves moves;
    struct stele_producer_ids producer_ids;

    struct stele_timer settings_timer; /* takes settings again that there was no memory for */

    /* rounds */
    struct stele_timer checkpoint_timer, space_timer;
    struct stele_round *round; /* under way, or NULL */
    struct stele_list waits;   /* for the next round */
    struct stele_job space_job;
    bool is_measuring;

    /* stopping */
    int stopping_shards;
    bool is_closing;
};

/** Waits for a round of checkpoints that begins after it was asked for: what moved before is durable then. */
struct stele_checkpoint_wait {
    struct stele_list link;
    /* On an error of a round that wrote the directories know which of them it concerns (checkpoint_err). */
    void (*done)(struct stele_checkpoint_wait *wait, enum stele_err err);
    bool has_written;
};

void stele_controller_init(struct stele_controller *control, struct stele_node *node);
/** Drops everything without touching a file. */
void stele_controller_deinit(struct stele_controller *control);
void stele_controller_start(struct stele_controller *control);
void stele_controller_stop(struct stele_controller *control);
/** The cluster has let this node go, or there is none: goes on with stopping. */
void stele_controller_left(struct stele_controller *control);
/** Goes on with stopping when nothing is in its way any more. */
void stele_controller_check_stopped(struct stele_controller *control);

/** In a cluster: tells the shards of the nodes that the image names, when they are others. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_controller_tell_nodes(struct stele_controller *control);
/** The configuration of a topic's logs now. Errors: INVALID_CONFIG (a setting that is not legal any more). */
STELE_MUST_CHECK enum stele_err stele_controller_topic_config(struct stele_controller *control,
                                                              const struct stele_image_topic *topic,
                                                              struct stele_log_config *out_config);
/** Takes over what the image says of settings: for the node, and for the partitions that are there. Without memory it
 * is done again a little later. */
void stele_controller_take_settings(struct stele_controller *control);
/** The same, when the image has other settings than those that were taken. */
void stele_controller_take_new_settings(struct stele_controller *control);
/** The same for one partition. */
void stele_controller_send_config(struct stele_controller *control, struct stele_partition *partition);
void stele_controller_init_stop(struct stele_controller *control);
void stele_controller_init_settings(struct stele_controller *control);
/** Runs a job on the lane of the directories. */
void stele_controller_job(struct stele_controller *control, struct stele_job *job);

void stele_controller_init_rounds(struct stele_controller *control);
void stele_controller_begin_rounds(struct stele_controller *control);
/** A round of checkpoints over all logs; `done` (may be NULL) on the control shard. False when one is under way. */
bool stele_controller_checkpoint(struct stele_controller *control,
                                 void (*done)(struct stele_controller *control, enum stele_err));
/** `done` comes on the control shard, perhaps inside the call. */
void stele_controller_await_checkpoint(struct stele_controller *control, struct stele_checkpoint_wait *wait);
/** After an error of a job on the directories: tells the shards of those that failed; `what` is said when
 * the node cannot go on without the one that did. */
void stele_controller_look_for_failed(struct stele_controller *control, enum stele_err err, const char *what);
/** The metadata log has more in its image, or another leader. */
void stele_controller_metadata_changed(struct stele_controller *control);
/** Where a node's peer listener is, also of one that --peers does not name. False: not known. */
bool stele_controller_peer_address(struct stele_controller *control, int32_t node_id,
                                   char out_address[STELE_ADDRESS_BYTES]);
/** The change of voters under way ended (node/handle_voters.c). */
void stele_voters_call_ended(struct stele_controller *control, enum stele_err err);
/** Looks at the fetches that wait. */
void stele_quorum_calls_wake(struct stele_controller *control);
/** The cluster is formed, or this node came to it: takes part in the quorum. */
void stele_controller_formed(struct stele_controller *control);
void stele_controller_formation_failed(struct stele_controller *control, enum stele_err err);
/** It cannot go on. */
void stele_controller_metadata_failed(struct stele_controller *control, enum stele_err err);
/** The process must end. */
void stele_controller_fatal(struct stele_controller *control, enum stele_err err, const char *what);
void stele_controller_round_free(struct stele_controller *control);

#endif
