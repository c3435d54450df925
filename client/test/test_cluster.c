/* A client of several nodes: who leads is found, followed and not forgotten, whoever is asked and whatever is under
 * way.
 */
#include "client/test/producer_world.h"

#include <stdio.h>
#include <string.h>

static const struct stele_setting quick[] = {{"request.timeout.ms", "4000"}, {"linger.ms", "0"}, {NULL, NULL}};
static const struct stele_setting earliest[] = {{"auto.offset.reset", "earliest"}, {NULL, NULL}};

static int set_up_cluster(void **state)
{
    struct producer_world *world;
    int result = producer_world_set_up(state);
    world = *state;
    peer_cluster(&world->peer, 3);
    world->peer.partition_count = 3;
    return result;
}

static void append(struct peer *peer, int32_t partition, int count)
{
    struct stele_batch_options options = {.partition_leader_epoch = -1,
                                          .producer_id = STELE_NO_PRODUCER_ID,
                                          .producer_epoch = -1,
                                          .base_sequence = STELE_NO_SEQUENCE};
    peer_append(peer, partition, count, &options);
}

static void flush(struct producer_world *world, struct stele_producer *producer, int count)
{
    assert_int_equal(stele_producer_flush(producer, 60000).code, 0);
    assert_int_equal(world->told.count, count);
    assert_int_equal(world->told.failed, 0);
    peer_check_once(&world->peer, count);
    world_check_stored(world, count);
}

static struct stele_consumer *consumer_of(struct stele_client *client, const struct stele_setting *settings)
{
    struct stele_result result;
    struct stele_consumer *consumer = stele_consumer_new(client, "t", settings, &result);
    assert_int_equal(result.code, 0);
    return consumer;
}

/* The next record is that one. */
static void read_next(struct stele_consumer *consumer, int32_t partition, int64_t offset)
{
    struct stele_record_view record;
    struct stele_result result = stele_consumer_next(consumer, 20000, &record);
    if (result.code != 0)
        fail_msg("no record: %d %s", result.code, result.text);
    assert_int_equal(record.partition, partition);
    assert_int_equal(record.offset, offset);
}

