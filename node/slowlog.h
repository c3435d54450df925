/* The slowest requests of a shard since its start, and the latest that took longer than slow.request.ms: two bounded
 * lists in memory that is taken once. A request is in both when it belongs there. */
#ifndef STELE_NODE_SLOWLOG_H
#define STELE_NODE_SLOWLOG_H

#include "node/server_call.h"

enum { STELE_SLOW_SLOWEST = 32, STELE_SLOW_RECENT = 64, STELE_SLOW_NAME_BYTES = 64 };

struct stele_slow_entry {
    int64_t id; /* of the request, in its shard */
    int64_t time_ms;
    enum stele_api api;
    char client_id[STELE_SLOW_NAME_BYTES], peer[STELE_SLOW_NAME_BYTES];
    struct stele_stages stages;
    int64_t total_us; /* without stages.wait_us */
    int64_t reply_us, bytes;
};

struct stele_slowlog {
    int64_t threshold_us;
    int64_t last_id;
    struct stele_slow_entry slowest[STELE_SLOW_SLOWEST];
    int slowest_count, fastest; /* index of the fastest of them */
    struct stele_slow_entry recent[STELE_SLOW_RECENT];
    int64_t recent_total; /* ever; the latest is at (recent_total - 1) % STELE_SLOW_RECENT */
};

/** True when a request of this time is to be noted: only then an entry need be made. */
bool stele_slowlog_wants(const struct stele_slowlog *slowlog, int64_t total_us);
/** Notes it; its id is set here. */
void stele_slowlog_note(struct stele_slowlog *slowlog, const struct stele_slow_entry *entry);
/** Copies the noted requests, each once, in no order; room for STELE_SLOW_SLOWEST + STELE_SLOW_RECENT. Returns how
 * many. */
int stele_slowlog_read(const struct stele_slowlog *slowlog, struct stele_slow_entry *out_entries);

#endif
