/* What a replica's fetch says of one partition, and what the leader answers. The fetch offset is the acknowledgement:
 * "I hold everything below it, equal to yours". It is believed only in the step that validates it together with the
 * last fetched epoch.
 *
 * Plain values. Who carries them (proto, or a simulator's queue) keeps every field; what is only of one side says so.
 */
#ifndef STELE_REPLICATION_FETCH_H
#define STELE_REPLICATION_FETCH_H

#include "replication/types.h"

enum {
    STELE_OFFSET_NONE = -1, /* of any offset: not known, none */
    STELE_EPOCH_NONE = -1
};

/** A `known_high_watermark` that no high watermark passes: do not wake me for it (KIP-1166). */
#define STELE_HIGH_WATERMARK_NO_WAKE INT64_MAX

/** What a machine is told of the log that it decides on; of the moment of the event. */
struct stele_log_view {
    int64_t start_offset, end_offset;
    int64_t synced_offset; /* everything below is on the disk; at most the end */
    int64_t high_watermark;
    int32_t last_epoch; /* the latest entry of the epoch index, -1: it is empty */
};

/** A fetch of one partition. */
struct stele_fetch_line {
    int32_t leader_epoch;       /* as the fetcher knows it; -1: not checked, consumers only */
    int32_t last_fetched_epoch; /* the latest epoch of the fetcher's index; -1: none */
    int64_t fetch_offset;       /* of a replica: the end of its log */
    int64_t synced_offset;      /* of a replica: the end of what it synced; else -1 */
    int64_t log_start_offset;   /* of a replica; else -1 */
    int64_t damaged_offset;     /* of a replica: where its damage begins; -1: whole */
    /** Of a replica: its high watermark, so that a parked fetch is answered when the leader's is larger; -1: not known,
     * answered at once when there is one; NO_WAKE: only for data. Kafka's data partitions do not wake (2.3.3, half more
     * fetches), so a follower asks for it only while somebody reads from it. */
    int64_t known_high_watermark;
};

struct stele_fetch_answer {
    enum stele_err err;
    struct stele_epoch_end diverging; /* (-1, -1): none. Otherwise no records, and nothing else of this is taken. */
    int64_t high_watermark;
    int64_t log_start_offset;
    int64_t log_end_offset;       /* so that OFFSET_OUT_OF_RANGE needs no second question that a new epoch could race */
    int32_t leader_id;            /* with NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH: who is; otherwise -1 */
    int32_t current_leader_epoch; /* likewise */
    int64_t read_end_offset;      /* the leader's own: records below it may be sent */
};

static inline bool stele_epoch_end_is_known(const struct stele_epoch_end *end)
{
    return end->epoch >= 0 && end->end_offset >= 0;
}

#endif
