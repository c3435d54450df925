/* What a program does with libstele: makes topics, sends records of every kind, reads, asks for offsets, all in random
 * order; when the faults are over it must be able to finish, and finds everything that was promised. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"

#include <stdio.h>
#include <string.h>

enum { FINISH_MS = 240000, STEP_MS = 500 };

static int64_t now_ms(struct run_client *self)
{
    return stele_env_mono_ms(&self->sim.env.env);
}

static bool chance(struct run_client *self, uint64_t numerator, uint64_t denominator)
{
    return stele_prng_chance(&self->prng, numerator, denominator);
}

static int64_t range(struct run_client *self, int64_t low, int64_t high)
{
    return stele_prng_range(&self->prng, low, high);
}

static const char *pick(struct run_client *self, const char *const *texts, size_t count)
{
    return texts[range(self, 0, (int64_t)count - 1)];
}

/* A call that may fail while there are faults; without them it must not. */
static bool is_done(struct run_client *self, const struct stele_result *result, const char *call)
{
    struct run *self_run = self->run;
    if (result->code == 0)
        return true;
    if (!result->is_retriable)
        sim_world_fail(&self_run->world, "%s: %s failed with %d: %s", self->sim.process.name, call, result->code,
                       result->text);
    sim_world_log(&self_run->world, "%s: %s: %s", self->sim.process.name, call, result->text);
    run_reach(self_run, RUN_POINT_CALL_FAILED);
    return false;
}

static void check_time(struct run_client *self, int64_t until_ms, const char *what)
{
    if (now_ms(self) >= until_ms)
        sim_world_fail(&self->run->world, "%s: %s takes longer than %d ms without faults", self->sim.process.name, what,
                       FINISH_MS);
}

/* Topics */

static bool create_topic(struct run_client *self, int number)
{
    struct run_topic *topic = &self->run->topics[number];
    if (topic->is_created)
        return true;
    struct stele_result result =
        stele_topic_create(self->sim.client, topic->name, topic->partition_count, topic->settings);
    if (result.code == (int)STELE_TOPIC_ALREADY_EXISTS) {
        topic->is_created = true;
        return true;
    }
    /* It may be there or not: recorded and offline, or not answered in time. */
    topic->is_created = is_done(self, &result, "topic create");
    return topic->is_created;
}

/* Producing */

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct run_producer *producer = arg;
    sim_world_log(&producer->run->world, "%s: record %llu in partition %d: %s, offset %lld, durability %d",
                  producer->owner->sim.process.name, (unsigned long long)delivery->tag, delivery->partition,
                  delivery->result.code == 0 ? "acknowledged" : delivery->result.text, (long long)delivery->offset,
                  delivery->durability);
    model_delivered(producer, delivery);
}

static struct run_producer *get_producer(struct run_client *self, int number)
{
    static const char *const acks[] = {"all", "all", "1", "0"};
    static const char *const codecs[] = {"none", "none", "gzip", "snappy", "lz4", "zstd"};
    static const char *const lingers[] = {"0", "1", "5", "50"};
    static const char *const batches[] = {"1", "300", "2000", "16384"};
    static const char *const timeouts[] = {"1500", "8000", "30000", "120000"};
    static const char *const buffers[] = {"2000", "20000", "33554432"};
    struct run_producer *producer = &self->producers[number];
    if (producer->producer != NULL)
        return producer;
    int topic = (int)range(self, 0, self->run->topic_count - 1);
    /* One draw after the other: what stands in one expression has no order. */
    const char *ack = pick(self, acks, STELE_ARRAY_LEN(acks));
    const char *codec = pick(self, codecs, STELE_ARRAY_LEN(codecs));
    const char *linger = pick(self, lingers, STELE_ARRAY_LEN(lingers));
    const char *batch = pick(self, batches, STELE_ARRAY_LEN(batches));
    const char *timeout = pick(self, timeouts, STELE_ARRAY_LEN(timeouts));
    const char *buffer = pick(self, buffers, STELE_ARRAY_LEN(buffers));
    struct stele_setting settings[] = {
        {"acks", ack},         {"compression.type", codec},      {"linger.ms", linger},
        {"batch.size", batch}, {"delivery.timeout.ms", timeout}, {"buffer.memory", buffer},
        {NULL, NULL}};
    struct stele_result result;
    if (!create_topic(self, topic))
        return NULL;
    *producer = (struct run_producer){.run = self->run, .owner = self, .number = number, .topic = topic};
    producer->acks = ack[0] == '0' ? 0 : ack[0] == '1' ? 1 : -1;
    for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
        producer->last_tag[i] = producer->last_offset[i] = -1;
    producer->producer =
        stele_producer_new(self->sim.client, self->run->topics[topic].name, settings, delivered, producer, &result);
    return is_done(self, &result, "producer") ? producer : NULL;
}

