#include "cluster-tests/sim/cluster_book.h"

#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "cluster-tests/sim/sim_image.h"

#include <stdlib.h>
#include <string.h>

enum { UNPACKED_MAX = 1 << 24 };

/* Records. */

void cluster_value(int64_t tag, uint8_t *out_bytes, size_t bytes)
{
    uint64_t state = (uint64_t)tag * 0x9e3779b97f4a7c15u + 1;
    memcpy(out_bytes, &tag, sizeof(tag));
    for (size_t i = sizeof(tag); i < bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out_bytes[i] = (uint8_t)(state >> 56) & 0x3f; /* it can be compressed */
    }
}

/* -1: nobody sent that. */
static int64_t tag_of(const struct cluster_book *book, const uint8_t *value, size_t bytes)
{
    int64_t tag = -1;
    uint8_t expected[4096];
    if (bytes < CLUSTER_VALUE_BYTES_MIN || bytes > sizeof(expected))
        return -1;
    memcpy(&tag, value, sizeof(tag));
    if (tag < 0 || tag >= book->record_count || (size_t)book->records[tag].bytes != bytes)
        return -1;
    cluster_value(tag, expected, bytes);
    return memcmp(value, expected, bytes) == 0 ? tag : -1;
}

int cluster_book_producer(struct cluster *run)
{
    struct cluster_book *book = &run->book;
    book->orders = sim_grow(book->orders, &book->order_capacity, book->producer_count + 1, sizeof(*book->orders));
    memset(&book->orders[book->producer_count], 0xff, sizeof(*book->orders));
    return (int)book->producer_count++;
}

int64_t cluster_book_send(struct cluster *run, const struct cluster_record *record)
{
    struct cluster_book *book = &run->book;
    book->records = sim_grow(book->records, &book->record_capacity, book->record_count + 1, sizeof(*book->records));
    book->records[book->record_count] = *record;
    book->records[book->record_count].offset = -1;
    book->records[book->record_count].life = -1;
    return book->record_count++;
}

/* In any topic of the name: an answer may come late. */
static bool is_committed(const struct cluster_book *book, int name, int32_t partition, int64_t offset, int64_t tag)
{
    for (int i = 0; i < book->life_count; i++) {
        const struct cluster_partition *it = &book->topics[i].partitions[partition];
        if (book->topics[i].first == name && offset >= 0 && offset < it->end_offset && it->tags[offset] == tag)
            return true;
    }
    return false;
}

void cluster_book_delivered(struct cluster *run, const struct stele_delivery *delivery)
{
    struct cluster_book *book = &run->book;
    struct cluster_record *record = &book->records[delivery->tag];
    const struct cluster_topic *topic = &book->topics[record->topic];
    if (record->fate != CLUSTER_SENT)
        sim_world_fail(&run->world, "record %llu is reported twice", (unsigned long long)delivery->tag);
    record->fate = delivery->result.code == 0 ? CLUSTER_ACKNOWLEDGED : CLUSTER_UNKNOWN;
    cluster_reach(run, delivery->result.code == 0 ? CLUSTER_POINT_RECORD : CLUSTER_POINT_RECORD_FAILED);
    if (delivery->result.code != 0 || record->acks == 0)
        return;
    book->acknowledged++;
    if (record->partition >= 0 && record->partition != delivery->partition)
        sim_world_fail(&run->world, "record %llu was sent to partition %d and is in %d",
                       (unsigned long long)delivery->tag, record->partition, delivery->partition);
    record->partition = delivery->partition;
    if (record->acks != -1)
        return;
    if (!is_committed(book, record->topic, delivery->partition, delivery->offset, (int64_t)delivery->tag) &&
        !record->is_lost)
        sim_world_fail(&run->world,
                       "D6: record %llu is acknowledged at offset %lld of %s-%d, which is not committed (up to %lld)",
                       (unsigned long long)delivery->tag, (long long)delivery->offset, topic->name, delivery->partition,
                       (long long)cluster_book_last(run, record->topic)->partitions[delivery->partition].end_offset);
    if (topic->flushes_before_ack && delivery->durability < 3)
        sim_world_fail(&run->world, "record %llu of %s is acknowledged with durability %d",
                       (unsigned long long)delivery->tag, topic->name, delivery->durability);
}

