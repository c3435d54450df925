/* A follower's incremental fetch session, as the leaders' node keeps it. It belongs to a connection and so to its shard
 * (home); on every data shard it has a part with an entry for each partition that the follower fetches from there.
 *
 * An entry is kept only of a partition that is here, for a node that is registered: so what one asker can make a node
 * keep is bounded by what lies on it. Every other line is answered, and comes again.
 *
 * A request goes to the parts that have something of it. Each believes the lines, makes a round over what is ready, and
 * answers when there is a reason: records, an error, a divergence, a start or a high watermark that is waited for.
 * Without one it waits, until a partition wakes it or home asks for whatever there is. The first answer makes home ask
 * the others.
 *
 * Invariants
 *  1. A part's entries and its state are its shard's alone; its question and its results are home's, except between
 *     `ask` and the reply.
 *  2. One question is with the parts at a time; further requests of the connection wait at home.
 *  3. A session is freed when its connection is gone and every part has said that nothing of it is under way.
 * States of a part: IDLE -> (asked) PARKED | IDLE, PARKED -> IDLE (woken, hurried), any -> ENDED. */
#ifndef STELE_NODE_REPLICA_SESSION_H
#define STELE_NODE_REPLICA_SESSION_H

#include "node/fetch_hold.h"
#include "replication/fetch_session.h"

enum stele_replica_part_state { STELE_PART_IDLE, STELE_PART_PARKED, STELE_PART_ENDED };

struct stele_replica_session;

struct stele_replica_entry {
    struct stele_fetch_session_entry entry;
    struct stele_replica_part *part;
    struct stele_partition *partition; /* NULL: it went */
    struct stele_partition_key key;
    uint64_t round;   /* in whose answer it is */
    bool awaits_line; /* its records are on the way: not the same ones again */
    struct stele_cold cold;
    struct stele_slice slice; /* that a job loads */
    struct stele_list in_loading;
    bool is_loading, is_loaded, is_dropped;
};

struct stele_replica_result {
    struct stele_partition_key key;
    struct stele_fetch_answer answer;
    struct stele_fetch_hold *hold; /* NULL: no records */
};

struct stele_replica_question {
    int32_t node_id;
    int64_t node_epoch;
    bool drops_all; /* a session begins or ends: forget what was before */
    bool is_full;   /* everything asked for is answered, at once */
    bool is_hurried;
    int64_t bytes_max;
    const struct stele_fetch_partition **lines;
    size_t line_count;
    const struct stele_forgotten_partition **forgotten;
    size_t forgotten_count;
};

struct stele_replica_part {
    struct stele_replica_session *session;
    struct stele_shard *shard;
    struct stele_task ask_task, hurry_task, wake_task;

    /* its shard's */
    enum stele_replica_part_state state;
    struct stele_fetch_session entries;
    struct stele_list homeless; /* watchers of partitions that went, until that is answered */
    uint64_t round;
    struct stele_throttle_wait throttle_wait;
    bool is_woken;             /* wake_task is under way */
    struct stele_list loading; /* entries whose range a job loads, dropped ones too */

    /* home's, but between ask and reply */
    struct stele_replica_question question;
    struct stele_replica_result *results;
    size_t result_count, result_capacity;
    int32_t entry_count;
    enum stele_err err; /* NO_MEMORY: the answer would not be what the follower must know */
    bool is_asked, is_hurried;
};

/** `part` replied, or its hurry came back. On home. */
struct stele_replica_session_owner {
    void (*replied)(struct stele_replica_session *session, struct stele_replica_part *part);
    void (*hurried)(struct stele_replica_session *session, struct stele_replica_part *part);
};

struct stele_replica_session {
    struct stele_list link; /* in home's */
    struct stele_shard *home;
    int64_t connection_id;
    struct stele_fetch_session words; /* id and epochs alone */
    int32_t last_id;
    struct stele_list waiting; /* requests behind the one with the parts */
    struct stele_replica_fetch *current;
    const struct stele_replica_session_owner *owner;
    bool is_beginning, is_finishing; /* a request; its connection may go in the middle */
    bool is_over;
    int ending_count;
    int part_count;
    struct stele_replica_part parts[]; /* one a data shard */
};

/** NULL without memory. */
STELE_MUST_CHECK struct stele_replica_session *stele_replica_session_new(struct stele_shard *home,
                                                                         int64_t connection_id);
/** The connection is gone and no request is with the parts. NULL is fine. */
void stele_replica_session_end(struct stele_replica_session *session);
/** At the end of the node. */
void stele_replica_sessions_free(struct stele_shard *home);

void stele_replica_part_ask(struct stele_replica_part *part);
void stele_replica_part_hurry(struct stele_replica_part *part);

/* For the partition, on its shard. */

/** Records were appended, or what followers must know at once: their fetches are answered. */
void stele_replica_watchers_wake(struct stele_partition *partition);
/** The high watermark moved: those that wait for it are answered, others hear of it with their next answer. */
void stele_replica_watchers_raise(struct stele_partition *partition);
/** The partition goes from its shard. */
void stele_replica_watchers_part(struct stele_partition *partition);

#endif
