#include "node/test/topic_life.h"

#include "storage/checkpoint.h"

#include <stdio.h>
#include <string.h>

enum { IDLE_MAX = 400, IDLE_MS = 10 };

void topic_life_init(struct topic_life *life, struct node_world *world)
{
    *life = (struct topic_life){.world = world, .steps_left = -1, .last_id = -1};
    node_world_set(world, "log.segment.delete.delay.ms", "40");
}

/* One movement, or a moment of time; false when the life is broken off or does not get on. */
static bool step(struct topic_life *life, int *inout_idle)
{
    if (life->is_broken || life->steps_left == 0 || life->world->is_fatal || sim_disk_is_stopped(life->world->disk)) {
        life->is_broken = true;
        return false;
    }
    if (life->steps_left > 0)
        life->steps_left--;
    if (node_world_step(life->world)) {
        *inout_idle = 0;
        return true;
    }
    node_world_pass(life->world, IDLE_MS);
    return ++*inout_idle < IDLE_MAX;
}

/* Sends and waits; false without an answer. */
static bool ask(struct topic_life *life, struct stele_request *request, const struct stele_buf *batch,
                struct node_answer *out)
{
    int idle = 0;
    bool has_conn = life->conn != NULL && !life->conn->is_closed;
    if (life->is_broken || !has_conn) {
        life->is_broken = true;
        return false;
    }
    (void)node_conn_send(life->conn, request, batch != NULL ? batch->bytes : NULL, batch != NULL ? batch->count : 0);
    while (step(life, &idle)) {
        if (node_conn_poll(life->conn, out))
            return true;
        if (life->conn->is_closed)
            break;
    }
    if (!life->is_broken && !life->may_fail)
        fail_msg("a request without an answer");
    life->is_broken = true;
    return false;
}

bool topic_life_start(struct topic_life *life)
{
    int idle = 0;
    struct node_answer answer;
    struct stele_request hello = {.header.api = STELE_API_HELLO,
                                  .body.hello = {.software_name = "t", .software_version = "1", .cluster_id = ""}};
    life->is_broken = node_world_begin(life->world) != STELE_OK;
    while (!life->world->is_ready && step(life, &idle)) {
    }
    if (life->is_broken || !life->world->is_ready || life->world->ready != STELE_OK) {
        assert_true(life->is_broken || life->may_fail);
        life->is_broken = true;
        return false;
    }
    life->conn = node_world_connect(life->world, 1);
    return ask(life, &hello, NULL, &answer);
}

static void name_topic(struct topic_book *book, const struct stele_uuid *topic_id)
{
    if (!stele_uuid_is_zero(topic_id))
        book->topic_id = *topic_id;
}

struct topic_book *topic_life_create(struct topic_life *life, const char *name, int32_t partitions)
{
    struct node_answer answer;
    assert_true(life->topic_count < TOPIC_LIFE_TOPICS_MAX);
    struct topic_book *book = &life->topics[life->topic_count++];
    *book = (struct topic_book){.partitions_min = partitions, .partitions_max = partitions};
    (void)snprintf(book->name, sizeof(book->name), "%s", name);
    if (life->is_broken)
        return book;
    struct stele_request request = {
        .header.api = STELE_API_CREATE_TOPIC,
        .body.create_topic = {.name = name, .partition_count = partitions, .replication_factor = -1}};
    book->is_made = TOPIC_FACT_PERHAPS;
    if (!ask(life, &request, NULL, &answer))
        return book;
    enum stele_err err = answer.response.body.create_topic.err;
    if (err == STELE_OK || err == STELE_KAFKA_STORAGE_ERROR)
        name_topic(book, &answer.response.body.create_topic.topic_id);
    if (err == STELE_OK)
        book->is_made = TOPIC_FACT_SURE;
    else if (!life->may_fail)
        fail_msg("create %s: %s", name, answer.response.body.create_topic.message);
    return book;
}

void topic_life_grow(struct topic_life *life, struct topic_book *book, int32_t partitions)
{
    struct node_answer answer;
    if (life->is_broken || book->is_made != TOPIC_FACT_SURE)
        return;
    struct stele_request request = {.header.api = STELE_API_CREATE_PARTITIONS,
                                    .body.create_partitions = {.name = book->name, .partition_count = partitions}};
    book->partitions_max = partitions;
    if (!ask(life, &request, NULL, &answer))
        return;
    if (answer.response.body.create_partitions.err == STELE_OK)
        book->partitions_min = partitions;
    else
        assert_true(life->may_fail);
}

