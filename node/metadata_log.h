/* __cluster_metadata-0: the log whose records are everything durable about the cluster. It is written by the leader of
 * the metadata quorum and fetched by the others (replication/quorum.h decides, node/metadata_quorum.c carries out). A
 * change is appended, committed when a majority has synced it, then applied to the image, then answered.
 *
 * Invariants
 *  1. The image holds exactly the records below applied_offset, which is at most the quorum's high watermark. The
 *     batches from there to the end of the log are in the tail.
 *  2. One change at a time is under way; the others wait in order.
 *  3. The log goes on from every sound snapshot that is kept (node/metadata_snapshot.h).
 *  4. One update of the quorum's machine is carried out at a time. While it waits for the disk, events wait in order.
 */
#ifndef STELE_NODE_METADATA_LOG_H
#define STELE_NODE_METADATA_LOG_H

#include "base/timing_wheel.h"
#include "node/metadata_snapshot.h"
#include "node/metadata_tail.h"
#include "node/shard.h"
#include "replication/quorum.h"
#include "storage/election_file.h"
#include "storage/log.h"

#define STELE_METADATA_TOPIC_NAME "__cluster_metadata"
enum { STELE_METADATA_LEVEL = 2 }; /* that this version writes, and the highest that it understands */

/** A batch of records on its way; lives in its asker's memory until `done`. */
struct stele_metadata_change {
    struct stele_list link;
    const struct stele_metadata_record *records;
    int count;
    /* OK: committed and in the image. NOT_CONTROLLER: this node does not lead the quorum, or lost it before the change
     * was committed; then it may have been made or not. */
    void (*done)(struct stele_metadata_change *change, enum stele_err err);

    struct stele_metadata_log *mlog; /* the rest is the log's */
    struct stele_task task;
    enum stele_err err;
};

/** An event for the quorum's machine; lives in its giver's memory until `done`. */
struct stele_quorum_input {
    struct stele_list link;
    struct stele_quorum_event event; /* its time and random are filled in when its turn comes */
    /* With the answer to a fetch: the batches that came. */
    struct stele_buf *records;
    const uint8_t *records_at;
    size_t records_bytes;
    /* Its turn has come: fills in what the log says; NULL: nothing. */
    void (*prepare)(struct stele_metadata_log *mlog, struct stele_quorum_input *input);
    /* It was carried out; `answer` is NULL when the event was no request. */
    void (*done)(struct stele_quorum_input *input, const struct stele_quorum_answer *answer);
};

enum stele_metadata_install { STELE_INSTALL_NONE, STELE_INSTALL_WANTED, STELE_INSTALL_CHECKING, STELE_INSTALL_CHECKED };

struct stele_metadata_log {
    struct stele_shard *shard;
    struct stele_log *log; /* NULL until attached */
    struct stele_image image;
    struct stele_metadata_tail tail;
    _Atomic int64_t applied_offset;      /* other shards tell it */
    struct stele_metadata_replay replay; /* of the batch that is being applied */
    struct stele_error apply_error;
    struct stele_timer apply_timer; /* goes on when there was no memory */

    /* changes */
    struct stele_list changes;
    bool is_busy;       /* the first one is under way, or on its way home */
    int64_t change_end; /* when the image is up to here the one under way is done; -1: not appended */

    /* syncing */
    struct stele_job flush_job;
    struct stele_log_flush *flush;
    int64_t flush_end;
    enum stele_err flush_err;
    struct stele_timer sync_timer; /* begins a sync for which there was no memory */

    /* the quorum (node/metadata_quorum.c) */
    struct stele_quorum quorum;
    bool is_running;
    struct stele_list inputs;
    struct stele_quorum_input *current; /* whose update is carried out; NULL: the log's own event */
    struct stele_quorum_update update;
    bool is_carrying, is_pumping, waits_for_flush;
    struct stele_quorum_event own[4]; /* of the log, before all others */
    int own_count;
    int64_t synced_to; /* to be told; -1: nothing */
    bool is_timer_due;
    struct stele_timer quorum_timer;
    struct stele_job persist_job;
    struct stele_election_file persist_file;
    enum stele_err persist_err;
    const char *new_cluster_id; /* of the cluster that this node makes when it leads an empty log */
    struct {
        int64_t end_offset, high_watermark;
        int32_t epoch, leader_id;
        enum stele_quorum_role role;
        bool has_heard_leader, is_current;
    } told; /* by stirred */

