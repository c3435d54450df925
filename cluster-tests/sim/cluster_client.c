/* What a program does with libstele: makes topics, sends records of every kind, reads, changes settings of the cluster;
 * it begins anew at any time, at another node. When the faults are over it must be able to finish: everything sent is
 * told of, new records are written to every partition, all that is committed is read. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"

#include <stdio.h>
#include <string.h>

enum { STEP_MS = 200, VALUE_BYTES_MAX = 1500 };

static int64_t draw(struct cluster_client *self, int64_t low, int64_t high)
{
    return stele_prng_range(&self->prng, low, high);
}

static bool chance(struct cluster_client *self, uint64_t numerator, uint64_t denominator)
{
    return stele_prng_chance(&self->prng, numerator, denominator);
}

static const char *pick(struct cluster_client *self, const char *const *texts, size_t count)
{
    return texts[draw(self, 0, (int64_t)count - 1)];
}

static const char *name_of(const struct cluster_client *self)
{
    return self->sim.process.name;
}

bool cluster_call_is_done(struct cluster *run, const struct sim_client *sim, const struct stele_result *result,
                          const char *call)
{
    if (result->code == 0)
        return true;
    sim_world_log(&run->world, "%s: %s: %s", sim->process.name, call, result->text);
    cluster_reach(run, CLUSTER_POINT_CALL_FAILED);
    if (!result->is_retriable)
        sim_world_fail(&run->world, "%s: %s failed with %d: %s", sim->process.name, call, result->code, result->text);
    return false;
}

static bool is_done(struct cluster_client *self, const struct stele_result *result, const char *call)
{
    return cluster_call_is_done(self->run, &self->sim, result, call);
}

/* The program's life. */

struct stele_client *cluster_client_new(struct cluster *run, struct sim_client *sim, struct stele_prng *prng,
                                        const char *timeout_ms)
{
    char bootstrap[128] = "";
    int first = (int)stele_prng_range(prng, 0, run->node_count - 1);
    struct stele_setting settings[] = {{"request.timeout.ms", timeout_ms}, {NULL, NULL}};
    struct stele_client *client = NULL;
    struct stele_error error;
    for (int i = 0; i < run->node_count; i++) {
        size_t used = strlen(bootstrap);
        (void)snprintf(bootstrap + used, sizeof(bootstrap) - used, "%s%s", i == 0 ? "" : ",",
                       run->nodes[(first + i) % run->node_count].server.address);
    }
    enum stele_err err = stele_client__new(&sim->driver, bootstrap, settings, &client, &error);
    if (err != STELE_OK)
        sim_world_fail(&run->world, "no client: %s", error.text);
    return client;
}

static void begin(struct cluster_client *self)
{
    static const char *const timeouts[] = {"500", "1000", "2000", "5000", "30000"};
    const char *timeout = pick(self, timeouts, STELE_ARRAY_LEN(timeouts));
    self->sim.client = cluster_client_new(self->run, &self->sim, &self->prng, timeout);
}

static void drop_producer(struct cluster_producer *producer)
{
    stele_producer_free(producer->producer);
    producer->producer = NULL;
}

static void drop_consumer(struct cluster_client *self)
{
    stele_consumer_free(self->consumer);
    self->consumer = NULL;
}

static void end(struct cluster_client *self)
{
    for (int i = 0; i < CLUSTER_PRODUCERS_MAX; i++)
        drop_producer(&self->producers[i]);
    drop_consumer(self);
    stele_client_free(self->sim.client);
    self->sim.client = NULL;
}

static void begin_anew(struct cluster_client *self)
{
    end(self);
    begin(self);
}

/* Settings. */

static bool change_setting(struct cluster_client *self)
{
    struct cluster_tuned *tuned = &self->tuned;
    struct cluster *run = self->run;
    char value[32];
    if (tuned->last + 1 >= (int64_t)sizeof(tuned->unknown))
        return true;
    int64_t number = ++tuned->last;
    (void)snprintf(value, sizeof(value), "%lld", (long long)(tuned->base + number));
    struct stele_setting settings[] = {{tuned->name, value}, {NULL, NULL}};
    struct stele_result result = stele_config_alter(self->sim.client, STELE_CONFIG_CLUSTER, "", settings, false);
    sim_world_log(&run->world, "%s: %s=%s: %s", name_of(self), tuned->name, value,
                  result.code == 0 ? "changed" : result.text);
    if (is_done(self, &result, "settings")) {
        tuned->acknowledged = number;
        cluster_reach(run, CLUSTER_POINT_METADATA_CHANGE);
        return true;
    }
    tuned->unknown[number] = 1;
    cluster_reach(run, CLUSTER_POINT_METADATA_FAILED);
    return false;
}

