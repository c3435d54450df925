/* What is known of every partition, and what must hold.
 *
 * The tags of a partition by offset come from delivery reports, from readers, and from the disk itself, which is read
 * whenever the machine dies and whenever it serves again. Invariants, from the table of promises of the design:
 *  1. An offset has one record: for every reader, in every report, on the disk. Only a power loss may take the end of
 *     what was not synced; what comes after at those offsets is another log.
 *  2. What was reported written, or was read, survives the process; what was reported synced survives the power. With
 *     flush.before.ack what can be read is synced.
 *  3. A log holds what was sent, whole, at contiguous offsets; nothing else.
 *  4. Reports come once for each record, in the order of sending within a partition, with growing offsets.
 *  5. The records of an idempotent producer are in a partition once each, in the order of sending, whatever was retried
 *     and reported, and whatever the log lost: also those that are reported failed. Only what is below the start of a
 *     log may be there again above it.
 *  6. A log begins where it was told to by a deletion of records, or where retention allows.
 *  7. A topic that a node told of is there until its deletion is asked for; one whose deletion was answered is gone for
 *     ever. Its name may mean another topic then (a life).
 *  8. No producer id is given twice. */
#include "base/check.h"
#include "client/producer_internal.h"
#include "cluster-tests/sim/node_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "storage/checkpoint.h"
#include "storage/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A partition, as the messages name it. */
struct place {
    struct run_life *life;
    struct run_partition *partition;
    char name[32];
};

static struct place place_of(struct run *run, struct run_life *life, int number)
{
    STELE_ASSERT(number >= 0);
    STELE_ASSERT(number < RUN_PARTITIONS_MAX);
    struct place place = {.life = life, .partition = &life->partitions[number]};
    (void)snprintf(place.name, sizeof(place.name), "%s-%d", run->topics[life->topic].name, number);
    return place;
}

/* Lives */

static struct run_life *find_life(const struct run_topic *topic, const struct stele_uuid *id)
{
    for (int i = 0; i < topic->life_count; i++) {
        if (stele_uuid_equal(&topic->lives[i]->id, id))
            return topic->lives[i];
    }
    return NULL;
}

struct run_life *model_life(struct run *run, int number, const struct stele_uuid *id)
{
    struct run_topic *topic = &run->topics[number];
    struct run_life *life = find_life(topic, id);
    if (life != NULL)
        return life;
    if (topic->life_count == RUN_LIVES_MAX)
        sim_world_fail(&run->world, "topic %s is made more often than it was asked for", topic->name);
    life = sim_alloc(sizeof(*life));
    life->topic = number;
    life->id = *id;
    life->seen_us = run->world.now_us;
    for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
        life->partitions[i].number = i;
    topic->lives[topic->life_count++] = life;
    if (topic->life_count > 1)
        run_reach(run, RUN_POINT_TOPIC_AGAIN);
    return life;
}

struct run_life *model_known_life(struct run *run, const struct stele_uuid *id)
{
    struct run_life *life = NULL;
    for (int i = 0; i < run->topic_count && life == NULL; i++)
        life = find_life(&run->topics[i], id);
    return life;
}

void model_shown(struct run *run, const struct stele_metadata_topic *shown, int64_t asked_us)
{
    for (int i = 0; i < run->topic_count; i++) {
        if (strcmp(run->topics[i].name, shown->name) != 0)
            continue;
        struct run_life *life = model_life(run, i, &shown->topic_id);
        if (life->must_be_gone && life->gone_us < asked_us)
            sim_world_fail(&run->world, "%s was deleted, and a node still shows it", shown->name);
        life->seen_us = stele_min_i64(life->seen_us, asked_us);
        life->partition_count = (int)stele_max_i64(life->partition_count, (int64_t)shown->partition_count);
    }
}

void model_id(struct run *run, int64_t id)
{
    for (int64_t i = 0; i < run->id_count; i++) {
        if (run->ids[i] == id)
            sim_world_fail(&run->world, "producer id %lld is given twice", (long long)id);
    }
    run->ids = sim_grow(run->ids, &run->id_capacity, run->id_count + 1, sizeof(*run->ids));
    run->ids[run->id_count++] = id;
    run_reach(run, RUN_POINT_PRODUCER_ID);
}

bool model_may_be_gone(const struct run *run, const struct run_life *life)
{
    const struct run_topic *topic = &run->topics[life->topic];
    return life->is_gone || life->must_be_gone || topic->deleting > 0 || topic->deleted_us >= life->seen_us;
}

/* Values */

static uint64_t next_filler(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ (*state >> 31);
}

void model_value(int64_t tag, uint8_t *out_bytes, size_t bytes)
{
    uint64_t state = (uint64_t)tag;
    memcpy(out_bytes, &tag, sizeof(tag));
    for (size_t at = sizeof(tag); at < bytes; at += sizeof(uint64_t)) {
        uint64_t filler = next_filler(&state);
        memcpy(out_bytes + at, &filler, stele_min_size(sizeof(filler), bytes - at));
    }
}

