#include "client/test/producer_world.h"

#include <stdio.h>
#include <string.h>

void world_delivered(void *arg, const struct stele_delivery *delivery)
{
    struct told *told = arg;
    assert_true(delivery->tag < DELIVERIES_MAX);
    assert_true(delivery->tag >= told->next_tag[delivery->partition]);
    told->next_tag[delivery->partition] = delivery->tag + 1;
    told->offsets[delivery->tag] = delivery->offset;
    told->partitions[delivery->tag] = delivery->partition;
    told->count++;
    told->durability = delivery->durability;
    if (delivery->result.code != 0) {
        told->failed++;
        told->last_failure = delivery->result;
    }
    if (told->sends != NULL && told->extra > 0) {
        struct stele_message message = {
            .partition = delivery->partition, .timestamp = 5, .value = "more", .value_bytes = 4};
        told->extra--;
        assert_int_equal(stele_producer_send(told->sends, &message, delivery->tag + 1).code, 0);
    }
}

int producer_world_set_up(void **state)
{
    static struct producer_world world;
    memset(&world.told, 0, sizeof(world.told));
    peer_init(&world.peer);
    *state = &world;
    return 0;
}

int producer_world_tear_down(void **state)
{
    struct producer_world *world = *state;
    peer_deinit(&world->peer);
    return 0;
}

void world_send(struct stele_client *client, struct stele_producer *producer, int32_t partition, int from, int to)
{
    for (int i = from; i < to; i++) {
        char value[32];
        (void)snprintf(value, sizeof(value), "v%d", i);
        struct stele_message message = {
            .partition = partition, .timestamp = -1, .value = value, .value_bytes = strlen(value)};
        struct stele_result result = stele_producer_send(producer, &message, (uint64_t)i);
        while (result.code == STELE_NO_MEMORY && result.is_retriable) {
            (void)stele_client_poll(client, 10);
            result = stele_producer_send(producer, &message, (uint64_t)i);
        }
        assert_int_equal(result.code, 0);
    }
}

void world_check_stored(struct producer_world *world, int count)
{
    for (int i = 0; i < count; i++) {
        char value[32];
        (void)snprintf(value, sizeof(value), "v%d", i);
        if (world->told.offsets[i] >= 0)
            assert_true(peer_has(&world->peer, world->told.partitions[i], world->told.offsets[i], value));
    }
}

struct stele_producer *world_producer(struct producer_world *world, struct stele_client *client,
                                      const struct stele_setting *settings)
{
    struct stele_result result;
    struct stele_producer *producer = stele_producer_new(client, "t", settings, world_delivered, &world->told, &result);
    assert_int_equal(result.code, 0);
    assert_non_null(producer);
    return producer;
}
