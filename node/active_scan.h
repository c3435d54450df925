/* Gives partitions back to their preferred leaders now and then, at the active controller: what a restart of nodes, one
 * after the other, has moved to the others (replication/election_scan.h; facts 4.11.1). */
#ifndef STELE_NODE_ACTIVE_SCAN_H
#define STELE_NODE_ACTIVE_SCAN_H

#include "node/active.h"
#include "replication/election_scan.h"

struct stele_active_scan {
    struct stele_active *active;
    bool is_on; /* this node is active, and the scan counts its time */
    bool is_in_turn;
    struct stele_election_scan scan;
    struct stele_timer timer;
    struct stele_active_turn turn;
};

void stele_active_scan_init(struct stele_active_scan *scan, struct stele_active *active);
/** Who is active may have changed. */
void stele_active_scan_look(struct stele_active_scan *scan);
/** At the end of the node. */
void stele_active_scan_end(struct stele_active_scan *scan);

#endif