static size_t draw_bytes(struct run_client *self)
{
    int64_t most = chance(self, 1, 60) ? 30000 : chance(self, 1, 6) ? 3000 : 300;
    return (size_t)range(self, RUN_VALUE_BYTES_MIN, most);
}

/* One record; false when the producer takes no more for now. */
static bool send_one(struct run_client *self, struct run_producer *producer)
{
    struct run *run = self->run;
    uint8_t value[30000];
    char key[16];
    int64_t tag = run->record_count;
    bool is_last = producer->number == RUN_PRODUCERS_MAX; /* that one must arrive */
    struct run_record record = {.client = self->number,
                                .producer = producer->number,
                                .topic = producer->topic,
                                .partition = -1,
                                .bytes = is_last ? 100 : (int32_t)draw_bytes(self),
                                .sent_us = sim_world_now_us(&run->world),
                                .timestamp = stele_env_wall_ms(&self->sim.env.env)};
    if (chance(self, 1, 10))
        record.timestamp -= range(self, 0, 20000);
    if (chance(self, 2, 3))
        record.partition = (int32_t)range(self, 0, run->topics[producer->topic].partition_count - 1);
    model_value(tag, value, (size_t)record.bytes);
    (void)snprintf(key, sizeof(key), "key-%d", (int)range(self, 0, 20));
    struct stele_message message = {.partition = record.partition,
                                    .timestamp = record.timestamp,
                                    .key = chance(self, 1, 2) ? key : NULL,
                                    .value = value,
                                    .value_bytes = (size_t)record.bytes};
    message.key_bytes = message.key == NULL ? 0 : strlen(key);
    struct stele_result result = stele_producer_send(producer->producer, &message, (uint64_t)tag);
    if (result.code == (int)STELE_NO_MEMORY) {
        run_reach(run, RUN_POINT_BUFFER_FULL);
        return false;
    }
    if (result.code != 0)
        sim_world_fail(&run->world, "record %lld is not taken: %d, %s", (long long)tag, result.code, result.text);
    STELE_ASSERT(run->record_count < run->record_capacity);
    run->records[run->record_count++] = record;
    self->records_left--;
    return true;
}

static void produce(struct run_client *self)
{
    struct run_producer *producer = get_producer(self, (int)range(self, 0, RUN_PRODUCERS_MAX - 1));
    if (producer == NULL)
        return;
    int64_t count = range(self, 1, chance(self, 1, 4) ? 40 : 6);
    for (int64_t i = 0; i < count && self->records_left > 0; i++) {
        if (!send_one(self, producer))
            break;
    }
    if (chance(self, 1, 3))
        (void)stele_client_poll(self->sim.client, (int)range(self, 0, 50));
    if (chance(self, 1, 10))
        (void)stele_producer_flush(producer->producer, (int)range(self, 0, 2000));
}

/* Reading */

static void assign(struct run_client *self, int topic, int32_t partition, int64_t offset)
{
    struct run_consumer *consumer = &self->consumers[topic];
    struct stele_result result = stele_consumer_assign(consumer->consumer, partition, offset);
    if (result.code != 0)
        sim_world_fail(&self->run->world, "assign: %s", result.text);
    consumer->expected[partition] = offset;
    consumer->power[partition] = self->run->power_losses;
    if (offset == 0)
        consumer->since[partition] = self->run->power_losses;
}

/* Two consumers of one client share a connection and hurry each other without a pause: few runs have that. */
static void leave_others(struct run_client *self, int topic)
{
    for (int i = 0; i < RUN_TOPICS_MAX && !self->run->has_many_consumers; i++) {
        if (i == topic)
            continue;
        stele_consumer_free(self->consumers[i].consumer);
        self->consumers[i].consumer = NULL;
    }
}

