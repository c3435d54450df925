#include "client/test/peer.h"

#include "proto/frame.h"

#include <stdio.h>
#include <string.h>

enum { PIPE_BYTES_MAX = 64 << 20 };

struct pipe {
    uint8_t *bytes;
    size_t count, capacity;
};

struct stele_conn {
    struct stele_list link;
    struct peer *peer;
    struct peer_node *node; /* NULL: there is one */
    const struct stele_conn_handler *handler;
    void *arg;
    bool is_opening, is_refused, is_closed, is_ending;
    struct pipe in, out; /* as the peer sees it */
    size_t sent_bytes;
    /* a fetch that waits */
    bool is_parked;
    struct stele_request parked;
    struct stele_fetch_partition parked_partitions[PEER_PARTITIONS];
    char parked_rack[32];
    int64_t parked_until_ms;
};

static int64_t now_ms(const struct peer *peer)
{
    return peer->env.mono_us / 1000;
}

static void pipe_put(struct peer *peer, struct pipe *pipe, const void *bytes, size_t count)
{
    while (pipe->count + count > pipe->capacity) {
        pipe->capacity = pipe->capacity == 0 ? 4096 : pipe->capacity * 2;
        pipe->bytes = stele_mem_resize(&peer->own.mem, STELE_MEM_TOOL, pipe->bytes, pipe->capacity);
        assert_non_null(pipe->bytes);
    }
    memcpy(pipe->bytes + pipe->count, bytes, count);
    pipe->count += count;
}

static void pipe_drop(struct pipe *pipe, size_t count)
{
    memmove(pipe->bytes, pipe->bytes + count, pipe->count - count);
    pipe->count -= count;
}

static void conn_free(struct stele_conn *conn)
{
    struct peer *peer = conn->peer;
    stele_list_remove(&conn->link);
    stele_mem_free(&peer->own.mem, conn->in.bytes);
    stele_mem_free(&peer->own.mem, conn->out.bytes);
    stele_mem_free(&peer->own.mem, conn);
}

/* The nodes */

struct peer_node *peer_node(struct peer *peer, int32_t id)
{
    assert_in_range(id, 1, peer->node_count);
    return &peer->nodes[id - 1];
}

static struct peer_node *node_at(struct peer *peer, const char *address)
{
    for (int i = 0; i < peer->node_count; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%s:%d", peer->nodes[i].host, peer->nodes[i].port);
        if (strcmp(text, address) == 0)
            return &peer->nodes[i];
    }
    return NULL;
}

void peer_cluster(struct peer *peer, int count)
{
    peer->node_count = count;
    for (int i = 0; i < count; i++) {
        peer->nodes[i] = (struct peer_node){.id = i + 1, .port = i + 1};
        (void)snprintf(peer->nodes[i].host, sizeof(peer->nodes[i].host), "n%d", i + 1);
    }
    for (int32_t p = 0; p < PEER_PARTITIONS; p++)
        peer_move(peer, p, 1 + p % count);
}

void peer_move(struct peer *peer, int32_t partition, int32_t node_id)
{
    struct peer_leader *leader = &peer->leaders[partition];
    leader->node_id = node_id;
    leader->epoch++;
    for (int i = 0; i < peer->node_count; i++) {
        if (!peer->nodes[i].is_stale)
            peer->nodes[i].leaders[partition] = *leader;
    }
}

void peer_down(struct peer *peer, int32_t node_id)
{
    struct peer_node *node = peer_node(peer, node_id);
    node->is_down = true;
    for (struct stele_list *at = peer->conns.next; at != &peer->conns; at = at->next) {
        struct stele_conn *conn = STELE_CONTAINER_OF(at, struct stele_conn, link);
        if (conn->node != node)
            continue;
        conn->out.count = 0;
        conn->is_ending = true;
    }
}

void peer_truncate(struct peer *peer, int32_t partition, int64_t offset)
{
    struct peer_log *log = &peer->logs[partition];
    while (log->batch_count > 0 && log->batches[log->batch_count - 1].base_offset >= offset)
        stele_mem_free(&peer->own.mem, log->batches[--log->batch_count].bytes);
    log->end_offset = offset;
    assert_true(log->batch_count == 0 || log->batches[log->batch_count - 1].last_offset == offset - 1);
}

/* What a node says to a request for a partition that carries a leader epoch; -1: none. */
static enum stele_err check_leader(struct stele_conn *conn, int32_t partition, int32_t epoch)
{
    const struct peer_leader *leader = &conn->peer->leaders[partition];
    if (conn->node == NULL)
        return STELE_OK;
    if (leader->node_id != conn->node->id)
        return STELE_NOT_LEADER_OR_FOLLOWER;
    if (epoch >= 0 && epoch != leader->epoch)
        return epoch < leader->epoch ? STELE_FENCED_LEADER_EPOCH : STELE_UNKNOWN_LEADER_EPOCH;
    return STELE_OK;
}