static bool is_value(int64_t tag, const uint8_t *at, size_t bytes)
{
    uint64_t state = (uint64_t)tag;
    for (size_t pos = sizeof(tag); pos < bytes; pos += sizeof(uint64_t)) {
        uint64_t filler = next_filler(&state);
        if (memcmp(at + pos, &filler, stele_min_size(sizeof(filler), bytes - pos)) != 0)
            return false;
    }
    return true;
}

/* The tag of a value that was sent to this topic; anything else ends the run. */
static int64_t tag_of(struct run *run, const struct place *place, const void *value, size_t bytes)
{
    int64_t tag = -1;
    if (bytes >= RUN_VALUE_BYTES_MIN)
        memcpy(&tag, value, sizeof(tag));
    if (tag < 0 || tag >= run->record_count)
        sim_world_fail(&run->world, "%s holds a record that nobody sent", place->name);
    struct run_record *record = &run->records[tag];
    if (record->topic != place->life->topic || (size_t)record->bytes != bytes)
        sim_world_fail(&run->world, "%s holds record %lld of another topic or size", place->name, (long long)tag);
    if (!is_value(tag, value, bytes))
        sim_world_fail(&run->world, "%s holds record %lld with other bytes", place->name, (long long)tag);
    if (record->partition < 0)
        record->partition = place->partition->number;
    if (record->partition != place->partition->number)
        sim_world_fail(&run->world, "record %lld for partition %d is in %s", (long long)tag, record->partition,
                       place->name);
    return tag;
}

/* Offsets */

/* Below it nobody needs a record any more: a deletion is on its way. */
static int64_t start_limit(const struct run_partition *partition)
{
    return partition->all_asked > 0 ? INT64_MAX : partition->start_asked;
}

static int64_t known(const struct run_partition *partition, int64_t offset)
{
    return offset < partition->count ? partition->tags[offset] : -1;
}

static void set(struct run_partition *partition, int64_t offset, int64_t tag)
{
    partition->tags = sim_grow(partition->tags, &partition->capacity, offset + 1, sizeof(*partition->tags));
    while (partition->count <= offset)
        partition->tags[partition->count++] = -1;
    partition->tags[offset] = tag;
}

static bool was_cut(const struct run_partition *partition, int64_t offset, int64_t tag)
{
    for (int64_t i = 0; i < partition->cut_count; i++) {
        if (partition->cuts[i].offset == offset && partition->cuts[i].tag == tag)
            return true;
    }
    return false;
}

/* Somebody says that `tag` is at `offset`; true when that is so now. A word from before a power loss may be of what is
 * gone. */
static bool learn(struct run *run, const struct place *place, int64_t offset, int64_t tag, bool may_be_old)
{
    int64_t now = known(place->partition, offset);
    if (now == tag)
        return true;
    if (may_be_old && was_cut(place->partition, offset, tag))
        return false;
    if (now >= 0)
        sim_world_fail(&run->world, "%s offset %lld has record %lld, then %lld", place->name, (long long)offset,
                       (long long)now, (long long)tag);
    set(place->partition, offset, tag);
    return true;
}

/* The first synced promise of a log rests on its names; a scan of the disk would come late for them. */
static void check_names(struct run *run, const struct place *place)
{
    struct run_partition *partition = place->partition;
    char path[64];
    for (int i = 0; i < run->dir_count && !partition->has_names; i++) {
        (void)snprintf(path, sizeof(path), "%c/%s/00000000000000000000.log", 'a' + i, place->name);
        partition->has_names = sim_disk_is_durable(run->server.disk, path, 0, 0);
    }
    if (!partition->has_names && !model_may_be_gone(run, place->life) &&
        !model_may_start_above(run, place->life, partition->number, 0))
        sim_world_fail(&run->world, "%s has a synced record, and its names are not synced", place->name);
}

static void promise(struct run_partition *partition, int64_t end, bool is_synced)
{
    partition->written_end = stele_max_i64(partition->written_end, end);
    if (is_synced)
        partition->synced_end = stele_max_i64(partition->synced_end, end);
}

/* A word that comes while nobody knows what the power loss took. */
static bool is_of_the_gone(const struct run *run, bool is_synced)
{
    return run->power_was_lost && !is_synced;
}

/* Deliveries */

/* Every request with the record went to the topic that the producer knows now. */
static bool is_of_one_life(const struct run_producer *producer, const struct run_record *record)
{
    return stele_uuid_equal(&record->life->id, &producer->producer->topic_id);
}

/* A log that holds nothing of a producer any more takes any sequence from it: where short memory refuses one of several
 * batches that are under way, those behind it are taken first, as in Kafka. */
