/* The inside of a consumer: consumer.c (the calls of the public header), consumer_fetch.c (fetches), consumer_reset.c
 * (where a partition goes on) and records.c (walking what came). */
#ifndef STELE_CLIENT_CONSUMER_INTERNAL_H
#define STELE_CLIENT_CONSUMER_INTERNAL_H

#include "client/client_internal.h"
#include "client/refresh.h"
#include "proto/record_batch.h"

/* The way to a node from which partitions are read. */
struct fetcher {
    struct stele_list link; /* in its consumer's */
    struct stele_consumer *consumer;
    struct stele_client_node *node;
    struct stele_link connection; /* for fetches alone */
    struct stele_call call;
    bool is_calling;
    struct stele_backoff backoff;
};

struct assigned {
    int32_t partition;
    bool is_assigned, is_paused;
    int32_t max_bytes;                     /* of the next fetch; grows when a batch does not fit */
    int64_t position;                      /* of the next record to give */
    int64_t fetched;                       /* of the next batch to ask for */
    int32_t position_epoch, fetched_epoch; /* of the batch before them; -1: not known */
    int64_t epoch_start;                   /* since where all that was given is of position_epoch */
    uint32_t generation, asked_generation; /* of now, and when the request under way was made */
    struct fetcher *fetcher, *asked_by;    /* of now (NULL: none), and that of this request */
    int32_t asked_epoch;                   /* of the leader that this request is for */
    int32_t replica_id;                    /* the node that the leader sent to (KIP-392); -1: it is read itself */
    int64_t replica_until_ms;
    enum stele_err err; /* no retry can mend it; OK: none */
    struct stele_backoff backoff;
    int64_t doubted;            /* the node is to look at what it has there; -1: nothing that came was bad */
    bool needs_reset;           /* the partition does not hold the position */
    bool resets_to_latest;      /* no record is as young as was asked for */
    int64_t log_start, log_end; /* of the partition then */
    int64_t diverging_end;      /* where the leader's log ceases to be the one that was read; -1: it does not */
    int32_t diverging_epoch;
};

/* What is damaged stays so on one node. In a cluster another one is to lead that has it whole. */
enum { STELE_DAMAGE_TRIES = 3, STELE_DAMAGE_TRIES_CLUSTER = 12 };

enum reset_to { RESET_TO_LATEST, RESET_TO_EARLIEST, RESET_NEVER, RESET_BY_AGE };

/* An aborted transaction on the way through a range: before its first batch, inside, behind its marker. */
struct aborted {
    struct stele_aborted_transaction transaction;
    enum { ABORTED_AHEAD, ABORTED_INSIDE, ABORTED_BEHIND } state;
};

/* An answer's bytes of one partition that are not read yet: whole batches. */
struct ready {
    struct stele_list link;
    struct stele_buf *frame;
    struct assigned *assigned;
    uint32_t generation;
    const uint8_t *at, *end;
    size_t aborted_count;
    struct aborted aborted[];
};

struct stele_consumer {
    struct stele_client *client;
    struct stele_client_part part;
    struct stele_settings *settings;
    char *topic;
    struct stele_uuid topic_id;
    struct stele_leaders leaders;
    int32_t partitions;
    struct assigned **assigned;          /* one a partition of the topic */
    struct stele_fetch_partition *asked; /* room for a request */
    enum stele_isolation isolation;
    bool check_crcs;
    struct stele_list fetchers; /* `any` is the first */
    struct fetcher any;
    struct stele_list ready;
    struct stele_refresh refresh;
    int64_t rack_from_ms; /* since when client.rack is told; before, leaders are read themselves */

    enum reset_to reset_to;
    int64_t reset_age_ms;
    void (*on_reset)(void *arg, const struct stele_reset *reset);
    void *reset_arg;
    struct stele_call reset_call;
    struct assigned *resetting; /* for which the call is; NULL: none is under way */
    struct stele_client_node *reset_node;

    struct stele_record_walker walker; /* of the batch being read, the first of the first ready range */
    bool is_walking;
    struct assigned *walked;
    struct stele_record record;

    struct stele_result failure; /* code 0: none */
    struct assigned *failed;     /* whose failure it is; NULL: the whole consumer's */
};

struct ready *stele_consumer__first_ready(const struct stele_consumer *consumer);
void stele_consumer__free_ready(struct stele_consumer *consumer, struct ready *ready);
/** No retry can mend it: told once what was read before is given out. */
void stele_consumer__fail(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err,
                          const char *text);
/** Whether damage was met as often as it may be before it is told. */
bool stele_consumer__is_tired(const struct stele_consumer *consumer, const struct assigned *assigned);
/** Asks for everything from the position on again, a few times, then fails; the node is to look at what it has. */
void stele_consumer__refetch(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err);

/** Asking begins again at `offset`, and what came before is forgotten. */
void stele_consumer__restart(struct assigned *assigned, int64_t offset);

/* consumer_fetch.c */

void stele_fetcher__init(struct fetcher *fetcher, struct stele_consumer *consumer, struct stele_client_node *node);
void stele_fetcher__close(struct fetcher *fetcher);
void stele_consumer__tick(struct stele_client_part *part, int64_t now_ms);
int64_t stele_consumer__deadline(const struct stele_client_part *part);

/* consumer_reset.c */

/** Errors: INVALID_CONFIG. */
STELE_MUST_CHECK enum stele_err stele_consumer__read_reset(struct stele_consumer *consumer, struct stele_error *error);
/** The node says that the partition holds [log_start, log_end), and not the position. */
void stele_consumer__out_of_range(struct stele_consumer *consumer, struct assigned *assigned, int64_t log_start,
                                  int64_t log_end);
/** The leader's log is not the one that was read. */
void stele_consumer__diverged(struct stele_consumer *consumer, struct assigned *assigned,
                              const struct stele_fetch_result *result);
void stele_consumer__drive_resets(struct stele_consumer *consumer, int64_t now_ms);
int64_t stele_consumer__reset_deadline(const struct stele_consumer *consumer);

#endif