/* The leader of now, with an error that tells of one; how many nodes there are to name with it. */
static size_t hint(const struct stele_conn *conn, int32_t partition, int32_t *out_id, int32_t *out_epoch)
{
    *out_id = *out_epoch = -1;
    if (conn->node == NULL || !conn->peer->gives_hints)
        return 0;
    *out_id = conn->peer->leaders[partition].node_id;
    *out_epoch = conn->peer->leaders[partition].epoch;
    return (size_t)conn->peer->node_count;
}

static void list_nodes(const struct peer *peer, struct stele_metadata_node nodes[PEER_NODES])
{
    for (int i = 0; i < peer->node_count; i++)
        nodes[i] = (struct stele_metadata_node){
            .node_id = peer->nodes[i].id, .host = peer->nodes[i].host, .port = peer->nodes[i].port, .rack = ""};
}

/* The net */

static enum stele_err peer_connect(struct stele_net *net, const char *address, const struct stele_conn_handler *handler,
                                   void *arg, struct stele_conn **out_conn)
{
    struct peer *peer = STELE_CONTAINER_OF(net, struct peer, net);
    struct stele_conn *conn = stele_mem_alloc(&peer->own.mem, STELE_MEM_TOOL, sizeof(*conn));
    assert_non_null(conn);
    size_t used = strlen(peer->addresses);
    (void)snprintf(peer->addresses + used, sizeof(peer->addresses) - used, "%s ", address);
    *conn = (struct stele_conn){.peer = peer, .handler = handler, .arg = arg, .is_opening = true};
    peer->connects++;
    conn->node = node_at(peer, address);
    bool is_there = peer->node_count == 0 ? strcmp(address, peer->address) == 0 : conn->node != NULL;
    conn->is_refused = peer->refusals > 0 || !is_there || (conn->node != NULL && conn->node->is_down);
    if (conn->node != NULL)
        conn->node->connects++;
    peer->refusals -= peer->refusals > 0;
    stele_list_push(&peer->conns, &conn->link);
    *out_conn = conn;
    return STELE_OK;
}

static enum stele_err peer_send(struct stele_conn *conn, const struct stele_piece *pieces, int count)
{
    assert_false(conn->is_closed);
    assert_false(conn->is_opening);
    for (int i = 0; i < count; i++) {
        assert_non_null(pieces[i].buf);
        pipe_put(conn->peer, &conn->in, pieces[i].at, pieces[i].bytes);
        conn->sent_bytes += pieces[i].bytes;
    }
    return STELE_OK;
}

static void peer_resume(struct stele_conn *conn)
{
    (void)conn;
}

static void peer_close(struct stele_conn *conn, bool flush)
{
    (void)flush;
    assert_false(conn->is_closed);
    conn->is_closed = true;
}

static const char *peer_name(struct stele_conn *conn)
{
    (void)conn;
    return "peer:1";
}

static const struct stele_net_ops net_ops = {
    .connect = peer_connect, .send = peer_send, .resume = peer_resume, .close = peer_close, .peer = peer_name};

/* The broker */

static enum stele_err take_err(enum stele_err *errs, int *count)
{
    enum stele_err err = STELE_OK;
    if (*count > 0) {
        err = errs[0];
        (*count)--;
        memmove(errs, errs + 1, (size_t)*count * sizeof(errs[0]));
    }
    return err;
}

static void answer(struct stele_conn *conn, const struct stele_request *request, struct stele_response *response,
                   const struct pipe *records)
{
    struct peer *peer = conn->peer;
    struct stele_arena arena;
    struct stele_buf *frame;
    size_t records_bytes = records == NULL ? 0 : records->count;
    response->header = (struct stele_response_header){
        .api = request->header.api, .version = 1, .correlation_id = request->header.correlation_id};
    stele_arena_init(&arena, &peer->own.mem, STELE_MEM_TOOL, 0);
    assert_ok(stele_response_encode(&arena, response, records_bytes, &frame));
    if (peer->garbage > 0 && request->header.api != STELE_API_HELLO) {
        peer->garbage--;
        stele_prng_bytes(&peer->prng, frame->bytes + stele_prng_below(&peer->prng, 8), frame->count - 8);
    }
    pipe_put(peer, &conn->out, frame->bytes, frame->count);
    if (records_bytes > 0)
        pipe_put(peer, &conn->out, records->bytes, records_bytes);
    stele_buf_unref(frame);
    stele_arena_deinit(&arena);
}

static void store(struct peer_log *log, struct peer *peer, const uint8_t *bytes, size_t count)
{
    struct stele_batch_header header;
    assert_true(log->batch_count < PEER_BATCHES);
    struct peer_batch *batch = &log->batches[log->batch_count++];
    batch->bytes = stele_mem_alloc(&peer->own.mem, STELE_MEM_TOOL, count);
    assert_non_null(batch->bytes);
    memcpy(batch->bytes, bytes, count);
    batch->count = count;
    stele_batch_stamp(batch->bytes, log->end_offset, peer->leaders[log - peer->logs].epoch);
    assert_ok(stele_batch_header_read(batch->bytes, count, &header));
    batch->base_offset = log->end_offset;
    batch->last_offset = stele_batch_last_offset(&header);
    log->end_offset = batch->last_offset + 1;
}

