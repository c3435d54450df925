/* A node's own life in the cluster: it registers with the controller, heartbeats, learns when it may serve, and leaves
 * in order. The other side of replication/registry.h (facts 4.2, 4.3).
 *
 * Pure: time and randomness come with the event, what is wanted comes back in the update. One request is under way at a
 * time; each is answered by one event, with an error of the network when its answer is lost. An answer to another
 * request, by an earlier controller, or to an earlier life of the node changes nothing (B41). Nothing is given up while
 * it may still succeed: a node waits for a quorum as long as it takes, and the owner can tell for how long and why
 * (last_err). */
#ifndef STELE_REPLICATION_NODE_LIFE_H
#define STELE_REPLICATION_NODE_LIFE_H

#include "replication/registry.h"

enum stele_life_state {
    STELE_LIFE_STARTING, /* not registered */
    STELE_LIFE_FENCED,   /* registered; opens logs, applies metadata */
    STELE_LIFE_RUNNING,
    STELE_LIFE_LEAVING, /* asked to go; leaderships are moving away */
    STELE_LIFE_STOPPED  /* may exit */
};

enum {
    STELE_LIFE_SOON_MS = 10,    /* to the heartbeat after something that the controller waits for */
    STELE_LIFE_LEAVING_MS = 50, /* between heartbeats of a node that is leaving */
    STELE_LIFE_BACKOFF_MS = 100 /* doubles up to the heartbeat interval */
};

struct stele_life_settings {
    int32_t node_id;
    struct stele_uuid incarnation_id;
    int64_t heartbeat_ms;         /* 2000 */
    int64_t leave_ms_max;         /* stop then, whatever the controller says */
    int64_t leave_silence_ms_max; /* stop when no answer came for so long while leaving; 0: leave_ms_max alone counts */
    int64_t duplicate_ms_max;     /* DUPLICATE_BROKER_REGISTRATION is no session of an earlier life, which ends, when it
                                     is answered for so long; 0: it is asked for ever */
};

enum stele_life_event_kind {
    STELE_LIFE_EVENT_TIME,       /* nothing but time; also the first one */
    STELE_LIFE_EVENT_CONTROLLER, /* who is known to be it changed; NO_NODE: nobody */
    STELE_LIFE_EVENT_METADATA,   /* applied up to an offset */
    STELE_LIFE_EVENT_RECOVERED,  /* the logs are open: it can serve */
    STELE_LIFE_EVENT_OFFLINE,    /* directories failed */
    STELE_LIFE_EVENT_LEAVE,
    STELE_LIFE_EVENT_SHAKEN,     /* a connection with the controller closed: it may doubt this node */
    STELE_LIFE_EVENT_REGISTERED, /* answers */
    STELE_LIFE_EVENT_BEATEN
};

struct stele_life_event {
    enum stele_life_event_kind kind;
    int64_t now_ms;
    uint64_t random;
    int32_t controller_id;        /* CONTROLLER */
    int64_t metadata_offset;      /* METADATA */
    bool is_awaited;              /* METADATA: a node that leaves waits until all have applied it (4.3.6) */
    uint32_t offline_directories; /* OFFLINE: all that are */
    /* Answers. */
    uint64_t request_id;
    enum stele_err err;
    struct stele_uuid incarnation_id; /* REGISTERED: of the request that it answers */
    int64_t node_epoch;               /* REGISTERED, with OK */
    bool is_fenced, should_shut_down; /* BEATEN, with OK */
};

struct stele_life_update {
    bool sends_registration, sends_heartbeat;
    uint64_t request_id;              /* of what is sent */
    struct stele_heartbeat heartbeat; /* sends_heartbeat */
    bool has_state;                   /* life->state is another one */
    enum stele_err failure;           /* not OK: the controller does not take this node (4.2); it is STOPPED */
};

struct stele_node_life {
    struct stele_life_settings settings;
    enum stele_life_state state;
    int64_t
        node_epoch; /* -1: not registered. A clean stop leaves it on disk (4.2.9): only an epoch of this very life */
    int32_t controller_id;
    int64_t metadata_offset;
    uint32_t offline_directories;
    bool is_recovered, is_leaving;
    int64_t leave_deadline_ms, leave_end_ms; /* as far as is known; at the latest */
    int64_t duplicate_since_ms;              /* -1: the last registration was not answered so */
    uint64_t request_id;                     /* under way; 0: none */
    uint64_t last_request_id;
    int64_t backoff_ms;
    int64_t send_ms;         /* when the next request is due; none while one is under way or no controller is known */
    enum stele_err last_err; /* of the last request; OK: it went well */
    uint64_t reached;
};

void stele_node_life_init(struct stele_node_life *life, const struct stele_life_settings *settings, int64_t now_ms);

/** Takes an event; `out_update` is filled anew. */
void stele_node_life_step(struct stele_node_life *life, const struct stele_life_event *event,
                          struct stele_life_update *out_update);

/** When the next TIME event is due; INT64_MAX: none. */
int64_t stele_node_life_deadline(const struct stele_node_life *life);

#endif
