/* What a program does with libstele: makes topics, sends records of every kind, reads, asks for offsets, all in random
 * order; when the faults are over it must be able to finish, and finds everything that was promised. */
#include "base/check.h"
#include "client/consumer_internal.h"
#include "client/producer_internal.h"
#include "cluster-tests/sim/node_run.h"

#include <stdio.h>
#include <string.h>

enum { FINISH_MS = 240000, STEP_MS = 500 };

static int64_t now_ms(struct run_client *self)
{
    return stele_env_mono_ms(&self->sim.env.env);
}

static const char *pick(struct run_client *self, const char *const *texts, size_t count)
{
    return texts[run_range(self, 0, (int64_t)count - 1)];
}

/* A call that may fail while there are faults; without them it must not. */
bool script_is_done(struct run_client *self, const struct stele_result *result, const char *call)
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

/* Producing */

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct run_producer *producer = arg;
    sim_world_log(&producer->run->world,
                  "%s: record %llu of producer %d in partition %d: %s, offset %lld, durability %d",
                  producer->owner->sim.process.name, (unsigned long long)delivery->tag, producer->number,
                  delivery->partition, delivery->result.code == 0 ? "acknowledged" : delivery->result.text,
                  (long long)delivery->offset, delivery->durability);
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
    static const char *const ages[] = {"300", "2000", "300000"};
    struct run_producer *producer = &self->producers[number];
    if (producer->producer != NULL)
        return producer;
    int topic = (int)run_range(self, 0, self->run->topic_count - 1);
    /* One draw after the other: what stands in one expression has no order. */
    const char *ack = pick(self, acks, STELE_ARRAY_LEN(acks));
    const char *codec = pick(self, codecs, STELE_ARRAY_LEN(codecs));
    const char *linger = pick(self, lingers, STELE_ARRAY_LEN(lingers));
    const char *batch = pick(self, batches, STELE_ARRAY_LEN(batches));
    const char *timeout = pick(self, timeouts, STELE_ARRAY_LEN(timeouts));
    const char *buffer = pick(self, buffers, STELE_ARRAY_LEN(buffers));
    const char *age = pick(self, ages, STELE_ARRAY_LEN(ages));
    bool is_once = strcmp(ack, "all") == 0 && run_chance(self, 4, 5);
    struct stele_setting settings[] = {{"acks", ack},
                                       {"compression.type", codec},
                                       {"linger.ms", linger},
                                       {"batch.size", batch},
                                       {"delivery.timeout.ms", timeout},
                                       {"buffer.memory", buffer},
                                       {"metadata.max.age.ms", age},
                                       {"enable.idempotence", is_once ? "true" : "false"},
                                       {NULL, NULL}};
    struct stele_result result;
    if (!admin_make(self, topic))
        return NULL;
    *producer = (struct run_producer){
        .run = self->run, .owner = self, .number = self->run->producer_count++, .topic = topic, .is_once = is_once};
    producer->acks = ack[0] == '0' ? 0 : ack[0] == '1' ? 1 : -1;
    for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
        producer->last_tag[i] = producer->last_offset[i] = -1;
    producer->producer =
        stele_producer_new(self->sim.client, self->run->topics[topic].name, settings, delivered, producer, &result);
    return script_is_done(self, &result, "producer") ? producer : NULL;
}

static size_t draw_bytes(struct run_client *self)
{
    int64_t most = run_chance(self, 1, 60) ? 30000 : run_chance(self, 1, 6) ? 3000 : 300;
    return (size_t)run_range(self, RUN_VALUE_BYTES_MIN, most);
}