static struct peer_producer *find_producer(struct peer_log *log, const struct stele_batch_header *header)
{
    for (int i = 0; i < log->producer_count; i++) {
        if (log->producers[i].id == header->producer_id)
            return &log->producers[i];
    }
    assert_true(log->producer_count < PEER_PRODUCERS);
    struct peer_producer *producer = &log->producers[log->producer_count++];
    *producer = (struct peer_producer){.id = header->producer_id, .epoch = -1};
    return producer;
}

/* Kafka's checks; a duplicate gives the offset that it has. */
static enum stele_err check_sequence(struct peer_producer *producer, const struct stele_batch_header *header,
                                     int64_t *out_duplicate)
{
    int32_t first = header->base_sequence, last = stele_sequence_add(first, header->last_offset_delta);
    if (producer->epoch < 0)
        return STELE_OK;
    for (int i = 0; i < producer->batch_count && header->producer_epoch == producer->epoch; i++) {
        if (producer->batches[i].first == first && producer->batches[i].last == last)
            *out_duplicate = producer->batches[i].base_offset;
    }
    if (*out_duplicate >= 0)
        return STELE_OK;
    if (header->producer_epoch < producer->epoch)
        return STELE_INVALID_PRODUCER_EPOCH;
    int32_t expected = 0;
    if (header->producer_epoch == producer->epoch && producer->batch_count > 0)
        expected = stele_sequence_add(producer->batches[producer->batch_count - 1].last, 1);
    return first == expected ? STELE_OK : STELE_OUT_OF_ORDER_SEQUENCE_NUMBER;
}

static void note_batch(struct peer_producer *producer, const struct stele_batch_header *header, int64_t base_offset)
{
    if (header->producer_epoch != producer->epoch)
        producer->batch_count = 0;
    producer->epoch = header->producer_epoch;
    if (producer->batch_count == 5)
        memmove(producer->batches, producer->batches + 1, 4 * sizeof(producer->batches[0]));
    else
        producer->batch_count++;
    producer->batches[producer->batch_count - 1].first = header->base_sequence;
    producer->batches[producer->batch_count - 1].last =
        stele_sequence_add(header->base_sequence, header->last_offset_delta);
    producer->batches[producer->batch_count - 1].base_offset = base_offset;
}

void peer_forget_producers(struct peer *peer, int32_t partition, bool all)
{
    struct peer_log *log = &peer->logs[partition];
    for (int i = 0; i < log->producer_count && !all; i++) {
        struct peer_producer *producer = &log->producers[i];
        producer->batches[0] = producer->batches[producer->batch_count - 1];
        producer->batch_count = 1;
    }
    if (all)
        log->producer_count = 0;
}

/* Written, or a duplicate of what is, or refused; the offset of its first record. */
static enum stele_err append(struct peer *peer, struct peer_log *log, const uint8_t *records, size_t bytes,
                             int64_t *out_offset)
{
    struct stele_batch_header header;
    int64_t duplicate = -1;
    assert_ok(stele_batch_check(records, bytes, &header));
    if (header.producer_id == STELE_NO_PRODUCER_ID) {
        *out_offset = log->end_offset;
        store(log, peer, records, bytes);
        return STELE_OK;
    }
    struct peer_producer *producer = find_producer(log, &header);
    enum stele_err err = check_sequence(producer, &header, &duplicate);
    if (err == STELE_OK && duplicate < 0) {
        *out_offset = log->end_offset;
        note_batch(producer, &header, log->end_offset);
        store(log, peer, records, bytes);
    } else if (err == STELE_OK) {
        *out_offset = duplicate;
        peer->duplicates++;
    }
    return err;
}

static void on_produce(struct stele_conn *conn, const struct stele_request *request, const uint8_t *records)
{
    struct peer *peer = conn->peer;
    const struct stele_produce_partition *partition = &request->body.produce.partitions[0];
    assert_int_equal(request->body.produce.partition_count, 1);
    assert_true(partition->partition >= 0 && partition->partition < peer->partition_count);
    struct peer_log *log = &peer->logs[partition->partition];
    peer->produces++;
    peer->last_acks = request->body.produce.acks;
    if (peer->drops_before > 0) {
        peer->drops_before--;
        conn->is_ending = true;
        return;
    }
    struct stele_produce_result result = {.topic_id = peer->topic_id,
                                          .partition = partition->partition,
                                          .base_offset = -1,
                                          .durability = STELE_DURABILITY_WRITTEN,
                                          .current_leader_id = -1,
                                          .current_leader_epoch = -1};
    struct stele_metadata_node nodes[PEER_NODES];
    result.err = check_leader(conn, partition->partition, -1);
    peer->strays += result.err != STELE_OK;
    if (conn->node != NULL)
        conn->node->produces++;
    if (result.err == STELE_OK)
        result.err = take_err(peer->produce_errs, &peer->produce_err_count);
    if (!stele_uuid_equal(&partition->topic_id, &peer->topic_id)) {
        assert_true(peer->checks_topic_id);
        result.err = STELE_UNKNOWN_TOPIC_ID;
    }
    if (peer->batch_bytes_max > 0 && partition->records_bytes > peer->batch_bytes_max) {
        result.err = STELE_MESSAGE_TOO_LARGE;
        result.message = "larger than max.message.bytes";
    }
    if (result.err == STELE_OK)
        result.err = append(peer, log, records, partition->records_bytes, &result.base_offset);
    if (result.err == STELE_OK) {
        result.err = take_err(peer->late_errs, &peer->late_err_count);
        result.base_offset = result.err == STELE_OK ? result.base_offset : -1;
    }
    if (result.err == STELE_OK && peer->drops_after > 0) {
        peer->drops_after--;
        conn->is_ending = true;
        return;
    }
    struct stele_response response = {.body.produce = {.results = &result, .result_count = 1, .nodes = nodes}};
    if (result.err == STELE_NOT_LEADER_OR_FOLLOWER)
        response.body.produce.node_count =
            hint(conn, partition->partition, &result.current_leader_id, &result.current_leader_epoch);
    list_nodes(peer, nodes);
    if (request->body.produce.acks != 0)
        answer(conn, request, &response, NULL);
}

