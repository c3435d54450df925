/* Throttled replication (KIP-73): how many bytes a second catching up may take from others. A rate for each side of a
 * node, for what it sends as a leader and for what it fetches as a follower; a topic says which of its replicas are
 * throttled. Only these count, and of them only those that are not in sync are ever held back: by the leader, who
 * leaves them out of its answer, and by the follower, who leaves them out of its request. Others go on.
 *
 * Measured as Kafka does: the bytes of the last replication.quota.window.num windows over the time since the first of
 * them that has any.
 *
 * Invariants
 *  1. A shard's windows are written by it alone; every shard reads all of them. */
#ifndef STELE_NODE_THROTTLE_H
#define STELE_NODE_THROTTLE_H

#include "base/err.h"
#include "base/list.h"
#include "base/timing_wheel.h"

#include <stdatomic.h>

struct stele_image_topic;
struct stele_node;
struct stele_settings;
struct stele_shard;

enum stele_throttle_side { STELE_THROTTLE_LEADER, STELE_THROTTLE_FOLLOWER, STELE_THROTTLE_SIDES };

enum { STELE_THROTTLE_WINDOWS_MAX = 100 };

/** Which windows there are, and how fast each side may be. */
struct stele_throttle {
    int window_count;
    int64_t window_ms;
    _Atomic int64_t bytes_per_second[STELE_THROTTLE_SIDES];
};

/** What one shard moved of throttled replicas, by the number of the window. */
struct stele_throttle_windows {
    struct {
        _Atomic int64_t window, bytes;
    } slots[STELE_THROTTLE_WINDOWS_MAX];
};

/** What is a shard's. */
struct stele_throttled {
    struct stele_throttle_windows sides[STELE_THROTTLE_SIDES];
    struct stele_list waiters; /* struct stele_throttle_wait */
    struct stele_timer timer;
};

/** Called once, when it may be tried again. Removed from its list by who does not want it any more. */
struct stele_throttle_wait {
    struct stele_list link;
    void (*again)(struct stele_throttle_wait *wait);
};

void stele_throttle_init(struct stele_shard *shard);
/** The windows, from the settings of the start. */
void stele_throttle_begin(struct stele_node *node);
/** The rates, from the settings that hold; on the control shard. */
void stele_throttle_take_rates(struct stele_node *node);

/** Bytes of a throttled replica were moved. On the shard. */
void stele_throttle_count(struct stele_shard *shard, enum stele_throttle_side side, int64_t bytes);
/** 0: more may be moved; else over the rate, try again after so many ms. */
int64_t stele_throttle_delay(const struct stele_shard *shard, enum stele_throttle_side side);
/** Calls `again` that much later; of one that waits already it is fine. */
void stele_throttle_wait(struct stele_shard *shard, struct stele_throttle_wait *wait, int64_t delay_ms);

/** Whether a list names a replica: "*", or PARTITION:NODE by comma; "": none. */
bool stele_throttle_list_has(const char *list, int32_t partition, int32_t node_id);
/** Errors: INVALID_CONFIG. */
STELE_MUST_CHECK enum stele_err stele_throttle_check_list(const char *name, const char *list,
                                                          struct stele_error *error);
/** The lists of both sides; of a topic's settings laid over the node's, or of the node's. Errors: INVALID_CONFIG. */
STELE_MUST_CHECK enum stele_err stele_throttle_check(const struct stele_settings *settings, struct stele_error *error);
/** The name of a side's list. */
const char *stele_throttle_list_name(enum stele_throttle_side side);
/** Whether this node's replica of a partition is throttled on a side. On the control shard. */
bool stele_throttle_names(const struct stele_node *node, const struct stele_image_topic *topic,
                          enum stele_throttle_side side, int32_t partition);

#endif
