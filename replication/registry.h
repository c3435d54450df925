/* The nodes of the cluster as the controller keeps them: registrations, which are records of the metadata log, and
 * sessions, which only the active controller has.
 *
 * Nothing here writes a record or changes a partition. A question gives a verdict; the owner makes one atomic batch of
 * what it says and of the partition changes that go with it (4.3.11 to 4.3.13), replays it (stele_registry_apply and
 * the like), and answers once it is committed. A verdict holds until the next replay.
 *
 * Sessions (4.3.8 to 4.3.20): contact counts when the heartbeat arrives, not when it is worked on
 * (stele_registry_touch). One node is fenced at a time, the most overdue one, from fresh state. A new controller gives
 * every node that is not fenced a full session, and fenced ones none. A closed connection shortens a session; any
 * contact makes it full again, so false suspicion costs nothing. */
#ifndef STELE_REPLICATION_REGISTRY_H
#define STELE_REPLICATION_REGISTRY_H

#include "base/mem.h"
#include "replication/election.h"

enum {
    STELE_NODES_MAX = 256,
    STELE_NODE_LISTENERS_MAX = 16,
    STELE_NODE_LISTENER_NAME_BYTES = 64,
    STELE_NODE_HOST_BYTES = 256,
    STELE_NODE_RACK_BYTES = 128,
    STELE_NODE_VERSION_BYTES = 64,
    STELE_NODE_DIRECTORIES_MAX = 16
};

/** Where a node is reached by those that use a listener of that name. */
struct stele_node_listener {
    char name[STELE_NODE_LISTENER_NAME_BYTES];
    char host[STELE_NODE_HOST_BYTES];
    int32_t port;
};

/** What the metadata log says of a node. */
struct stele_node_registration {
    int32_t node_id;
    struct stele_uuid incarnation_id; /* of one life of its process */
    int64_t node_epoch;               /* the offset of the record by which this life was registered (4.2.6) */
    struct stele_uuid boot_id;        /* of the kernel under it; zero: not known, then no two are the same */
    struct stele_uuid directories[STELE_NODE_DIRECTORIES_MAX];
    int32_t directory_count;
    uint32_t offline_directories; /* bit i: directories[i] failed */
    struct stele_node_listener listeners[STELE_NODE_LISTENERS_MAX];
    int32_t listener_count;
    char rack[STELE_NODE_RACK_BYTES];
    int32_t feature_min, feature_max;       /* levels that its program can run */
    char version[STELE_NODE_VERSION_BYTES]; /* of its program; to be told only */
    bool is_fenced, is_shutting_down;
    int64_t served_epoch; /* node epoch of its last life that was not fenced; 0: none is known */
};

struct stele_node_request {
    struct stele_uuid cluster_id;
    struct stele_node_registration node; /* as the node sees itself: node_epoch, offline_directories and flags unused */
    int64_t previous_epoch; /* its node epoch when it last stopped cleanly, from every directory; -1: it did not */
    /* The last epoch under which each of node.directories served, which it holds durably before it is not fenced; 0:
     * not known. */
    int64_t served_epochs[STELE_NODE_DIRECTORIES_MAX];
};

/** What the controller holds a request against; read when it is worked on, not when it came (4.3.18). */
struct stele_registry_terms {
    struct stele_uuid cluster_id;
    int32_t feature_level;
    int64_t record_offset; /* where the record will be written */
    int64_t now_ms;
};

/** With another life, the batch has the change of every partition that has the node in its ISR or ELR: worked out after
 * the record was replayed, so that the node is not active in their views. */
struct stele_registration_verdict {
    struct stele_node_registration record; /* to be written */
    bool is_same_incarnation;   /* a repeated request (4.2.8): epoch and flags are kept, no partition changes */
    bool has_lost_memory;       /* of every partition whose counted offsets are not synced it may lack the tail: the
                                   partitions' changes name it in lost_tail (4.2.10) */
    uint32_t lost_directories;  /* bit i: directories[i] of the registration before failed or is not there any more: all
                                   that lay in it is lost, synced or not. An owner that does not know what lay where
                                   takes any bit for everything */
    uint32_t older_directories; /* bit i: directories[i] of the request did not serve in the last life that did: a copy
                                   of an older time is in its place. Lost, too */
};

