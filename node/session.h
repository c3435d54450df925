/* One connection: frames in, answers out in the order of the requests. */
#ifndef STELE_NODE_SESSION_H
#define STELE_NODE_SESSION_H

#include "node/listeners.h"
#include "node/server_call.h"
#include "proto/frame.h"

/** Why a session does not read; it reads when the mask is 0. */
enum stele_session_pause {
    STELE_PAUSE_CALLS = 1,   /* enough requests without an answer */
    STELE_PAUSE_SENDS = 2,   /* enough bytes that the peer has not taken */
    STELE_PAUSE_MEMORY = 4,  /* memory is short */
    STELE_PAUSE_STOP = 8,    /* the node stops, or the connection is to be closed */
    STELE_PAUSE_ARRIVAL = 16 /* the request that it came with to this shard is first */
};

struct stele_replica_session;

struct stele_session {
    struct stele_list link; /* in the shard's */
    struct stele_shard *shard;
    struct stele_conn *conn;               /* NULL when closed */
    const struct stele_listener *listener; /* by which it came: what is told is that one's, and is_peer says whether
                                              it is another node's */
    int64_t id;
    int refs; /* one of the connection, one of every call, one of every caller on the stack */

    uint8_t header[STELE_FRAME_HEADER_BYTES];
    size_t got; /* bytes of the header, then of the frame */
    struct stele_frame_header frame_header;
    struct stele_buf *frame; /* NULL while the header is read */

    struct stele_list calls;
    int call_count;
    size_t call_bytes;
    size_t queued_bytes; /* of answers, that the peer has not taken */

    unsigned paused;  /* enum stele_session_pause */
    bool is_waiting;  /* the connection was told that there is no room */
    bool is_greeted;  /* hello was answered */
    bool is_of_node;  /* another node's */
    bool is_flushing; /* answers are being sent: no second round inside */
    bool is_cut;      /* nothing is read any more; closed when the answers are out */
    bool is_settled;  /* it stays on this shard (departure.c) */
    const char *close_why;
    struct stele_replica_session *replica; /* of another node that follows partitions; NULL: none */
    /* The life of another node whose heartbeats come here (handle_nodes.c); STELE_NO_NODE: none do. */
    int32_t life_node_id;
    int64_t life_node_epoch;
    int64_t life_heard_ms;       /* the control shard's: when the last one came */
    struct stele_task life_task; /* says that the connection is gone */
    bool is_life_told;           /* it is on its way, and holds a reference */
    struct stele_timer idle_timer, memory_timer;
    int64_t active_ms;
};

/** Errors: NO_MEMORY, CLOSED (the shard stops). */
STELE_MUST_CHECK enum stele_err stele_session_new(struct stele_shard *shard, const struct stele_listener *listener,
                                                  struct stele_conn *conn,
                                                  const struct stele_conn_handler **out_handler, void **out_arg);
/** The connection goes to another shard, with the frame of its only call, which may be read by nobody any more; both go
 * with the session. */
void stele_session_leave(struct stele_session *session);
/** On the shard that it came to: the frame is the first that it has. */
void stele_session_arrive(struct stele_session *session, const struct stele_frame_header *header,
                          struct stele_buf *frame);
/** A connection whose first produce, or first fetch of another node, concerns partitions of another shard alone goes
 * there with that request: all that follow save two messages between threads each. Later ones do not move it: requests
 * of its own would be under way. True: the call is gone. */
bool stele_session_depart(struct stele_server_call *call);
/** At the end of the node: what was on its way. */
void stele_departures_free(struct stele_shard *shard);
/** Reads nothing any more, answers what is under way, then closes. */
void stele_session_stop(struct stele_session *session);
/** Closes the connection of a session of the shard, and what is queued for it is not sent. False: there is none. */
bool stele_session_drop(struct stele_shard *shard, int64_t id, const char *why);
/** The connection of a session by which heartbeats came is gone: the controller is told. */
void stele_session_life_closed(struct stele_session *session);
/** Gives a reference back. */
void stele_session_unref(struct stele_session *session);
/** Drops it and its calls, whatever is under way: at the end of the node. */
void stele_session_free(struct stele_session *session);

#endif