void cluster_book_read(struct cluster *run, const struct cluster_topic *it, const struct stele_record_view *record)
{
    struct cluster_book *book = &run->book;
    const struct cluster_partition *partition = &it->partitions[record->partition];
    int64_t tag = tag_of(book, record->value, record->value_bytes);
    cluster_reach(run, CLUSTER_POINT_READ);
    if (tag < 0)
        sim_world_fail(&run->world, "offset %lld of %s-%d reads as what nobody sent", (long long)record->offset,
                       it->name, record->partition);
    bool is_committed = record->offset < partition->end_offset && partition->tags[record->offset] == tag;
    if (!is_committed && !book->records[tag].is_lost)
        sim_world_fail(&run->world, "D20: record %lld is read at offset %lld of %s-%d, which holds %lld (up to %lld)",
                       (long long)tag, (long long)record->offset, it->name, record->partition,
                       record->offset < partition->end_offset ? (long long)partition->tags[record->offset] : -1LL,
                       (long long)partition->end_offset);
}

/* The committed logs. */

struct cluster_topic *cluster_book_topic(struct cluster *run, const struct stele_uuid *id)
{
    for (int i = 0; i < run->book.life_count; i++) {
        if (run->book.topics[i].is_seen && stele_uuid_equal(&run->book.topics[i].id, id))
            return &run->book.topics[i];
    }
    return NULL;
}

struct cluster_topic *cluster_book_last(struct cluster *run, int name)
{
    int last = name;
    for (int i = run->book.topic_count; i < run->book.life_count; i++) {
        if (run->book.topics[i].first == name)
            last = i;
    }
    return &run->book.topics[last];
}

static struct cluster_topic *begin_life(struct cluster *run, int name, const struct stele_uuid *id, int64_t offset)
{
    struct cluster_book *book = &run->book;
    struct cluster_topic *first = &book->topics[name], *topic = first;
    if (first->is_seen) {
        if (book->life_count == CLUSTER_LIVES_MAX)
            sim_world_fail(&run->world, "%s is made too often", first->name);
        topic = &book->topics[book->life_count++];
        memcpy(topic->name, first->name, sizeof(topic->name));
        topic->first = name;
        topic->partition_count = first->partition_count;
        topic->flushes_before_ack = first->flushes_before_ack;
        topic->retention_ms = first->retention_ms;
        topic->retention_bytes = first->retention_bytes;
        cluster_reach(run, CLUSTER_POINT_TOPIC_ANEW);
    }
    if (book->asking.is_on && book->asking.name == name)
        topic->partitions[book->asking.partition].start_asked = book->asking.below;
    topic->id = *id;
    topic->is_seen = true;
    topic->seen_at = offset;
    return topic;
}

/* What somebody deleted is gone from the first image that lacks it on, in every image. */
struct cluster_topic *cluster_book_seen(struct cluster *run, int name, const struct stele_uuid *id, int64_t offset)
{
    for (int i = 0; i < run->book.life_count; i++) {
        struct cluster_topic *topic = &run->book.topics[i];
        bool is_it = id != NULL && stele_uuid_equal(&topic->id, id);
        if (topic->first != name || !topic->is_seen || topic->seen_at >= offset || topic->is_gone || is_it)
            continue;
        if (run->book.topics[name].deletes == 0)
            sim_world_fail(&run->world, "K20: %s is gone, and nobody deleted it", topic->name);
        topic->is_gone = true;
        topic->gone_at = offset;
        run->book.topics[name].is_made = false;
        cluster_reach(run, CLUSTER_POINT_TOPIC_DELETED);
    }
    struct cluster_topic *topic = id == NULL ? NULL : cluster_book_topic(run, id);
    if (id == NULL || topic != NULL) {
        if (topic != NULL && topic->is_gone && offset >= topic->gone_at)
            sim_world_fail(&run->world, "D30: %s was deleted, and is there again", topic->name);
        return topic;
    }
    return begin_life(run, name, id, offset);
}

struct cluster_epoch *cluster_epoch_at(struct cluster_partition *partition, int32_t epoch)
{
    int64_t before = partition->epoch_capacity;
    partition->epochs =
        sim_grow(partition->epochs, &partition->epoch_capacity, (int64_t)epoch + 1, sizeof(*partition->epochs));
    if (partition->epoch_capacity > before)
        memset(partition->epochs + before, 0,
               (size_t)(partition->epoch_capacity - before) * sizeof(*partition->epochs));
    partition->epoch_max = epoch > partition->epoch_max ? epoch : partition->epoch_max;
    return &partition->epochs[epoch];
}

/* What was deleted, a log may know nothing of any more: who sends it again, for want of an answer, writes it again. */
static bool is_forgotten(const struct cluster_partition *partition, const struct cluster_record *record)
{
    return record->offset >= 0 && record->offset < partition->start_offset;
}