/* Bytes of the batches from `offset` on; at least the first whole one unless the script cuts it. */
static void read_log(struct peer *peer, const struct peer_log *log, const struct stele_fetch_partition *partition,
                     struct pipe *records)
{
    size_t left = (size_t)partition->max_bytes, before = records->count;
    for (int i = 0; i < log->batch_count && left > 0; i++) {
        const struct peer_batch *batch = &log->batches[i];
        if (batch->last_offset < partition->fetch_offset)
            continue;
        if (batch->last_offset >= peer->damaged_from && batch->last_offset < peer->damaged_to)
            break;
        size_t part = batch->count;
        if (part > left && (peer->cuts_first_batch || records->count > before))
            part = left;
        pipe_put(peer, records, batch->bytes, part);
        left -= stele_min_size(left, part);
    }
    if (records->count > before && peer->damaged_fetches > 0) {
        peer->damaged_fetches--;
        records->bytes[records->count - 1] ^= 1;
    }
}

/* Where the log ceases to be the one that was read up to there by that epoch (KIP-320). */
static bool find_divergence(const struct peer_log *log, const struct stele_fetch_partition *partition,
                            struct stele_fetch_result *result)
{
    int64_t end = log->start_offset;
    int32_t epoch = -1;
    for (int i = 0; i < log->batch_count && partition->last_fetched_epoch >= 0; i++) {
        struct stele_batch_header header;
        assert_ok(stele_batch_header_read(log->batches[i].bytes, log->batches[i].count, &header));
        if (header.partition_leader_epoch > partition->last_fetched_epoch)
            break;
        epoch = header.partition_leader_epoch;
        end = log->batches[i].last_offset + 1;
    }
    if (epoch < 0 || (epoch == partition->last_fetched_epoch && end >= partition->fetch_offset))
        return false;
    result->diverging_epoch = epoch;
    result->diverging_end_offset = end;
    return true;
}

/* May be read though it does not lead. */
static bool is_replica(const struct stele_conn *conn)
{
    return conn->node != NULL && conn->node->id == conn->peer->replica_id;
}

static bool sends_elsewhere(const struct stele_conn *conn, const struct stele_request *request)
{
    return conn->peer->replica_id > 0 && !is_replica(conn) && request->body.fetch.rack[0] != 0;
}

