/* Damaged ranges of a partition's log, fetched again from another replica.
 *
 * What is damaged is told at once: the leader (by the follower's fetch) and the controller (by this node), so that the
 * replica is not in sync and not eligible until it is whole; a leader that is damaged leads no more as soon as another
 * that has everything can. Then the shard's repairer takes one partition after another: a follower whose log its leader
 * took for a part of its own asks the leader, then those in sync, then the others, as a consumer would, so that only
 * committed records come. When the first batches are there the log is closed, what comes is written where it belongs
 * (storage/repair.h), and the log is opened again, which checks it and makes anew what is derived from it. It follows
 * on, and is in sync again as any other that has caught up.
 *
 * Who is asked has the range, or has it not (it is damaged there, or not there), or cannot say. Only when nobody has it
 * is it said that it stays damaged; nothing is cut in any case, and it is tried again: a replica may come back.
 *
 * Invariants
 *  1. A shard repairs one partition at a time. `partition` is NULL, or is not gone.
 *  2. What is damaged of a log is repaired in its own files: not while it is about to give way to a copy in another
 *     directory, and not what was found before it did. A copy that is being made of a damaged log is given up.
 *  3. A suspended partition is OPENING: who asks is answered as at a start, states and settings wait. Its checkpoints
 *     say what they said when it was closed.
 * States: IDLE -> ASKING (chosen) -> IDLE (nobody has it), ASKING -> CLOSING (batches came) -> WRITING -> ASKING ...
 * -> IDLE (the log is opened again); IDLE -> CLOSING -> IDLE to find out how far damage goes that a read met. */
#ifndef STELE_NODE_PARTITION_REPAIR_H
#define STELE_NODE_PARTITION_REPAIR_H

#include "node/partition.h"

/* On the partition's shard. */

/** It was opened or cut, or a read met damage: tells who must know, and has it repaired. */
void stele_repair_look(struct stele_partition *partition);
/** A job of the partition has ended. */
void stele_repair_job_ended(struct stele_partition *partition);
/** It goes, or is offline. */
void stele_repair_forget(struct stele_partition *partition);

/** No more questions. */
void stele_repairs_stop(struct stele_shard *shard);
/** At the end of the node. */
void stele_repairs_free(struct stele_shard *shard);

#endif