/* Records and questions go to the node that leads, from the first one on, and nowhere else. */
static void test_to_the_leader(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_producer *producer = world_producer(world, client, NULL);
    for (int32_t p = 0; p < 3; p++)
        world_send(client, producer, p, p * 10, p * 10 + 10);
    flush(world, producer, 30);
    struct stele_consumer *consumer = consumer_of(client, NULL);
    for (int32_t p = 0; p < 3; p++) {
        int64_t offset = -1;
        assert_int_equal(stele_consumer_assign(consumer, p, 0).code, 0);
        for (int64_t at = 0; at < 10; at++)
            read_next(consumer, p, at);
        stele_consumer_unassign(consumer, p);
        assert_int_equal(stele_offset_at(client, "t", p, STELE_OFFSET_LATEST, &offset).code, 0);
        assert_int_equal(offset, 10);
    }
    assert_int_equal(peer->strays, 0);
    for (int32_t id = 1; id <= 3; id++) {
        assert_true(peer_node(peer, id)->produces > 0);
        assert_true(peer_node(peer, id)->fetches > 0);
        assert_int_equal(peer_node(peer, id)->lists, 1);
    }
    stele_consumer_free(consumer);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* One node may call itself what it likes: the bootstrap address leads to it. */
static void test_one_node_elsewhere(void **state)
{
    struct producer_world *world = *state;
    peer_cluster(&world->peer, 1);
    struct stele_client *client = peer_client(&world->peer, quick);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 0, 0, 5);
    flush(world, producer, 5);
    assert_false(client->is_cluster);
    assert_int_equal(client->node_count, 1);
    assert_null(strstr(world->peer.addresses, "n2"));
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A producer and a consumer of one client. */
struct both {
    struct producer_world *world;
    struct stele_client *client;
    struct stele_producer *producer;
    struct stele_consumer *consumer;
};

/* Sends records of these numbers, and reads them. */
static void pass_on(const struct both *both, int32_t partition, int from, int to)
{
    world_send(both->client, both->producer, partition, from, to);
    flush(both->world, both->producer, to);
    for (int64_t at = from; at < to; at++)
        read_next(both->consumer, partition, at);
}

static void begin_both(struct both *both, struct producer_world *world, int32_t partition)
{
    struct stele_client *client = peer_client(&world->peer, quick);
    *both = (struct both){.world = world,
                          .client = client,
                          .producer = world_producer(world, client, NULL),
                          .consumer = consumer_of(client, NULL)};
    assert_int_equal(stele_consumer_assign(both->consumer, partition, 0).code, 0);
    pass_on(both, partition, 0, 5);
}

static void end_both(const struct both *both)
{
    stele_consumer_free(both->consumer);
    stele_producer_free(both->producer);
    stele_client_free(both->client);
}

/* The answer of who leads no more says who does: it is followed at once, without a question in between. */
static void test_hint(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    peer->gives_hints = true;
    struct both both;
    begin_both(&both, world, 0);
    peer_move(peer, 0, 3);
    int metadatas = peer->metadatas;
    int64_t before_us = peer->env.mono_us;
    pass_on(&both, 0, 5, 10);
    assert_int_equal(peer->metadatas, metadatas);
    assert_int_equal(peer->env.mono_us, before_us);
    assert_true(peer_node(peer, 3)->produces > 0);
    assert_true(peer_node(peer, 3)->fetches > 0);
    end_both(&both);
}

/* Without a hint the metadata says where it went, soon. */
static void test_by_metadata(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct both both;
    begin_both(&both, world, 1);
    int64_t before_us = peer->env.mono_us;
    peer_move(peer, 1, 1);
    pass_on(&both, 1, 5, 10);
    assert_true(peer->env.mono_us - before_us < 500000);
    assert_true(peer_node(peer, 1)->produces > 0);
    end_both(&both);
}

/* Five batches to node 1, which acknowledges some, writes `lost` more without saying so, and holds the rest. */
static void hold_five(struct producer_world *world, struct stele_client *client, struct stele_producer *producer,
                      int acked, int lost)
{
    struct peer *peer = &world->peer;
    struct peer_node *node = peer_node(peer, 1);
    int produces = node->produces;
    node->holds_produces = true;
    for (int i = 1; i <= 5; i++) {
        world_send(client, producer, 0, i, i + 1);
        (void)stele_client_poll(client, 10);
    }
    for (int i = 0; i < acked + lost; i++)
        peer->late_errs[i] = i < acked ? STELE_OK : STELE_NOT_LEADER_OR_FOLLOWER;
    peer->late_err_count = node->produces_let = acked + lost;
    while (node->produces < produces + acked + lost)
        (void)stele_client_poll(client, 0);
    peer_move(peer, 0, 2);
}

/* The leader moves while five batches are under way to the old one, which wrote some, with or without saying so, and
 * refuses the rest or goes down with them: each is in the log once, in order, and none goes to the new leader before
 * the last has ended. */
static void move_under_way(struct producer_world *world, int acked, int lost, bool dies)
{
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 0, 0, 1);
    flush(world, producer, 1);
    hold_five(world, client, producer, acked, lost);
    world_send(client, producer, 0, 6, 9);
    int64_t until_us = peer->env.mono_us + 500000; /* long enough for the metadata */
    while (acked + lost < 5 && peer->env.mono_us < until_us)
        (void)stele_client_poll(client, 100);
    if (acked + lost < 5)
        assert_int_equal(peer_node(peer, 2)->produces, 0);
    peer_node(peer, 1)->holds_produces = false;
    if (dies)
        peer_down(peer, 1);
    flush(world, producer, 9);
    assert_true(peer_node(peer, 2)->produces > 0);
    stele_producer_free(producer);
    stele_client_free(client);
    peer_deinit(peer);
}

static void test_move_under_way(void **state)
{
    for (int acked = 0; acked <= 4; acked++) {
        for (int lost = 0; acked + lost <= 5; lost++) {
            for (int dies = 0; dies < 2; dies++) {
                assert_int_equal(set_up_cluster(state), 0);
                move_under_way(*state, acked, lost, dies == 1);
            }
        }
    }
    assert_int_equal(set_up_cluster(state), 0);
}

/* A producer that is freed while batches are under way to one node and others wait for the next leaves nothing. */
static void test_free_on_the_move(void **state)
{
    struct producer_world *world = *state;
    struct stele_client *client = peer_client(&world->peer, quick);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 0, 0, 1);
    flush(world, producer, 1);
    hold_five(world, client, producer, 2, 1);
    world_send(client, producer, 0, 6, 9);
    for (int i = 0; i < 20; i++)
        (void)stele_client_poll(client, 25);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* The old leader takes what is sent and never answers again: an idempotent producer does not wait out the request. */