static void answer_fetch(struct stele_conn *conn, const struct stele_request *request)
{
    struct peer *peer = conn->peer;
    struct stele_metadata_node nodes[PEER_NODES];
    size_t node_count = 0;
    struct stele_fetch_result results[PEER_PARTITIONS];
    struct pipe records = {0};
    size_t count = request->body.fetch.partition_count;
    for (size_t i = 0; i < count; i++) {
        const struct stele_fetch_partition *partition = &request->body.fetch.partitions[i];
        const struct peer_log *log = &peer->logs[partition->partition];
        size_t before = records.count;
        if (partition->doubted_offset >= 0) {
            peer->doubts++;
            peer->doubted_offset = partition->doubted_offset;
            if (peer->rotten != NULL)
                *peer->rotten ^= 0x10;
            peer->rotten = NULL;
        }
        results[i] = (struct stele_fetch_result){STELE_FETCH_RESULT_PLAIN,
                                                 .topic_id = partition->topic_id,
                                                 .partition = partition->partition,
                                                 .high_watermark = log->end_offset,
                                                 .log_start_offset = log->start_offset,
                                                 .aborted = peer->aborted,
                                                 .aborted_count = peer->aborted_count};
        results[i].current_leader_id = results[i].current_leader_epoch = -1;
        results[i].err = check_leader(conn, partition->partition, partition->current_leader_epoch);
        bool is_led = results[i].err == STELE_OK;
        if (is_replica(conn))
            results[i].err = STELE_OK;
        if (results[i].err != STELE_OK) {
            peer->strays++;
            node_count =
                hint(conn, partition->partition, &results[i].current_leader_id, &results[i].current_leader_epoch);
            continue;
        }
        results[i].err = take_err(peer->fetch_errs, &peer->fetch_err_count);
        if (!stele_uuid_equal(&partition->topic_id, &peer->topic_id))
            results[i].err = STELE_UNKNOWN_TOPIC_ID;
        if (partition->fetch_offset >= peer->damaged_from && partition->fetch_offset < peer->damaged_to)
            results[i].err = STELE_CORRUPT_MESSAGE;
        if (partition->fetch_offset < log->start_offset || partition->fetch_offset > log->end_offset ||
            (is_replica(conn) && partition->fetch_offset < peer->replica_start))
            results[i].err = STELE_OFFSET_OUT_OF_RANGE;
        if (is_led && results[i].err == STELE_OK && sends_elsewhere(conn, request))
            results[i].preferred_read_replica = peer->replica_id;
        else if (peer->node_count > 0 && results[i].err != STELE_CORRUPT_MESSAGE &&
                 find_divergence(log, partition, &results[i]))
            results[i].err = STELE_OK;
        else if (results[i].err == STELE_OK)
            read_log(peer, log, partition, &records);
        results[i].records_bytes = (uint32_t)(records.count - before);
    }
    list_nodes(peer, nodes);
    struct stele_response response = {
        .body.fetch = {.results = results, .result_count = count, .nodes = nodes, .node_count = node_count}};
    answer(conn, request, &response, &records);
    stele_mem_free(&peer->own.mem, records.bytes);
}

static bool has_news(struct stele_conn *conn, const struct stele_request *request)
{
    const struct peer *peer = conn->peer;
    for (size_t i = 0; i < request->body.fetch.partition_count; i++) {
        const struct stele_fetch_partition *partition = &request->body.fetch.partitions[i];
        if (peer->logs[partition->partition].end_offset != partition->fetch_offset || peer->fetch_err_count > 0 ||
            sends_elsewhere(conn, request) ||
            (!is_replica(conn) &&
             check_leader(conn, partition->partition, partition->current_leader_epoch) != STELE_OK))
            return true;
    }
    return false;
}

static void on_fetch(struct stele_conn *conn, const struct stele_request *request)
{
    struct peer *peer = conn->peer;
    peer->fetches++;
    if (conn->node != NULL)
        conn->node->fetches++;
    assert_false(conn->is_parked);
    assert_true(request->body.fetch.partition_count <= PEER_PARTITIONS);
    if (has_news(conn, request)) {
        answer_fetch(conn, request);
        return;
    }
    conn->is_parked = true;
    conn->parked = *request;
    memcpy(conn->parked_partitions, request->body.fetch.partitions,
           request->body.fetch.partition_count * sizeof(conn->parked_partitions[0]));
    conn->parked.body.fetch.partitions = conn->parked_partitions;
    (void)snprintf(conn->parked_rack, sizeof(conn->parked_rack), "%s", request->body.fetch.rack);
    conn->parked.body.fetch.rack = conn->parked_rack; /* the request is gone by then */
    conn->parked_until_ms = now_ms(peer) + request->body.fetch.max_wait_ms;
}

static void on_metadata(struct stele_conn *conn, const struct stele_request *request)
{
    struct peer *peer = conn->peer;
    struct stele_metadata_partition partitions[PEER_PARTITIONS];
    struct stele_metadata_node nodes[PEER_NODES];
    const struct stele_metadata_request *asked = &request->body.metadata;
    peer->metadatas++;
    peer->may_make = asked->allow_auto_topic_creation;
    for (int32_t i = 0; i < PEER_PARTITIONS; i++)
        partitions[i] = (struct stele_metadata_partition){.partition = i, .leader_id = 1};
    for (int32_t i = 0; i < PEER_PARTITIONS && conn->node != NULL; i++) {
        partitions[i].leader_id = conn->node->leaders[i].node_id;
        partitions[i].leader_epoch = conn->node->leaders[i].epoch;
    }
    if (conn->node != NULL)
        conn->node->metadatas++;
    list_nodes(peer, nodes);
    struct stele_metadata_topic topics[3] = {
        {.name = "zebra", .topic_id = peer->topic_id, .partitions = partitions, .partition_count = 1},
        {.name = peer->topic,
         .topic_id = peer->topic_id,
         .partitions = partitions,
         .partition_count = (size_t)peer->partition_count},
        {.name = "apple", .topic_id = peer->topic_id, .partitions = partitions, .partition_count = 2}};
    if (conn->node != NULL && conn->node->has_old_topic)
        memset(topics[1].topic_id.bytes, 0x11, sizeof(topics[1].topic_id.bytes));
    struct stele_metadata_topic unknown = {.err = STELE_UNKNOWN_TOPIC_OR_PARTITION};
    struct stele_response response = {.body.metadata = {.controller_id = 1,
                                                        .topics = topics,
                                                        .topic_count = 3,
                                                        .nodes = nodes,
                                                        .node_count = (size_t)peer->node_count}};
    if (!asked->all_topics) {
        assert_in_range(asked->topic_count, 0, 1);
        unknown.name = asked->topic_count == 0 ? "" : asked->topics[0];
        response.body.metadata.topics = strcmp(unknown.name, peer->topic) == 0 ? &topics[1] : &unknown;
        response.body.metadata.topic_count = asked->topic_count;
    }
    response.body.metadata.err = peer->metadata_err;
    answer(conn, request, &response, NULL);
}