/* Topics. */

/* What the script says in place of what there is, or behind it. */
static void set_topic(const struct cluster_frame *frame, struct stele_setting *settings)
{
    for (int i = 0; i < frame->topic_setting_count; i++) {
        struct stele_setting *at = settings;
        while (at->name != NULL && strcmp(at->name, frame->topics[i].name) != 0)
            at++;
        *at = (struct stele_setting){frame->topics[i].name, frame->topics[i].value};
    }
}

/* As many as the cluster would take by itself, but for nodes that never come back. */
static int32_t replicas_of(const struct cluster *run)
{
    int32_t there = 0;
    for (int i = 0; i < run->node_count; i++)
        there += !run->nodes[i].is_gone;
    return there == run->node_count ? -1 : (int32_t)stele_min_i64(there, 3);
}

bool cluster_topic_make(struct cluster *run, struct sim_client *sim, int number)
{
    struct cluster_topic *topic = &run->book.topics[number];
    char retention_ms[24], retention_bytes[24];
    (void)snprintf(retention_ms, sizeof(retention_ms), "%lld", (long long)topic->retention_ms);
    (void)snprintf(retention_bytes, sizeof(retention_bytes), "%lld", (long long)topic->retention_bytes);
    struct stele_setting settings[CLUSTER_SETTINGS_MAX + 6] = {
        {"flush.before.ack", topic->flushes_before_ack ? "true" : "false"},
        {"segment.bytes", topic->segment_bytes},
        {"retention.ms", retention_ms},
        {"retention.bytes", retention_bytes},
        /* one of fewer replicas may be of a node that is gone, and nobody knows it yet */
        {"min.insync.replicas", run->node_count >= 3 && replicas_of(run) < 0 ? "2" : "1"}};
    set_topic(&run->plan.frame, settings);
    if (topic->is_made)
        return true;
    struct stele_result result =
        stele_topic_create_replicated(sim->client, topic->name, topic->partition_count, replicas_of(run), settings);
    if (result.code == (int)STELE_INVALID_REPLICATION_FACTOR) /* too few nodes are there at the moment */
        return false;
    if (result.code == (int)STELE_UNSUPPORTED_VERSION)
        run->has_no_topics = true;
    else if (result.code == (int)STELE_TOPIC_ALREADY_EXISTS || cluster_call_is_done(run, sim, &result, "topic create"))
        topic->is_made = true;
    return topic->is_made;
}

/* Of a call that names a topic: somebody may have deleted it. */
static bool is_done_with(struct cluster_client *self, int topic, const struct stele_result *result, const char *call)
{
    struct cluster_topic *it = &self->run->book.topics[topic];
    if (result->code == (int)STELE_UNKNOWN_TOPIC_OR_PARTITION)
        it->is_made = it->is_made && it->deletes == 0;
    return is_done(self, result, call);
}

static int draw_topic(struct cluster_client *self)
{
    return (int)draw(self, 0, self->run->book.topic_count - 1);
}

/* Where all that may lead have lost what was not synced, somebody has to decide what is lost (design: never by itself).
 */
static void force_elections(struct cluster_client *self)
{
    struct stele_partition_results *results = NULL;
    struct stele_result result = stele_partitions_elect(self->sim.client, true, NULL, 0, &results);
    if (!is_done(self, &result, "elect"))
        return;
    for (size_t i = 0; i < results->outcome_count; i++) {
        const struct stele_partition_result *outcome = results->outcomes[i];
        sim_world_log(&self->run->world, "%s: elect %s-%d: %d %s, leader %d in epoch %d, lost %lld to %lld",
                      name_of(self), outcome->topic, outcome->partition, outcome->code, outcome->text,
                      outcome->leader_id, outcome->leader_epoch, (long long)outcome->lost_first_offset,
                      (long long)outcome->lost_end_offset);
    }
    stele_partition_results_free(results);
}

