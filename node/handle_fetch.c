/* Fetch: a read of every partition; then the answer, or, when there is less than min_bytes, a wait until one of them
 * has more, the time is over or the next request of the connection came, and a read again.
 *
 * States of a fetch: READING -> answered | PARKED, PARKED -> CANCELLING (woken, timer, hurried) -> READING. */
#include "base/check.h"
#include "node/fetch_hold.h"
#include "node/node.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/server_call.h"
#include "node/session.h"

#include <string.h>

enum fetch_state { FETCH_READING, FETCH_PARKED, FETCH_CANCELLING };

struct fetch_part {
    struct stele_read_op read;
    struct fetch *all;
    struct stele_fetch_hold *hold;
};

struct fetch {
    struct stele_server_call *call;
    struct fetch_part *parts;
    size_t count, pending;
    enum fetch_state state;
    int64_t deadline_ms, parked_us; /* monotonic */
    struct stele_timer timer;
};

/* Its range is given up before it was in an answer. */
static void revoked(struct stele_fetch_hold *hold)
{
    struct fetch_part *part = hold->arg;
    part->read.op.err = STELE_NOT_LEADER_OR_FOLLOWER;
    part->read.slice.bytes = 0;
}

static void free_aborted(struct fetch *all)
{
    for (size_t i = 0; i < all->count; i++) {
        stele_mem_free(all->call->shard->env->mem, all->parts[i].read.aborted);
        all->parts[i].read.aborted = NULL;
        all->parts[i].read.aborted_count = 0;
    }
}

static void release(struct stele_server_call *call)
{
    struct fetch *all = call->state;
    stele_timer_cancel(call->shard->wheel, &all->timer);
    free_aborted(all);
    for (size_t i = 0; i < all->count; i++) {
        stele_slice_release(&all->parts[i].read.slice); /* only when the node ends in the middle */
        if (all->parts[i].hold == NULL)
            continue;
        all->parts[i].hold->pending = NULL;
        stele_fetch_hold_unref(all->parts[i].hold);
    }
}

/* The answer. */

/* How much of each range fits: the first one that is not empty is sent whole, so that a large batch gets through. */
static void cut_to_budget(struct fetch *all)
{
    const struct stele_fetch_request *request = &all->call->request.body.fetch;
    int64_t left = stele_min_i64(request->max_bytes, all->call->shard->node->limits.fetch_bytes_max);
    bool is_first = true;
    for (size_t i = 0; i < all->count; i++) {
        struct stele_read_op *read = &all->parts[i].read;
        if (read->op.err != STELE_OK || read->slice.bytes == 0)
            continue;
        int64_t bytes = (int64_t)read->slice.bytes;
        if (!is_first)
            bytes = stele_min_i64(bytes, stele_min_i64(left, request->partitions[i].max_bytes));
        is_first = false;
        left -= bytes;
        read->slice.bytes = (size_t)stele_max_i64(bytes, 0);
    }
}

static bool fill_aborted(struct fetch *all, struct stele_fetch_result *result, const struct stele_read_op *read)
{
    struct stele_aborted_transaction *aborted =
        stele_arena_array(&all->call->arena, read->aborted_count, sizeof(*aborted));
    if (aborted == NULL)
        return false;
    for (size_t i = 0; i < read->aborted_count; i++) {
        aborted[i].producer_id = read->aborted[i].producer_id;
        aborted[i].first_offset = read->aborted[i].first_offset;
    }
    result->aborted = aborted;
    result->aborted_count = read->aborted_count;
    return true;
}

static bool fill(struct fetch *all, struct stele_fetch_result *result, const struct stele_read_op *read)
{
    *result = (struct stele_fetch_result){STELE_FETCH_RESULT_PLAIN,
                                          .err = read->op.err,
                                          .topic_id = read->op.topic_id,
                                          .partition = read->op.number,
                                          .high_watermark = -1,
                                          .last_stable_offset = -1,
                                          .log_start_offset = -1,
                                          .current_leader_id = read->op.current_leader_id,
                                          .current_leader_epoch = read->op.current_leader_epoch};
    if (read->op.partition != NULL && (read->op.err == STELE_OK || read->op.err == STELE_OFFSET_OUT_OF_RANGE)) {
        result->high_watermark = read->high_watermark;
        result->last_stable_offset = read->last_stable_offset;
        result->log_start_offset = read->log_start_offset;
    }
    if (read->op.err != STELE_OK)
        return true;
    result->diverging_epoch = read->diverging.epoch;
    result->diverging_end_offset = read->diverging.end_offset;
    result->preferred_read_replica = read->read_replica;
    result->records_bytes = (uint32_t)read->slice.bytes;
    return read->aborted_count == 0 || fill_aborted(all, result, read);
}