static void on_list_offsets(struct stele_conn *conn, const struct stele_request *request)
{
    struct peer *peer = conn->peer;
    struct stele_list_offsets_result results[PEER_PARTITIONS];
    size_t count = request->body.list_offsets.partition_count;
    if (conn->node != NULL)
        conn->node->lists++;
    assert_in_range(count, 1, PEER_PARTITIONS);
    for (size_t i = 0; i < count; i++) {
        const struct stele_list_offsets_partition *asked = &request->body.list_offsets.partitions[i];
        const struct peer_log *log = &peer->logs[asked->partition];
        results[i] = (struct stele_list_offsets_result){
            .topic_id = peer->topic_id, .partition = asked->partition, .offset = peer->by_time, .timestamp = -1};
        if (asked->timestamp == STELE_TIME_LATEST)
            results[i].offset = log->end_offset;
        else if (asked->timestamp == STELE_TIME_EARLIEST)
            results[i].offset = log->start_offset;
        else
            peer->last_time = asked->timestamp;
        results[i].err = check_leader(conn, asked->partition, asked->current_leader_epoch);
        peer->strays += results[i].err != STELE_OK;
        if (results[i].err == STELE_OK)
            results[i].err = take_err(peer->list_errs, &peer->list_err_count);
    }
    struct stele_response response = {.body.list_offsets = {.results = results, .result_count = count}};
    answer(conn, request, &response, NULL);
}

static void on_request(struct stele_conn *conn, const struct stele_request *request, const uint8_t *records)
{
    struct peer *peer = conn->peer;
    struct stele_response response;
    memset(&response, 0, sizeof(response));
    if (peer->fault_percent > 0 && stele_prng_chance(&peer->prng, peer->fault_percent, 100)) {
        static const enum stele_err errs[] = {STELE_NOT_LEADER_OR_FOLLOWER, STELE_NOT_ENOUGH_REPLICAS,
                                              STELE_CORRUPT_MESSAGE, STELE_FENCED_LEADER_EPOCH};
        uint64_t fault = stele_prng_below(&peer->prng, 8);
        if (fault < 2)
            peer->produce_errs[0] = errs[stele_prng_below(&peer->prng, 4)], peer->produce_err_count = 1;
        else if (fault < 4)
            peer->fetch_errs[0] = errs[stele_prng_below(&peer->prng, 4)], peer->fetch_err_count = 1;
        else if (fault == 4)
            peer->drops_before = 1;
        else if (fault == 5)
            peer->drops_after = 1;
        else if (fault == 6)
            peer->refusals = 2;
        else
            peer->garbage = 1;
    }
    peer->produce_requests += request->header.api == STELE_API_PRODUCE;
    if (peer->is_mute || (conn->node != NULL && conn->node->is_mute))
        return;
    switch ((int)request->header.api) { /* the others are not asked by a client */
    case STELE_API_HELLO:
        response.body.hello.err = peer->is_unready && request->body.hello.role != STELE_ROLE_ADMIN
                                      ? STELE_BROKER_NOT_AVAILABLE
                                      : peer->hello_err;
        response.body.hello.apis = peer->apis;
        response.body.hello.api_count = peer->api_count;
        response.body.hello.message = peer->hello_err == STELE_OK ? "" : "too old: upgrade the client";
        answer(conn, request, &response, NULL);
        break;
    case STELE_API_METADATA:
        on_metadata(conn, request);
        break;
    case STELE_API_CREATE_TOPIC:
        peer->creates++;
        peer->last_setting_count = request->body.create_topic.setting_count;
        peer->last_replicas = request->body.create_topic.replication_factor;
        response.body.create_topic.err = peer->create_err;
        response.body.create_topic.message = peer->create_err == STELE_OK ? "" : "topic 't' exists";
        answer(conn, request, &response, NULL);
        break;
    case STELE_API_LIST_OFFSETS:
        on_list_offsets(conn, request);
        break;
    case STELE_API_PRODUCE:
        on_produce(conn, request, records);
        break;
    case STELE_API_FETCH:
        on_fetch(conn, request);
        break;
    case STELE_API_INIT_PRODUCER_ID:
        response.body.init_producer_id = (struct stele_init_producer_id_response){
            .err = peer->init_err, .producer_id = 1000 + peer->inits++, .producer_epoch = peer->init_epoch};
        answer(conn, request, &response, NULL);
        break;
    case STELE_API_DELETE_TOPIC:
    case STELE_API_DELETE_RECORDS:
    case STELE_API_DESCRIBE_SETTINGS:
    case STELE_API_CREATE_PARTITIONS:
    case STELE_API_ALTER_SETTINGS:
    case STELE_API_DESCRIBE_TOPIC:
    case STELE_API_DESCRIBE_LOG:
    case STELE_API_ALTER_LOG_DIRS:
    case STELE_API_DESCRIBE_LOG_DIRS:
    case STELE_API_NODE_STATUS:
    case STELE_API_DESCRIBE_CLUSTER:
    case STELE_API_DESCRIBE_QUORUM:
    case STELE_API_ELECT_LEADERS:
    case STELE_API_REASSIGN:
    case STELE_API_UNREGISTER_NODE:
    case STELE_API_UPDATE_LEVEL:
    case STELE_API_ALTER_VOTERS:
        if (peer->admin == NULL)
            fail_msg("the peer has no script for api %d", (int)request->header.api);
        peer->last_admin_node = conn->node == NULL ? -1 : conn->node->id;
        peer->admin(peer, request, &response);
        answer(conn, request, &response, NULL);
        break;
    }
}

