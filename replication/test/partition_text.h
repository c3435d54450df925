/* Partitions as short texts, so that a table of rules can be read: node ids are digits.
 *
 * A state, for instance "r123 i12 e3 L1":
 *   r replicas in order   i ISR   e ELR   k last known ELR   a adding   d removing   x offline   L leader, - none   !
 * recovering Empty sets are left out, the ISR never is.
 *
 * A change, for instance "i123 R":
 *   i wanted ISR   R recovered   p preferred   u or u3 unclean   l lost their tail   x went offline   t new replicas c
 * cancel f may lose the ISR */
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