/* Gives the range of a read to its hold, and a piece of it to the answer. */
static void take_range(struct stele_server_call *call, struct fetch_part *part)
{
    struct stele_read_op *read = &part->read;
    struct stele_fetch_hold *hold = part->hold;
    if (read->slice.file == NULL)
        return;
    hold->owner = read->op.shard;
    hold->slice = read->slice;
    hold->send.file = read->file;
    hold->pending = NULL;
    read->slice.file = NULL;
    if (hold->slice.bytes == 0)
        return;
    call->pieces[call->piece_count++] =
        (struct stele_piece){.file = &hold->send, .pos = hold->slice.pos, .bytes = hold->slice.bytes};
    call->piece_bytes += hold->slice.bytes;
}

static void answer(struct fetch *all)
{
    struct stele_server_call *call = all->call;
    struct stele_fetch_result *results = stele_arena_array(&call->arena, all->count, sizeof(*results));
    call->pieces = stele_arena_array(&call->arena, all->count, sizeof(*call->pieces));
    bool is_good = results != NULL && call->pieces != NULL;
    cut_to_budget(all);
    for (size_t i = 0; i < all->count && is_good; i++)
        is_good = fill(all, &results[i], &all->parts[i].read);
    for (size_t i = 0; i < all->count; i++) {
        if (call->pieces != NULL) {
            take_range(call, &all->parts[i]);
        } else { /* the hold alone gives it back */
            all->parts[i].hold->pending = NULL;
            all->parts[i].hold->owner = all->parts[i].read.op.shard;
            all->parts[i].hold->slice = all->parts[i].read.slice;
            all->parts[i].read.slice.file = NULL;
        }
    }
    if (!is_good) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    struct stele_hints hints = {.count = 0};
    for (size_t i = 0; i < all->count; i++)
        stele_nodes_add_hint(call->shard->nodes, &call->arena, call->session->listener->name,
                             results[i].current_leader_id, &hints);
    call->response.body.fetch = (struct stele_fetch_response){
        .results = results, .result_count = all->count, .nodes = hints.items, .node_count = hints.count};
    stele_server_call_done(call);
}

/* Waiting. */

static void read_all(struct fetch *all);

/* What the answer may hold bounds what is waited for. */
static int64_t wanted_bytes(const struct fetch *all)
{
    const struct stele_fetch_request *request = &all->call->request.body.fetch;
    return stele_min_i64(request->min_bytes,
                         stele_min_i64(request->max_bytes, all->call->shard->node->limits.fetch_bytes_max));
}

static bool is_enough(const struct fetch *all, int64_t *out_bytes)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct stele_read_op *read = &all->parts[i].read;
        if (read->op.err != STELE_OK || read->diverging.epoch >= 0 || read->read_replica >= 0)
            return true;
        bytes += (int64_t)all->parts[i].read.slice.bytes;
    }
    *out_bytes = bytes;
    return bytes >= wanted_bytes(all) || all->call->is_hurried ||
           stele_env_mono_ms(all->call->shard->env) >= all->deadline_ms;
}

/* When the sum is to grow by `missing`, one of n must grow by an n-th of it. */
static void park(struct fetch *all, int64_t bytes)
{
    struct stele_shard *shard = all->call->shard;
    int64_t missing = wanted_bytes(all) - bytes;
    int64_t share = stele_max_i64((missing + (int64_t)all->count - 1) / (int64_t)all->count, 1);
    all->state = FETCH_PARKED;
    all->parked_us = stele_env_mono_us(shard->env);
    free_aborted(all);
    stele_shard_arm(shard, &all->timer, all->deadline_ms);
    for (size_t i = 0; i < all->count; i++) {
        struct stele_read_op *read = &all->parts[i].read;
        all->parts[i].hold->pending = NULL; /* it goes back */
        read->wake_at_bytes = read->seen_bytes + share;
        stele_partition_park(read);
    }
}

static void all_read(struct fetch *all)
{
    int64_t bytes = 0;
    if (is_enough(all, &bytes))
        answer(all);
    else
        park(all, bytes);
}