static struct run_consumer *get_consumer(struct run_client *self, int topic)
{
    static const char *const waits[] = {"10", "50", "500", "3000"};
    static const char *const bytes[] = {"100", "2000", "1048576"};
    int size = (int)range(self, 0, 2);
    bool waits_for_more = size == 2 && chance(self, 1, 4);
    struct run_consumer *consumer = &self->consumers[topic];
    if (consumer->consumer != NULL)
        return consumer;
    leave_others(self, topic);
    const char *wait = pick(self, waits, STELE_ARRAY_LEN(waits));
    struct stele_setting settings[] = {{"fetch.max.wait.ms", wait},
                                       {"max.partition.fetch.bytes", bytes[size]},
                                       {"fetch.min.bytes", waits_for_more ? "5000" : "1"},
                                       {"auto.offset.reset", "none"},
                                       {NULL, NULL}};
    struct stele_result result;
    if (!create_topic(self, topic))
        return NULL;
    consumer->consumer = stele_consumer_new(self->sim.client, self->run->topics[topic].name, settings, &result);
    if (!is_done(self, &result, "consumer"))
        return NULL;
    sim_world_log(&self->run->world, "%s: reads topic %d, fetches wait %s ms for %s bytes, at most %s",
                  self->sim.process.name, topic, settings[0].value, settings[2].value, settings[1].value);
    if (stele_consumer_partitions(consumer->consumer) != self->run->topics[topic].partition_count)
        sim_world_fail(&self->run->world, "topic %s has %d partitions", self->run->topics[topic].name,
                       stele_consumer_partitions(consumer->consumer));
    for (int32_t i = 0; i < self->run->topics[topic].partition_count; i++)
        assign(self, topic, i, 0);
    return consumer;
}

/* The end of a partition; -1 when the node could not be asked. */
static int64_t ask_latest(struct run_client *self, int topic, int32_t partition)
{
    int64_t offset = -1;
    struct model_asked asked = model_ask(self->run, topic, partition);
    struct stele_result result =
        stele_offset_at(self->sim.client, self->run->topics[topic].name, partition, STELE_OFFSET_LATEST, &offset);
    if (!is_done(self, &result, "latest offset"))
        return -1;
    model_latest(self->run, topic, partition, &asked, offset);
    return offset;
}

/* Only a power loss takes what a reader has passed, and only what was not synced. */
static void leave_the_gone(struct run_client *self, int topic, const struct stele_result *result)
{
    struct run *run = self->run;
    struct run_consumer *consumer = &self->consumers[topic];
    bool is_excused = false;
    for (int32_t i = 0; i < run->topics[topic].partition_count; i++)
        is_excused = is_excused || consumer->since[i] != run->power_losses;
    if (!is_excused || run->topics[topic].flushes_before_ack)
        sim_world_fail(&run->world, "%s: %s", self->sim.process.name, result->text);
    run_reach(run, RUN_POINT_OUT_OF_RANGE);
    for (int32_t i = 0; i < run->topics[topic].partition_count; i++) {
        int64_t power = run->power_losses, end = ask_latest(self, topic, i);
        if (end < 0)
            continue;
        assign(self, topic, i, stele_min_i64(end, consumer->expected[i]));
        consumer->since[i] = power;
    }
}

/* The next record, if one comes; false when none did. */
static bool read_one(struct run_client *self, int topic, int wait_ms)
{
    struct run *run = self->run;
    struct run_consumer *consumer = &self->consumers[topic];
    struct stele_record_view record;
    struct stele_result result = stele_consumer_next(consumer->consumer, wait_ms, &record);
    if (result.code == (int)STELE_REQUEST_TIMED_OUT)
        return false;
    if (result.code == (int)STELE_OFFSET_OUT_OF_RANGE) {
        leave_the_gone(self, topic, &result);
        return false;
    }
    if (result.code != 0)
        sim_world_fail(&run->world, "%s cannot read %s: %d, %s", self->sim.process.name, run->topics[topic].name,
                       result.code, result.text);
    if (record.offset != consumer->expected[record.partition])
        sim_world_fail(&run->world, "%s read %s-%d offset %lld, and was at %lld", self->sim.process.name,
                       run->topics[topic].name, record.partition, (long long)record.offset,
                       (long long)consumer->expected[record.partition]);
    consumer->expected[record.partition]++;
    model_read(run, topic, &record, consumer->power[record.partition]);
    return true;
}

static void consume(struct run_client *self)
{
    if (chance(self, 1, 3))
        self->read_topic = (int)range(self, 0, self->run->topic_count - 1);
    int topic = self->read_topic;
    struct run_consumer *consumer = get_consumer(self, topic);
    if (consumer == NULL)
        return;
    if (chance(self, 1, 6)) {
        int32_t partition = (int32_t)range(self, 0, self->run->topics[topic].partition_count - 1);
        assign(self, topic, partition, range(self, 0, consumer->expected[partition]));
    }
    int64_t count = range(self, 1, 60);
    int wait_ms = (int)range(self, 0, 1000);
    while (count-- > 0 && read_one(self, topic, wait_ms)) {
    }
}