static bool may_reorder(const struct run *run, const struct run_life *life, int partition)
{
    return run->faults.no_memory > 0 && model_may_start_above(run, life, partition, 0);
}

static void check_order(struct run_producer *producer, int64_t tag, const struct stele_delivery *delivery)
{
    struct run *run = producer->run;
    const struct run_record *record = &run->records[tag];
    int partition = delivery->partition;
    STELE_ASSERT(partition >= 0);
    STELE_ASSERT(partition < RUN_PARTITIONS_MAX);
    if (tag <= producer->last_tag[partition])
        sim_world_fail(&run->world, "record %lld was reported after record %lld, which was sent later", (long long)tag,
                       (long long)producer->last_tag[partition]);
    producer->last_tag[partition] = tag;
    if (producer->life != record->life) {
        producer->life = record->life;
        for (int i = 0; i < RUN_PARTITIONS_MAX; i++)
            producer->last_offset[i] = -1;
    }
    if (delivery->result.code != 0 || producer->acks == 0 || !is_of_one_life(producer, record))
        return;
    bool may_repeat =
        !run->topics[producer->topic].flushes_before_ack && producer->last_power[partition] != run->power_losses;
    may_repeat = may_repeat || may_reorder(run, record->life, partition);
    if (delivery->offset <= producer->last_offset[partition] && !may_repeat)
        sim_world_fail(&run->world, "record %lld was reported at offset %lld, the one sent before at %lld",
                       (long long)tag, (long long)delivery->offset, (long long)producer->last_offset[partition]);
    producer->last_offset[partition] = delivery->offset;
    /* The word may be from before a power loss, though it came after. */
    bool is_old = record->sent_us <= run->power_lost_us;
    producer->last_power[partition] = is_old ? -1 : run->power_losses;
}

/* The log may have forgotten the batch: its state is that of what it holds, and a snapshot remembers the last batch of
 * a producer, not the five before. Or it waits for a record that was given up before this one, which nobody can tell
 * from one that it has lost. */
static bool may_forget(const struct run_producer *producer, const struct run_record *record)
{
    const struct run *run = producer->run;
    const struct run_topic *topic = &run->topics[record->topic];
    return producer->has_failed[record->partition] || record->life->partitions[record->partition].rot_count > 0 ||
           run->started_us > record->sent_us || run->power_losses > 0 || topic->deleted_us != INT64_MIN ||
           model_may_start_above(run, record->life, record->partition, 0);
}

static void check_failure(struct run_producer *producer, int64_t tag, const struct stele_result *result)
{
    struct run *run = producer->run;
    static const enum stele_err codes[] = {STELE_REQUEST_TIMED_OUT,         STELE_CLOSED,
                                           STELE_KAFKA_STORAGE_ERROR,       STELE_UNREACHABLE,
                                           STELE_THROTTLING_QUOTA_EXCEEDED, STELE_NOT_LEADER_OR_FOLLOWER};
    const struct run_record *record = &run->records[tag];
    const struct run_topic *topic = &run->topics[record->topic];
    run_reach(run, RUN_POINT_DELIVERY_FAILED);
    if (result->code == (int)STELE_RECORD_LIST_TOO_LARGE && record->bytes + 200 > topic->segment_bytes)
        return;
    bool is_lost_topic =
        result->code == (int)STELE_UNKNOWN_TOPIC_ID || result->code == (int)STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (is_lost_topic && topic->deleted_us != INT64_MIN)
        return;
    bool is_lost_state = result->code == (int)STELE_OUT_OF_ORDER_SEQUENCE_NUMBER ||
                         result->code == (int)STELE_INVALID_PRODUCER_EPOCH ||
                         result->code == (int)STELE_UNKNOWN_PRODUCER_ID;
    if (is_lost_state && record->is_once && may_forget(producer, record)) {
        run_reach(run, RUN_POINT_ONCE_LOST_STATE);
        return;
    }
    if (result->code == (int)STELE_NO_MEMORY && run->faults.no_memory > 0)
        return;
    for (size_t i = 0; i < STELE_ARRAY_LEN(codes); i++) {
        if ((int)codes[i] == result->code)
            return;
    }
    sim_world_fail(&run->world, "record %lld failed with %d: %s", (long long)tag, result->code, result->text);
}