/* Producing. */

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct cluster_client *self = arg;
    sim_world_log(&self->run->world, "%s: record %llu in partition %d: %s, offset %lld, durability %d", name_of(self),
                  (unsigned long long)delivery->tag, delivery->partition,
                  delivery->result.code == 0 ? "acknowledged" : delivery->result.text, (long long)delivery->offset,
                  delivery->durability);
    cluster_book_delivered(self->run, delivery);
    if (delivery->result.code == 0 && self->run->book.records[delivery->tag].acks == -1)
        cluster_watch_acknowledged(self->run, (int64_t)delivery->tag);
}

static struct cluster_producer *get_producer(struct cluster_client *self, int number, int topic, bool is_sure)
{
    static const char *const acks[] = {"all", "all", "all", "all", "all", "1", "0"};
    static const char *const codecs[] = {"none", "none", "none", "lz4", "zstd"};
    static const char *const lingers[] = {"0", "1", "5", "50"};
    static const char *const batches[] = {"300", "2000", "16384"};
    static const char *const timeouts[] = {"3000", "30000", "120000", "120000"};
    struct cluster_producer *producer = &self->producers[number];
    if (producer->producer != NULL)
        return producer;
    const char *ack = pick(self, acks, STELE_ARRAY_LEN(acks));
    const char *codec = pick(self, codecs, STELE_ARRAY_LEN(codecs));
    const char *linger = pick(self, lingers, STELE_ARRAY_LEN(lingers));
    const char *batch = pick(self, batches, STELE_ARRAY_LEN(batches));
    const char *timeout = pick(self, timeouts, STELE_ARRAY_LEN(timeouts));
    ack = is_sure ? "all" : ack;
    bool is_once = strcmp(ack, "all") == 0 && (chance(self, 7, 8) || is_sure);
    struct stele_setting settings[] = {{"acks", ack},
                                       {"compression.type", codec},
                                       {"linger.ms", linger},
                                       {"batch.size", batch},
                                       {"delivery.timeout.ms", is_sure ? "120000" : timeout},
                                       {"enable.idempotence", is_once ? "true" : "false"},
                                       {NULL, NULL}};
    struct stele_result result;
    if (!cluster_topic_make(self->run, &self->sim, topic))
        return NULL;
    producer->producer =
        stele_producer_new(self->sim.client, self->run->book.topics[topic].name, settings, delivered, self, &result);
    if (!is_done_with(self, topic, &result, "producer"))
        return NULL;
    producer->number = cluster_book_producer(self->run);
    producer->topic = topic;
    producer->acks = ack[0] == '0' ? 0 : ack[0] == '1' ? 1 : -1;
    producer->is_once = is_once;
    return producer;
}

/* False when the producer takes no more for now. */
static bool send_one(struct cluster_client *self, struct cluster_producer *producer, int32_t partition)
{
    struct cluster *run = self->run;
    uint8_t value[VALUE_BYTES_MAX];
    struct cluster_record record = {
        .producer = producer->number,
        .topic = producer->topic,
        .acks = producer->acks,
        .partition = partition,
        .is_once = producer->is_once,
        .bytes = (int32_t)draw(self, CLUSTER_VALUE_BYTES_MIN, chance(self, 1, 10) ? VALUE_BYTES_MAX : 200)};
    int64_t tag = run->book.record_count;
    cluster_value(tag, value, (size_t)record.bytes);
    struct stele_message message = {
        .partition = record.partition, .timestamp = -1, .value = value, .value_bytes = (size_t)record.bytes};
    struct stele_result result = stele_producer_send(producer->producer, &message, (uint64_t)tag);
    if (result.code == (int)STELE_NO_MEMORY)
        return false;
    if (result.code != 0)
        sim_world_fail(&run->world, "record %lld is not taken: %d, %s", (long long)tag, result.code, result.text);
    (void)cluster_book_send(run, &record);
    return true;
}

