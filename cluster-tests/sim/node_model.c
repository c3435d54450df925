/* What is known of every partition, and what must hold.
 *
 * The tags of a partition by offset come from delivery reports, from readers, and from the disk itself, which is read
 * whenever the machine dies and whenever it serves again. Invariants, from the table of promises of the design:
 *  1. An offset has one record: for every reader, in every report, on the disk. Only a power loss may take the end of
 *     what was not synced; what comes after at those offsets is another log.
 *  2. What was reported written, or was read, survives the process; what was reported synced survives the power. With
 *     flush.before.ack what can be read is synced.
 *  3. A log holds what was sent, whole, at contiguous offsets; nothing else.
 *  4. Reports come once for each record, in the order of sending within a partition, with growing offsets. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "storage/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct run_partition *partition_of(struct run *run, int topic, int number)
{
    return &run->topics[topic].partitions[number];
}

static const char *name_of(const struct run *run, const struct run_partition *partition, char out_name[32])
{
    (void)snprintf(out_name, 32, "%s-%d", run->topics[partition->topic].name, partition->number);
    return out_name;
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
static int64_t tag_of(struct run *run, const struct run_partition *partition, const void *value, size_t bytes)
{
    char name[32];
    int64_t tag = -1;
    if (bytes >= RUN_VALUE_BYTES_MIN)
        memcpy(&tag, value, sizeof(tag));
    if (tag < 0 || tag >= run->record_count)
        sim_world_fail(&run->world, "%s holds a record that nobody sent", name_of(run, partition, name));
    struct run_record *record = &run->records[tag];
    if (record->topic != partition->topic || (size_t)record->bytes != bytes)
        sim_world_fail(&run->world, "%s holds record %lld of another topic or size", name_of(run, partition, name),
                       (long long)tag);
    if (!is_value(tag, value, bytes))
        sim_world_fail(&run->world, "%s holds record %lld with other bytes", name_of(run, partition, name),
                       (long long)tag);
    if (record->partition < 0)
        record->partition = partition->number;
    if (record->partition != partition->number)
        sim_world_fail(&run->world, "record %lld for partition %d is in %s", (long long)tag, record->partition,
                       name_of(run, partition, name));
    return tag;
}

/* Offsets */

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
static bool learn(struct run *run, struct run_partition *partition, int64_t offset, int64_t tag, bool may_be_old)
{
    char name[32];
    int64_t now = known(partition, offset);
    if (now == tag)
        return true;
    if (may_be_old && was_cut(partition, offset, tag))
        return false;
    if (now >= 0)
        sim_world_fail(&run->world, "%s offset %lld has record %lld, then %lld", name_of(run, partition, name),
                       (long long)offset, (long long)now, (long long)tag);
    set(partition, offset, tag);
    return true;
}