    /* snapshots */
    int64_t snapshot_bytes_max;              /* of records since the last one: then it is time for the next */
    struct stele_metadata_point snapshot_at; /* of the newest */
    struct stele_metadata_point before;      /* the one before it; end_offset 0: not known */
    int64_t bytes;                           /* of records since it */
    int64_t tried_bytes;                     /* when the last try began */
    int64_t snapshot_bytes;                  /* those that are in the one under way */
    struct stele_metadata_snapshot snapshot;
    struct stele_job snapshot_job;
    enum stele_err snapshot_err;
    bool is_snapshotting, wants_trim;
    enum stele_metadata_install install; /* of one that comes from the leader */
    struct stele_metadata_point install_at;
    struct stele_job install_job;
    enum stele_err install_err;
    bool is_held; /* nothing is applied */
    int64_t trim_to;
    struct stele_job unlink_job;
    int64_t *unlink_bases; /* while its job runs */
    int unlink_count;
    enum stele_err unlink_err;

    void (*idle)(struct stele_metadata_log *mlog);    /* something that was under way has ended */
    void (*changed)(struct stele_metadata_log *mlog); /* the image has more, or who leads has changed */
    /* A request of the machine to another node; NULL: there is none. */
    void (*send)(struct stele_metadata_log *mlog, const struct stele_quorum_request *request);
    /* The log's end, the high watermark, the role, who leads or whether the image is current is another: fetches that
     * wait are to be looked at. NULL:
     * nobody fetches. */
    void (*stirred)(struct stele_metadata_log *mlog);
    /* The change of voters under way ended (an event of kind CHANGE that was not refused); NULL: none is ever made. */
    void (*voters_changed)(struct stele_metadata_log *mlog, enum stele_err err);
    /* Where a voter serves. False: not known. */
    bool (*address_of)(struct stele_metadata_log *mlog, int32_t node_id, char out_address[STELE_ADDRESS_BYTES]);
    /* The log or the quorum's state failed and can no longer be written. */
    void (*failed)(struct stele_metadata_log *mlog, enum stele_err err);
};

/** The id that Kafka gives it too. */
struct stele_uuid stele_metadata_topic_id(void);
/** The settings of its log. */
void stele_metadata_log_config(struct stele_log_config *out_config);

void stele_metadata_log_init(struct stele_metadata_log *mlog, struct stele_shard *shard);
/** Drops it without touching a file. */
void stele_metadata_log_deinit(struct stele_metadata_log *mlog);

/** What a log was found to hold. */
struct stele_metadata_begin {
    struct stele_metadata_point snapshot_at;
    int64_t applied_offset;
    int64_t bytes;                   /* of records after the snapshot */
    struct stele_metadata_tail tail; /* from applied_offset on */
    /* In front of what the log says may be the voters that the cluster was formed with; none of them: not known. */
    struct stele_voters_at history[STELE_VOTERS_HISTORY_MAX];
    int32_t history_count;
    bool has_election;
    struct stele_election_file election;
};

/** Takes the newest snapshot that is sound, reads every record after it, and the file of the quorum's state (job). What
 * one voter alone has synced is committed: if `self_id` is the only voter, or nobody is known to vote, the image gets
 * all of it. A log of a cluster that ends before its newest snapshot begins anew there. Errors: CORRUPT,
 * UNSUPPORTED_VERSION, FOREIGN (it has records, and the first is not FORMAT), IO, NO_MEMORY; `error` names the log. The
 * tail is the caller's also then. */
STELE_MUST_CHECK enum stele_err stele_metadata_log_replay(struct stele_log *log, struct stele_env *env,
                                                          struct stele_image *image, int32_t self_id,
                                                          struct stele_metadata_begin *out_begin,
                                                          struct stele_error *error);
/** A record of a level that this version does not know. */
bool stele_metadata_is_too_new(const struct stele_metadata_record *record);
/** What to say to who asked for a change that was not made. */
const char *stele_metadata_log_why(enum stele_err err);
/** Nothing is under way any more. */
bool stele_metadata_log_is_idle(const struct stele_metadata_log *mlog);
/** Takes an opened and replayed log, and the tail of `begin`. */
void stele_metadata_log_attach(struct stele_metadata_log *mlog, struct stele_log *log,
                               struct stele_metadata_begin *begin);