static void produce(struct cluster_client *self)
{
    int number = (int)draw(self, 0, CLUSTER_PRODUCERS_MAX - 2);
    struct cluster_producer *producer = get_producer(self, number, draw_topic(self), false);
    if (producer == NULL)
        return;
    (void)cluster_topic_make(self->run, &self->sim, producer->topic); /* when it was deleted */
    int32_t partition_count = self->run->book.topics[producer->topic].partition_count;
    int64_t count = draw(self, 1, chance(self, 1, 8) ? 40 : 6);
    for (int64_t i = 0; i < count; i++) {
        if (!send_one(self, producer, chance(self, 1, 3) ? -1 : (int32_t)draw(self, 0, partition_count - 1)))
            break;
    }
    if (chance(self, 1, 2))
        (void)stele_client_poll(self->sim.client, (int)draw(self, 0, 50));
    if (chance(self, 1, 5))
        (void)stele_producer_flush(producer->producer, (int)draw(self, 0, 3000));
    if (chance(self, 1, 60))
        drop_producer(producer);
}

/* Reading. */

/* Also one that does not know yet that what it deleted last was lost by force: it begins behind all that is left. */
static bool begins_so_late(const struct cluster_client *self, int32_t partition, int64_t offset)
{
    const struct cluster *run = self->run;
    for (int i = 0; i < run->node_count; i++) {
        if (run->nodes[i].replicas[self->life - run->book.topics][partition].start_offset >= offset)
            return true;
    }
    return false;
}

static void on_reset(void *arg, const struct stele_reset *reset)
{
    struct cluster_client *self = arg;
    struct cluster *run = self->run;
    const struct cluster_topic *topic = self->life;
    sim_world_log(&run->world, "%s: %s", name_of(self), reset->text);
    if (reset->old_offset != self->expected[reset->partition])
        sim_world_fail(&run->world, "a reset tells of offset %lld, and the reader was at %lld",
                       (long long)reset->old_offset, (long long)self->expected[reset->partition]);
    /* A node that led once, and does not know yet that another does, may answer who comes with an offset from
     * elsewhere: an assignment names no leader epoch by which it could notice. */
    const struct cluster_partition *partition = &topic->partitions[reset->partition];
    bool is_deleted = reset->reason == STELE_RESET_BELOW_START && reset->old_offset < partition->start_offset;
    if (is_deleted && reset->new_offset > partition->start_offset &&
        !(partition->was_forced && begins_so_late(self, reset->partition, reset->new_offset)))
        sim_world_fail(&run->world, "D22: %s is sent from offset %lld of %s-%d to %lld, and no replica begins so late",
                       name_of(self), (long long)reset->old_offset, topic->name, reset->partition,
                       (long long)reset->new_offset);
    if (is_deleted)
        cluster_reach(run, CLUSTER_POINT_BELOW_START);
    else if (!self->has_read[reset->partition])
        cluster_reach(run, CLUSTER_POINT_RESET_AT_FIRST);
    else if (!partition->was_forced)
        sim_world_fail(&run->world, "D21: %s is sent from offset %lld of %s-%d to %lld: %s", name_of(self),
                       (long long)reset->old_offset, topic->name, reset->partition, (long long)reset->new_offset,
                       reset->text);
    if (self->has_read[reset->partition])
        cluster_watch_reset(run);
    self->expected[reset->partition] = reset->new_offset;
}

static void assign(struct cluster_client *self, int32_t partition, int64_t offset)
{
    struct stele_result result = stele_consumer_assign(self->consumer, partition, offset);
    if (result.code != 0)
        sim_world_fail(&self->run->world, "assign: %s", result.text);
    self->expected[partition] = offset;
    self->has_read[partition] = false;
    self->floor[partition] = cluster_replicas_floor(self->run, self->life, partition);
    self->floor_starts = self->run->world.reached[SIM_POINT_START];
}