void topic_life_delete(struct topic_life *life, struct topic_book *book, bool by_id)
{
    struct node_answer answer;
    if (life->is_broken || book->is_made != TOPIC_FACT_SURE)
        return;
    struct stele_request request = {.header.api = STELE_API_DELETE_TOPIC, .body.delete_topic = {.name = ""}};
    if (by_id)
        request.body.delete_topic.topic_id = book->topic_id;
    else
        request.body.delete_topic.name = book->name;
    book->is_deleted = TOPIC_FACT_PERHAPS;
    if (!ask(life, &request, NULL, &answer))
        return;
    const struct stele_delete_topic_response *response = &answer.response.body.delete_topic;
    if (response->err == STELE_OK) {
        book->is_deleted = TOPIC_FACT_SURE;
        assert_string_equal(response->name, book->name);
        assert_memory_equal(&response->topic_id, &book->topic_id, sizeof(book->topic_id));
    } else {
        assert_true(life->may_fail);
    }
}

void topic_life_produce(struct topic_life *life, const struct topic_book *book, int32_t partition)
{
    struct node_answer answer;
    struct node_world *world = life->world;
    if (life->is_broken || book->is_made != TOPIC_FACT_SURE)
        return;
    struct node_entry *entry =
        node_conn_put(life->conn, &book->topic_id, partition, &(struct node_shape){.count = 3, .acks = -1});
    int idle = 0;
    while (step(life, &idle)) {
        if (!node_conn_poll(life->conn, &answer)) {
            if (life->conn->is_closed)
                break;
            continue;
        }
        (void)node_world_enter(world, life->conn, &answer);
        if (!life->may_fail)
            assert_int_equal(entry->err, STELE_OK);
        return;
    }
    life->is_broken = true;
}

void topic_life_producer_id(struct topic_life *life)
{
    struct node_answer answer;
    struct stele_request request = {.header.api = STELE_API_INIT_PRODUCER_ID,
                                    .body.init_producer_id = {.producer_id = -1, .producer_epoch = -1}};
    if (life->is_broken || !ask(life, &request, NULL, &answer))
        return;
    const struct stele_init_producer_id_response *response = &answer.response.body.init_producer_id;
    if (response->err != STELE_OK) {
        assert_true(life->may_fail);
        return;
    }
    assert_int_equal(response->producer_epoch, 0);
    assert_true(response->producer_id > life->last_id);
    life->last_id = response->producer_id;
}

void topic_life_pass(struct topic_life *life, int64_t ms)
{
    int idle = 0;
    for (int64_t passed = 0; passed < ms && step(life, &idle);) {
        if (idle > 0)
            passed += IDLE_MS;
    }
}

void topic_life_stop(struct topic_life *life)
{
    int idle = 0;
    if (life->is_broken)
        return;
    int poster = life->world->poster;
    life->world->poster = STELE_SHARD_CONTROL;
    stele_node_stop(life->world->node);
    life->world->poster = poster;
    while (!life->world->is_stopped && step(life, &idle)) {
    }
    assert_true(life->world->is_stopped || life->is_broken || life->may_fail);
    life->is_broken = true;
}

void topic_life_run(struct topic_life *life)
{
    struct topic_book *t = topic_life_create(life, "t", 3);
    topic_life_produce(life, t, 0);
    topic_life_produce(life, t, 2);
    topic_life_producer_id(life);
    topic_life_grow(life, t, 5);
    topic_life_produce(life, t, 4);
    topic_life_delete(life, t, false);
    t = topic_life_create(life, "t", 2);
    topic_life_produce(life, t, 0);
    topic_life_producer_id(life);
    topic_life_produce(life, t, 1);
    struct topic_book *u = topic_life_create(life, "u", 1);
    topic_life_pass(life, 50);
    topic_life_delete(life, u, true);
    topic_life_delete(life, t, true);
    t = topic_life_create(life, "t", 1);
    topic_life_produce(life, t, 0);
    topic_life_grow(life, t, 3);
    topic_life_pass(life, 20);
}

/* The check. */

struct listing {
    const struct topic_life *life; /* NULL: only counted */
    const struct stele_metadata_response *known;
    struct stele_vfs *vfs;
    struct stele_mem *mem;
    const char *dir;
    int live, condemned;
};