static void acked(struct run_producer *producer, int64_t tag, const struct stele_delivery *delivery)
{
    struct run *run = producer->run;
    struct run_record *record = &run->records[tag];
    bool is_synced = delivery->durability == 3;
    if (delivery->offset < 0 ||
        (!is_synced && (run->topics[producer->topic].flushes_before_ack || delivery->durability != 1)))
        sim_world_fail(&run->world, "record %lld was reported at offset %lld with durability %d", (long long)tag,
                       (long long)delivery->offset, delivery->durability);
    run_reach(run, is_synced ? RUN_POINT_ACKED_SYNCED : RUN_POINT_ACKED_WRITTEN);
    synced_acked(run, record, delivery->partition);
    if (!is_of_one_life(producer, record)) { /* in the one or the other */
        run_reach(run, RUN_POINT_PRODUCER_MOVED);
        return;
    }
    struct place place =
        place_of(run, find_life(&run->topics[producer->topic], &record->life->id), delivery->partition);
    bool may_be_old = !is_synced && record->sent_us <= run->power_lost_us;
    if (is_synced)
        check_names(run, &place);
    if (is_of_the_gone(run, is_synced))
        run_reach(run, RUN_POINT_LATE_ACK);
    else if (learn(run, &place, delivery->offset, tag, may_be_old))
        promise(place.partition, delivery->offset + 1, is_synced);
    else
        run_reach(run, RUN_POINT_LATE_ACK);
}

void model_delivered(struct run_producer *producer, const struct stele_delivery *delivery)
{
    struct run *run = producer->run;
    int64_t tag = (int64_t)delivery->tag;
    struct run_record *record = &run->records[tag];
    sim_world_mix(&run->world, (uint64_t)delivery->offset);
    if (++record->deliveries != 1)
        sim_world_fail(&run->world, "record %lld was reported twice", (long long)tag);
    if (record->partition >= 0 && record->partition != delivery->partition)
        sim_world_fail(&run->world, "record %lld was sent to partition %d and reported of %d", (long long)tag,
                       record->partition, delivery->partition);
    record->partition = delivery->partition;
    check_order(producer, tag, delivery);
    record->code = delivery->result.code;
    record->offset = delivery->offset;
    if (record->code != 0) {
        check_failure(producer, tag, &delivery->result);
        producer->has_failed[delivery->partition] = true;
    } else if (producer->acks == 0) {
        run_reach(run, RUN_POINT_ACKED_NOT);
    } else {
        acked(producer, tag, delivery);
    }
}

/* Readers */

void model_read(struct run *run, struct run_life *life, const struct stele_record_view *record, int64_t power_at_assign)
{
    struct place place = place_of(run, life, record->partition);
    bool is_synced = run->topics[life->topic].flushes_before_ack;
    int64_t tag = tag_of(run, &place, record->value, record->value_bytes);
    sim_world_mix(&run->world, (uint64_t)tag);
    if (run->records[tag].timestamp != record->timestamp)
        sim_world_fail(&run->world, "%s offset %lld was read with another time", place.name, (long long)record->offset);
    run->records[tag].is_read = true;
    run_reach(run, RUN_POINT_READ);
    if (is_synced)
        check_names(run, &place);
    if (is_of_the_gone(run, is_synced))
        run_reach(run, RUN_POINT_LATE_READ);
    else if (learn(run, &place, record->offset, tag, !is_synced && power_at_assign != run->power_losses))
        promise(place.partition, record->offset + 1, is_synced);
    else
        run_reach(run, RUN_POINT_LATE_READ);
}

struct model_asked model_ask(struct run *run, int number, int partition)
{
    const struct run_topic *topic = &run->topics[number];
    struct model_asked asked = {.power = run->power_losses, .life_count = topic->life_count};
    for (int i = 0; i < topic->life_count; i++) {
        const struct run_partition *it = &topic->lives[i]->partitions[partition];
        asked.ends[i] = topic->flushes_before_ack ? it->synced_end : it->written_end;
        asked.starts[i] = it->start;
    }
    return asked;
}

static int life_number(const struct run *run, const struct run_life *life)
{
    const struct run_topic *topic = &run->topics[life->topic];
    for (int i = 0; i < topic->life_count; i++) {
        if (topic->lives[i] == life)
            return i;
    }
    return -1;
}

void model_latest(struct run *run, struct run_life *life, int partition, const struct model_asked *asked,
                  int64_t offset)
{
    struct place place = place_of(run, life, partition);
    int number = life_number(run, life);
    bool is_synced = run->topics[life->topic].flushes_before_ack;
    run_reach(run, RUN_POINT_LIST_OFFSETS);
    if (asked->power != run->power_losses && !is_synced)
        return;
    if (number < asked->life_count && offset < asked->ends[number])
        sim_world_fail(&run->world, "%s ends at %lld, but %lld was promised", place.name, (long long)offset,
                       (long long)asked->ends[number]);
    promise(place.partition, offset, is_synced);
}

bool model_may_start_above(const struct run *run, const struct run_life *life, int partition, int64_t offset)
{
    const struct run_topic *topic = &run->topics[life->topic];
    return topic->retention_ms != INT64_MAX || topic->has_retention_bytes ||
           (partition >= 0 && start_limit(&life->partitions[partition]) > offset);
}