static void place(struct cluster *run, struct cluster_topic *topic, int partition, int64_t offset, int64_t tag)
{
    struct cluster_book *book = &run->book;
    struct cluster_partition *it = &topic->partitions[partition];
    struct cluster_record *record = &book->records[tag];
    int number = (int)(topic - book->topics);
    if (record->topic != topic->first || (record->partition >= 0 && record->partition != partition))
        sim_world_fail(&run->world, "record %lld is in %s-%d, where nobody sent it", (long long)tag, topic->name,
                       partition);
    if (record->life != number) {
        if (record->places > 0)
            cluster_reach(run, CLUSTER_POINT_TWO_LIVES);
        record->life = number;
        record->places = 0;
    }
    int64_t *last = &book->orders[record->producer].last[number][partition];
    if (*last >= 0 && book->records[*last].life == number && is_forgotten(it, &book->records[*last])) {
        record->places = 0;
        *last = -1;
    }
    if (record->places > 0 && is_forgotten(it, record))
        record->places = 0;
    if (record->is_once && record->places > 0)
        sim_world_fail(&run->world,
                       "D7: record %lld is in %s-%d at offset %lld and at %lld; its last was %lld, the start is %lld",
                       (long long)tag, topic->name, partition, (long long)record->offset, (long long)offset,
                       (long long)*last, (long long)it->start_offset);
    if (record->is_once && *last >= tag)
        sim_world_fail(&run->world, "record %lld comes behind record %lld in %s-%d", (long long)tag, (long long)*last,
                       topic->name, partition);
    *last = stele_max_i64(*last, tag);
    record->places++;
    record->partition = partition;
    record->offset = offset;
    it->tags[offset] = tag;
    cluster_reach(run, CLUSTER_POINT_COMMITTED);
}

/* Goes through the records of a batch: they are committed, or lost. */
static void take_records(struct cluster *run, const struct cluster_commit *commit, bool are_lost)
{
    struct cluster_topic *topic = commit->topic;
    int partition = commit->partition;
    struct stele_batch_header checked;
    struct stele_record_walker walker;
    struct stele_record record;
    int64_t end_offset = stele_batch_last_offset(&commit->header) + 1, offset = commit->header.base_offset;
    if (stele_batch_check(commit->bytes, commit->count, &checked) != STELE_OK ||
        stele_record_walker_init(&walker, &run->mem, commit->bytes, commit->count, UNPACKED_MAX) != STELE_OK)
        sim_world_fail(&run->world, "%s-%d holds a batch that is damaged at %lld", topic->name, partition,
                       (long long)offset);
    for (; stele_record_next(&walker, &record) == STELE_OK; offset++) {
        int64_t tag = tag_of(&run->book, record.value, (size_t)record.value_bytes);
        if (tag < 0 || record.offset != offset)
            sim_world_fail(&run->world, "%s-%d holds at %lld what nobody sent", topic->name, partition,
                           (long long)offset);
        if (are_lost)
            run->book.records[tag].is_lost = true;
        else
            place(run, topic, partition, offset, tag);
    }
    stele_record_walker_deinit(&walker);
    if (offset != end_offset)
        sim_world_fail(&run->world, "%s-%d holds a batch that ends at %lld, not %lld", topic->name, partition,
                       (long long)offset, (long long)end_offset);
}

void cluster_book_commit(struct cluster *run, const struct cluster_commit *commit)
{
    const struct stele_batch_header *header = &commit->header;
    struct cluster_partition *it = &commit->topic->partitions[commit->partition];
    int64_t end_offset = stele_batch_last_offset(header) + 1;
    if (header->base_offset != it->end_offset)
        sim_world_fail(&run->world, "D26: %s-%d is committed up to %lld, and the next batch begins at %lld",
                       commit->topic->name, commit->partition, (long long)it->end_offset,
                       (long long)header->base_offset);
    it->tags = sim_grow(it->tags, &it->tag_capacity, end_offset, sizeof(*it->tags));
    it->batches = sim_grow(it->batches, &it->capacity, it->count + 1, sizeof(*it->batches));
    take_records(run, commit, false);
    it->batches[it->count++] = (struct cluster_batch){.base_offset = header->base_offset,
                                                      .end_offset = end_offset,
                                                      .max_timestamp = header->max_timestamp,
                                                      .crc = header->crc,
                                                      .epoch = header->partition_leader_epoch,
                                                      .committed_in = commit->epoch};
    it->end_offset = end_offset;
}

void cluster_book_deposed(struct cluster *run, const struct cluster_commit *commit)
{
    take_records(run, commit, true);
}