static void wake(struct fetch *all)
{
    if (all->state != FETCH_PARKED)
        return;
    all->state = FETCH_CANCELLING;
    all->call->stages.wait_us += stele_env_mono_us(all->call->shard->env) - all->parked_us;
    stele_timer_cancel(all->call->shard->wheel, &all->timer);
    all->pending = all->count;
    for (size_t i = 0; i < all->count; i++)
        stele_partition_unpark(&all->parts[i].read);
}

static void part_done(struct stele_op *op)
{
    struct fetch_part *part = STELE_CONTAINER_OF(op, struct fetch_part, read.op);
    struct fetch *all = part->all;
    switch (all->state) {
    case FETCH_READING:
        part->hold->pending = op->err == STELE_OK ? &part->read.slice : NULL;
        part->hold->key = (struct stele_partition_key){.topic_id = op->topic_id, .number = op->number};
        part->hold->generation = part->read.generation;
        stele_stages_raise(&all->call->stages, &op->stages);
        if (--all->pending == 0)
            all_read(all);
        return;
    case FETCH_PARKED:
        wake(all);
        return;
    case FETCH_CANCELLING:
        return; /* it woke while it was taken back */
    }
}

static void part_cancelled(struct stele_read_op *read)
{
    struct fetch *all = STELE_CONTAINER_OF(read, struct fetch_part, read)->all;
    if (--all->pending == 0)
        read_all(all);
}

static void timer_fired(struct stele_timer *timer)
{
    wake(STELE_CONTAINER_OF(timer, struct fetch, timer));
}

static void hurry(struct stele_server_call *call)
{
    wake(call->state);
}

static void read_all(struct fetch *all)
{
    const struct stele_server_call *call = all->call;
    const struct stele_fetch_request *request = &call->request.body.fetch;
    int64_t bytes_max = stele_min_i64(request->max_bytes, call->shard->node->limits.fetch_bytes_max);
    all->state = FETCH_READING;
    all->pending = all->count + 1; /* one for this function: a read may end at once */
    for (size_t i = 0; i < all->count; i++) {
        const struct stele_fetch_partition *in = &request->partitions[i];
        struct stele_read_op *read = &all->parts[i].read;
        read->op = (struct stele_op){.home = call->shard,
                                     .origin = call->session,
                                     .topic_id = in->topic_id,
                                     .number = in->partition,
                                     .leader_epoch = in->current_leader_epoch,
                                     .may_follow = request->rack[0] != 0,
                                     .run = stele_partition_read,
                                     .done = part_done};
        read->offset = in->fetch_offset;
        read->max_bytes = (size_t)stele_max_i64(stele_min_i64(in->max_bytes, bytes_max), 0);
        read->isolation = request->isolation;
        read->rack = request->rack;
        read->listener = all->call->session->listener->name;
        read->last_fetched_epoch = in->last_fetched_epoch;
        read->doubted_offset = in->doubted_offset;
        read->diverging = (struct stele_epoch_end){STELE_EPOCH_NONE, STELE_OFFSET_NONE};
        read->read_replica = STELE_NO_NODE;
        read->cancelled = part_cancelled;
        all->parts[i].hold->pending = NULL;
        stele_op_submit(&read->op);
    }
    if (--all->pending == 0)
        all_read(all);
}

static bool prepare(struct fetch *all)
{
    for (; all->count < all->call->request.body.fetch.partition_count; all->count++) {
        struct fetch_part *part = &all->parts[all->count];
        part->all = all;
        part->hold = stele_fetch_hold_new(all->call->shard);
        if (part->hold == NULL)
            return false;
        part->hold->revoked = revoked;
        part->hold->arg = part;
        part->hold->session_id = all->call->session->id;
    }
    return true;
}

void stele_handle_fetch(struct stele_server_call *call)
{
    if (stele_is_metadata_fetch(call)) {
        stele_handle_metadata_fetch(call);
        return;
    }
    const struct stele_fetch_request *request = &call->request.body.fetch;
    if (request->replica_id >= 0) {
        stele_handle_replica_fetch(call);
        return;
    }
    struct fetch *all = stele_arena_alloc(&call->arena, sizeof(*all));
    struct fetch_part *parts = stele_arena_array(&call->arena, request->partition_count, sizeof(*parts));
    if (all == NULL || parts == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    all->call = call;
    all->parts = parts;
    stele_timer_init(&all->timer, timer_fired);
    call->state = all;
    call->release = release;
    if (!prepare(all)) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    all->deadline_ms = stele_env_mono_ms(call->shard->env) + stele_max_i64(request->max_wait_ms, 0);
    call->hurry = hurry;
    if (all->count == 0)
        answer(all);
    else
        read_all(all);
}
