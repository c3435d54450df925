/* Requests of the world's clients, and the book of what was acknowledged. */
#include "node/test/node_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stele_buf *node_world_batch(struct node_world *world, const struct node_shape *shape, int64_t value)
{
    struct stele_batch_options options = {.codec = shape->codec,
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = shape->producer_id > 0 ? shape->producer_id : -1,
                                          .producer_epoch = shape->producer_id > 0 ? 0 : -1,
                                          .base_sequence = shape->producer_id > 0 ? shape->sequence : -1};
    struct stele_batch_builder *builder = stele_batch_builder_new(&world->own.mem, &options);
    struct stele_buf *batch = NULL;
    size_t bytes = shape->value_bytes < 16 ? 16 : shape->value_bytes;
    char *text = stele_mem_alloc(&world->own.mem, STELE_MEM_TOOL, bytes);
    assert_non_null(builder);
    assert_non_null(text);
    for (int i = 0; i < shape->count || i == 0; i++) {
        uint32_t noise = (uint32_t)(value + i) * 2654435761u;
        for (size_t at = 16; at < bytes; at++) { /* so that a compressed batch is not small */
            noise = noise * 1664525u + 1013904223u;
            text[at] = (char)(' ' + (noise >> 25) % 90);
        }
        (void)snprintf(text, 16, "%015lld", (long long)(value + i));
        text[15] = ' ';
        struct stele_record_in in = {.timestamp = world->wall_ms, .value = text, .value_bytes = (int32_t)bytes};
        assert_ok(stele_batch_builder_add(builder, &in));
    }
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    stele_mem_free(&world->own.mem, text);
    return batch;
}

int64_t node_record_value(const struct stele_record *record)
{
    char text[16] = "";
    if (record->value == NULL || record->value_bytes < 16)
        return -1;
    memcpy(text, record->value, 15);
    return strspn(text, "0123456789") == 15 ? strtoll(text, NULL, 10) : -1;
}

void node_conn_send_create(struct node_conn *conn, const char *name, int32_t partitions,
                           const struct stele_setting_pair *settings, size_t setting_count)
{
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC,
                                    .body.create_topic = {.name = name,
                                                          .partition_count = partitions,
                                                          .replication_factor = -1,
                                                          .settings = settings,
                                                          .setting_count = setting_count}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

enum stele_err node_conn_create_topic(struct node_conn *conn, const char *name, int32_t partitions,
                                      struct stele_uuid *out_topic_id)
{
    struct node_answer answer;
    node_conn_send_create(conn, name, partitions, NULL, 0);
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.header.api, STELE_API_CREATE_TOPIC);
    *out_topic_id = answer.response.body.create_topic.topic_id;
    return answer.response.body.create_topic.err;
}

struct node_entry *node_conn_put(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition,
                                 const struct node_shape *shape)
{
    struct node_world *world = conn->world;
    assert_true(world->entry_count < NODE_WORLD_ENTRIES_MAX);
    struct node_entry *entry = &world->entries[world->entry_count++];
    *entry = (struct node_entry){.topic_id = *topic_id,
                                 .partition = partition,
                                 .conn = conn->index,
                                 .acks = shape->acks,
                                 .value = world->next_value,
                                 .count = shape->count > 0 ? shape->count : 1,
                                 .offset = -1};
    world->next_value += entry->count;
    struct stele_buf *batch = node_world_batch(world, shape, entry->value);
    struct stele_produce_partition wanted = {
        .topic_id = *topic_id, .partition = partition, .records_bytes = (uint32_t)batch->count};
    struct stele_request request = {
        .header.api = STELE_API_PRODUCE,
        .body.produce = {.acks = shape->acks, .timeout_ms = 30000, .partitions = &wanted, .partition_count = 1}};
    entry->correlation_id = node_conn_send(conn, &request, batch->bytes, batch->count);
    stele_buf_unref(batch);
    return entry;
}

struct node_entry *node_world_enter(struct node_world *world, const struct node_conn *conn,
                                    const struct node_answer *answer)
{
    assert_int_equal(answer->response.header.api, STELE_API_PRODUCE);
    for (int i = world->entry_count - 1; i >= 0; i--) {
        struct node_entry *entry = &world->entries[i];
        if (entry->conn != conn->index || entry->correlation_id != answer->response.header.correlation_id)
            continue;
        assert_false(entry->is_answered);
        assert_int_equal(answer->response.body.produce.result_count, 1);
        const struct stele_produce_result *result = &answer->response.body.produce.results[0];
        entry->is_answered = true;
        entry->err = result->err;
        entry->offset = result->base_offset;
        entry->durability = result->durability;
        (void)snprintf(entry->message, sizeof(entry->message), "%s", result->message);
        return entry;
    }
    fail_msg("an answer to a produce that nobody sent");
    return NULL;
}

struct node_entry *node_conn_produce(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition)
{
    struct node_answer answer;
    struct node_entry *entry = node_conn_put(conn, topic_id, partition, &(struct node_shape){.acks = -1});
    node_conn_take(conn, &answer);
    assert_ptr_equal(node_world_enter(conn->world, conn, &answer), entry);
    return entry;
}