const struct cluster_batch *cluster_book_batch(const struct cluster_partition *partition, int64_t offset)
{
    int64_t low = 0, high = partition->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (partition->batches[middle].end_offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < partition->count ? &partition->batches[low] : NULL;
}

void cluster_book_ask(struct cluster *run, const struct cluster_deletion *deletion)
{
    struct cluster_book *book = &run->book;
    book->asking = *deletion;
    book->asking.is_on = true;
    for (int i = 0; i < book->life_count; i++) {
        struct cluster_partition *it = &book->topics[i].partitions[deletion->partition];
        if (book->topics[i].first == deletion->name)
            it->start_asked = stele_max_i64(it->start_asked, deletion->below);
    }
}

void cluster_book_asked(struct cluster *run)
{
    run->book.asking.is_on = false;
}

void cluster_book_start(struct cluster *run, struct cluster_topic *topic, int partition,
                        const struct cluster_start *start)
{
    struct cluster_partition *it = &topic->partitions[partition];
    bool is_of_lost = it->was_forced && start->offset > it->end_offset; /* it does not know yet that it lost them */
    if (start->offset <= it->start_offset || is_of_lost)
        return;
    const struct cluster_batch *last = cluster_book_batch(it, start->offset - 1);
    bool is_asked = start->offset <= it->start_asked;
    bool is_too_much = topic->retention_bytes >= 0 && start->held_bytes >= topic->retention_bytes;
    bool is_too_old =
        topic->retention_ms >= 0 && last != NULL && last->max_timestamp < start->wall_ms - topic->retention_ms;
    if (!is_asked && !is_too_much && !is_too_old)
        sim_world_fail(&run->world, "D31: %s-%d begins at %lld, and nobody deleted more than up to %lld", topic->name,
                       partition, (long long)start->offset,
                       (long long)stele_max_i64(it->start_asked, it->start_offset));
    it->start_offset = start->offset;
    cluster_reach(run, is_asked ? CLUSTER_POINT_DELETED : CLUSTER_POINT_RETAINED);
}

/* A batch that begins below is lost as a whole, as logs are cut. */
void cluster_book_lose(struct cluster *run, struct cluster_topic *topic, int partition, int64_t from_offset,
                       bool is_excused)
{
    struct cluster_book *book = &run->book;
    struct cluster_partition *it = &topic->partitions[partition];
    it->was_forced = true;
    while (it->count > 0 && it->batches[it->count - 1].end_offset > from_offset) {
        const struct cluster_batch *batch = &it->batches[--it->count];
        for (int64_t offset = batch->base_offset; offset < batch->end_offset; offset++) {
            struct cluster_record *record = &book->records[it->tags[offset]];
            bool is_held = record->fate == CLUSTER_ACKNOWLEDGED && record->acks == -1 && topic->flushes_before_ack;
            if (is_held && !is_excused && offset >= it->start_offset) /* else it was deleted before */
                sim_world_fail(&run->world, "D4: record %lld of %s-%d was synced and acknowledged, and is lost",
                               (long long)it->tags[offset], topic->name, partition);
            record->is_lost = true;
            record->places -= record->life == (int)(topic - book->topics);
            book->lost++;
        }
        it->end_offset = batch->base_offset;
    }
    for (int64_t i = 0; i < book->producer_count; i++) /* a retry may bring it again */
        book->orders[i].last[topic - book->topics][partition] = -1;
}

/* The end. */

void cluster_book_end(struct cluster *run)
{
    struct cluster_book *book = &run->book;
    for (int64_t tag = 0; tag < book->record_count; tag++) {
        const struct cluster_record *record = &book->records[tag];
        if (record->fate != CLUSTER_ACKNOWLEDGED || record->acks == 0)
            continue;
        if (record->acks == -1 && record->places == 0 && !record->is_lost)
            sim_world_fail(&run->world, "D4: record %lld was acknowledged, and is not there", (long long)tag);
        if (record->acks == 1 && record->places == 0)
            cluster_reach(run, CLUSTER_POINT_TAIL_LOST);
    }
}

void cluster_book_free(struct cluster_book *book)
{
    for (int i = 0; i < CLUSTER_LIVES_MAX; i++) {
        for (int k = 0; k < CLUSTER_PARTITIONS_MAX; k++) {
            free(book->topics[i].partitions[k].batches);
            free(book->topics[i].partitions[k].tags);
            free(book->topics[i].partitions[k].epochs);
        }
    }
    free(book->records);
    free(book->orders);
}