void model_earliest(struct run *run, struct run_life *life, int partition, const struct model_asked *asked,
                    int64_t offset)
{
    struct place place = place_of(run, life, partition);
    int number = life_number(run, life);
    if (offset > 0 && !model_may_start_above(run, life, partition, offset - 1))
        sim_world_fail(&run->world, "%s begins at %lld, and nobody deleted that much", place.name, (long long)offset);
    if (number < asked->life_count && offset < asked->starts[number])
        sim_world_fail(&run->world, "%s begins at %lld, and was deleted to %lld", place.name, (long long)offset,
                       (long long)asked->starts[number]);
}

int64_t model_offset_at(struct run_life *life, struct run *run, int partition, int64_t time_ms, int64_t start,
                        int64_t end)
{
    const struct run_partition *it = &life->partitions[partition];
    for (int64_t offset = start; offset < end; offset++) {
        STELE_ASSERT(known(it, offset) >= 0);
        if (run->records[it->tags[offset]].timestamp >= time_ms)
            return offset;
    }
    return -1;
}

/* The disk */

enum scan_why { SCAN_DEATH, SCAN_READY };

struct scan {
    struct run *run;
    struct place place;
    struct sim_disk *disk; /* a copy, without faults */
    const char *dir;
    char path[STELE_PATH_BYTES];
    int64_t segment_base;
    struct stele_scan reader;
    int64_t start, end; /* of what was sound so far; -1: nothing is there */
    int64_t durable_to; /* what must be durable */
    bool is_over;
};

static void scan_record(struct scan *scan, const struct stele_record *record)
{
    struct run *run = scan->run;
    if (record->value == NULL || record->offset != scan->end)
        sim_world_fail(&run->world, "%s: offset %lld follows %lld", scan->place.name, (long long)record->offset,
                       (long long)scan->end - 1);
    int64_t tag = tag_of(run, &scan->place, record->value, (size_t)record->value_bytes);
    (void)learn(run, &scan->place, record->offset, tag, false);
    scan->end++;
}

static void scan_batch(struct scan *scan, const struct stele_scanned *batch)
{
    struct run *run = scan->run;
    struct stele_record_walker walker;
    struct stele_record record;
    bool is_needed = stele_batch_last_offset(&batch->header) >= start_limit(scan->place.partition);
    if (batch->header.base_offset < scan->durable_to && is_needed &&
        !sim_disk_is_durable(run->server.disk, scan->path, batch->pos, batch->pos + batch->bytes))
        sim_world_fail(&run->world, "%s offset %lld was promised to be synced, and %s of %s is not", scan->place.name,
                       (long long)batch->header.base_offset,
                       sim_disk_is_durable(run->server.disk, scan->path, 0, 0) ? "the content" : "the name",
                       scan->path);
    enum stele_err err = stele_record_walker_init(&walker, &run->mem, batch->batch, (size_t)batch->bytes, 1 << 24);
    while (err == STELE_OK && (err = stele_record_next(&walker, &record)) == STELE_OK)
        scan_record(scan, &record);
    if (err != STELE_END)
        sim_world_fail(&run->world, "%s offset %lld: a sound batch does not unpack: %s", scan->place.name,
                       (long long)scan->end, stele_err_text(err));
    stele_record_walker_deinit(&walker);
}

static bool is_unneeded_below(const struct scan *scan, int64_t offset)
{
    return model_may_start_above(scan->run, scan->place.life, scan->place.partition->number, offset - 1);
}

/* A batch that rotted is damage, and the log goes on behind it. */
static enum stele_err next_sound(struct scan *scan, struct stele_scanned *out_batch)
{
    for (;;) {
        enum stele_err err = stele_scan_next(&scan->reader, out_batch);
        const struct run_rot *rot = rot_at(scan->place.partition, scan->segment_base, scan->reader.pos);
        if (err != STELE_CORRUPT || rot == NULL || rot->base_offset != scan->end)
            return err;
        scan->end = rot->last_offset + 1;
        err = stele_scan_start(&scan->reader, scan->reader.file, rot->pos + rot->bytes, scan->reader.end);
        STELE_ASSERT(err == STELE_OK);
    }
}

/* The next batch; what was below the start nobody needs, synced or not, and the log goes on behind it. */
static enum stele_err next_batch(struct scan *scan, struct stele_scanned *out_batch)
{
    enum stele_err err = next_sound(scan, out_batch);
    if (err != STELE_CORRUPT || !is_unneeded_below(scan, scan->end + 1))
        return err;
    if (stele_scan_resync(&scan->reader, scan->end + 1) != STELE_OK)
        return STELE_CORRUPT;
    err = stele_scan_next(&scan->reader, out_batch);
    if (err != STELE_OK || !is_unneeded_below(scan, out_batch->header.base_offset))
        return STELE_CORRUPT;
    scan->start = scan->end = out_batch->header.base_offset;
    return STELE_OK;
}