void node_conn_send_fetch(struct node_conn *conn, const struct stele_fetch_request *request)
{
    struct stele_request all = {.header.api = STELE_API_FETCH, .body.fetch = *request};
    all.body.fetch.replica_id = -1;
    all.body.fetch.replica_epoch = -1;
    all.body.fetch.session_epoch = -1;
    (void)node_conn_send(conn, &all, NULL, 0);
}

struct stele_fetch_partition node_fetch_at(const struct stele_uuid *topic_id, int32_t partition, int64_t offset)
{
    return (struct stele_fetch_partition){.topic_id = *topic_id,
                                          .partition = partition,
                                          .fetch_offset = offset,
                                          .max_bytes = 1 << 20,
                                          STELE_FETCH_PARTITION_OF_CONSUMER};
}

void node_conn_send_list(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition,
                         int64_t timestamp)
{
    struct stele_list_offsets_partition wanted = {
        .topic_id = *topic_id, .partition = partition, .current_leader_epoch = -1, .timestamp = timestamp};
    struct stele_request request = {.header.api = STELE_API_LIST_OFFSETS,
                                    .body.list_offsets = {.partitions = &wanted, .partition_count = 1}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

void node_world_drain(struct node_world *world)
{
    struct node_answer answer;
    for (int i = 0; i < world->conn_count; i++) {
        while (node_conn_poll(world->conns[i], &answer)) {
            if (answer.response.header.api == STELE_API_PRODUCE)
                (void)node_world_enter(world, world->conns[i], &answer);
        }
    }
}

/* The book. */

struct seen {
    struct node_world *world;
    int64_t *values; /* by offset */
    int64_t end;
};

static void see_batch(struct seen *seen, const uint8_t *batch, size_t count)
{
    struct stele_batch_header header;
    struct stele_record_walker walker;
    struct stele_record record;
    assert_ok(stele_batch_check(batch, count, &header));
    assert_int_equal(header.base_offset, seen->end);
    assert_ok(stele_record_walker_init(&walker, &seen->world->own.mem, batch, count, 1 << 26));
    while (stele_record_next(&walker, &record) == STELE_OK) {
        assert_int_equal(record.offset, seen->end);
        seen->values = stele_mem_resize(&seen->world->own.mem, STELE_MEM_TOOL, seen->values,
                                        ((size_t)seen->end + 1) * sizeof(*seen->values));
        assert_non_null(seen->values);
        seen->values[seen->end++] = node_record_value(&record);
    }
    stele_record_walker_deinit(&walker);
}

/* One fetch; false when there was nothing new. */
static bool see_more(struct seen *seen, struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition)
{
    struct node_answer answer;
    struct stele_fetch_partition wanted = node_fetch_at(topic_id, partition, seen->end);
    int64_t before = seen->end;
    node_conn_send_fetch(
        conn, &(struct stele_fetch_request){.max_bytes = 1 << 20, .partitions = &wanted, .partition_count = 1});
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.header.api, STELE_API_FETCH);
    assert_int_equal(answer.response.body.fetch.results[0].err, STELE_OK);
    size_t at = 0;
    while (answer.records_bytes - at >= STELE_BATCH_HEADER_BYTES) {
        int64_t size = stele_batch_size(answer.records + at);
        assert_true(size > 0);
        if ((size_t)size > answer.records_bytes - at)
            break;
        see_batch(seen, answer.records + at, (size_t)size);
        at += (size_t)size;
    }
    return seen->end > before;
}

static const struct node_entry *entry_of(const struct node_world *world, int64_t value)
{
    for (int i = 0; i < world->entry_count; i++) {
        const struct node_entry *entry = &world->entries[i];
        if (value >= entry->value && value < entry->value + entry->count)
            return entry;
    }
    return NULL;
}

int64_t node_world_check_partition(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition,
                                   bool only_synced)
{
    struct node_world *world = conn->world;
    struct seen seen = {.world = world};
    while (see_more(&seen, conn, topic_id, partition)) {
    }
    for (int64_t offset = 0; offset < seen.end; offset++) {
        const struct node_entry *entry = entry_of(world, seen.values[offset]);
        assert_non_null(entry);
        assert_true(stele_uuid_equal(&entry->topic_id, topic_id));
        assert_int_equal(entry->partition, partition);
        for (int64_t other = 0; other < offset; other++)
            assert_int_not_equal(seen.values[other], seen.values[offset]);
    }
    for (int i = 0; i < world->entry_count; i++) {
        const struct node_entry *entry = &world->entries[i];
        if (!entry->is_answered || entry->err != STELE_OK || entry->partition != partition ||
            !stele_uuid_equal(&entry->topic_id, topic_id) ||
            (only_synced && entry->durability != STELE_DURABILITY_SYNCED))
            continue;
        for (int k = 0; k < entry->count; k++) {
            if (entry->offset + k >= seen.end || seen.values[entry->offset + k] != entry->value + k)
                fail_msg("record %lld of partition %d, acknowledged at offset %lld, is not there (end %lld)",
                         (long long)entry->value + k, (int)partition, (long long)entry->offset + k,
                         (long long)seen.end);
        }
    }
    stele_mem_free(&world->own.mem, seen.values);
    return seen.end;
}