static void ask(struct run_client *self)
{
    int topic = (int)range(self, 0, self->run->topic_count - 1);
    int32_t partition = (int32_t)range(self, 0, self->run->topics[topic].partition_count - 1);
    int64_t offset = -1;
    if (!create_topic(self, topic))
        return;
    if (chance(self, 2, 3)) {
        (void)ask_latest(self, topic, partition);
        return;
    }
    struct stele_result result =
        stele_offset_at(self->sim.client, self->run->topics[topic].name, partition, STELE_OFFSET_EARLIEST, &offset);
    if (is_done(self, &result, "earliest offset") && offset != 0)
        sim_world_fail(&self->run->world, "the earliest offset is %lld", (long long)offset);
}

static void act(struct run_client *self)
{
    int64_t draw = range(self, 0, 99);
    if (draw < 40 && self->records_left > 0)
        produce(self);
    else if (draw < 75)
        consume(self);
    else if (draw < 82)
        ask(self);
    else if (draw < 92)
        (void)stele_client_poll(self->sim.client, (int)range(self, 0, 2000));
    else
        sim_client_pause(&self->sim, sim_draw_log(&self->prng, 2000000) + 1);
}

/* The end: no faults any more. */

static void finish_records(struct run_client *self, int64_t until_ms)
{
    for (int i = 0; i < RUN_PRODUCERS_MAX; i++) {
        struct run_producer *producer = &self->producers[i];
        while (producer->producer != NULL && stele_producer_pending(producer->producer) > 0) {
            (void)stele_producer_flush(producer->producer, STEP_MS);
            check_time(self, until_ms, "the last delivery");
        }
    }
    self->run->flushed_count++;
    while (self->run->flushed_count < RUN_CLIENTS) {
        (void)stele_client_poll(self->sim.client, STEP_MS);
        check_time(self, until_ms, "the other's last delivery");
    }
}

/* What was sent without acks, or sent again, may still arrive: behind `end` the model may know less than the node. */
static void check_times(struct run_client *self, int topic, int32_t partition, int64_t end)
{
    struct run *run = self->run;
    for (int i = 0; i < 2 && run->record_count > 0; i++) {
        int64_t tag = range(self, 0, run->record_count - 1), offset = -1;
        int64_t time_ms = run->records[tag].timestamp + range(self, -1, 1);
        struct stele_result result =
            stele_offset_at(self->sim.client, run->topics[topic].name, partition, time_ms, &offset);
        int64_t wanted = model_offset_at(run, topic, partition, time_ms, end);
        if (is_done(self, &result, "offset by time") && offset != wanted && (wanted >= 0 || offset < end))
            sim_world_fail(&run->world, "%s-%d at %lld is offset %lld, not %lld", run->topics[topic].name, partition,
                           (long long)time_ms, (long long)wanted, (long long)offset);
    }
}

static void read_all(struct run_client *self, int topic, int64_t until_ms)
{
    struct run_topic *it = &self->run->topics[topic];
    while (get_consumer(self, topic) == NULL)
        check_time(self, until_ms, "a consumer");
    for (int32_t i = 0; i < it->partition_count; i++) {
        int64_t end = -1;
        while ((end = ask_latest(self, topic, i)) < 0)
            check_time(self, until_ms, "the latest offset");
        assign(self, topic, i, 0);
        while (self->consumers[topic].expected[i] < end) {
            if (!read_one(self, topic, STEP_MS))
                sim_world_log(&self->run->world, "%s: waits at %s-%d offset %lld of %lld", self->sim.process.name,
                              it->name, i, (long long)self->consumers[topic].expected[i], (long long)end);
            check_time(self, until_ms, "reading all");
        }
        check_times(self, topic, i, end);
    }
}

/* At last one client waits at the end of a log, longer than its record may take, and the other one sends it: an append
 * must end the wait. */