/* One segment; a log goes on as long as they follow each other. */
static enum stele_err scan_segment(void *arg, const char *name)
{
    struct scan *scan = arg;
    struct stele_vfs *vfs = sim_disk_vfs(scan->disk);
    struct stele_scanned batch;
    struct stele_file *file = NULL;
    int64_t bytes = 0;
    size_t length = strlen(name);
    if (scan->is_over || length != 24 || strcmp(name + 20, ".log") != 0)
        return STELE_OK;
    int64_t base = strtoll(name, NULL, 10);
    scan->segment_base = base;
    if (scan->end < 0)
        scan->start = scan->end = base;
    if (base > scan->end && is_unneeded_below(scan, base))
        scan->start = scan->end = base; /* nobody needs what was below the start, synced or not */
    if (base != scan->end) {            /* a hole: what is behind it is cut, or not ours to judge */
        scan->is_over = true;
        return STELE_OK;
    }
    enum stele_err err = stele_path_join(scan->path, scan->dir, name);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, scan->path, STELE_OPEN_READ, &file);
    if (err == STELE_OK)
        err = vfs->ops->size(file, &bytes);
    if (err == STELE_OK)
        err = stele_scan_start(&scan->reader, file, 0, bytes);
    STELE_ASSERT(err == STELE_OK);
    while ((err = next_batch(scan, &batch)) == STELE_OK)
        scan_batch(scan, &batch);
    STELE_ASSERT(err == STELE_END || err == STELE_CORRUPT);
    scan->is_over = err != STELE_END && !is_unneeded_below(scan, scan->end + 1);
    vfs->ops->close(file);
    return STELE_OK;
}

struct sim_disk *model_look(struct run *run)
{
    struct sim_disk *copy = sim_disk_copy(run->server.disk);
    sim_disk_heal(copy);
    sim_disk_set_hooks(copy, &(struct sim_disk_hooks){.arg = NULL});
    sim_disk_set_rates(copy, &(struct sim_disk_rates){.stall = 0});
    sim_disk_crash(copy, SIM_DISK_KILL); /* it may be stopped */
    if (run->dir_count > 1)
        moves_settle(run, copy);
    return copy;
}

/* What the disk holds of every partition. */
struct survey {
    struct run *run;
    struct sim_disk *disk;
    enum scan_why why;
    char root[2];
    int64_t starts[RUN_TOPICS_MAX][RUN_LIVES_MAX][RUN_PARTITIONS_MAX];
    int64_t ends[RUN_TOPICS_MAX][RUN_LIVES_MAX][RUN_PARTITIONS_MAX]; /* -1: not there */
    bool is_nameless[RUN_TOPICS_MAX][RUN_PARTITIONS_MAX]; /* a directory that does not say of which topic it is */
};

static enum stele_err survey_dir(void *arg, const char *name)
{
    struct survey *survey = arg;
    struct run *run = survey->run;
    char path[STELE_PATH_BYTES];
    struct stele_uuid id;
    size_t length = strlen(name);
    int topic = name[1] - '0', number = length == 4 ? name[3] - '0' : -1;
    if (length != 4 || name[0] != 't' || name[2] != '-' || topic < 0 || topic >= run->topic_count || number < 0 ||
        number >= RUN_PARTITIONS_MAX)
        return STELE_OK;
    enum stele_err err = stele_path_join(path, survey->root, name);
    STELE_ASSERT(err == STELE_OK);
    if (stele_partition_metadata_read(sim_disk_vfs(survey->disk), &run->mem, path, &id) != STELE_OK) {
        survey->is_nameless[topic][number] = true; /* no synced answer rests on it */
        sim_world_log(&run->world, "model: %s does not say of which topic it is", path);
        return STELE_OK;
    }
    struct run_life *life = model_life(run, topic, &id);
    struct scan scan = {.run = run, .place = place_of(run, life, number), .disk = survey->disk, .dir = path};
    int at = life_number(run, life);
    scan.start = scan.end = -1;
    scan.durable_to = survey->why == SCAN_READY || model_may_be_gone(run, life) ? 0 : scan.place.partition->synced_end;
    stele_scan_init(&scan.reader, &run->mem);
    (void)sim_disk_vfs(survey->disk)->ops->list(sim_disk_vfs(survey->disk), path, scan_segment, &scan);
    stele_scan_deinit(&scan.reader);
    sim_world_log(&run->world, "model: %s is of life %d, offsets %lld to %lld", path, at, (long long)scan.start,
                  (long long)scan.end);
    survey->starts[topic][at][number] = scan.start;
    survey->ends[topic][at][number] = scan.end;
    if (survey->why == SCAN_READY && (life->is_gone || life->must_be_gone))
        sim_world_fail(&run->world, "%s was deleted, and is there again", scan.place.name);
    return STELE_OK;
}