/** Begins to take part in the quorum; `start` says what `begin` does not: who this node is and who its peers are. A
 * node whose log and state name no voters, and that knows no peers, is the only one. */
void stele_metadata_log_run(struct stele_metadata_log *mlog, const struct stele_metadata_begin *begin,
                            struct stele_quorum_start *start);
/** Takes part no longer: what waits is dropped, what comes is ignored. */
void stele_metadata_log_halt(struct stele_metadata_log *mlog);
/** This node leads the quorum, and the image holds everything that was ever committed. */
bool stele_metadata_log_is_active(const struct stele_metadata_log *mlog);
/** The image holds what was committed a moment ago, all of it synced here too: the node leads, or follows closely. */
bool stele_metadata_log_is_current(const struct stele_metadata_log *mlog);
/** Appends, applies when it is committed, then calls done; never from inside this call. */
void stele_metadata_log_change(struct stele_metadata_log *mlog, struct stele_metadata_change *change);
/** While it is held nothing is applied to the image: for a test of a node that is behind. */
void stele_metadata_log_hold(struct stele_metadata_log *mlog, bool is_held);
/** Gives an event to the quorum's machine when its turn comes. */
void stele_metadata_log_feed(struct stele_metadata_log *mlog, struct stele_quorum_input *input);

/** What the log says of an epoch, as KIP-101 has it. */
void stele_metadata_log_epoch_end(const struct stele_metadata_log *mlog, int32_t epoch,
                                  struct stele_epoch_end *out_end);
/** What the log says of a fetch. */
void stele_metadata_log_view(const struct stele_metadata_log *mlog, int32_t last_epoch,
                             struct stele_quorum_fetch_view *out_view);
/** A copy of batches from `offset` on, one at least when there is one. Errors: as stele_log_read. */
STELE_MUST_CHECK enum stele_err stele_metadata_log_read(struct stele_metadata_log *mlog, int64_t offset,
                                                        size_t max_bytes, struct stele_buf **out_records);

struct stele_metadata_chunk {
    struct stele_buf *bytes;
    int64_t size_bytes; /* of the whole */
};
/** A part of a snapshot's file. Errors: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_metadata_log_read_snapshot(struct stele_metadata_log *mlog,
                                                                 const struct stele_metadata_point *at,
                                                                 int64_t position, size_t max_bytes,
                                                                 struct stele_metadata_chunk *out_chunk);

/* Between the files of the log. */

/** One batch of this epoch at the end of the log, in the tail, and told to the machine. Errors: NO_SPACE, NO_MEMORY
 * (nothing was written), IO and others (the log failed). */
STELE_MUST_CHECK enum stele_err stele_metadata_log__append(struct stele_metadata_log *mlog,
                                                           const struct stele_metadata_record *records, int count);
/** Batches that a leader sent: those that follow, are sound and of epochs up to the machine's. Errors: as append;
 * CORRUPT_MESSAGE (there is none; nothing was written). */
STELE_MUST_CHECK enum stele_err stele_metadata_log__append_fetched(struct stele_metadata_log *mlog,
                                                                   const struct stele_quorum_input *input);
STELE_MUST_CHECK enum stele_err stele_metadata_log__truncate(struct stele_metadata_log *mlog, int64_t offset);
/** Writes the chunk of the answer at hand; installs the snapshot that it ends; goes on with that. */
STELE_MUST_CHECK enum stele_err stele_metadata_log__write_chunk(struct stele_metadata_log *mlog);
void stele_metadata_log__install(struct stele_metadata_log *mlog);
void stele_metadata_log__install_step(struct stele_metadata_log *mlog);
/** Syncs what is not synced, unless a sync is under way: then it is done again after it. */
void stele_metadata_log__sync(struct stele_metadata_log *mlog);
/** Applies what is committed and ends the change that it ends. */
void stele_metadata_log__commit(struct stele_metadata_log *mlog);
/** The change under way has an unknown outcome, those that wait have none. */
void stele_metadata_log__refuse_changes(struct stele_metadata_log *mlog);
/** Goes on with the changes that wait. */
void stele_metadata_log__next_change(struct stele_metadata_log *mlog);
/** A sync ended, an event of the log is to be told: takes the next ones. */
void stele_metadata_log__pump(struct stele_metadata_log *mlog);
void stele_metadata_log__init_quorum(struct stele_metadata_log *mlog);

#endif