static struct run_producer *new_last_producer(struct run_client *self, int64_t until_ms)
{
    struct run_producer *producer = &self->producers[RUN_PRODUCERS_MAX];
    struct stele_setting settings[] = {{"linger.ms", "0"}, {NULL, NULL}};
    struct stele_result result;
    *producer = (struct run_producer){.run = self->run, .owner = self, .number = RUN_PRODUCERS_MAX, .acks = -1};
    for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
        producer->last_tag[i] = producer->last_offset[i] = -1;
    while (producer->producer == NULL) {
        check_time(self, until_ms, "the last producer");
        producer->producer =
            stele_producer_new(self->sim.client, self->run->topics[0].name, settings, delivered, producer, &result);
        (void)is_done(self, &result, "producer");
    }
    return producer;
}

static void tell(struct run_client *self, int64_t until_ms)
{
    struct run *run = self->run;
    struct run_producer *producer = new_last_producer(self, until_ms);
    while (!run->has_listener) {
        (void)stele_client_poll(self->sim.client, STEP_MS);
        check_time(self, until_ms, "the listener");
    }
    run->last_tag = run->record_count;
    if (!send_one(self, producer))
        sim_world_fail(&run->world, "the last record is not taken");
    while (stele_producer_pending(producer->producer) > 0) {
        (void)stele_producer_flush(producer->producer, STEP_MS);
        check_time(self, until_ms, "the last record");
    }
    run->last_us = run->world.now_us;
}

static void listen(struct run_client *self, int64_t until_ms)
{
    struct run *run = self->run;
    struct run_consumer *consumer = &self->consumers[0];
    struct stele_setting settings[] = {{"fetch.max.wait.ms", "20000"}, {NULL, NULL}};
    struct stele_result result;
    int64_t ends[RUN_PARTITIONS_MAX];
    for (int32_t i = 0; i < run->topics[0].partition_count; i++) {
        while ((ends[i] = ask_latest(self, 0, i)) < 0)
            check_time(self, until_ms, "the latest offset");
    }
    for (int i = 0; i < RUN_TOPICS_MAX; i++) {
        stele_consumer_free(self->consumers[i].consumer);
        self->consumers[i].consumer = NULL;
    }
    while (consumer->consumer == NULL) {
        check_time(self, until_ms, "the last consumer");
        consumer->consumer = stele_consumer_new(self->sim.client, run->topics[0].name, settings, &result);
        (void)is_done(self, &result, "consumer");
    }
    for (int32_t i = 0; i < run->topics[0].partition_count; i++)
        assign(self, 0, i, ends[i]);
    int64_t listens_us = run->world.now_us;
    while (run->last_us == 0 || !run->records[run->last_tag].is_read) {
        (void)read_one(self, 0, STEP_MS);
        run->has_listener = run->world.now_us > listens_us + 2000000;
        if (run->last_us > 0 && run->world.now_us > run->last_us + 8000000)
            sim_world_fail(&run->world, "an append did not end the wait of %s", self->sim.process.name);
        check_time(self, until_ms, "the last record to come");
    }
}

static void begin(struct run_client *self)
{
    static const char *const timeouts[] = {"300", "1000", "5000", "30000"};
    static const char *const in_flight[] = {"3", "5", "5"};
    struct stele_error error;
    const char *timeout = pick(self, timeouts, STELE_ARRAY_LEN(timeouts));
    const char *most = pick(self, in_flight, STELE_ARRAY_LEN(in_flight));
    struct stele_setting settings[] = {
        {"request.timeout.ms", timeout}, {"max.in.flight.requests.per.connection", most}, {NULL, NULL}};
    enum stele_err err =
        stele_client__new(&self->sim.driver, self->run->server.address, settings, &self->sim.client, &error);
    if (err != STELE_OK)
        sim_world_fail(&self->run->world, "no client: %s", error.text);
}

void script_run(struct sim_client *client)
{
    struct run_client *self = client->arg;
    begin(self);
    while (!self->run->is_calm)
        act(self);
    int64_t until_ms = now_ms(self) + FINISH_MS;
    finish_records(self, until_ms);
    for (int i = 0; i < self->run->topic_count; i++)
        read_all(self, i, until_ms);
    if (self->number == 0)
        tell(self, until_ms);
    else if (self->number == 1)
        listen(self, until_ms);
    for (int i = 0; i <= RUN_PRODUCERS_MAX; i++)
        stele_producer_free(self->producers[i].producer);
    for (int i = 0; i < RUN_TOPICS_MAX; i++)
        stele_consumer_free(self->consumers[i].consumer);
    stele_client_free(client->client);
    self->run->done_count++;
    sim_world_log(&self->run->world, "%s: done", client->process.name);
}