static void survey_all(struct survey *survey, struct run *run, enum scan_why why)
{
    *survey = (struct survey){.run = run, .disk = model_look(run), .why = why};
    memset(survey->ends, -1, sizeof(survey->ends));
    memset(survey->starts, -1, sizeof(survey->starts));
    for (int i = 0; i < run->dir_count; i++) {
        survey->root[0] = (char)('a' + i);
        (void)sim_disk_vfs(survey->disk)->ops->list(sim_disk_vfs(survey->disk), survey->root, survey_dir, survey);
    }
    sim_disk_free(survey->disk);
}

static void each_partition(struct run *run, void (*visit)(struct run *run, const struct place *place, void *arg),
                           void *arg)
{
    for (int i = 0; i < run->topic_count; i++) {
        for (int k = 0; k < run->topics[i].life_count; k++) {
            for (int n = 0; n < RUN_PARTITIONS_MAX; n++) {
                struct place place = place_of(run, run->topics[i].lives[k], n);
                visit(run, &place, arg);
            }
        }
    }
}

static int64_t surveyed(const int64_t table[RUN_TOPICS_MAX][RUN_LIVES_MAX][RUN_PARTITIONS_MAX], struct run *run,
                        const struct place *place)
{
    return table[place->life->topic][life_number(run, place->life)][place->partition->number];
}

/* Invariant 6, for what the last look saw and this one does not. */
static void check_start(struct run *run, const struct place *place, int64_t start)
{
    const struct run_topic *topic = &run->topics[place->life->topic];
    struct run_partition *partition = place->partition;
    int64_t wall_ms = sim_wall_ms(&run->world, run->skew_max_ms);
    if (start > start_limit(partition) && topic->retention_ms == INT64_MAX && !topic->has_retention_bytes)
        sim_world_fail(&run->world, "%s begins at %lld on the disk, and nobody deleted that much", place->name,
                       (long long)start);
    for (int64_t offset = stele_max_i64(partition->start_seen, start_limit(partition));
         offset < start && !topic->has_retention_bytes; offset++) {
        int64_t tag = known(partition, offset);
        if (tag >= 0 && run->records[tag].timestamp + topic->retention_ms > wall_ms)
            sim_world_fail(&run->world, "%s offset %lld is deleted %lld ms before its time", place->name,
                           (long long)offset, (long long)(run->records[tag].timestamp + topic->retention_ms - wall_ms));
    }
    partition->start_seen = stele_max_i64(partition->start_seen, start);
}

static void check_end(struct run *run, const struct place *place, int64_t start, int64_t end)
{
    if (end < 0 && place->partition->written_end == 0)
        return;
    if (end < 0)
        sim_world_fail(&run->world, "%s is not on the disk, but was promised up to %lld", place->name,
                       (long long)place->partition->written_end);
    if (end < place->partition->written_end)
        sim_world_fail(&run->world, "%s ends at %lld on the disk, but %lld was promised", place->name, (long long)end,
                       (long long)place->partition->written_end);
    check_start(run, place, start);
}

static void check_at_death(struct run *run, const struct place *place, void *arg)
{
    const struct survey *survey = arg;
    struct sim_server *server = &run->server;
    bool is_power = server->death == SIM_DEATH_POWER_ORDERED || server->death == SIM_DEATH_POWER_ADVERSARIAL;
    int64_t end = survey == NULL ? -1 : surveyed(survey->ends, run, place);
    if (survey != NULL && !model_may_be_gone(run, place->life))
        check_end(run, place, surveyed(survey->starts, run, place), end);
    if (server->death == SIM_DEATH_STOPPED && server->is_stop_clean && !run->must_restart && end >= 0)
        promise(place->partition, end, true);
    if (is_power)
        place->partition->written_end = place->partition->synced_end;
}

void model_death(struct run *run)
{
    struct sim_server *server = &run->server;
    bool is_power = server->death == SIM_DEATH_POWER_ORDERED || server->death == SIM_DEATH_POWER_ADVERSARIAL;
    bool was_serving = server->state == SIM_SERVER_SERVING || server->state == SIM_SERVER_STOPPING;
    struct survey *survey = was_serving ? sim_alloc(sizeof(*survey)) : NULL;
    if (survey != NULL)
        survey_all(survey, run, SCAN_DEATH);
    each_partition(run, check_at_death, survey);
    free(survey);
    if (!is_power)
        return;
    run->power_was_lost = true;
    run->power_losses++;
    run->power_lost_us = run->world.now_us;
}