static bool holds(struct stele_conn *conn)
{
    if (conn->node == NULL || !conn->node->holds_produces)
        return conn->peer->holds_produces;
    if (conn->node->produces_let == 0)
        return true;
    conn->node->produces_let--;
    return false;
}

/* The frames that have come in whole. */
static bool read_frames(struct stele_conn *conn)
{
    bool has_read = false;
    while (!conn->is_ending && conn->in.count >= STELE_FRAME_HEADER_BYTES) {
        struct stele_frame_header header;
        struct stele_request request;
        struct stele_arena arena;
        assert_ok(stele_frame_header_read(conn->in.bytes, PIPE_BYTES_MAX, &header));
        size_t bytes = 4 + (size_t)header.frame_bytes;
        if (conn->in.count < bytes)
            break;
        stele_arena_init(&arena, &conn->peer->own.mem, STELE_MEM_TOOL, 0);
        assert_ok(stele_request_decode(&arena, conn->in.bytes + 8, header.message_bytes, &request));
        bool is_held = request.header.api == STELE_API_PRODUCE && holds(conn);
        if (!is_held)
            on_request(conn, &request, conn->in.bytes + 8 + header.message_bytes);
        stele_arena_deinit(&arena);
        if (is_held)
            break;
        pipe_drop(&conn->in, bytes);
        has_read = true;
    }
    return has_read;
}

/* Hands a chunk of the answers on; true when it did. */
static bool deliver(struct stele_conn *conn)
{
    uint8_t *at = NULL;
    size_t room = 0;
    if (conn->out.count == 0 || conn->is_closed || (conn->node != NULL && conn->node->holds_answers))
        return false;
    conn->handler->space(conn->arg, &at, &room);
    if (room == 0 || conn->is_closed)
        return false;
    size_t count = stele_min_size(stele_min_size(room, conn->out.count),
                                  1 + (size_t)stele_prng_below(&conn->peer->prng, conn->peer->chunk_max));
    memcpy(at, conn->out.bytes, count);
    pipe_drop(&conn->out, count);
    conn->handler->received(conn->arg, count);
    return true;
}

static bool step_conn(struct stele_conn *conn)
{
    struct peer *peer = conn->peer;
    if (conn->is_closed) {
        conn_free(conn);
        return true;
    }
    if (conn->is_opening) {
        conn->is_opening = false;
        if (conn->is_refused)
            conn->is_closed = true;
        conn->handler->opened(conn->arg, conn->is_refused ? STELE_UNREACHABLE : STELE_OK);
        return true;
    }
    bool has_moved = conn->sent_bytes > 0;
    if (has_moved) {
        conn->sent_bytes = 0;
        conn->handler->sent(conn->arg, 0);
    }
    has_moved = read_frames(conn) || has_moved;
    if (conn->is_parked && (has_news(conn, &conn->parked) || now_ms(peer) >= conn->parked_until_ms)) {
        conn->is_parked = false;
        answer_fetch(conn, &conn->parked);
        has_moved = true;
    }
    has_moved = deliver(conn) || has_moved;
    if (!conn->is_closed && conn->is_ending && conn->out.count == 0) {
        conn->is_closed = true;
        conn->handler->closed(conn->arg, STELE_IO);
        has_moved = true;
    }
    return has_moved;
}

static bool step(struct peer *peer)
{
    bool has_moved = false;
    struct stele_list *at = peer->conns.next;
    while (at != &peer->conns) {
        struct stele_list *next = at->next;
        has_moved = step_conn(STELE_CONTAINER_OF(at, struct stele_conn, link)) || has_moved;
        at = next;
    }
    return has_moved;
}

/* One step of the world; when nothing moves, time passes. */
static void peer_wait(struct stele_client_driver *driver, int64_t until_ms)
{
    struct peer *peer = STELE_CONTAINER_OF(driver, struct peer, driver);
    if (step(peer))
        return;
    int64_t wake_ms = until_ms;
    for (struct stele_list *at = peer->conns.next; at != &peer->conns; at = at->next) {
        const struct stele_conn *conn = STELE_CONTAINER_OF(at, struct stele_conn, link);
        if (conn->is_parked)
            wake_ms = stele_min_i64(wake_ms, conn->parked_until_ms);
    }
    if (wake_ms > now_ms(peer))
        peer->env.mono_us = wake_ms * 1000;
}