static bool get_consumer(struct cluster_client *self, int topic)
{
    static const char *const waits[] = {"10", "100", "500", "3000"};
    static const char *const bytes[] = {"2000", "1048576"};
    const char *wait = pick(self, waits, STELE_ARRAY_LEN(waits));
    const char *most = pick(self, bytes, STELE_ARRAY_LEN(bytes));
    struct stele_setting settings[] = {{"fetch.max.wait.ms", wait},
                                       {"max.partition.fetch.bytes", most},
                                       {"auto.offset.reset", "earliest"},
                                       {NULL, NULL},
                                       {NULL, NULL}};
    struct stele_result result;
    char rack[24];
    if (self->consumer != NULL)
        return true;
    if (self->run->plan.frame.has_racks) {
        (void)snprintf(rack, sizeof(rack), "%lld", (long long)draw(self, 1, self->run->node_count));
        settings[3] = (struct stele_setting){"client.rack", rack};
    }
    if (!cluster_topic_make(self->run, &self->sim, topic))
        return false;
    self->consumer = stele_consumer_new(self->sim.client, self->run->book.topics[topic].name, settings, &result);
    if (!is_done_with(self, topic, &result, "consumer"))
        return false;
    struct stele_uuid id = sim_client_reads(self->consumer);
    const struct cluster_topic *it = cluster_book_topic(self->run, &id);
    if (it == NULL || it->first != topic)
        sim_world_fail(&self->run->world, "%s reads a topic that no node has", name_of(self));
    stele_consumer_on_reset(self->consumer, on_reset, self);
    self->reads = topic;
    self->life = it;
    for (int32_t i = 0; i < it->partition_count; i++) {
        int64_t from = chance(self, 1, 4) ? 0 : stele_max_i64(it->partitions[i].end_offset - draw(self, 0, 300), 0);
        assign(self, i, from);
    }
    return true;
}

/* False when none came. */
static bool read_one(struct cluster_client *self, int wait_ms)
{
    struct stele_record_view record;
    struct stele_result result = stele_consumer_next(self->consumer, wait_ms, &record);
    if (result.code == (int)STELE_INCONSISTENT_TOPIC_ID && self->run->book.topics[self->reads].deletes > 0) {
        cluster_reach(self->run, CLUSTER_POINT_OLD_READER);
        drop_consumer(self);
        return false;
    }
    if (result.code == (int)STELE_REQUEST_TIMED_OUT || !is_done_with(self, self->reads, &result, "read"))
        return false;
    if (record.offset != self->expected[record.partition])
        sim_world_fail(&self->run->world, "D22: %s read offset %lld of %s-%d, and was at %lld", name_of(self),
                       (long long)record.offset, self->life->name, record.partition,
                       (long long)self->expected[record.partition]);
    if (record.offset < self->floor[record.partition] &&
        self->floor_starts == self->run->world.reached[SIM_POINT_START])
        sim_world_fail(&self->run->world, "D31: %s read offset %lld of %s-%d, and every replica begins at %lld",
                       name_of(self), (long long)record.offset, self->life->name, record.partition,
                       (long long)self->floor[record.partition]);
    self->expected[record.partition]++;
    self->has_read[record.partition] = true;
    cluster_book_read(self->run, self->life, &record);
    return true;
}

static void consume(struct cluster_client *self)
{
    if (!get_consumer(self, draw_topic(self)))
        return;
    (void)cluster_topic_make(self->run, &self->sim, self->reads);
    int64_t count = draw(self, 1, 100);
    int wait_ms = (int)draw(self, 0, 500);
    while (count-- > 0 && read_one(self, wait_ms)) {
    }
    if (chance(self, 1, 30))
        drop_consumer(self);
}

/* All of it. */

static void act(struct cluster_client *self)
{
    const struct cluster_frame *frame = &self->run->plan.frame;
    bool is_send = frame->sends_percent > 0 && chance(self, (uint64_t)frame->sends_percent, 100);
    int64_t what = is_send ? 0 : draw(self, 0, 99);
    if (self->run->wants_election) {
        self->run->wants_election = false;
        force_elections(self);
    }
    if (what < 12)
        produce(self);
    else if (what < 25)
        consume(self);
    else if (what < 28)
        (void)change_setting(self);
    else if (what < 29)
        begin_anew(self);
    else if (what < 30 && chance(self, 1, 4) && !frame->forces_nothing)
        force_elections(self);
    else if (what < 55)
        (void)stele_client_poll(self->sim.client, (int)draw(self, 0, 1000));
    else
        sim_client_pause(&self->sim, 1 + sim_draw_log(&self->prng, 2000000));
}

static void finish_records(struct cluster_client *self)
{
    for (int i = 0; i < CLUSTER_PRODUCERS_MAX; i++) {
        struct cluster_producer *producer = &self->producers[i];
        while (producer->producer != NULL && stele_producer_pending(producer->producer) > 0)
            (void)stele_producer_flush(producer->producer, STEP_MS);
    }
}