static void test_silent_leader(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting slow[] = {
        {"request.timeout.ms", "60000"}, {"linger.ms", "0"}, {"metadata.max.age.ms", "500"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, slow);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 0, 0, 1);
    flush(world, producer, 1);
    int64_t before_us = peer->env.mono_us;
    peer_node(peer, 1)->holds_produces = true;
    world_send(client, producer, 0, 1, 4);
    (void)stele_client_poll(client, 10);
    peer_move(peer, 0, 2);
    flush(world, producer, 4);
    assert_true(peer->env.mono_us - before_us < 5000000);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A node that lags behind tells of old leaders with their old epochs: nobody goes back for that, and the others are
 * asked until one knows better. */
static void test_stale_metadata(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting settings[] = {{"linger.ms", "0"}, {"metadata.max.age.ms", "100"}, {NULL, NULL}};
    peer_node(peer, 1)->is_stale = true;
    struct stele_client *client = peer_client(peer, settings);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 1, 0, 5);
    flush(world, producer, 5);
    peer_move(peer, 1, 3);
    world_send(client, producer, 1, 5, 10);
    flush(world, producer, 10);
    int strays = peer->strays, metadatas = peer_node(peer, 1)->metadatas;
    for (int i = 0; i < 10; i++)
        (void)stele_client_poll(client, 200);
    assert_true(peer_node(peer, 1)->metadatas > metadatas); /* it was asked, and was not believed */
    world_send(client, producer, 1, 10, 15);
    flush(world, producer, 15);
    assert_int_equal(peer->strays, strays);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* The only bootstrap node dies, and the leaders move afterwards: the others are known by then. */
static void test_dead_bootstrap_node(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_producer *producer = world_producer(world, client, NULL);
    struct stele_consumer *consumer = consumer_of(client, NULL);
    int64_t offset = -1;
    world_send(client, producer, 1, 0, 5);
    flush(world, producer, 5);
    assert_int_equal(stele_consumer_assign(consumer, 1, 0).code, 0);
    read_next(consumer, 1, 0);
    peer_down(peer, 1);
    peer_move(peer, 1, 3);
    world_send(client, producer, 1, 5, 10);
    flush(world, producer, 10);
    for (int64_t at = 1; at < 10; at++)
        read_next(consumer, 1, at);
    assert_int_equal(stele_offset_at(client, "t", 1, STELE_OFFSET_LATEST, &offset).code, 0);
    assert_int_equal(offset, 10);
    struct stele_topics *topics = NULL;
    assert_int_equal(stele_topic_list(client, &topics).code, 0);
    stele_topics_free(topics);
    stele_consumer_free(consumer);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Everything that leads dies for a while with nobody in its place; nothing is lost meanwhile. */
static void test_no_leader(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 2, 0, 5);
    flush(world, producer, 5);
    peer_down(peer, 3);
    peer_move(peer, 2, -1);
    world_send(client, producer, 2, 5, 10);
    assert_int_equal(stele_producer_flush(producer, 3000).code, STELE_REQUEST_TIMED_OUT);
    assert_true(peer->metadatas < 60); /* asked again and again, in no hurry */
    peer_move(peer, 2, 1);
    flush(world, producer, 10);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Nobody leads when it begins: it asks again and again, waits in between, and goes on when somebody does. */
static void test_no_leader_at_first(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    peer_move(peer, 2, -1);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world_send(client, producer, 2, 0, 5);
    int waits = 0;
    for (int64_t until_ms = stele_client__now_ms(client) + 3000; stele_client__now_ms(client) < until_ms; waits++)
        (void)stele_client_poll(client, 3000);
    assert_true(waits < 200);
    assert_in_range(peer->metadatas, 3, 60);
    peer_move(peer, 2, 1);
    assert_int_equal(stele_producer_flush(producer, 3000).code, 0);
    world_check_stored(world, 5);
    stele_producer_free(producer);
    peer_move(peer, 2, -1);
    struct stele_consumer *consumer = consumer_of(client, earliest);
    struct stele_record_view record;
    assert_int_equal(stele_consumer_assign(consumer, 2, 0).code, 0);
    assert_int_equal(stele_consumer_next(consumer, 3000, &record).code, STELE_REQUEST_TIMED_OUT);
    peer_move(peer, 2, 3);
    assert_int_equal(stele_consumer_next(consumer, 3000, &record).code, 0);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A node comes back at another address, with the same leader epochs. */
static void test_other_address(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct both both;
    begin_both(&both, world, 1);
    peer_down(peer, 2);
    peer_node(peer, 2)->port = 77;
    peer_node(peer, 2)->is_down = false;
    peer->addresses[0] = 0;
    pass_on(&both, 1, 5, 10);
    assert_non_null(strstr(peer->addresses, "n2:77"));
    end_both(&both);
}

/* The old leader answers when the new one has been asked: that is dropped, whatever it holds. */
static void test_late_answer(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting settings[] = {{"metadata.max.age.ms", "100"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, settings);
    struct stele_consumer *consumer = consumer_of(client, NULL);
    assert_int_equal(stele_consumer_assign(consumer, 1, 0).code, 0);
    while (peer_node(peer, 2)->fetches == 0) /* which waits there */
        (void)stele_client_poll(client, 0);
    peer_node(peer, 2)->holds_answers = true;
    append(peer, 1, 3);
    for (int i = 0; i < 3; i++)
        (void)stele_client_poll(client, 1);
    peer_move(peer, 1, 3);
    for (int64_t at = 0; at < 3; at++)
        read_next(consumer, 1, at);
    append(peer, 1, 3);
    int64_t before_us = peer->env.mono_us;
    peer_node(peer, 2)->holds_answers = false;
    for (int64_t at = 3; at < 6; at++)
        read_next(consumer, 1, at);
    assert_int_equal(peer->env.mono_us, before_us);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A leader with a newer epoch refuses those who know the old one, and one that does not know of its epoch yet those who
 * do: a consumer learns the epoch and reads on, with a hint at once. */
static void test_fenced_epochs(void **state)
{
    for (int hints = 0; hints < 2; hints++) {
        struct producer_world *world = *state;
        assert_int_equal(set_up_cluster(state), 0);
        struct peer *peer = &world->peer;
        peer->gives_hints = hints == 1;
        struct stele_client *client = peer_client(peer, quick);
        struct stele_consumer *consumer = consumer_of(client, NULL);
        append(peer, 0, 3);
        assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
        for (int64_t at = 0; at < 3; at++)
            read_next(consumer, 0, at);
        peer_move(peer, 0, 1);
        append(peer, 0, 3);
        int64_t before_us = peer->env.mono_us;
        for (int64_t at = 3; at < 6; at++)
            read_next(consumer, 0, at);
        assert_true(peer->strays > 0);
        if (hints == 1)
            assert_int_equal(peer->env.mono_us, before_us);
        int strays = peer->strays;
        struct stele_record_view record;
        peer->leaders[0].epoch--; /* it is behind what it told */
        assert_int_equal(stele_consumer_next(consumer, 1000, &record).code, STELE_REQUEST_TIMED_OUT);
        assert_in_range(peer->strays - strays, 1, 10);
        peer->leaders[0].epoch++;
        append(peer, 0, 3);
        for (int64_t at = 6; at < 9; at++)
            read_next(consumer, 0, at);
        stele_consumer_free(consumer);
        stele_client_free(client);
        peer_deinit(peer);
    }
    assert_int_equal(set_up_cluster(state), 0);
}

struct resets {
    int count;
    struct stele_reset last;
};

static void on_reset(void *arg, const struct stele_reset *reset)
{
    struct resets *resets = arg;
    resets->count++;
    resets->last = *reset;
    assert_non_null(strstr(reset->text, reset->reason == STELE_RESET_TRUNCATED ? "truncated" : "end"));
}

/* The new leader lacks records that were read, and has others at their offsets: the reader is told from where on, and
 * reads those. */
static void test_divergence(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct resets resets = {0};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, earliest);
    stele_consumer_on_reset(consumer, on_reset, &resets);
    append(peer, 0, 3);
    append(peer, 0, 4);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; at < 7; at++)
        read_next(consumer, 0, at);
    peer_truncate(peer, 0, 3);
    peer_move(peer, 0, 2);
    append(peer, 0, 10);
    read_next(consumer, 0, 3);
    assert_int_equal(resets.count, 1);
    assert_int_equal(resets.last.reason, STELE_RESET_TRUNCATED);
    assert_int_equal(resets.last.old_offset, 7);
    assert_int_equal(resets.last.new_offset, 3);
    assert_int_equal(resets.last.repeated, 4);
    for (int64_t at = 4; at < 13; at++)
        read_next(consumer, 0, at);
    assert_int_equal(resets.count, 1);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* The new leader has other records also where the reader stands, by an older epoch than it has read: it goes back to
 * where that one began. */
static void test_divergence_of_an_epoch(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct resets resets = {0};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, earliest);
    stele_consumer_on_reset(consumer, on_reset, &resets);
    append(peer, 0, 3);
    peer_move(peer, 0, 1);
    append(peer, 0, 2);
    append(peer, 0, 2);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; at < 7; at++)
        read_next(consumer, 0, at);
    peer_truncate(peer, 0, 3);
    peer->leaders[0].epoch = 1;
    append(peer, 0, 10);
    peer->leaders[0].epoch = 2;
    peer_move(peer, 0, 2);
    for (int64_t at = 3; at < 13; at++)
        read_next(consumer, 0, at);
    assert_int_equal(resets.count, 1);
    assert_int_equal(resets.last.reason, STELE_RESET_TRUNCATED);
    assert_int_equal(resets.last.old_offset, 7);
    assert_int_equal(resets.last.new_offset, 3);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* What was fetched and not given is not missed when it is forgotten: nobody is told of a truncation behind the place
 * that was read. */
static void test_divergence_of_what_was_not_read(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct resets resets = {0};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, earliest);
    stele_consumer_on_reset(consumer, on_reset, &resets);
    append(peer, 0, 3);
    append(peer, 0, 4);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    read_next(consumer, 0, 0);
    peer_truncate(peer, 0, 3);
    peer_move(peer, 0, 2);
    append(peer, 0, 10);
    for (int i = 0; i < 20; i++)
        (void)stele_client_poll(client, 100); /* it hears of the divergence */
    stele_consumer_pause(consumer, 0);
    stele_consumer_resume(consumer, 0);
    for (int64_t at = 1; at < 13; at++)
        read_next(consumer, 0, at);
    assert_int_equal(resets.count, 0);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Without a reset the reader gets an error that names the place. */
static void test_divergence_without_reset(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting never[] = {{"auto.offset.reset", "none"}, {NULL, NULL}};
    struct stele_record_view record;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, never);
    append(peer, 0, 3);
    append(peer, 0, 4);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; at < 7; at++)
        read_next(consumer, 0, at);
    peer_truncate(peer, 0, 3);
    peer_move(peer, 0, 2);
    append(peer, 0, 10);
    struct stele_result result = stele_consumer_next(consumer, 5000, &record);
    assert_int_equal(result.code, STELE_OFFSET_OUT_OF_RANGE);
    assert_non_null(strstr(result.text, "from offset 3 on"));
    assert_int_equal(stele_consumer_assign(consumer, 0, 3).code, 0);
    read_next(consumer, 0, 3);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A reset asks the leader, also one that has moved since. */
static void test_reset_at_the_leader(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct resets resets = {0};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, earliest);
    stele_consumer_on_reset(consumer, on_reset, &resets);
    append(peer, 1, 3);
    peer->list_errs[0] = STELE_NOT_LEADER_OR_FOLLOWER;
    peer->list_err_count = 1;
    assert_int_equal(stele_consumer_assign(consumer, 1, 50).code, 0);
    peer_move(peer, 1, 3);
    read_next(consumer, 1, 0);
    assert_int_equal(resets.count, 1);
    assert_int_equal(resets.last.reason, STELE_RESET_ABOVE_END);
    assert_true(peer_node(peer, 3)->lists > 0);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Who has a rack reads where the leader sends to, comes back when that replica cannot go on, and is sent there again
 * when it can. */
static void test_nearest_replica(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting rack[] = {{"client.rack", "r3"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, rack);
    peer->replica_id = 3;
    append(peer, 0, 3);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; at < 3; at++)
        read_next(consumer, 0, at);
    assert_int_equal(peer_node(peer, 1)->fetches, 1);
    assert_true(peer_node(peer, 3)->fetches > 0);
    peer->replica_id = 0; /* it ceases to be one */
    append(peer, 0, 3);
    for (int64_t at = 3; at < 6; at++)
        read_next(consumer, 0, at);
    assert_true(peer_node(peer, 1)->fetches > 1);
    peer->replica_id = 3;
    int fetches = peer_node(peer, 3)->fetches;
    append(peer, 0, 3);
    for (int64_t at = 6; at < 9; at++)
        read_next(consumer, 0, at);
    assert_true(peer_node(peer, 3)->fetches > fetches);
    peer_down(peer, 3);
    peer->replica_id = 0;
    append(peer, 0, 3);
    for (int64_t at = 9; at < 12; at++)
        read_next(consumer, 0, at);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* What a replica has deleted and its leader has not is read at the leader, which goes on sending there. */
static void test_deleted_at_the_replica(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting rack[] = {{"client.rack", "r3"}, {"auto.offset.reset", "none"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, rack);
    peer->replica_id = 3;
    peer->replica_start = 3;
    append(peer, 0, 3);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; at < 3; at++)
        read_next(consumer, 0, at);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A replica that is not known here, and that metadata does not tell of, stops nobody: the leader is read, not asked in
 * a circle. */
static void test_unknown_replica(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting rack[] = {{"client.rack", "r9"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, rack);
    peer->replica_id = 9;
    append(peer, 0, 3);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    int metadatas = peer->metadatas;
    for (int64_t at = 0; at < 3; at++)
        read_next(consumer, 0, at);
    for (int i = 0; i < 50; i++)
        (void)stele_client_poll(client, 100);
    append(peer, 0, 3);
    for (int64_t at = 3; at < 6; at++)
        read_next(consumer, 0, at);
    assert_true(peer->metadatas > metadatas);
    assert_true(peer->fetches < 50);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* What a replica says that is not read any more does not count, though its leader was not asked yet: that has another
 * request to answer first. */
static void test_late_answer_of_a_replica(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    static const struct stele_setting settings[] = {
        {"client.rack", "r3"}, {"auto.offset.reset", "earliest"}, {NULL, NULL}};
    static const struct stele_setting young[] = {{"metadata.max.age.ms", "300"}, {NULL, NULL}};
    struct resets resets = {0};
    peer->partition_count = 4; /* 0 and 3 are led by node 1 */
    struct stele_client *client = peer_client(peer, young);
    struct stele_consumer *consumer = consumer_of(client, settings);
    stele_consumer_on_reset(consumer, on_reset, &resets);
    peer->replica_id = 3;
    append(peer, 0, 3);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; at < 3; at++)
        read_next(consumer, 0, at);
    peer_node(peer, 1)->holds_answers = true;
    int fetches = peer_node(peer, 1)->fetches;
    assert_int_equal(stele_consumer_assign(consumer, 3, 0).code, 0);
    while (peer_node(peer, 1)->fetches == fetches)
        (void)stele_client_poll(client, 0);
    for (int i = 0; i < 5; i++)
        (void)stele_client_poll(client, 100);        /* the leader is to be asked again */
    peer->fetch_errs[0] = STELE_OFFSET_OUT_OF_RANGE; /* of the replica, which waited */
    peer->fetch_err_count = 1;
    for (int i = 0; i < 5; i++)
        (void)stele_client_poll(client, 100);
    assert_int_equal(peer->fetch_err_count, 0);
    peer->replica_id = 0;
    peer_node(peer, 1)->holds_answers = false;
    append(peer, 0, 3);
    for (int64_t at = 3; at < 6; at++)
        read_next(consumer, 0, at);
    assert_int_equal(resets.count, 0);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Who is asked as a replica, or in an earlier epoch, may find an offset beyond its end that the leader of now has: when
 * leads itself by the time that its answer comes, that is not the word of a leader either. */
static void test_late_answer_of_who_leads_now(void **state)
{
    static const struct stele_setting settings[] = {
        {"client.rack", "r3"}, {"auto.offset.reset", "earliest"}, {NULL, NULL}};
    static const struct stele_setting young[] = {{"metadata.max.age.ms", "300"}, {NULL, NULL}};
    for (int32_t asked = 1; asked <= 3; asked += 2) { /* the leader itself, or a replica */
        struct producer_world *world = *state;
        struct peer *peer = &world->peer;
        struct resets resets = {0};
        struct stele_client *client = peer_client(peer, young);
        struct stele_consumer *consumer = consumer_of(client, settings);
        stele_consumer_on_reset(consumer, on_reset, &resets);
        peer->replica_id = asked == 3 ? 3 : 0;
        append(peer, 0, 3);
        assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
        for (int64_t at = 0; at < 3; at++)
            read_next(consumer, 0, at);
        for (int i = 0; i < 5; i++)
            (void)stele_client_poll(client, 0);
        peer_node(peer, asked)->holds_answers = true;
        peer->fetch_errs[0] = STELE_OFFSET_OUT_OF_RANGE;
        peer->fetch_err_count = 1;
        for (int i = 0; i < 20 && peer->fetch_err_count > 0; i++)
            (void)stele_client_poll(client, 100);
        assert_int_equal(peer->fetch_err_count, 0);
        peer_move(peer, 0, asked);
        peer->replica_id = 0;
        for (int i = 0; i < 20; i++)
            (void)stele_client_poll(client, 100);
        peer_node(peer, asked)->holds_answers = false;
        append(peer, 0, 3);
        for (int64_t at = 3; at < 6; at++)
            read_next(consumer, 0, at);
        assert_int_equal(resets.count, 0);
        stele_consumer_free(consumer);
        stele_client_free(client);
        peer_deinit(peer);
        assert_int_equal(set_up_cluster(state), 0);
    }
}

/* A node that is cut off tells of the topic that was there before: nobody who reads the new one, or writes to it, takes
 * that for news. What all tell is. */
static void test_topic_of_before(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_record_view record;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_consumer *consumer = consumer_of(client, earliest);
    peer_node(peer, 2)->has_old_topic = true;
    append(peer, 0, 3);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t at = 0; peer_node(peer, 2)->metadatas < 3; at++) {
        assert_true(at < 100);
        read_next(consumer, 0, at);
        append(peer, 0, 1);
        peer->fetch_errs[0] = STELE_NOT_LEADER_OR_FOLLOWER; /* so that all are asked by turns */
        peer->fetch_err_count = 1;
    }
    memset(peer->topic_id.bytes, 0x77, sizeof(peer->topic_id.bytes));
    peer->checks_topic_id = true;
    struct stele_result result = {.code = 0};
    for (int i = 0; i < 5 && result.code == 0; i++)
        result = stele_consumer_next(consumer, 5000, &record);
    assert_int_equal(result.code, STELE_INCONSISTENT_TOPIC_ID);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

static void delete_records(struct peer *peer, const struct stele_request *request, struct stele_response *response)
{
    static struct stele_delete_records_result result;
    const struct stele_delete_records_partition *asked = &request->body.delete_records.partitions[0];
    bool is_leader = peer->last_admin_node == peer->leaders[asked->partition].node_id;
    result = (struct stele_delete_records_result){.err = is_leader ? STELE_OK : STELE_NOT_LEADER_OR_FOLLOWER,
                                                  .message = "",
                                                  .topic_id = asked->topic_id,
                                                  .partition = asked->partition,
                                                  .low_watermark = asked->offset,
                                                  .current_leader_id = -1,
                                                  .current_leader_epoch = -1};
    peer->strays += !is_leader;
    response->body.delete_records = (struct stele_delete_records_response){.results = &result, .result_count = 1};
}

/* Calls on a partition find its leader; those on all partitions ask every leader, and wait for one that is elected. */
static void test_admin_at_the_leaders(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_offsets *offsets = NULL;
    int64_t start = -1;
    peer->admin = delete_records;
    for (int32_t p = 0; p < 3; p++)
        append(peer, p, 1 + p);
    assert_int_equal(stele_records_delete(client, "t", 2, 1, &start).code, 0);
    assert_int_equal(start, 1);
    assert_int_equal(peer->last_admin_node, 3);
    assert_int_equal(stele_topic_offsets(client, "t", STELE_OFFSET_LATEST, &offsets).code, 0);
    assert_int_equal(offsets->partition_count, 3);
    for (int32_t p = 0; p < 3; p++) {
        assert_int_equal(offsets->partitions[p]->partition, p);
        assert_int_equal(offsets->partitions[p]->code, 0);
        assert_int_equal(offsets->partitions[p]->offset, 1 + p);
    }
    stele_offsets_free(offsets);
    assert_int_equal(peer->strays, 0);
    peer_down(peer, 2);
    peer_move(peer, 1, -1);
    assert_int_equal(stele_topic_offsets(client, "t", STELE_OFFSET_LATEST, &offsets).code, 0);
    assert_int_equal(offsets->partitions[0]->offset, 1);
    assert_int_equal(offsets->partitions[1]->code, STELE_LEADER_NOT_AVAILABLE);
    assert_int_equal(offsets->partitions[2]->offset, 3);
    stele_offsets_free(offsets);
    assert_int_equal(stele_records_delete(client, "t", 1, 1, &start).code, STELE_LEADER_NOT_AVAILABLE);
    stele_client_free(client);
}

static void describe_logs(struct peer *peer, const struct stele_request *request, struct stele_response *response)
{
    static struct stele_described_log logs[PEER_PARTITIONS];
    const struct stele_describe_log_request *asked = &request->body.describe_log;
    assert_in_range(asked->partition_count, 1, PEER_PARTITIONS);
    for (size_t i = 0; i < asked->partition_count; i++) {
        int32_t partition = asked->partitions[i].partition;
        logs[i] = (struct stele_described_log){.topic_id = asked->partitions[i].topic_id,
                                               .partition = partition,
                                               .message = "",
                                               .directory = "d",
                                               .log_end_offset = peer->logs[partition].end_offset};
        peer->strays += peer->last_admin_node != peer->leaders[partition].node_id;
    }
    response->body.describe_log =
        (struct stele_describe_log_response){.logs = logs, .log_count = asked->partition_count};
}

/* Logs are described by those who lead them, in the order of their numbers; what nobody leads is there with the reason.
 */
static void test_logs_of_the_leaders(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_log_descriptions *logs = NULL;
    peer->admin = describe_logs;
    peer->partition_count = 4;
    for (int32_t p = 0; p < 4; p++)
        append(peer, p, 1 + p);
    assert_int_equal(stele_topic_logs(client, "t", -1, 0, &logs).code, 0);
    assert_int_equal(logs->log_count, 4);
    for (int32_t p = 0; p < 4; p++) {
        assert_int_equal(logs->logs[p]->partition, p);
        assert_int_equal(logs->logs[p]->code, 0);
        assert_int_equal(logs->logs[p]->log_end_offset, 1 + p);
    }
    stele_log_descriptions_free(logs);
    assert_int_equal(peer->strays, 0);
    peer_move(peer, 1, -1);
    peer_down(peer, 3);
    assert_int_equal(stele_topic_logs(client, "t", -1, 0, &logs).code, 0);
    assert_int_equal(logs->logs[0]->code, 0);
    assert_int_equal(logs->logs[1]->code, STELE_LEADER_NOT_AVAILABLE);
    assert_int_equal(logs->logs[2]->code, STELE_UNREACHABLE);
    assert_int_equal(logs->logs[3]->code, 0);
    assert_string_equal(logs->logs[2]->topic, "t");
    stele_log_descriptions_free(logs);
    stele_client_free(client);
}

/* Leaders that move all the time, nodes that go and come, connections that end, hints that come or not: all is written
 * once, in order, and read once. */
static void test_moves_at_random(void **state)
{
    enum { RECORDS = 400 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct producer_world *world = *state;
        assert_int_equal(set_up_cluster(state), 0);
        struct peer *peer = &world->peer;
        struct stele_prng prng;
        stele_prng_init(&prng, seed, 1);
        stele_prng_init(&peer->prng, seed, 2);
        peer->gives_hints = seed % 2 == 0;
        peer->chunk_max = 200;
        struct stele_client *client = peer_client(peer, quick);
        struct stele_producer *producer = world_producer(world, client, NULL);
        for (int i = 0; i < RECORDS; i++) {
            world_send(client, producer, (int32_t)stele_prng_below(&prng, 3), i, i + 1);
            (void)stele_client_poll(client, (int)stele_prng_below(&prng, 5));
            if (stele_prng_chance(&prng, 1, 12))
                peer_move(peer, (int32_t)stele_prng_below(&prng, 3), 1 + (int32_t)stele_prng_below(&prng, 3));
            if (stele_prng_chance(&prng, 1, 30)) {
                peer->late_errs[0] = STELE_NOT_LEADER_OR_FOLLOWER;
                peer->late_err_count = 1;
            }
            if (stele_prng_chance(&prng, 1, 40))
                peer->drops_after = 1;
            struct peer_node *node = peer_node(peer, 1 + (int32_t)stele_prng_below(&prng, 3));
            if (stele_prng_chance(&prng, 1, 40) && !node->is_down)
                peer_down(peer, node->id);
            else
                node->is_down = false;
        }
        for (int32_t id = 1; id <= 3; id++)
            peer_node(peer, id)->is_down = false;
        flush(world, producer, RECORDS);
        stele_producer_free(producer);
        struct stele_consumer *consumer = consumer_of(client, NULL);
        int64_t next[3] = {0, 0, 0};
        for (int32_t p = 0; p < 3; p++)
            assert_int_equal(stele_consumer_assign(consumer, p, 0).code, 0);
        for (int i = 0; i < RECORDS; i++) {
            struct stele_record_view record;
            if (stele_prng_chance(&prng, 1, 20))
                peer_move(peer, (int32_t)stele_prng_below(&prng, 3), 1 + (int32_t)stele_prng_below(&prng, 3));
            assert_int_equal(stele_consumer_next(consumer, 20000, &record).code, 0);
            assert_int_equal(record.offset, next[record.partition]);
            next[record.partition]++;
        }
        stele_consumer_free(consumer);
        stele_client_free(client);
        peer_deinit(peer);
    }
    assert_int_equal(set_up_cluster(state), 0);
}

/* Whichever allocation fails, a move is survived and nothing is leaked. */
static void test_no_memory(void **state)
{
    struct producer_world *world = *state;
    for (int64_t n = 1; n < 400; n++) {
        assert_int_equal(set_up_cluster(state), 0);
        struct peer *peer = &world->peer;
        peer->gives_hints = n % 2 == 0;
        struct stele_client *client = peer_client(peer, quick);
        struct stele_producer *producer = world_producer(world, client, NULL);
        struct stele_consumer *consumer = consumer_of(client, NULL);
        stele_test_mem_fail(&peer->env.mem, n, false);
        (void)stele_consumer_assign(consumer, 0, 0);
        for (int i = 0; i < 6; i++) {
            if (i == 2)
                peer_move(peer, 0, 2);
            world_send(client, producer, 0, i, i + 1);
            (void)stele_client_poll(client, 5);
        }
        flush(world, producer, 6);
        for (int64_t at = 0; at < 6; at++)
            read_next(consumer, 0, at);
        stele_consumer_free(consumer);
        stele_producer_free(producer);
        stele_client_free(client);
        peer_deinit(peer);
    }
    assert_int_equal(set_up_cluster(state), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up_cluster, producer_world_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_to_the_leader),
        CASE(test_one_node_elsewhere),
        CASE(test_hint),
        CASE(test_by_metadata),
        CASE(test_move_under_way),
        CASE(test_free_on_the_move),
        CASE(test_silent_leader),
        CASE(test_stale_metadata),
        CASE(test_dead_bootstrap_node),
        CASE(test_no_leader),
        CASE(test_no_leader_at_first),
        CASE(test_other_address),
        CASE(test_late_answer),
        CASE(test_fenced_epochs),
        CASE(test_divergence),
        CASE(test_divergence_of_an_epoch),
        CASE(test_divergence_of_what_was_not_read),
        CASE(test_divergence_without_reset),
        CASE(test_reset_at_the_leader),
        CASE(test_nearest_replica),
        CASE(test_deleted_at_the_replica),
        CASE(test_unknown_replica),
        CASE(test_late_answer_of_a_replica),
        CASE(test_late_answer_of_who_leads_now),
        CASE(test_topic_of_before),
        CASE(test_admin_at_the_leaders),
        CASE(test_logs_of_the_leaders),
        CASE(test_moves_at_random),
        CASE(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
