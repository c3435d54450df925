/* A range of a log on its way into a socket. Its count belongs to the connection's shard, its slice to the partition's:
 * when the last reference goes it travels to the owner and back, in no hurry. A truncation takes it away from both. */
#ifndef STELE_NODE_FETCH_HOLD_H
#define STELE_NODE_FETCH_HOLD_H

#include "node/partition.h"

struct stele_fetch_hold {
    struct stele_list link; /* in its home's */
    struct stele_send_file send;
    struct stele_task task;
    struct stele_slice slice;
    struct stele_shard *home, *owner;
    int refs;
    int64_t session_id;
    struct stele_partition_key key;
    int64_t generation; /* of the partition, when the range was read */
    /* The range while it is in no answer yet: NULL: it is in one, or there is none. */
    const struct stele_slice *pending;
    void (*revoked)(struct stele_fetch_hold *hold); /* `pending` is not to be used any more */
    void *arg;
};

/** With one reference. NULL without memory. */
STELE_MUST_CHECK struct stele_fetch_hold *stele_fetch_hold_new(struct stele_shard *home);
/** The same for a home that is another shard: it takes it with stele_fetch_hold_arrived. */
STELE_MUST_CHECK struct stele_fetch_hold *stele_fetch_hold_new_for(struct stele_shard *owner, struct stele_shard *home);
void stele_fetch_hold_arrived(struct stele_fetch_hold *hold);
void stele_fetch_hold_unref(struct stele_fetch_hold *hold);
/** On the owner's shard, of one that did not leave it. */
void stele_fetch_hold_free(struct stele_fetch_hold *hold);

#endif