static enum stele_err see_dir(void *arg, const char *name)
{
    struct listing *listing = arg;
    char topic[STELE_TOPIC_NAME_MAX + 1], path[STELE_PATH_BYTES];
    int32_t partition;
    enum stele_dir_kind kind;
    struct stele_uuid topic_id;
    if (stele_partition_dir_parse(name, topic, &partition, &kind) != STELE_OK ||
        strcmp(topic, "__cluster_metadata") == 0)
        return STELE_OK;
    if (kind != STELE_DIR_LIVE) {
        listing->condemned++;
        return STELE_OK;
    }
    listing->live++;
    if (listing->known == NULL)
        return STELE_OK;
    assert_ok(stele_path_join(path, listing->dir, name));
    assert_ok(stele_partition_metadata_read(listing->vfs, listing->mem, path, &topic_id));
    for (size_t i = 0; i < listing->known->topic_count; i++) {
        const struct stele_metadata_topic *one = &listing->known->topics[i];
        if (strcmp(one->name, topic) == 0 && stele_uuid_equal(&one->topic_id, &topic_id) &&
            partition < (int32_t)one->partition_count)
            return STELE_OK;
    }
    fail_msg("%s/%s is left of a topic that is gone", listing->dir, name);
    return STELE_OK;
}

static void list_dirs(struct listing *listing)
{
    static const char *const dirs[] = {"a", "b"};
    for (size_t i = 0; i < STELE_ARRAY_LEN(dirs); i++) {
        listing->dir = dirs[i];
        assert_ok(listing->vfs->ops->list(listing->vfs, dirs[i], see_dir, listing));
    }
}

int topic_life_dirs(struct node_world *world, int *out_condemned)
{
    struct listing listing = {.vfs = sim_disk_vfs(world->disk), .mem = &world->own.mem};
    list_dirs(&listing);
    *out_condemned = listing.condemned;
    return listing.live;
}

static struct topic_book *book_of(struct topic_life *life, const struct stele_metadata_topic *topic)
{
    for (int i = 0; i < life->topic_count; i++) {
        if (stele_uuid_equal(&life->topics[i].topic_id, &topic->topic_id))
            return &life->topics[i];
    }
    for (int i = 0; i < life->topic_count; i++) {
        struct topic_book *book = &life->topics[i];
        if (stele_uuid_is_zero(&book->topic_id) && book->is_made == TOPIC_FACT_PERHAPS &&
            strcmp(book->name, topic->name) == 0)
            return book;
    }
    fail_msg("topic %s was never asked for", topic->name);
    return NULL;
}

static void check_topics(struct topic_life *life, const struct stele_metadata_response *known, bool only_synced)
{
    bool is_seen[TOPIC_LIFE_TOPICS_MAX] = {false};
    for (size_t i = 0; i < known->topic_count; i++) {
        const struct stele_metadata_topic *topic = &known->topics[i];
        struct topic_book *book = book_of(life, topic);
        assert_false(is_seen[book - life->topics]);
        is_seen[book - life->topics] = true;
        assert_true(book->is_deleted != TOPIC_FACT_SURE);
        assert_in_range(topic->partition_count, book->partitions_min, book->partitions_max);
        for (int32_t p = 0; p < (int32_t)topic->partition_count; p++) {
            (void)node_world_check_partition(life->conn, &topic->topic_id, p, only_synced);
            assert_int_equal(node_conn_produce(life->conn, &topic->topic_id, p)->err, STELE_OK);
        }
        /* From now on it is known. */
        book->topic_id = topic->topic_id;
        book->is_made = TOPIC_FACT_SURE;
        book->is_deleted = TOPIC_FACT_NOT;
        book->partitions_min = book->partitions_max = (int32_t)topic->partition_count;
    }
    for (int i = 0; i < life->topic_count; i++) {
        if (life->topics[i].is_made == TOPIC_FACT_SURE && life->topics[i].is_deleted == TOPIC_FACT_NOT)
            assert_true(is_seen[i]);
    }
}

void topic_life_check(struct topic_life *life, bool only_synced)
{
    struct node_answer answer;
    struct node_world *world = life->world;
    struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
    size_t partitions = 0;
    sim_disk_heal(world->disk);
    life->steps_left = -1;
    life->may_fail = false;
    assert_true(topic_life_start(life));
    (void)node_conn_send(life->conn, &request, NULL, 0);
    node_conn_take(life->conn, &answer);
    const struct stele_metadata_response known = answer.response.body.metadata;
    for (size_t i = 0; i < known.topic_count; i++)
        partitions += known.topics[i].partition_count;
    check_topics(life, &known, only_synced);
    topic_life_producer_id(life);
    struct listing listing = {.life = life, .known = &known, .vfs = sim_disk_vfs(world->disk), .mem = &world->own.mem};
    list_dirs(&listing);
    assert_int_equal(listing.live, partitions);
    assert_int_equal(listing.condemned, 0);
    assert_int_equal(node_world_stop(world), STELE_OK);
}
