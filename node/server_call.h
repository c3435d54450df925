/* A request between its frame and its answer. It belongs to a session; while operations or tasks of it are under way it
 * lives on, also after the connection is gone. */
#ifndef STELE_NODE_SERVER_CALL_H
#define STELE_NODE_SERVER_CALL_H

#include "node/shard.h"
#include "proto/codec.h"

struct stele_session;

/** Where the time of a request went, in microseconds, and what was looked at for it. Of several operations the slowest
 * of each stage, and the sum of what they looked at. */
struct stele_stages {
    int64_t queue_us, append_us, fsync_us, read_us;
    int64_t wait_us; /* of a fetch for more: the time of nobody */
    int64_t segments_searched, bytes_scanned;
    bool was_cold;
};
void stele_stages_raise(struct stele_stages *stages, const struct stele_stages *of_operation);

struct stele_server_call {
    struct stele_list link; /* in the session's list, in order of arrival */
    struct stele_session *session;
    struct stele_shard *shard; /* of the session */
    struct stele_buf *frame;   /* the message and the records after it */
    uint8_t *records;
    size_t records_bytes;
    struct stele_arena arena;
    struct stele_request request;
    struct stele_response response;

    struct stele_piece *pieces; /* sent after the message; the call's references */
    int piece_count;
    size_t piece_bytes;

    int64_t came_us, done_us; /* monotonic */
    struct stele_stages stages;

    bool is_understood; /* it was decoded */
    bool is_done, has_no_answer;
    bool tells_offset;     /* the answer tells another node how far this one, the controller, has applied metadata */
    bool is_hurried;       /* somebody waits behind it: answer as soon as it can be answered */
    const char *close_why; /* the connection is closed after it; NULL: goes on */

    /* The handler's: answers a call that waits for something that may never come. NULL: it never waits. */
    void (*hurry)(struct stele_server_call *call);
    /* The handler's: gives back what it holds. NULL: nothing. */
    void (*release)(struct stele_server_call *call);
    void *state; /* the handler's, in the arena */
};

/** The response is filled (or has_no_answer is set); it is sent when its turn comes. The call may be gone after this.
 */
void stele_server_call_done(struct stele_server_call *call);
/** The request cannot be answered: the connection is closed when its turn comes. `why` is a constant. */
void stele_server_call_fail(struct stele_server_call *call, const char *why);

/** Decodes, authorizes and hands to a handler; ends in one of the two above, now or later. */
void stele_dispatch(struct stele_server_call *call);

#define STELE_API(key, name, stem, version_min, version_max) void stele_handle_##stem(struct stele_server_call *call);
#include "proto/api.def"
#undef STELE_API

/** A fetch of another node: of what its partitions follow. */
void stele_handle_replica_fetch(struct stele_server_call *call);
/** A fetch of the metadata log by another node, and its handler (node/handle_quorum.c). */
bool stele_is_metadata_fetch(const struct stele_server_call *call);
void stele_handle_metadata_fetch(struct stele_server_call *call);

struct stele_truncate_op;
/** On a data shard: closes the connections that hold ranges which a truncation takes bytes of, and drops those that no
 * answer has yet. */
void stele_fetch_revoke(struct stele_shard *shard, const struct stele_truncate_op *truncate);
/** At the end of the node, when its calls are gone: what was on its way back to other shards. */
void stele_fetch_holds_free(struct stele_shard *shard);

#endif