/* The first synced promise of a log rests on its names; a scan of the disk would come late for them. */
static void check_names(struct run *run, struct run_partition *partition)
{
    char name[32], path[64];
    for (int i = 0; i < run->dir_count && !partition->has_names; i++) {
        (void)snprintf(path, sizeof(path), "%c/%s/00000000000000000000.log", 'a' + i, name_of(run, partition, name));
        partition->has_names = sim_disk_is_durable(run->server.disk, path, 0, 0);
    }
    if (!partition->has_names)
        sim_world_fail(&run->world, "%s has a synced record, and its names are not synced",
                       name_of(run, partition, name));
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

static void check_order(struct run_producer *producer, int64_t tag, const struct stele_delivery *delivery)
{
    struct run *run = producer->run;
    int partition = delivery->partition;
    if (tag <= producer->last_tag[partition])
        sim_world_fail(&run->world, "record %lld was reported after record %lld, which was sent later", (long long)tag,
                       (long long)producer->last_tag[partition]);
    producer->last_tag[partition] = tag;
    if (delivery->result.code != 0 || producer->acks == 0)
        return;
    bool may_repeat =
        !run->topics[producer->topic].flushes_before_ack && producer->last_power[partition] != run->power_losses;
    if (delivery->offset <= producer->last_offset[partition] && !may_repeat)
        sim_world_fail(&run->world, "record %lld was reported at offset %lld, the one sent before at %lld",
                       (long long)tag, (long long)delivery->offset, (long long)producer->last_offset[partition]);
    producer->last_offset[partition] = delivery->offset;
    /* The word may be from before a power loss, though it came after. */
    bool is_old = run->records[tag].sent_us <= run->power_lost_us;
    producer->last_power[partition] = is_old ? -1 : run->power_losses;
}

static void check_failure(struct run *run, int64_t tag, const struct stele_result *result)
{
    static const enum stele_err codes[] = {STELE_REQUEST_TIMED_OUT,
                                           STELE_CLOSED,
                                           STELE_KAFKA_STORAGE_ERROR,
                                           STELE_UNREACHABLE,
                                           STELE_THROTTLING_QUOTA_EXCEEDED,
                                           STELE_NOT_LEADER_OR_FOLLOWER,
                                           STELE_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                           STELE_INVALID_PRODUCER_EPOCH};
    const struct run_record *record = &run->records[tag];
    run_reach(run, RUN_POINT_DELIVERY_FAILED);
    if (result->code == (int)STELE_RECORD_LIST_TOO_LARGE &&
        record->bytes + 200 > run->topics[record->topic].segment_bytes)
        return;
    for (size_t i = 0; i < STELE_ARRAY_LEN(codes); i++) {
        if ((int)codes[i] == result->code)
            return;
    }
    sim_world_fail(&run->world, "record %lld failed with %d: %s", (long long)tag, result->code, result->text);
}

void model_delivered(struct run_producer *producer, const struct stele_delivery *delivery)
{
    struct run *run = producer->run;
    int64_t tag = (int64_t)delivery->tag;
    struct run_record *record = &run->records[tag];
    struct run_topic *topic = &run->topics[producer->topic];
    sim_world_mix(&run->world, (uint64_t)delivery->offset);
    if (++record->deliveries != 1)
        sim_world_fail(&run->world, "record %lld was reported twice", (long long)tag);
    if (record->partition >= 0 && record->partition != delivery->partition)
        sim_world_fail(&run->world, "record %lld was sent to partition %d and reported of %d", (long long)tag,
                       record->partition, delivery->partition);
    check_order(producer, tag, delivery);
    record->partition = delivery->partition;
    record->code = delivery->result.code;
    record->offset = delivery->offset;
    if (record->code != 0) {
        check_failure(run, tag, &delivery->result);
        return;
    }
    if (producer->acks == 0) {
        run_reach(run, RUN_POINT_ACKED_NOT);
        return;
    }
    bool is_synced = delivery->durability == 3;
    if (delivery->offset < 0 || (!is_synced && (topic->flushes_before_ack || delivery->durability != 1)))
        sim_world_fail(&run->world, "record %lld was reported at offset %lld with durability %d", (long long)tag,
                       (long long)delivery->offset, delivery->durability);
    run_reach(run, is_synced ? RUN_POINT_ACKED_SYNCED : RUN_POINT_ACKED_WRITTEN);
    struct run_partition *partition = partition_of(run, producer->topic, delivery->partition);
    bool may_be_old = !is_synced && record->sent_us <= run->power_lost_us;
    if (is_synced)
        check_names(run, partition);
    if (is_of_the_gone(run, is_synced))
        run_reach(run, RUN_POINT_LATE_ACK);
    else if (learn(run, partition, delivery->offset, tag, may_be_old))
        promise(partition, delivery->offset + 1, is_synced);
    else
        run_reach(run, RUN_POINT_LATE_ACK);
}

/* Readers */

void model_read(struct run *run, int topic, const struct stele_record_view *record, int64_t power_at_assign)
{
    struct run_partition *partition = partition_of(run, topic, record->partition);
    bool is_synced = run->topics[topic].flushes_before_ack;
    char name[32];
    int64_t tag = tag_of(run, partition, record->value, record->value_bytes);
    sim_world_mix(&run->world, (uint64_t)tag);
    if (run->records[tag].timestamp != record->timestamp)
        sim_world_fail(&run->world, "%s offset %lld was read with another time", name_of(run, partition, name),
                       (long long)record->offset);
    run->records[tag].is_read = true;
    run_reach(run, RUN_POINT_READ);
    if (is_synced)
        check_names(run, partition);
    if (is_of_the_gone(run, is_synced))
        run_reach(run, RUN_POINT_LATE_READ);
    else if (learn(run, partition, record->offset, tag, !is_synced && power_at_assign != run->power_losses))
        promise(partition, record->offset + 1, is_synced);
    else
        run_reach(run, RUN_POINT_LATE_READ);
}

struct model_asked model_ask(struct run *run, int topic, int partition)
{
    struct run_partition *it = partition_of(run, topic, partition);
    bool is_synced = run->topics[topic].flushes_before_ack;
    return (struct model_asked){.power = run->power_losses, .end = is_synced ? it->synced_end : it->written_end};
}

void model_latest(struct run *run, int topic, int partition, const struct model_asked *asked, int64_t offset)
{
    struct run_partition *it = partition_of(run, topic, partition);
    bool is_synced = run->topics[topic].flushes_before_ack;
    char name[32];
    run_reach(run, RUN_POINT_LIST_OFFSETS);
    if (asked->power != run->power_losses && !is_synced)
        return;
    if (offset < asked->end)
        sim_world_fail(&run->world, "%s ends at %lld, but %lld was promised", name_of(run, it, name), (long long)offset,
                       (long long)asked->end);
    promise(it, offset, is_synced);
}

int64_t model_offset_at(struct run *run, int topic, int partition, int64_t time_ms, int64_t end)
{
    struct run_partition *it = partition_of(run, topic, partition);
    for (int64_t offset = 0; offset < end; offset++) {
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
    struct run_partition *partition;
    enum scan_why why;
    struct sim_disk *disk; /* a copy, without faults */
    char dir[64], path[STELE_PATH_BYTES];
    struct stele_scan reader;
    int64_t end;        /* of what was sound so far */
    int64_t durable_to; /* what must be durable */
    bool is_over;
};

static void scan_record(struct scan *scan, const struct stele_record *record)
{
    struct run *run = scan->run;
    char name[32];
    if (record->value == NULL || record->offset != scan->end)
        sim_world_fail(&run->world, "%s: offset %lld follows %lld", name_of(run, scan->partition, name),
                       (long long)record->offset, (long long)scan->end - 1);
    int64_t tag = tag_of(run, scan->partition, record->value, (size_t)record->value_bytes);
    (void)learn(run, scan->partition, record->offset, tag, false);
    scan->end++;
}

static void scan_batch(struct scan *scan, const struct stele_scanned *batch)
{
    struct run *run = scan->run;
    struct stele_record_walker walker;
    struct stele_record record;
    char name[32];
    if (batch->header.base_offset < scan->durable_to &&
        !sim_disk_is_durable(run->server.disk, scan->path, batch->pos, batch->pos + batch->bytes))
        sim_world_fail(&run->world, "%s offset %lld was promised to be synced, and %s of %s is not",
                       name_of(run, scan->partition, name), (long long)batch->header.base_offset,
                       sim_disk_is_durable(run->server.disk, scan->path, 0, 0) ? "the content" : "the name",
                       scan->path);
    enum stele_err err = stele_record_walker_init(&walker, &run->mem, batch->batch, (size_t)batch->bytes, 1 << 24);
    while (err == STELE_OK && (err = stele_record_next(&walker, &record)) == STELE_OK)
        scan_record(scan, &record);
    if (err != STELE_END)
        sim_world_fail(&run->world, "%s offset %lld: a sound batch does not unpack: %s",
                       name_of(run, scan->partition, name), (long long)scan->end, stele_err_text(err));
    stele_record_walker_deinit(&walker);
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
    if (strtoll(name, NULL, 10) != scan->end) { /* a hole: what is behind it is cut, or not ours to judge */
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
    while ((err = stele_scan_next(&scan->reader, &batch)) == STELE_OK)
        scan_batch(scan, &batch);
    STELE_ASSERT(err == STELE_END || err == STELE_CORRUPT);
    scan->is_over = err != STELE_END;
    vfs->ops->close(file);
    return STELE_OK;
}

/* How far the log goes; what it holds is learnt and checked. */
static int64_t scan_log(struct run *run, struct sim_disk *disk, struct run_partition *partition, enum scan_why why)
{
    struct scan scan = {.run = run, .partition = partition, .why = why, .disk = disk};
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    scan.durable_to = why == SCAN_READY ? 0 : partition->synced_end;
    stele_scan_init(&scan.reader, &run->mem);
    for (int i = 0; i < run->dir_count; i++) {
        struct stele_stat stat;
        char name[32];
        (void)snprintf(scan.dir, sizeof(scan.dir), "%c/%s", 'a' + i, name_of(run, partition, name));
        if (vfs->ops->stat(vfs, scan.dir, &stat) == STELE_OK)
            (void)vfs->ops->list(vfs, scan.dir, scan_segment, &scan);
    }
    stele_scan_deinit(&scan.reader);
    return scan.end;
}

/* A look at the disk that the disk does not notice. */
static struct sim_disk *look(struct run *run)
{
    struct sim_disk *copy = sim_disk_copy(run->server.disk);
    sim_disk_heal(copy);
    sim_disk_set_hooks(copy, &(struct sim_disk_hooks){.arg = NULL});
    sim_disk_set_rates(copy, &(struct sim_disk_rates){.stall = 0});
    sim_disk_crash(copy, SIM_DISK_KILL); /* it may be stopped */
    return copy;
}

static void check_end(struct run *run, struct run_partition *partition, int64_t end, int64_t promised)
{
    char name[32];
    if (end < promised)
        sim_world_fail(&run->world, "%s ends at %lld on the disk, but %lld was promised", name_of(run, partition, name),
                       (long long)end, (long long)promised);
}

void model_death(struct run *run)
{
    struct sim_server *server = &run->server;
    bool is_power = server->death == SIM_DEATH_POWER_ORDERED || server->death == SIM_DEATH_POWER_ADVERSARIAL;
    bool was_serving = server->state == SIM_SERVER_SERVING || server->state == SIM_SERVER_STOPPING;
    struct sim_disk *disk = was_serving ? look(run) : NULL;
    for (int i = 0; i < run->topic_count; i++) {
        for (int k = 0; k < run->topics[i].partition_count; k++) {
            struct run_partition *partition = partition_of(run, i, k);
            int64_t end = disk == NULL ? 0 : scan_log(run, disk, partition, SCAN_DEATH);
            if (disk != NULL)
                check_end(run, partition, end, partition->written_end);
            if (server->death == SIM_DEATH_STOPPED && server->is_stop_clean && !run->must_restart)
                promise(partition, end, true);
            if (is_power)
                partition->written_end = partition->synced_end;
        }
    }
    sim_disk_free(disk);
    if (!is_power)
        return;
    run->power_was_lost = true;
    run->power_losses++;
    run->power_lost_us = run->world.now_us;
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

void model_ready(struct run *run)
{
    struct sim_disk *disk = look(run);
    for (int i = 0; i < run->topic_count; i++) {
        for (int k = 0; k < run->topics[i].partition_count; k++) {
            struct run_partition *partition = partition_of(run, i, k);
            int64_t end = scan_log(run, disk, partition, SCAN_READY);
            check_end(run, partition, end, partition->written_end);
            cut(run, partition, end);
        }
    }
    sim_disk_free(disk);
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
    for (int i = 0; i < RUN_TOPICS_MAX; i++) {
        for (int k = 0; k < RUN_PARTITIONS_MAX; k++)
            run->topics[i].partitions[k] = (struct run_partition){.topic = i, .number = k};
    }
}

void model_end(struct run *run)
{
    for (int64_t tag = 0; tag < run->record_count; tag++) {
        if (run->records[tag].deliveries != 1)
            sim_world_fail(&run->world, "record %lld was reported %d times", (long long)tag,
                           run->records[tag].deliveries);
    }
    for (int i = 0; i < RUN_TOPICS_MAX; i++) {
        for (int k = 0; k < RUN_PARTITIONS_MAX; k++) {
            struct run_partition *partition = partition_of(run, i, k);
            for (int64_t offset = 0; offset < partition->count; offset++) {
                struct run_record *record = &run->records[partition->tags[offset]];
                if (++record->places == 2)
                    run_reach(run, RUN_POINT_DUPLICATE);
            }
            free(partition->tags);
            free(partition->cuts);
        }
    }
    free(run->records);
    free(run->batches);
    STELE_ASSERT(stele_mem_is_empty(&run->mem));
}
