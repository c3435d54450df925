/* Topics that come, grow and go, and what a start must find of them whatever broke their life off. */
#ifndef STELE_NODE_TEST_TOPIC_LIFE_H
#define STELE_NODE_TEST_TOPIC_LIFE_H

#include "node/test/node_world.h"

enum { TOPIC_LIFE_TOPICS_MAX = 64 };

enum topic_fact { TOPIC_FACT_NOT, TOPIC_FACT_PERHAPS, TOPIC_FACT_SURE };

/** One that was asked for; its id is known when the answer came. */
struct topic_book {
    char name[32];
    struct stele_uuid topic_id; /* zero: not known */
    enum topic_fact is_made, is_deleted;
    int32_t partitions_min, partitions_max;
};

struct topic_life {
    struct node_world *world;
    struct node_conn *conn;
    struct topic_book topics[TOPIC_LIFE_TOPICS_MAX];
    int topic_count;
    int64_t steps_left; /* movements until it is broken off; -1: never */
    bool is_broken;     /* no request is made any more */
    bool may_fail;      /* faults are about: an answer may be an error */
    int64_t last_id;    /* producer id */
};

void topic_life_init(struct topic_life *life, struct node_world *world);
/** Starts a node; false when the start failed or was broken off. */
bool topic_life_start(struct topic_life *life);
/** Each does one thing and waits for its answer, unless the life is broken. */
struct topic_book *topic_life_create(struct topic_life *life, const char *name, int32_t partitions);
void topic_life_grow(struct topic_life *life, struct topic_book *book, int32_t partitions);
void topic_life_delete(struct topic_life *life, struct topic_book *book, bool by_id);
void topic_life_produce(struct topic_life *life, const struct topic_book *book, int32_t partition);
void topic_life_producer_id(struct topic_life *life);
void topic_life_pass(struct topic_life *life, int64_t ms);
void topic_life_stop(struct topic_life *life);
/** All of the above in a row: names used again, at once and after a while. */
void topic_life_run(struct topic_life *life);
/** Starts a node without faults and holds what it has, and the directories, against the book; takes new records, and
 * stops it. */
void topic_life_check(struct topic_life *life, bool only_synced);
/** The number of directories of partitions, but for the metadata log's; those to be deleted apart. */
int topic_life_dirs(struct node_world *world, int *out_condemned);

#endif