/** States of 4.3.3. */
enum stele_node_state {
    STELE_NODE_FENCED,
    STELE_NODE_UNFENCED,
    STELE_NODE_SHUTTING_DOWN, /* controlled: its leaderships are moving away */
    STELE_NODE_SHUTDOWN_NOW
};

struct stele_heartbeat {
    int32_t node_id;
    int64_t node_epoch;
    int64_t metadata_offset; /* up to which it applied metadata, that record included */
    bool wants_fence, wants_shutdown;
    uint32_t offline_directories; /* bit i: directories[i] of its registration */
};

struct stele_heartbeat_verdict {
    enum stele_node_state from, to;
    /* To be written in one record, in one batch with the changes of the partitions that it touches: worked out after
     * the flags were replayed. Fenced, shutting down: those with the node in the ISR (4.3.11, 4.3.13). Unfenced: those
     * without a leader that have the node as replica. Offline: those with the replica there, named in lost_tail. */
    bool has_change;
    bool is_fenced, is_shutting_down; /* the flags afterwards */
    uint32_t offline_directories;     /* afterwards: an offline directory stays so for this life */
    bool elects;                      /* it was unfenced (4.3.12) */
    /* The answer. */
    bool answer_is_caught_up, answer_is_fenced, answer_should_shut_down;
};

struct stele_registry_settings {
    int64_t session_ms;   /* broker.session.timeout.ms: 9000 */
    int64_t suspicion_ms; /* what is left of a session when the node's connection closed */
};

struct stele_registry_entry; /* a registration and its session */

struct stele_registry {
    struct stele_mem *mem;
    struct stele_registry_settings settings;
    struct stele_registry_entry *entries; /* by node id */
    int32_t count, capacity;
    bool is_active; /* sessions count */
};

void stele_registry_init(struct stele_registry *registry, struct stele_mem *mem,
                         struct stele_registry_settings settings);
void stele_registry_deinit(struct stele_registry *registry);

/* Replay, on every node. */

/** Takes in a registration record; a session of another life of the node ends. Errors: NO_MEMORY, TOO_LARGE (more than
 * STELE_NODES_MAX); nothing changed. */
STELE_MUST_CHECK enum stele_err stele_registry_apply(struct stele_registry *registry,
                                                     const struct stele_node_registration *record);
/** Takes in a change of flags. Errors: STALE_BROKER_EPOCH (another life), BROKER_ID_NOT_REGISTERED. */
STELE_MUST_CHECK enum stele_err stele_registry_apply_flags(struct stele_registry *registry, int32_t node_id,
                                                           int64_t node_epoch,
                                                           const struct stele_heartbeat_verdict *flags, int64_t now_ms);
void stele_registry_apply_removal(struct stele_registry *registry, int32_t node_id);

/** As `from`, without sessions: for who takes back what was not committed. Errors: NO_MEMORY; nothing changed. */
STELE_MUST_CHECK enum stele_err stele_registry_copy(struct stele_registry *registry, const struct stele_registry *from);

/* The active controller. */

/** This controller is the active one from now on: 4.3.8, 4.3.16. */
void stele_registry_activate(struct stele_registry *registry, int64_t now_ms);
/** Drops what is soft (4.1.5). */
void stele_registry_deactivate(struct stele_registry *registry);

/** What to do with a registration (4.2), only while active.
 * Errors, in order:
 *   INCONSISTENT_CLUSTER_ID
 *   INVALID_REGISTRATION           its id or incarnation are none, a count or text is out of bounds
 *   DUPLICATE_BROKER_REGISTRATION  another life has a session, and is neither fenced nor shutting down (4.2.3, 4.3.17),
 *                                  nor outlived: not heard by this controller, and on one of the directories
 *   INVALID_REGISTRATION           directories: none, one twice, another node's, a reserved id (4.2.4)
 *   INVALID_REGISTRATION           listeners: none, a name twice; or more than STELE_NODES_MAX nodes
 *   UNSUPPORTED_VERSION            the cluster's feature level is outside its range (4.2.5) */
