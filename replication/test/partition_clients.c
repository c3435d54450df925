/* Producers, each with one idempotent batch under way, and consumers that read where they may. */
#include "partition_world.h"

static void send_later(struct pw_world *world, int producer, int64_t delay)
{
    struct pw_event *event = pw_post(world, PW_PRODUCE_SEND, producer, delay);
    event->attempt = world->producers[producer].attempt;
}

void pw_clients_begin(struct pw_world *world)
{
    for (int i = 0; i < PW_PRODUCERS; i++) {
        struct pw_producer *producer = &world->producers[i];
        *producer = (struct pw_producer){.acks = i == 0 ? 1 : -1, .seq = 0, .target = 0};
        if (i == 1 && pw_chance(world, 300)) {
            producer->acks = 0;
        }
        if (!world->is_scripted) {
            send_later(world, i, pw_draw(world, 1, 20));
        }
    }
    for (int i = 0; i < PW_CONSUMERS; i++) {
        world->consumers[i].position = 0;
        if (!world->is_scripted) {
            (void)pw_post(world, PW_CONSUME, i, pw_draw(world, 1, 20));
        }
    }
}

static void choose_target(struct pw_world *world, struct pw_producer *producer)
{
    if (world->state.leader_id != STELE_NO_NODE && pw_chance(world, 700)) {
        producer->target = world->state.leader_id;
    } else {
        producer->target = (int)pw_draw(world, 0, world->config.node_count - 1);
    }
}

static bool may_send_more(const struct pw_world *world)
{
    return !world->is_healed && world->highest_end + 64 < world->config.record_limit;
}

static void next_batch(struct pw_world *world, int id)
{
    struct pw_producer *producer = &world->producers[id];
    producer->seq += producer->count;
    producer->is_busy = false;
    producer->count = 0;
    producer->attempt++;
    if (world->is_scripted) {
        return;
    }
    int64_t pause = pw_chance(world, 500) ? 0 : pw_draw(world, 0, world->config.has_burst ? 200 : 15);
    send_later(world, id, pause);
}

static void send_batch(struct pw_world *world, const struct pw_event *event)
{
    struct pw_producer *producer = &world->producers[event->node];
    if (event->attempt != producer->attempt) {
        return; /* a time-out of an attempt that was answered */
    }
    if (producer->is_busy) {
        choose_target(world, producer); /* unanswered: the same batch again, perhaps elsewhere */
    } else {
        if (!may_send_more(world)) {
            return;
        }
        producer->is_busy = true;
        producer->count = (int32_t)pw_draw(world, 1, 8);
    }
    producer->attempt++;
    send_later(world, event->node, pw_draw(world, 100, 300));
    if (!pw_chance(world, world->is_healed ? 0 : world->config.loss)) {
        struct pw_event *produce = pw_post(world, PW_PRODUCE, producer->target, pw_draw(world, 0, 5));
        produce->from = event->node;
        produce->incarnation = world->nodes[producer->target].incarnation;
        produce->seq = producer->seq;
        produce->count = producer->count;
        produce->acks = producer->acks;
        produce->attempt = producer->attempt;
    }
    if (producer->acks == 0) {
        next_batch(world, event->node);
    }
}

static void take_produce(struct pw_world *world, const struct pw_event *event)
{
    struct pw_node *node = &world->nodes[event->node];
    if (!node->is_up || node->incarnation != event->incarnation) {
        return;
    }
    enum stele_err err = pw_node_produce(world, node, event);
    if (err != STELE_OK && event->acks != 0) {
        int from = event->from;
        int32_t attempt = event->attempt;
        struct pw_event *answer = pw_post(world, PW_PRODUCE_ANSWER, from, pw_draw(world, 0, 5));
        answer->attempt = attempt;
        answer->err = err;
    }
}

static void take_produce_answer(struct pw_world *world, const struct pw_event *event)
{
    struct pw_producer *producer = &world->producers[event->node];
    if (event->attempt != producer->attempt || !producer->is_busy) {
        return;
    }
    producer->has_answer = true;
    producer->answer_err = event->err;
    producer->answer_level = event->level;
    if (event->err == STELE_OK) {
        for (int32_t i = 0; i < event->count && world->acked_count < PW_LOG_MAX; i++) {
            world->acked[world->acked_count++] = (struct pw_acked){.offset = event->offset + i,
                                                                   .producer = event->node,
                                                                   .seq = event->seq + i,
                                                                   .acks = producer->acks,
                                                                   .level = event->level};
            world->stats.acked++;
        }
        next_batch(world, event->node);
        return;
    }
    producer->attempt++;
    if (!world->is_scripted) {
        send_later(world, event->node, pw_draw(world, 2, 40));
    }
}

/* Reads up to the node's high watermark; from a follower by the leader's advice or anyone. */
static void consume(struct pw_world *world, const struct pw_event *event)
{
    struct pw_consumer *consumer = &world->consumers[event->node];
    (void)pw_post(world, PW_CONSUME, event->node, pw_draw(world, 5, 40));
    struct pw_node *node = &world->nodes[pw_draw(world, 0, world->config.node_count - 1)];
    if (!node->is_acting || !node->has_replica) {
        return;
    }
    if (node->leads) {
        int32_t advice = stele_leader_read_replica(&node->leader, (uint32_t)event->node + 1, consumer->position);
        if (!stele_node_set_has(&node->leader.replicas, advice)) {
            pw_fail(world, "a consumer is sent to node %d, which is no replica", advice);
        }
        int64_t latest = 0;
        if (stele_leader_latest_offset(&node->leader, &latest) == STELE_OK && !world->is_tainted &&
            node->leader.leader_epoch == world->state.leader_epoch) {
            if (latest < world->latest_offset) {
                pw_fail(world, "KIP-207: the latest offset went from %lld to %lld", (long long)world->latest_offset,
                        (long long)latest);
            }
            world->latest_offset = latest;
        }
    }
    if (consumer->position < node->log.start) {
        consumer->position = node->log.start;
    }
    if (node->log.hw > node->log.end || node->log.hw < node->log.start) {
        pw_fail(world, "D8: node %d", node->id);
    }
    for (int i = 0; i < 32 && consumer->position < node->log.hw; i++) {
        pw_check_read(world, consumer->position, &node->log.records[consumer->position]);
        consumer->position++;
    }
}

void pw_client_event(struct pw_world *world, struct pw_event *event)
{
    if (event->kind == PW_PRODUCE_SEND) {
        send_batch(world, event);
    } else if (event->kind == PW_PRODUCE) {
        take_produce(world, event);
    } else if (event->kind == PW_PRODUCE_ANSWER) {
        take_produce_answer(world, event);
    } else {
        consume(world, event);
    }
}