static void peer_driver_free(struct stele_client_driver *driver)
{
    (void)driver;
}

void peer_init(struct peer *peer)
{
    memset(peer, 0, sizeof(*peer));
    stele_test_env_init(&peer->env, NULL);
    stele_test_mem_init(&peer->own);
    stele_prng_init(&peer->prng, 7, 0);
    stele_list_init(&peer->conns);
    peer->env.mono_us = 1000000;
    peer->net.ops = &net_ops;
    peer->driver = (struct stele_client_driver){
        .wait = peer_wait, .free = peer_driver_free, .env = &peer->env.env, .net = &peer->net};
    peer->chunk_max = 1 << 20;
    peer->partition_count = 1;
    peer->topic = "t";
    peer->address = "peer:1";
    memset(peer->topic_id.bytes, 0x5a, sizeof(peer->topic_id.bytes));
}

void peer_drop(struct peer *peer)
{
    for (struct stele_list *at = peer->conns.next; at != &peer->conns; at = at->next) {
        struct stele_conn *conn = STELE_CONTAINER_OF(at, struct stele_conn, link);
        conn->out.count = 0;
        conn->is_ending = true;
    }
}

void peer_deinit(struct peer *peer)
{
    while (!stele_list_is_empty(&peer->conns)) {
        struct stele_conn *conn = STELE_CONTAINER_OF(peer->conns.next, struct stele_conn, link);
        assert_true(conn->is_closed); /* the client gave every connection back */
        conn_free(conn);
    }
    for (int p = 0; p < PEER_PARTITIONS; p++) {
        for (int i = 0; i < peer->logs[p].batch_count; i++)
            stele_mem_free(&peer->own.mem, peer->logs[p].batches[i].bytes);
    }
    stele_test_mem_check_empty(&peer->own);
    stele_test_mem_check_empty(&peer->env.mem);
}

struct stele_client *peer_client(struct peer *peer, const struct stele_setting *settings)
{
    struct stele_client *client = NULL;
    struct stele_error error;
    assert_ok(stele_client__new(&peer->driver, peer->node_count > 0 ? "n1:1" : "peer:1", settings, &client, &error));
    return client;
}

void peer_append(struct peer *peer, int32_t partition, int count, const struct stele_batch_options *options)
{
    struct stele_batch_builder *builder = stele_batch_builder_new(&peer->own.mem, options);
    struct stele_buf *batch;
    assert_non_null(builder);
    for (int i = 0; i < count; i++) {
        char value[32];
        (void)snprintf(value, sizeof(value), "r%lld", (long long)(peer->logs[partition].end_offset + i));
        struct stele_record_in record = {.timestamp = 1000 + i, .value = value, .value_bytes = (int32_t)strlen(value)};
        assert_ok(stele_batch_builder_add(builder, &record));
    }
    assert_ok(stele_batch_builder_finish(builder, &batch));
    store(&peer->logs[partition], peer, batch->bytes, batch->count);
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);
}

bool peer_has(struct peer *peer, int32_t partition, int64_t offset, const char *value)
{
    struct peer_log *log = &peer->logs[partition];
    for (int i = 0; i < log->batch_count; i++) {
        struct stele_record_walker walker;
        struct stele_record record;
        bool has = false;
        if (offset < log->batches[i].base_offset || offset > log->batches[i].last_offset)
            continue;
        assert_ok(
            stele_record_walker_init(&walker, &peer->own.mem, log->batches[i].bytes, log->batches[i].count, 1 << 20));
        while (stele_record_next(&walker, &record) == STELE_OK) {
            if (record.offset == offset)
                has = (size_t)record.value_bytes == strlen(value) && memcmp(record.value, value, strlen(value)) == 0;
        }
        stele_record_walker_deinit(&walker);
        return has;
    }
    return false;
}

static int check_order(struct peer *peer, const struct peer_log *log)
{
    int count = 0, last = -1;
    for (int i = 0; i < log->batch_count; i++) {
        struct stele_record_walker walker;
        struct stele_record record;
        assert_ok(
            stele_record_walker_init(&walker, &peer->own.mem, log->batches[i].bytes, log->batches[i].count, 1 << 20));
        for (; stele_record_next(&walker, &record) == STELE_OK; count++) {
            int number = 0;
            assert_int_equal(record.value[0], 'v');
            for (int32_t at = 1; at < record.value_bytes; at++)
                number = number * 10 + (record.value[at] - '0');
            assert_true(number > last);
            last = number;
        }
        stele_record_walker_deinit(&walker);
    }
    return count;
}

void peer_check_once(struct peer *peer, int count)
{
    int found = 0;
    for (int p = 0; p < PEER_PARTITIONS; p++)
        found += check_order(peer, &peer->logs[p]);
    assert_int_equal(found, count);
}
