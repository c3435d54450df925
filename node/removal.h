/* How partitions leave a node: taken from their shards, their directories renamed and the names synced; the files are
 * deleted after log.segment.delete.delay.ms. What a crash leaves the next start finds by its id. */
#ifndef STELE_NODE_REMOVAL_H
#define STELE_NODE_REMOVAL_H

#include "node/controller.h"

struct stele_removal;

/** Of partitions of one topic. NULL without memory. */
struct stele_removal *stele_removal_new(struct stele_controller *control, const struct stele_uuid *topic_id,
                                        const char *topic);
/** Adds one that is OPEN; it is LEAVING from now on. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_removal_add(struct stele_removal *removal, struct stele_local *local);
/** Begins with what was added; nothing: drops it. */
void stele_removal_run(struct stele_removal *removal);
const struct stele_uuid *stele_removal_topic(const struct stele_removal *removal);

/** Whether directories of a topic of that name are not renamed yet. */
bool stele_removals_hold(const struct stele_controller *control, const char *topic);
/** No round of checkpoints is under way any more. */
void stele_removals_go_on(struct stele_controller *control);
/** Gives up what waits for its time: the next start does it. */
void stele_removals_stop(struct stele_controller *control);
/** None is under way, but for those that wait for their time. */
bool stele_removals_are_idle(const struct stele_controller *control);
/** At the end of the node. */
void stele_removals_free(struct stele_controller *control);

#endif
