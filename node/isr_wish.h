/* What the data shards ask of the control plane. A leader's wish for another in-sync set comes to the control shard,
 * and goes back answered, once, whatever happens to it on the way (replication/leader.h). */
#ifndef STELE_NODE_ISR_WISH_H
#define STELE_NODE_ISR_WISH_H

#include "node/partition.h"

struct stele_isr_wish {
    struct stele_list link; /* in its shard's */
    struct stele_list held; /* for who answers it */
    struct stele_task task;
    struct stele_shard *shard; /* of the partition */
    struct stele_partition_key key;
    struct stele_isr_change change;
    struct stele_isr_answer answer;
};

/** On the control shard: sends it home. change_id is set here; the wish is not to be touched after this. */
void stele_isr_wish_answer(struct stele_isr_wish *wish, const struct stele_isr_answer *answer);

/* Between the files of the data plane. */

/** From the partition's shard. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_isr_wish_send(struct stele_partition *partition,
                                                    const struct stele_isr_change *change);
/** From the partition's shard, once: it is offline for the rest of this life of the node. */
void stele_partition_failed_send(struct stele_partition *partition);
/** At the end of the node. */
void stele_isr_wishes_free(struct stele_shard *shard);

#endif
