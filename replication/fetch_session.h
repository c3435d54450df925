/* Incremental fetch sessions (KIP-227): after a first full fetch a request names only partitions whose line changed,
 * and an answer only those with something to say. Both sides hold lists through the owner's structs, so that a round
 * costs what is active and an idle partition nothing; neither takes memory.
 *
 * A session belongs to one connection, and ends with it: there is no cache to evict from. Requests may be pipelined.
 *
 * The server's side. A partition has a list of its watchers, an entry a session. When it changes (appended, high
 * watermark or start moved, role changed) stele_fetch_session_mark() makes these ready; a request's line makes its own
 * ready. Only ready entries are looked at. An entry that was answered with an error or a divergence is not ready until
 * its line comes again or the partition changes: one sick partition does not turn parked fetches into a storm.
 *
 * The client's side. An entry whose line is to be sent is due. After an answer that has it, and when the machine says
 * so (a delay passed, a sync to report), the owner calls stele_fetcher_touch(). */
#ifndef STELE_REPLICATION_FETCH_SESSION_H
#define STELE_REPLICATION_FETCH_SESSION_H

#include "base/list.h"
#include "replication/fetch.h"

/** Epochs of a request, as Kafka's. Others are of an incremental one. */
enum { STELE_SESSION_EPOCH_FIRST = 0, STELE_SESSION_EPOCH_LAST = -1 };

enum stele_fetch_session_kind {
    STELE_SESSION_NONE,        /* everything is in the request, nothing is kept */
    STELE_SESSION_FULL,        /* everything is in the request, and begins a session */
    STELE_SESSION_INCREMENTAL, /* what is new or changed or forgotten */
};

/** A server's session. All zero ids: none. */
struct stele_fetch_session {
    int32_t id;
    int32_t next_epoch;
    int32_t count;
    struct stele_list entries; /* all */
    struct stele_list ready;   /* in the order in which they are looked at */
    struct stele_list round;   /* those of the answer that is being made */
};

/** A partition in a session; memory of the owner. */
struct stele_fetch_session_entry {
    struct stele_list in_session, in_ready, in_watchers;
    struct stele_fetch_session *session; /* NULL: in none */
    bool is_ready;                       /* in `ready` or `round` */
    struct stele_fetch_line line;
    int32_t max_bytes;
    int64_t sent_high_watermark, sent_start_offset; /* -1: to be said again */
};

void stele_fetch_session_init(struct stele_fetch_session *session);
/** What a request with these words is. FULL drops what the session had: the owner frees the entries before
 * (stele_fetch_session_first). `new_id`, positive, is the id of a session that begins. An epoch of -1 or an id of 0
 * with an epoch of -1 ends the session. Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH. */
STELE_MUST_CHECK enum stele_err stele_fetch_session_begin(struct stele_fetch_session *session, int32_t id,
                                                          int32_t epoch, int32_t new_id,
                                                          enum stele_fetch_session_kind *out_kind);
/** The session's entry among a partition's watchers, or NULL. */
struct stele_fetch_session_entry *stele_fetch_session_find(const struct stele_fetch_session *session,
                                                           const struct stele_list *watchers);
/** Puts an entry that is in no session (its memory zeroed) with its line. It becomes ready. */
void stele_fetch_session_put(struct stele_fetch_session *session, struct stele_list *watchers,
                             struct stele_fetch_session_entry *entry, const struct stele_fetch_line *line);
/** A known entry's line came again. It becomes ready. */
void stele_fetch_session_set(struct stele_fetch_session_entry *entry, const struct stele_fetch_line *line);
/** Takes an entry out of everything: forgotten by the client, the partition goes, the connection closed. */
void stele_fetch_session_drop(struct stele_fetch_session_entry *entry);
/** Any entry, to be dropped when the session ends; NULL: none. */
struct stele_fetch_session_entry *stele_fetch_session_first(const struct stele_fetch_session *session);
/** Something is new of the partition with these watchers. */
void stele_fetch_session_mark(struct stele_list *watchers);

/** An answer is made: round_begin, then for each entry that round_next gives settle or keep; round_end. */
void stele_fetch_session_round_begin(struct stele_fetch_session *session);
/** The next entry of the round; NULL: none is left. */
struct stele_fetch_session_entry *stele_fetch_session_round_next(struct stele_fetch_session *session);
/** Puts an entry that was not answered back to where it was (there was no room). */
void stele_fetch_session_keep(struct stele_fetch_session_entry *entry);
/** Whether the partition is to be in the answer, and notes that it is. With records it stays ready, behind all others
 * (fairness under max_bytes). */
bool stele_fetch_session_settle(struct stele_fetch_session_entry *entry, const struct stele_fetch_answer *answer,
                                bool has_records);
void stele_fetch_session_round_end(struct stele_fetch_session *session);

/** A client's session with one leader node. */
struct stele_fetcher {
    int32_t id, next_epoch;
    uint32_t attempt; /* of the session; answers of earlier ones do not count */
    bool is_broken;   /* the next request is a full one */
    bool is_opening;  /* a full request is under way: nothing can be sent behind it yet */
    int32_t count;    /* entries */
    struct stele_list entries, due, forgotten;
};

struct stele_fetcher_entry {
    struct stele_list in_fetcher; /* entries or forgotten */
    struct stele_list in_due;
    struct stele_fetcher *fetcher; /* NULL: in none */
    bool is_known;                 /* the server has been told of it */
};

/** The words of a request; it comes back with its answer. */
struct stele_fetcher_request {
    int32_t id, epoch;
    uint32_t attempt;
    bool is_full;
};

void stele_fetcher_init(struct stele_fetcher *fetcher);
/** Adds an entry that is in none (its memory zeroed). It is due. */
void stele_fetcher_add(struct stele_fetcher *fetcher, struct stele_fetcher_entry *entry);
void stele_fetcher_touch(struct stele_fetcher_entry *entry);
/** Takes it out. True: the server knows it, so it waits among the forgotten; its memory stays until
 * stele_fetcher_next_forgotten() gives it. False: it is the owner's again at once. */
bool stele_fetcher_remove(struct stele_fetcher_entry *entry);
/** Begins a request, not while one opens the session; a full one makes every entry due. */
struct stele_fetcher_request stele_fetcher_begin(struct stele_fetcher *fetcher);
/** The next due entry: not due any more. Not sent after all (it is delayed): the owner just goes on, and touches it
 * later. Sent: the owner calls stele_fetcher_sent(). */
struct stele_fetcher_entry *stele_fetcher_next_due(struct stele_fetcher *fetcher);
void stele_fetcher_sent(struct stele_fetcher_entry *entry);
/** The next entry to be named as forgotten, the owner's again; NULL: none. In a full request they are given and need
 * not be named. */
struct stele_fetcher_entry *stele_fetcher_next_forgotten(struct stele_fetcher *fetcher);
/** Whether a request may be sent behind those under way, and says something that the server does not know. */
bool stele_fetcher_is_due(const struct stele_fetcher *fetcher);
/** An answer came, `err` of the whole and `id` in it; or none did (any error of the network). An error breaks the
 * session; so does the owner by UNKNOWN_SERVER_ERROR when a partition is in it that was not asked for, or misses in a
 * full one. True: partitions of the answer may be handed on. */
bool stele_fetcher_answered(struct stele_fetcher *fetcher, const struct stele_fetcher_request *request,
                            enum stele_err err, int32_t id);

#endif
