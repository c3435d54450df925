/* Goes through all partitions now and then to elect leaders (facts 4.11), in passes of bounded work.
 *
 *   if (now_ms >= scan.deadline_ms) {
 *       stele_election_scan_begin(&scan);
 *       while ((position = stele_election_scan_next(&scan, partition_count, now_ms)) >= 0) {
 *           if (stele_partition_wants_preferred(...) and the change wrote a record) {
 *               stele_election_scan_elected(&scan);
 *           }
 *       }
 *   }
 *
 * Partitions that come or go between passes may be looked at twice or only in the next round: harmless. */
#ifndef STELE_REPLICATION_ELECTION_SCAN_H
#define STELE_REPLICATION_ELECTION_SCAN_H

#include "base/types.h"

struct stele_election_scan {
    int64_t interval_ms;   /* between rounds */
    int32_t elections_max; /* of a pass; 1000 as in Kafka */
    int32_t visits_max;    /* of a pass */
    int64_t deadline_ms;   /* when the next pass is due */
    int64_t position;      /* the next partition to look at */
    int32_t elections, visits;
};

enum { STELE_ELECTION_SCAN_AGAIN_MS = 10 }; /* from a pass that reached a bound to the next */

/** The first round is due one interval from now. Bounds are at least 1. */
void stele_election_scan_init(struct stele_election_scan *scan, int64_t interval_ms, int32_t elections_max,
                              int32_t visits_max, int64_t now_ms);
void stele_election_scan_begin(struct stele_election_scan *scan);
/** The number of the next partition of this pass, below `partition_count`; -1: the pass is over, deadline_ms is set. */
int64_t stele_election_scan_next(struct stele_election_scan *scan, int64_t partition_count, int64_t now_ms);
void stele_election_scan_elected(struct stele_election_scan *scan);
/** A round from the first partition, due now: a setting changed or a node came back (4.11.2). */
void stele_election_scan_hurry(struct stele_election_scan *scan, int64_t now_ms);

#endif