/* One record; false when the producer takes no more for now. */
static bool send_one(struct run_client *self, struct run_producer *producer)
{
    struct run *run = self->run;
    uint8_t value[30000];
    char key[16];
    int64_t tag = run->record_count;
    bool is_last = producer == &self->producers[RUN_PRODUCERS_MAX]; /* that one must arrive */
    struct run_record record = {.producer = producer->number,
                                .is_once = producer->is_once,
                                .life = model_life(run, producer->topic, &producer->producer->topic_id),
                                .topic = producer->topic,
                                .partition = -1,
                                .bytes = is_last ? 100 : (int32_t)draw_bytes(self),
                                .sent_us = sim_world_now_us(&run->world),
                                .timestamp = stele_env_wall_ms(&self->sim.env.env)};
    if (run_chance(self, 1, 10))
        record.timestamp -= run_range(self, 0, 20000);
    if (run_chance(self, 2, 3))
        record.partition = (int32_t)run_range(self, 0, producer->producer->partitions - 1);
    model_value(tag, value, (size_t)record.bytes);
    (void)snprintf(key, sizeof(key), "key-%d", (int)run_range(self, 0, 20));
    struct stele_message message = {.partition = record.partition,
                                    .timestamp = record.timestamp,
                                    .key = run_chance(self, 1, 2) ? key : NULL,
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
    struct run_producer *producer = get_producer(self, (int)run_range(self, 0, RUN_PRODUCERS_MAX - 1));
    if (producer == NULL)
        return;
    int64_t count = run_range(self, 1, run_chance(self, 1, 4) ? 40 : 6);
    for (int64_t i = 0; i < count && self->records_left > 0; i++) {
        if (!send_one(self, producer))
            break;
    }
    if (run_chance(self, 1, 3))
        (void)stele_client_poll(self->sim.client, (int)run_range(self, 0, 50));
    if (run_chance(self, 1, 10))
        (void)stele_producer_flush(producer->producer, (int)run_range(self, 0, 2000));
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

/* Only a power loss takes what a reader has passed, and only what was not synced; deletions what it did not reach. */
static void check_gone(struct run_client *self, const struct run_consumer *consumer, int32_t partition)
{
    struct run *run = self->run;
    int64_t at = consumer->expected[partition];
    bool may_be_lost =
        !run->topics[consumer->topic].flushes_before_ack && consumer->since[partition] != run->power_losses;
    if (model_may_start_above(run, consumer->life, partition, at))
        run_reach(run, RUN_POINT_BELOW_START);
    else if (may_be_lost)
        run_reach(run, RUN_POINT_OUT_OF_RANGE);
    else
        sim_world_fail(&run->world, "%s: %s-%d does not hold offset %lld, which nothing excuses",
                       self->sim.process.name, run->topics[consumer->topic].name, partition, (long long)at);
}

static void on_reset(void *arg, const struct stele_reset *reset)
{
    struct run_consumer *consumer = arg;
    struct run_client *self = consumer->owner;
    struct run *run = self->run;
    int64_t at = consumer->expected[reset->partition];
    sim_world_log(&run->world, "%s: %s", self->sim.process.name, reset->text);
    if (reset->old_offset != at)
        sim_world_fail(&run->world, "a reset tells of offset %lld, and the reader was at %lld",
                       (long long)reset->old_offset, (long long)at);
    check_gone(self, consumer, reset->partition);
    run_reach(run, RUN_POINT_RESET);
    consumer->expected[reset->partition] = reset->new_offset;
    consumer->power[reset->partition] = run->power_losses;
    consumer->since[reset->partition] = -1; /* who knows when the node said so */
}

static void drop_consumer(struct run_client *self, int topic)
{
    stele_consumer_free(self->consumers[topic].consumer);
    self->consumers[topic].consumer = NULL;
}

/* Those of before and those that came when the topic was grown. */
static void assign_new(struct run_client *self, int topic)
{
    struct run_consumer *consumer = &self->consumers[topic];
    for (int32_t i = 0; i < stele_consumer_partitions(consumer->consumer); i++) {
        if (consumer->expected[i] < 0)
            assign(self, topic, i, 0);
    }
}

static void take_consumer(struct run_client *self, int topic)
{
    struct run_consumer *consumer = &self->consumers[topic];
    consumer->owner = self;
    consumer->topic = topic;
    consumer->life = model_life(self->run, topic, &consumer->consumer->topic_id);
    stele_consumer_on_reset(consumer->consumer, on_reset, consumer);
    for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
        consumer->expected[i] = -1;
}

static struct run_consumer *get_consumer(struct run_client *self, int topic)
{
    static const char *const waits[] = {"10", "50", "500", "3000"};
    static const char *const bytes[] = {"100", "2000", "1048576"};
    static const char *const ages[] = {"500", "2000", "300000"};
    int size = (int)run_range(self, 0, 2);
    bool waits_for_more = size == 2 && run_chance(self, 1, 4);
    struct run_consumer *consumer = &self->consumers[topic];
    if (consumer->consumer != NULL) {
        assign_new(self, topic);
        return consumer;
    }
    const char *wait = pick(self, waits, STELE_ARRAY_LEN(waits));
    const char *age = pick(self, ages, STELE_ARRAY_LEN(ages));
    bool resets = run_chance(self, 1, 2);
    struct stele_setting settings[] = {{"fetch.max.wait.ms", wait},
                                       {"max.partition.fetch.bytes", bytes[size]},
                                       {"fetch.min.bytes", waits_for_more ? "5000" : "1"},
                                       {"auto.offset.reset", resets ? "earliest" : "none"},
                                       {"metadata.max.age.ms", age},
                                       {NULL, NULL}};
    struct stele_result result;
    if (!admin_make(self, topic))
        return NULL;
    consumer->consumer = stele_consumer_new(self->sim.client, self->run->topics[topic].name, settings, &result);
    if (!script_is_done(self, &result, "consumer"))
        return NULL;
    sim_world_log(&self->run->world, "%s: reads topic %d, fetches wait %s ms for %s bytes, at most %s",
                  self->sim.process.name, topic, settings[0].value, settings[2].value, settings[1].value);
    take_consumer(self, topic);
    assign_new(self, topic);
    return consumer;
}

/* An end of a partition, and of which topic of that name; -1 when the node could not be asked. */
static int64_t ask_offset(struct run_client *self, int topic, int32_t partition, int64_t which,
                          struct run_life **out_life)
{
    int64_t offset = -1;
    struct run *run = self->run;
    struct model_asked asked = model_ask(run, topic, partition);
    struct stele_result result = stele_offset_at(self->sim.client, run->topics[topic].name, partition, which, &offset);
    if (!script_is_done(self, &result, "offset"))
        return -1;
    *out_life = self->asked[topic];
    if (which == STELE_OFFSET_LATEST)
        model_latest(run, *out_life, partition, &asked, offset);
    else
        model_earliest(run, *out_life, partition, &asked, offset);
    return offset;
}

/* To the start when it was below it, else to the end. */
static void leave_the_gone(struct run_client *self, int topic)
{
    struct run *run = self->run;
    struct run_consumer *consumer = &self->consumers[topic];
    for (int32_t i = 0; i < RUN_PARTITIONS_MAX; i++) {
        struct run_life *life = NULL, *end_life = NULL;
        if (consumer->expected[i] < 0)
            continue;
        int64_t power = run->power_losses;
        int64_t start = ask_offset(self, topic, i, STELE_OFFSET_EARLIEST, &life);
        int64_t end = start < 0 ? -1 : ask_offset(self, topic, i, STELE_OFFSET_LATEST, &end_life);
        if (end < 0 || life != consumer->life || end_life != life)
            continue;
        bool is_gone = consumer->expected[i] < start || consumer->expected[i] > end;
        if (is_gone)
            check_gone(self, consumer, i);
        int64_t at = stele_max_i64(stele_min_i64(end, consumer->expected[i]), start);
        assign(self, topic, i, at);
        consumer->since[i] = power;
    }
}

/* Where a reader meets rot it is told so, with the place, and goes on behind it. */
static void pass_rot(struct run_client *self, int topic, const struct stele_result *result)
{
    struct run *run = self->run;
    struct run_consumer *consumer = &self->consumers[topic];
    char wanted[64];
    for (int32_t i = 0; i < RUN_PARTITIONS_MAX; i++) {
        (void)snprintf(wanted, sizeof(wanted), "%s-%d at offset %lld: ", run->topics[topic].name, i,
                       (long long)consumer->expected[i]);
        if (consumer->expected[i] < 0 || strncmp(result->text, wanted, strlen(wanted)) != 0)
            continue;
        const struct run_rot *rot = rot_find(&consumer->life->partitions[i], consumer->expected[i]);
        if (rot == NULL)
            break;
        sim_world_log(&run->world, "%s: %s", self->sim.process.name, result->text);
        run_reach(run, RUN_POINT_ROT_TOLD);
        assign(self, topic, i, rot->last_offset + 1);
        return;
    }
    sim_world_fail(&run->world, "%s is told of damage where none is: %s", self->sim.process.name, result->text);
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
        leave_the_gone(self, topic);
        return false;
    }
    if (result.code == (int)STELE_INCONSISTENT_TOPIC_ID && run->topics[topic].deleted_us != INT64_MIN) {
        run_reach(run, RUN_POINT_CONSUMER_STRANDED);
        drop_consumer(self, topic);
        return false;
    }
    if (result.code == (int)STELE_DAMAGED_RANGE || result.code == (int)STELE_CORRUPT_MESSAGE) {
        pass_rot(self, topic, &result);
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
    model_read(run, consumer->life, &record, consumer->power[record.partition]);
    return true;
}

static void consume(struct run_client *self)
{
    if (run_chance(self, 1, 3))
        self->read_topic = (int)run_range(self, 0, self->run->topic_count - 1);
    int topic = self->read_topic;
    struct run_consumer *consumer = get_consumer(self, topic);
    if (consumer == NULL)
        return;
    if (run_chance(self, 1, 6)) {
        int32_t partition = (int32_t)run_range(self, 0, stele_consumer_partitions(consumer->consumer) - 1);
        assign(self, topic, partition, run_range(self, 0, consumer->expected[partition]));
    }
    int64_t count = run_range(self, 1, 60);
    int wait_ms = (int)run_range(self, 0, 1000);
    while (count-- > 0 && read_one(self, topic, wait_ms)) {
    }
    if (run_chance(self, 1, 40))
        drop_consumer(self, topic);
}

static void ask(struct run_client *self)
{
    int topic = (int)run_range(self, 0, self->run->topic_count - 1);
    int32_t partition = (int32_t)run_range(self, 0, self->run->topics[topic].partition_count - 1);
    bool is_latest = run_chance(self, 2, 3);
    struct run_life *life = NULL;
    if (admin_make(self, topic))
        (void)ask_offset(self, topic, partition, is_latest ? STELE_OFFSET_LATEST : STELE_OFFSET_EARLIEST, &life);
}

/* A program that ends in the middle of everything, and one that begins. */

static void begin(struct run_client *self)
{
    static const char *const timeouts[] = {"300", "1000", "5000", "30000"};
    static const char *const in_flight[] = {"1", "3", "5", "5"};
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

/* Records that were not told of never are. */
static void drop_producer(struct run_client *self, struct run_producer *producer)
{
    struct run *run = self->run;
    if (producer->producer == NULL)
        return;
    for (int64_t tag = 0; tag < run->record_count; tag++) {
        struct run_record *record = &run->records[tag];
        record->is_dropped = record->is_dropped || (record->producer == producer->number && record->deliveries == 0);
    }
    stele_producer_free(producer->producer);
    producer->producer = NULL;
}

static void end(struct run_client *self)
{
    for (int i = 0; i <= RUN_PRODUCERS_MAX; i++)
        drop_producer(self, &self->producers[i]);
    for (int i = 0; i < RUN_TOPICS_MAX; i++)
        drop_consumer(self, i);
    stele_client_free(self->sim.client);
    self->sim.client = NULL;
}

static void die(struct run_client *self)
{
    sim_world_log(&self->run->world, "%s: drops everything", self->sim.process.name);
    run_reach(self->run, RUN_POINT_CLIENT_DEATH);
    end(self);
    if (run_chance(self, 1, 2))
        sim_client_pause(&self->sim, sim_draw_log(&self->prng, 1000000) + 1);
    begin(self);
}

static void act(struct run_client *self)
{
    int64_t draw = run_range(self, 0, 99);
    if (draw < 38 && self->records_left > 0)
        produce(self);
    else if (draw < 68)
        consume(self);
    else if (draw < 73)
        ask(self);
    else if (draw < 82)
        admin_act(self);
    else if (draw < 91)
        (void)stele_client_poll(self->sim.client, (int)run_range(self, 0, 2000));
    else if (draw < 92 && self->run->faults.has_client_deaths)
        die(self);
    else
        sim_client_pause(&self->sim, sim_draw_log(&self->prng, 2000000) + 1);
}

/* The end: no faults any more. */

/* What was given up is carried out by then, or never. */
static void let_come(struct run_client *self)
{
    int64_t until_ms = now_ms(self) + RUN_LATE_US / 1000;
    for (int i = 0; i < RUN_TOPICS_MAX; i++)
        drop_consumer(self, i);
    while (now_ms(self) < until_ms)
        (void)stele_client_poll(self->sim.client, (int)(until_ms - now_ms(self)));
}

static void make_all(struct run_client *self, int64_t until_ms)
{
    for (int i = 0; i < self->run->topic_count; i++) {
        self->run->topics[i].is_created = false; /* who knows */
        while (!admin_make(self, i)) {
            (void)stele_client_poll(self->sim.client, STEP_MS);
            check_time(self, until_ms, "a topic");
        }
    }
}

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
static void check_times(struct run_client *self, int topic, int32_t partition, int64_t start, int64_t end)
{
    struct run *run = self->run;
    struct run_life *life = self->consumers[topic].life;
    for (int i = 0; i < 2 && run->record_count > 0; i++) {
        int64_t tag = run_range(self, 0, run->record_count - 1), offset = -1;
        int64_t time_ms = run->records[tag].timestamp + run_range(self, -1, 1);
        struct stele_result result =
            stele_offset_at(self->sim.client, run->topics[topic].name, partition, time_ms, &offset);
        int64_t wanted = model_offset_at(life, run, partition, time_ms, start, end);
        if (script_is_done(self, &result, "offset by time") && offset != wanted && (wanted >= 0 || offset < end))
            sim_world_fail(&run->world, "%s-%d at %lld is offset %lld, not %lld", run->topics[topic].name, partition,
                           (long long)time_ms, (long long)wanted, (long long)offset);
    }
}

/* Retention may go on under the reader's feet. */
static void read_partition(struct run_client *self, int topic, int32_t partition, int64_t until_ms)
{
    struct run_topic *it = &self->run->topics[topic];
    struct run_life *life = NULL;
    int64_t start, end;
    bool may_expire = it->retention_ms != INT64_MAX || it->has_retention_bytes;
    while ((end = ask_offset(self, topic, partition, STELE_OFFSET_LATEST, &life)) < 0 ||
           (start = ask_offset(self, topic, partition, STELE_OFFSET_EARLIEST, &life)) < 0)
        check_time(self, until_ms, "the offsets");
    if (life != self->consumers[topic].life)
        sim_world_fail(&self->run->world, "%s changes without faults", it->name);
    assign(self, topic, partition, start);
    self->consumers[topic].since[partition] = self->run->power_losses;
    while (self->consumers[topic].expected[partition] < end) {
        if (!read_one(self, topic, STEP_MS))
            sim_world_log(&self->run->world, "%s: waits at %s-%d offset %lld of %lld", self->sim.process.name, it->name,
                          partition, (long long)self->consumers[topic].expected[partition], (long long)end);
        check_time(self, until_ms, "reading all");
    }
    if (!may_expire && life->partitions[partition].rot_count == 0)
        check_times(self, topic, partition, start, end);
}

static void read_all(struct run_client *self, int topic, int64_t until_ms)
{
    drop_consumer(self, topic);
    while (get_consumer(self, topic) == NULL)
        check_time(self, until_ms, "a consumer");
    for (int32_t i = 0; i < stele_consumer_partitions(self->consumers[topic].consumer); i++)
        read_partition(self, topic, i, until_ms);
}

/* At last one client waits at the end of a log, longer than its record may take, and the other one sends it: an append
 * must end the wait. */

static struct run_producer *new_last_producer(struct run_client *self, int64_t until_ms)
{
    struct run *run = self->run;
    struct run_producer *producer = &self->producers[RUN_PRODUCERS_MAX];
    struct stele_setting settings[] = {{"linger.ms", "0"}, {NULL, NULL}};
    struct stele_result result;
    *producer =
        (struct run_producer){.run = run, .owner = self, .number = run->producer_count++, .acks = -1, .is_once = true};
    for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
        producer->last_tag[i] = producer->last_offset[i] = -1;
    while (producer->producer == NULL) {
        check_time(self, until_ms, "the last producer");
        producer->producer =
            stele_producer_new(self->sim.client, run->topics[0].name, settings, delivered, producer, &result);
        (void)script_is_done(self, &result, "producer");
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

/* Retention may take it before it is read. */
static bool has_come(const struct run *run)
{
    return run->last_us > 0 &&
           (run->records[run->last_tag].is_read || model_may_start_above(run, run->records[run->last_tag].life, -1, 0));
}

static void listen(struct run_client *self, int64_t until_ms)
{
    struct run *run = self->run;
    struct run_consumer *consumer = &self->consumers[0];
    struct stele_setting settings[] = {{"fetch.max.wait.ms", "20000"}, {NULL, NULL}};
    struct stele_result result;
    drop_consumer(self, 0);
    while (consumer->consumer == NULL) {
        check_time(self, until_ms, "the last consumer");
        consumer->consumer = stele_consumer_new(self->sim.client, run->topics[0].name, settings, &result);
        (void)script_is_done(self, &result, "consumer");
    }
    take_consumer(self, 0);
    int64_t ends[RUN_PARTITIONS_MAX];
    int32_t count = stele_consumer_partitions(consumer->consumer);
    for (int32_t i = 0; i < count; i++) {
        struct run_life *life = NULL;
        while ((ends[i] = ask_offset(self, 0, i, STELE_OFFSET_LATEST, &life)) < 0)
            check_time(self, until_ms, "the latest offset");
    }
    for (int32_t i = 0; i < count; i++) /* at once: a wait that is under way knows none that comes later */
        assign(self, 0, i, ends[i]);
    int64_t listens_us = run->world.now_us;
    while (!has_come(run)) {
        (void)read_one(self, 0, STEP_MS);
        run->has_listener = run->world.now_us > listens_us + 2000000;
        if (run->last_us > 0 && run->world.now_us > run->last_us + 8000000)
            sim_world_fail(&run->world, "an append did not end the wait of %s", self->sim.process.name);
        check_time(self, until_ms, "the last record to come");
    }
}

void script_run(struct sim_client *client)
{
    struct run_client *self = client->arg;
    begin(self);
    while (!self->run->is_calm)
        act(self);
    let_come(self);
    int64_t until_ms = now_ms(self) + FINISH_MS;
    make_all(self, until_ms);
    finish_records(self, until_ms);
    for (int i = 0; i < self->run->topic_count; i++)
        read_all(self, i, until_ms);
    if (self->number == 0)
        tell(self, until_ms);
    else if (self->number == 1)
        listen(self, until_ms);
    end(self);
    self->run->done_count++;
    sim_world_log(&self->run->world, "%s: done", client->process.name);
}
