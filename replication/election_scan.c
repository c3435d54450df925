#include "replication/election_scan.h"

#include "base/check.h"

void stele_election_scan_init(struct stele_election_scan *scan, int64_t interval_ms, int32_t elections_max,
                              int32_t visits_max, int64_t now_ms)
{
    STELE_ASSERT(elections_max > 0);
    STELE_ASSERT(visits_max > 0);
    *scan = (struct stele_election_scan){.interval_ms = interval_ms,
                                         .elections_max = elections_max,
                                         .visits_max = visits_max,
                                         .deadline_ms = now_ms + interval_ms};
}

void stele_election_scan_begin(struct stele_election_scan *scan)
{
    scan->elections = scan->visits = 0;
}

int64_t stele_election_scan_next(struct stele_election_scan *scan, int64_t partition_count, int64_t now_ms)
{
    if (scan->position >= partition_count) {
        scan->position = 0;
        scan->deadline_ms = now_ms + scan->interval_ms;
        return -1;
    }
    if (scan->elections >= scan->elections_max || scan->visits >= scan->visits_max) {
        scan->deadline_ms = now_ms + STELE_ELECTION_SCAN_AGAIN_MS;
        return -1;
    }
    scan->visits++;
    return scan->position++;
}

void stele_election_scan_elected(struct stele_election_scan *scan)
{
    scan->elections++;
}

void stele_election_scan_hurry(struct stele_election_scan *scan, int64_t now_ms)
{
    scan->position = 0;
    scan->deadline_ms = now_ms;
}
