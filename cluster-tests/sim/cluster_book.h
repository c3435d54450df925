/* What is known of every record: what was sent, what was promised, and the committed log of every partition, which is
 * put together from the replicas' files as their high watermarks move. Only an election that somebody forced takes
 * anything off it, and only what the metadata log says it lost.
 *
 * What must hold, from the table of promises of the design and facts 8.1:
 *  1. A record is committed once, and with an idempotent producer at one offset, in the order of sending (D7).
 *  2. Who is told that a record was written with acks=all is told an offset at which it is committed (D6).
 *  3. Nothing but committed records is read, at their offsets, and no reader skips any (D20, D21, D22).
 *  4. What was committed stays, on every replica that may lead (D2, D3, D5, D10, D14, D23), until it is deleted:
 * because somebody asked for it, or retention says so (D31). */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_BOOK_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_BOOK_H

#include "base/uuid.h"
#include "client/stele.h"
#include "cluster-tests/sim/cluster_log.h"
#include "replication/types.h"

enum {
    CLUSTER_TOPICS_MAX = 4,
    CLUSTER_LIVES_MAX = 32,
    CLUSTER_NODES_MAX = 5,
    CLUSTER_DIRS_MAX = 3,
    CLUSTER_PARTITIONS_MAX = 3,
    CLUSTER_VALUE_BYTES_MIN = 16
};

struct cluster;

enum cluster_fate { CLUSTER_SENT, CLUSTER_ACKNOWLEDGED, CLUSTER_UNKNOWN };

struct cluster_record {
    int producer, topic, acks; /* topic: the first of its name */
    int32_t partition;         /* -1: not known */
    int32_t bytes;
    int32_t life, places; /* the topic that it was written to last, and where else in that one */
    enum cluster_fate fate;
    bool is_once, is_lost; /* of an idempotent producer; in a range that a forced election lost */
    int64_t offset;        /* where it is committed; -1 */
};

struct cluster_batch {
    int64_t base_offset, end_offset, max_timestamp;
    uint32_t crc;
    int32_t epoch, committed_in; /* the leader's that wrote it; and of the one whose high watermark went over it */
};

/** Who led in a leader epoch: node + 1, 0: nobody was seen to. */
struct cluster_epoch {
    int leader;
    bool is_forced; /* after a forced election, until the partition has recovered from it: it may have lost something */
    bool is_excused; /* not all could be asked then what they have */
};

struct cluster_partition {
    struct cluster_batch *batches; /* committed */
    int64_t count, capacity;
    int64_t *tags; /* by offset */
    int64_t tag_capacity;
    int64_t end_offset; /* of what is committed */
    struct cluster_epoch *epochs;
    int64_t epoch_capacity;
    int32_t epoch_max;
    bool was_forced;                       /* lost something to a forced election, */
    int32_t forced_epoch;                  /* the last time in this leader epoch */
    int64_t start_offset;                  /* the largest of any replica */
    int64_t start_asked;                   /* below it somebody asked for deletion; INT64_MAX: of all there is */
    int32_t out_epochs[CLUSTER_NODES_MAX]; /* + 1: the last partition epoch in which a node was no replica; 0: none */
    bool has_state;
    struct stele_partition_state state; /* of the highest partition epoch that any node has applied */
};

/** A topic that was deleted and made anew is another one: a new life of its name. The first lives of all names come
 * first; what is asked of the name is noted there. */
struct cluster_topic {
    char name[16];
    int first; /* the first life of its name */
    struct stele_uuid id;
    bool is_made, is_seen;    /* somebody was told so; its id is known */
    bool is_gone;             /* the metadata log has it deleted */
    int64_t seen_at, gone_at; /* metadata offsets of the first images that have it, that have it no more */
    int deletes;              /* asked of the name */
    bool flushes_before_ack;
    int64_t retention_ms, retention_bytes; /* -1: no limit */
    char segment_bytes[16];
    int partition_count;
    struct cluster_partition partitions[CLUSTER_PARTITIONS_MAX];
};

/** One by one producer: tags by which order is checked. */
struct cluster_order {
    int64_t last[CLUSTER_LIVES_MAX][CLUSTER_PARTITIONS_MAX];
};

struct cluster_deletion {
    bool is_on;
    int name, partition;
    int64_t below; /* INT64_MAX: all there is */
};

struct cluster_book {
    struct cluster_topic topics[CLUSTER_LIVES_MAX];
    int topic_count, life_count; /* names; lives of all of them */
    struct cluster_record *records;
    int64_t record_count, record_capacity;
    struct cluster_order *orders; /* by producer */
    int64_t producer_count, order_capacity;
    int64_t acknowledged, lost;
    struct cluster_deletion asking; /* of records, under way */
};

/** The bytes of a record. */
void cluster_value(int64_t tag, uint8_t *out_bytes, size_t bytes);
int cluster_book_producer(struct cluster *run);
/** Its tag. */
int64_t cluster_book_send(struct cluster *run, const struct cluster_record *record);
void cluster_book_delivered(struct cluster *run, const struct stele_delivery *delivery);
void cluster_book_read(struct cluster *run, const struct cluster_topic *topic, const struct stele_record_view *record);
/** NULL: no node's metadata had it. */
struct cluster_topic *cluster_book_topic(struct cluster *run, const struct stele_uuid *id);
/** What a node's image calls so, at that offset of the metadata log: NULL: nothing. Returns it. */
struct cluster_topic *cluster_book_seen(struct cluster *run, int name, const struct stele_uuid *id, int64_t offset);
/** The last that had the name; the first while none was seen. */
struct cluster_topic *cluster_book_last(struct cluster *run, int name);
struct cluster_epoch *cluster_epoch_at(struct cluster_partition *partition, int32_t epoch);
struct cluster_start {
    int64_t offset, held_bytes, wall_ms;
};
/** A batch that is committed next, in the leader epoch `epoch`. */
struct cluster_commit {
    struct cluster_topic *topic;
    int partition;
    int32_t epoch;
    struct stele_batch_header header;
    const uint8_t *bytes;
    size_t count;
};
void cluster_book_commit(struct cluster *run, const struct cluster_commit *commit);
/* The records of this batch were committed by a leader that a forced election had deposed: they are lost. */
void cluster_book_deposed(struct cluster *run, const struct cluster_commit *commit);
/** The committed batch that holds the offset; NULL: none does. */
const struct cluster_batch *cluster_book_batch(const struct cluster_partition *partition, int64_t offset);
/** Somebody asks that records be deleted, of whichever topic the name means when it comes; and got an answer. */
void cluster_book_ask(struct cluster *run, const struct cluster_deletion *deletion);
void cluster_book_asked(struct cluster *run);
/** A replica begins there; it must be allowed to. `held_bytes` are left in it, its clock shows wall_ms. */
void cluster_book_start(struct cluster *run, struct cluster_topic *topic, int partition,
                        const struct cluster_start *start);
/** What was committed from there on is lost. Not excused: nothing that was synced may be. */
void cluster_book_lose(struct cluster *run, struct cluster_topic *topic, int partition, int64_t from_offset,
                       bool is_excused);
/** When all is over. */
void cluster_book_end(struct cluster *run);
void cluster_book_free(struct cluster_book *book);

#endif
