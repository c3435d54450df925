/* A peer with a producer's deliveries, for the tests of producers. */
#ifndef STELE_CLIENT_TEST_PRODUCER_WORLD_H
#define STELE_CLIENT_TEST_PRODUCER_WORLD_H

#include "client/test/peer.h"

enum { DELIVERIES_MAX = 8192 };

struct told {
    int count, failed;
    uint64_t next_tag[PEER_PARTITIONS + 1]; /* tags of a partition come in growing order */
    int64_t offsets[DELIVERIES_MAX];
    int32_t partitions[DELIVERIES_MAX];
    int durability;
    struct stele_result last_failure;
    struct stele_producer *sends; /* sends one more record from inside the callback */
    int extra;
};

struct producer_world {
    struct peer peer;
    struct told told;
};

int producer_world_set_up(void **state);
int producer_world_tear_down(void **state);
void world_delivered(void *arg, const struct stele_delivery *delivery);
/** Records "v<tag>" number `from` to `to`, polling when the buffer is full. */
void world_send(struct stele_client *client, struct stele_producer *producer, int32_t partition, int from, int to);
/** What was acknowledged is where the acknowledgement says. */
void world_check_stored(struct producer_world *world, int count);
/** Of the topic "t". */
struct stele_producer *world_producer(struct producer_world *world, struct stele_client *client,
                                      const struct stele_setting *settings);

#endif