/* What was deleted is there again, for the records that wait for it. */
static void make_topics_anew(struct cluster_client *self)
{
    struct cluster *run = self->run;
    for (int i = 0; i < run->book.topic_count; i++) {
        struct cluster_topic *first = &run->book.topics[i];
        while (first->deletes > 0 && cluster_book_last(run, i)->is_gone) {
            first->is_made = false;
            if (!cluster_topic_make(run, &self->sim, i))
                sim_client_pause(&self->sim, STEP_MS * 1000);
        }
    }
}

/* Every partition takes a record, and gives all it has. */
static void use_topic(struct cluster_client *self, int topic)
{
    struct cluster_topic *it = &self->run->book.topics[topic];
    struct cluster_producer *producer = NULL;
    int64_t ends[CLUSTER_PARTITIONS_MAX], acknowledged = 0;
    while (producer == NULL)
        producer = get_producer(self, CLUSTER_PRODUCERS_MAX - 1, topic, true);
    int64_t first = self->run->book.record_count;
    for (int32_t i = 0; i < it->partition_count; i++)
        STELE_ASSERT(send_one(self, producer, i));
    int64_t last = self->run->book.record_count;
    finish_records(self);
    for (int64_t tag = first; tag < last; tag++)
        acknowledged += self->run->book.records[tag].fate == CLUSTER_ACKNOWLEDGED;
    if (acknowledged < it->partition_count)
        sim_world_fail(&self->run->world, "L3: a record is not taken without faults");
    drop_consumer(self);
    while (!get_consumer(self, topic)) {
    }
    for (int32_t i = 0; i < it->partition_count; i++)
        ends[i] = self->life->partitions[i].end_offset;
    for (int32_t i = 0; i < it->partition_count; i++)
        assign(self, i, 0);
    for (int32_t i = 0; i < it->partition_count; i++) {
        while (stele_consumer_position(self->consumer, i) < ends[i]) {
            if (!read_one(self, STEP_MS)) /* what is damaged is told at once, every time */
                sim_client_pause(&self->sim, STEP_MS * 1000);
        }
        if (self->expected[i] < ends[i] && self->life->partitions[i].start_offset < ends[i])
            sim_world_fail(&self->run->world, "D22: %s read %s-%d up to %lld, and there is more", name_of(self),
                           self->life->name, i, (long long)self->expected[i]);
    }
}

static void script(struct sim_client *sim)
{
    struct cluster_client *self = sim->arg;
    struct cluster *run = self->run;
    begin(self);
    while (!run->is_over)
        act(self);
    self->step = "elections";
    while (!cluster_states_are_led(run)) {
        force_elections(self);
        sim_client_pause(&self->sim, 1000000);
    }
    self->step = "topics";
    make_topics_anew(self);
    self->step = "the last deliveries";
    finish_records(self);
    self->step = "a setting";
    while (!change_setting(self)) {
        sim_client_pause(&self->sim, STEP_MS * 1000);
        begin_anew(self);
    }
    self->step = "a topic";
    if (!run->has_no_topics)
        use_topic(self, self->number % run->book.topic_count);
    end(self);
    self->step = NULL;
    run->done_count++;
    sim_world_log(&run->world, "%s: done", sim->process.name);
}

void cluster_clients_start(struct cluster *run)
{
    static const struct {
        const char *name;
        int64_t base;
    } tuned[CLUSTER_CLIENTS_MAX] = {{"message.max.bytes", 1000000},
                                    {"log.cleaner.delete.retention.ms", 1000000},
                                    {"log.cleaner.min.compaction.lag.ms", 1000000},
                                    {"producer.id.expiration.ms", 86400000}};
    for (int i = 0; i < run->client_count; i++) {
        struct cluster_client *client = &run->clients[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "c%d", i + 1);
        client->run = run;
        client->number = i;
        client->tuned.name = tuned[i].name;
        client->tuned.base = tuned[i].base;
        client->step = "its work";
        stele_prng_init(&client->prng, run->world.seed, ((uint64_t)SIM_STREAM_WORKLOAD << 32) + (uint64_t)i);
        client->sim.arg = client;
        client->sim.script = script;
        sim_client_start(&client->sim, &run->world, name,
                         1 + (int64_t)stele_prng_below(sim_stream(&run->world, SIM_STREAM_SETUP), 3000000));
    }
}