/* Invariant 5. What is below the start of the log may be there again: the log forgets whom it holds nothing of. */
static void check_producers(struct run *run, const struct place *place)
{
    const struct run_partition *partition = place->partition;
    struct {
        int64_t tag, offset;
    } *last = sim_alloc((size_t)(run->producer_count + 1) * sizeof(*last));
    for (int i = 0; i < run->producer_count; i++)
        last[i].tag = -1;
    for (int64_t offset = partition->start_seen; offset < partition->count; offset++) {
        int64_t tag = partition->tags[offset];
        if (tag < 0 || rot_find(partition, offset) != NULL) /* the log forgets what rotted too */
            continue;
        struct run_record *record = &run->records[tag];
        int64_t before = last[record->producer].tag;
        bool is_excused =
            last[record->producer].offset < start_limit(partition) || may_reorder(run, place->life, partition->number);
        if (record->is_once && tag <= before && !is_excused)
            sim_world_fail(&run->world, "%s offset %lld: record %lld follows record %lld of the same producer",
                           place->name, (long long)offset, (long long)tag, (long long)before);
        last[record->producer].tag = tag;
        last[record->producer].offset = offset;
    }
    free(last);
}

/* What is behind the end is gone. */
static void cut(struct run *run, struct run_partition *partition, int64_t end)
{
    if (partition->count > end && run->power_was_lost)
        run_reach(run, RUN_POINT_TAIL_LOST);
    for (; partition->count > end; partition->count--) {
        int64_t tag = partition->tags[partition->count - 1];
        if (tag < 0 || !run->power_was_lost)
            continue;
        partition->cuts =
            sim_grow(partition->cuts, &partition->cut_capacity, partition->cut_count + 1, sizeof(*partition->cuts));
        partition->cuts[partition->cut_count++] = (struct run_cut){.offset = partition->count - 1, .tag = tag};
    }
}

static void check_at_ready(struct run *run, const struct place *place, void *arg)
{
    const struct survey *survey = arg;
    int64_t end = surveyed(survey->ends, run, place);
    bool is_nameless = survey->is_nameless[place->life->topic][place->partition->number];
    if (end < 0 && is_nameless) /* it holds what it may; nobody can say any more what was seen there */
        cut(run, place->partition, place->partition->written_end);
    if (end < 0 && model_may_be_gone(run, place->life))
        return;
    if (end < 0 && place->partition->number < place->life->partition_count && !run->must_restart && !is_nameless)
        sim_world_fail(&run->world, "%s is gone, and nobody deleted it", place->name);
    check_end(run, place, surveyed(survey->starts, run, place), end);
    if (end < 0)
        return;
    cut(run, place->partition, end);
    check_producers(run, place);
}

/* One that is on no disk after a start is gone for good. */
static void find_gone(struct run *run, const struct survey *survey)
{
    for (int i = 0; i < run->topic_count; i++) {
        for (int k = 0; k < run->topics[i].life_count && !run->must_restart; k++) {
            bool is_there = false;
            for (int n = 0; n < RUN_PARTITIONS_MAX; n++)
                is_there = is_there || survey->ends[i][k][n] >= 0 || survey->is_nameless[i][n];
            if (!is_there && model_may_be_gone(run, run->topics[i].lives[k]))
                run->topics[i].lives[k]->is_gone = true;
        }
    }
}

void model_ready(struct run *run)
{
    struct survey *survey = sim_alloc(sizeof(*survey));
    survey_all(survey, run, SCAN_READY);
    each_partition(run, check_at_ready, survey);
    find_gone(run, survey);
    free(survey);
    run->power_was_lost = false;
}

static void *plain_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, bytes);
}

void model_init(struct run *run)
{
    stele_mem_init(&run->mem, (struct stele_mem_source){.resize = plain_resize}, 0);
    run->power_lost_us = -1;
}

static void end_partition(struct run *run, const struct place *place, void *arg)
{
    struct run_partition *partition = place->partition;
    (void)arg;
    if (!place->life->is_gone)
        check_producers(run, place);
    for (int64_t offset = 0; offset < partition->count; offset++) {
        if (partition->tags[offset] < 0)
            continue;
        struct run_record *record = &run->records[partition->tags[offset]];
        record->places++;
        if (record->is_once && record->places == 1) {
            run_reach(run, RUN_POINT_ONCE);
            if (record->code != 0)
                run_reach(run, RUN_POINT_ONCE_FAILED);
        } else if (record->places == 2) {
            run_reach(run, RUN_POINT_DUPLICATE);
        }
    }
    free(partition->tags);
    free(partition->cuts);
    free(partition->rots);
}

void model_end(struct run *run)
{
    for (int64_t tag = 0; tag < run->record_count; tag++) {
        const struct run_record *record = &run->records[tag];
        if (record->deliveries != 1 && !record->is_dropped)
            sim_world_fail(&run->world, "record %lld was reported %d times", (long long)tag, record->deliveries);
    }
    each_partition(run, end_partition, NULL);
    for (int i = 0; i < run->topic_count; i++) {
        for (int k = 0; k < run->topics[i].life_count; k++)
            free(run->topics[i].lives[k]);
    }
    free(run->records);
    free(run->batches);
    free(run->ids);
    STELE_ASSERT(stele_mem_is_empty(&run->mem));
}
