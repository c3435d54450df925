/* What this node has to say of its replicas, on its way to the cluster's controller: the wishes of its leaders for
 * another in-sync set, and which replicas failed. Collected, and sent as one ALTER_PARTITION request at a time.
 *
 * Invariants
 *  1. One request is under way at a time. Its wishes are in `sent`, in the order in which they came; those that came
 *     later wait behind them.
 *  2. Requests are numbered upwards in one life of the node. What an answer was lost of is asked again under a new
 *     number: the controller works on no older copy after it, so the answer to the copy sent last is the last word.
 *  3. A wish is answered once: as the controller decided, or NOT_CONTROLLER when this node takes part no longer. While
 *     no controller answers, it waits.
 *  4. A replica that failed is told again and again until the image says so of it; one that is damaged, until it is
 *     neither in sync nor eligible there, while others are. */
#ifndef STELE_NODE_ISR_WISHES_H
#define STELE_NODE_ISR_WISHES_H

#include "base/timing_wheel.h"
#include "node/active_partitions.h"
#include "node/peers.h"

struct stele_isr_wishes {
    struct stele_controller *control; /* NULL: it does not take part */
    struct stele_list waiting, sent;  /* `held` of the wishes */
    size_t sent_count;
    int64_t last_number; /* of a request */
    struct stele_task task;
    bool is_posted;
    struct stele_timer timer;  /* tries again */
    int64_t retry_ms;          /* not before, after a failure */
    struct stele_list damaged; /* partitions of this node in which committed records are damaged (damaged_link) */
    struct stele_list failed;  /* partitions of this node that are offline in this life (failed_link) */
    int64_t tell_failed_ms;    /* not before; INT64_MIN: at once */

    /* the request under way */
    bool is_asking;
    struct stele_peer *peer; /* who has it; NULL: this node itself */
    struct stele_arena arena;
    struct stele_request request;
    struct stele_call call;
    struct stele_partition_alter alter;
};

/** From now on this node's wishes go to the controller of its cluster. */
void stele_isr_wishes_begin(struct stele_isr_wishes *wishes, struct stele_controller *control);
/** The image has more: it may be that a failed replica is one of a partition only now. */
void stele_isr_wishes_look(struct stele_isr_wishes *wishes);
/** It takes part no longer: what waits is answered NOT_CONTROLLER, and what comes. */
void stele_isr_wishes_end(struct stele_isr_wishes *wishes);
/** At the end of the node: nobody is answered. Also after end, or without begin. */
void stele_isr_wishes_drop(struct stele_isr_wishes *wishes);

#endif