STELE_MUST_CHECK enum stele_err stele_registry_register(const struct stele_registry *registry,
                                                        const struct stele_node_request *request,
                                                        const struct stele_registry_terms *terms,
                                                        struct stele_registration_verdict *out_verdict);

/** A heartbeat or another request of the node has arrived; before it is queued. Nothing when it is of another life. */
void stele_registry_touch(struct stele_registry *registry, int32_t node_id, int64_t node_epoch, int64_t now_ms);

/** What to do with a heartbeat (4.3). `leads`: it leads a partition now. Remembers the metadata offset.
 * Errors: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH. */
STELE_MUST_CHECK enum stele_err stele_registry_heartbeat(struct stele_registry *registry,
                                                         const struct stele_heartbeat *heartbeat, bool leads,
                                                         struct stele_heartbeat_verdict *out_verdict);

/** `offset` is the last record of the batch by which the node entered its controlled shutdown; only the first counts
 * (4.3.19). To be called after every verdict to SHUTTING_DOWN, also one without a change (its flag was set under
 * another controller): then with the last offset of the log. */
void stele_registry_shutdown_written(struct stele_registry *registry, int32_t node_id, int64_t offset);

/** A connection to that life of the node closed. */
void stele_registry_suspect(struct stele_registry *registry, int32_t node_id, int64_t node_epoch, int64_t now_ms);

/** When the next session ends; INT64_MAX: none does. */
int64_t stele_registry_deadline(const struct stele_registry *registry);
/** The node whose session ended first, to be fenced: write, replay, ask again. NO_NODE: none. `out_verdict` as of a
 * heartbeat. */
int32_t stele_registry_expired(const struct stele_registry *registry, int64_t now_ms,
                               struct stele_heartbeat_verdict *out_verdict);

/** A session that has not ended; never of a fenced node. */
bool stele_registry_has_session(const struct stele_registry *registry, int32_t node_id, int64_t now_ms);

/** The sender of a request that changes partitions (4.8.1). A life numbers its requests upwards from 1, one that it
 * sends again anew, and takes a refusal as final only from the answer to the copy that it sent last. So of copies that
 * came by different connections none is worked on after the leader has gone back to the ISR that it had.
 *
 * Errors:
 *   STALE_BROKER_EPOCH  another life, or not registered
 *   REQUEST_TIMED_OUT   a request with this number or a higher one was here */
STELE_MUST_CHECK enum stele_err stele_registry_admit(struct stele_registry *registry, int32_t node_id,
                                                     int64_t node_epoch, int64_t request_number);

/* Questions. */

/** NULL: not registered. Borrowed until the next apply. */
const struct stele_node_registration *stele_registry_find(const struct stele_registry *registry, int32_t node_id);
/** When it was touched last; -1: not since this controller is active, since it registered, or since it was fenced. */
int64_t stele_registry_contact_ms(const struct stele_registry *registry, int32_t node_id);
/** It lives: its life was heard of within the time of a session, though it may be fenced for as long as it starts. */
bool stele_registry_is_heard(const struct stele_registry *registry, int32_t node_id, int64_t now_ms);
/** In the order of ids; NULL: no more. */
const struct stele_node_registration *stele_registry_at(const struct stele_registry *registry, int32_t position);
/** Directories by their ids as bits of a registration; ids that it does not have are passed over. */
uint32_t stele_node_directory_bits(const struct stele_node_registration *node, const struct stele_uuid *directories,
                                   int32_t count);
/** Registered, not fenced, not in controlled shutdown. */
bool stele_registry_is_active_node(const struct stele_registry *registry, int32_t node_id);
/** Adds the nodes of a set that are registered to a view, each once; whether a replica is offline is the owner's
 * knowledge. The view has room for two sets. */
void stele_registry_view(const struct stele_registry *registry, const struct stele_node_set *set,
                         struct stele_partition_view *view);

#endif
