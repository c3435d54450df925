/* Partitions as short texts, so that a table of rules can be read: node ids are digits.
 *
 * A state:  r123 i12 e3 k a d L1 !     replicas (in order), ISR, ELR, last known ELR, adding, removing, leader (-
 * none), recovering. Empty sets are left out, the ISR never is. A change: i123 wanted ISR, R recovered, p preferred, u
 * or u3 unclean, l2 lost its tail, t45 new replicas, c cancel, f may lose the ISR. */
#ifndef STELE_REPLICATION_TEST_PARTITION_TEXT_H
#define STELE_REPLICATION_TEST_PARTITION_TEXT_H

#include "base/test/support.h"
#include "replication/election.h"

enum { PARTITION_TEXT_BYTES = 160 };

struct stele_node_set set_of_text(const char *digits);
struct stele_partition_state state_of_text(const char *text);
struct stele_partition_change change_of_text(const char *text);
/** Nodes 0 to 9 with epoch 100 + id; those named are active; after an o, their directory failed: "12 o2". */
struct stele_partition_view view_of_text(const char *active, int32_t min_isr);
/** Sets but the replicas are sorted. */
void state_text(const struct stele_partition_state *state, char out_text[PARTITION_TEXT_BYTES]);

#endif
