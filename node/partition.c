/* A log on the data shard: appends, the high watermark, syncs that all waiting produces share. */
#include "base/check.h"
#include "base/cursor.h"
#include "node/node_struct.h"
#include "node/settings.h"
#include "storage/validate.h"

#include <stdio.h>
#include <string.h>

enum { LEADER_EPOCH = 0 };

/* A produced batch that waits for a sync; lives in its pending's arena. */
struct waiting_ack {
    struct stele_list link;
    struct stele_pending *pending;
    struct stele_produce_result *result;
    int64_t end_offset;
};

static struct stele_partition **slot_of(struct stele_node *node, const struct stele_uuid *topic_id, int32_t number)
{
    /* An id is random: its bytes are a hash. */
    uint64_t hash = (uint64_t)stele_get_i64(topic_id->bytes + 8) + (uint64_t)number;
    return &node->table[hash % STELE_TABLE_SLOTS];
}

struct stele_partition *stele_partition_find(struct stele_node *node, const struct stele_uuid *topic_id, int32_t number)
{
    struct stele_partition *partition = *slot_of(node, topic_id, number);
    while (partition != NULL && (partition->number != number || !stele_uuid_equal(&partition->topic_id, topic_id)))
        partition = partition->next_in_table;
    return partition;
}

void stele_partition_adopt(struct stele_partition *partition)
{
    struct stele_node *node = partition->node;
    struct stele_partition **slot = slot_of(node, &partition->topic_id, partition->number);
    partition->next_in_table = *slot;
    *slot = partition;
    stele_list_push(&node->partitions, &partition->link);
    if (partition->log != NULL)
        stele_log_attach(partition->log, node->cache);
}

/* One node: everything written is replicated; with flush.before.ack what is synced is visible. */
static void advance(struct stele_partition *partition)
{
    struct stele_log *log = partition->log;
    bool needs_sync = stele_log_config(log)->flush_before_ack;
    stele_log_set_high_watermark(log, needs_sync ? stele_log_recovery_point(log) : stele_log_end_offset(log));
    stele_fetch_wake(partition);
}

static void settle_acks(struct stele_partition *partition, enum stele_err err)
{
    while (!stele_list_is_empty(&partition->acks)) {
        struct waiting_ack *ack = STELE_CONTAINER_OF(partition->acks.next, struct waiting_ack, link);
        if (err == STELE_OK && ack->end_offset > stele_log_recovery_point(partition->log))
            break;
        stele_list_remove(&ack->link);
        if (err == STELE_OK) {
            ack->result->durability = STELE_DURABILITY_SYNCED;
        } else {
            ack->result->err = STELE_KAFKA_STORAGE_ERROR;
            ack->result->base_offset = -1;
        }
        if (--ack->pending->waits == 0)
            stele_pending_done(ack->pending);
    }
}

static void flush_work(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, flush_job);
    struct stele_vfs *vfs = partition->node->data->vfs;
    partition->flush_err = stele_log_flush_run(partition->flush);
    /* A new partition's names are synced before its first acknowledged sync rests on them. */
    if (partition->flush_err == STELE_OK && !partition->is_named) {
        partition->flush_err =
            stele_partition_metadata_write(vfs, stele_log_dir(partition->log), &partition->topic_id, true);
        if (partition->flush_err == STELE_OK)
            partition->flush_err = vfs->ops->sync_dir(vfs, stele_log_dirs_path(partition->node->dirs, partition->dir));
    }
}

static void flush_done(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, flush_job);
    stele_log_flush_end(partition->log, partition->flush, partition->flush_err);
    partition->flush = NULL;
    partition->is_flushing = false;
    partition->is_named = partition->is_named || partition->flush_err == STELE_OK;
    if (partition->flush_err == STELE_OK)
        advance(partition);
    settle_acks(partition, partition->flush_err);
    if (partition->wants_flush && partition->flush_err == STELE_OK)
        stele_partition_flush(partition);
}

void stele_partition_flush(struct stele_partition *partition)
{
    if (partition->log == NULL || stele_log_is_failed(partition->log))
        return;
    if (partition->is_flushing) {
        partition->wants_flush = true;
        return;
    }
    partition->wants_flush = false;
    enum stele_err err = stele_log_flush_begin(partition->log, &partition->flush);
    if (err != STELE_OK) {
        settle_acks(partition, err);
        return;
    }
    partition->is_flushing = true;
    partition->flush_job = (struct stele_job){.work = flush_work, .done = flush_done, .lane = partition};
    partition->node->data->ops->job(partition->node->data, &partition->flush_job);
}

static void flush_timer(struct stele_timer *timer)
{
    stele_partition_flush(STELE_CONTAINER_OF(timer, struct stele_partition, flush_timer));
}

static void arm_flush(struct stele_partition *partition)
{
    int64_t due = stele_log_flush_due(partition->log);
    if (due == INT64_MAX || stele_timer_is_armed(&partition->flush_timer))
        return;
    if (stele_timer_arm(partition->node->wheel, &partition->flush_timer, due) != STELE_OK)
        stele_partition_flush(partition); /* no memory for a timer: sooner is fine */
}

static enum stele_err open_log(struct stele_partition *partition, const struct stele_topic *topic,
                               const struct stele_found_log *found, const char *path, struct stele_error *error)
{
    struct stele_node *node = partition->node;
    struct stele_settings *settings = NULL;
    struct stele_recovery_report report;
    char name[STELE_TOPIC_NAME_MAX + 16];
    enum stele_err err =
        stele_settings_overlay(node->options.settings, (const char *const *)topic->names,
                               (const char *const *)topic->values, topic->setting_count, &settings, error);
    if (err != STELE_OK || path == NULL) {
        stele_settings_free(settings);
        return err;
    }
    (void)snprintf(name, sizeof(name), "%s-%d", topic->name, found->partition);
    struct stele_log_open open = {.env = node->data,
                                  .dir = path,
                                  .name = name,
                                  .was_clean = found->was_clean,
                                  .recovery_point = found->recovery_point,
                                  .log_start_offset = found->log_start_offset,
                                  .high_watermark = found->high_watermark};
    stele_node_log_config(settings, &open.config);
    stele_settings_free(settings);
    err = stele_log_open(&open, &partition->log, &report, error);
    if (err == STELE_OK || err == STELE_NO_MEMORY)
        return err;
    /* The others serve: this one is offline until somebody has looked at it. */
    stele_trace(node->control, STELE_TRACE_LOG_FAILED, path, error->text, 0, 0, 0);
    return STELE_OK;
}

enum stele_err stele_partition_open(struct stele_node *node, const struct stele_topic *topic,
                                    const struct stele_found_log *found, const char *path,
                                    struct stele_partition **out_partition, struct stele_error *error)
{
    struct stele_partition *partition = stele_mem_alloc(node->mem, STELE_MEM_NODE, sizeof(*partition));
    if (partition == NULL)
        return STELE_NO_MEMORY;
    partition->node = node;
    partition->topic_id = topic->topic_id;
    partition->number = found->partition;
    partition->dir = found->dir;
    partition->is_named = !stele_uuid_is_zero(&found->topic_id);
    partition->points = (struct stele_log_points){.dir = found->dir,
                                                  .partition = found->partition,
                                                  .recovery_point = found->recovery_point,
                                                  .log_start_offset = found->log_start_offset,
                                                  .high_watermark = found->high_watermark,
                                                  .first_segment_base = -1};
    (void)snprintf(partition->points.topic, sizeof(partition->points.topic), "%s", topic->name);
    stele_list_init(&partition->link);
    stele_list_init(&partition->acks);
    stele_timer_init(&partition->flush_timer, flush_timer);
    partition->topic = stele_mem_string(node->mem, STELE_MEM_NODE, topic->name);
    enum stele_err err = partition->topic == NULL ? STELE_NO_MEMORY : open_log(partition, topic, found, path, error);
    if (err != STELE_OK) {
        stele_partition_free(partition);
        return err;
    }
    *out_partition = partition;
    return STELE_OK;
}

void stele_partition_free(struct stele_partition *partition)
{
    if (partition == NULL)
        return;
    struct stele_node *node = partition->node;
    stele_list_remove(&partition->link);
    if (node->wheel != NULL)
        stele_timer_cancel(node->wheel, &partition->flush_timer);
    stele_log_free(partition->log);
    stele_mem_free(node->mem, partition->topic);
    stele_mem_free(node->mem, partition);
}

static void refuse(struct stele_pending *pending, struct stele_produce_result *out, enum stele_err err,
                   const char *text)
{
    out->err = err;
    out->base_offset = -1;
    out->message = stele_arena_string(&pending->arena, text, strlen(text));
    if (out->message == NULL)
        out->message = "";
}

static void wait_for_sync(struct stele_partition *partition, struct stele_pending *pending,
                          struct stele_produce_result *out)
{
    struct waiting_ack *ack = stele_arena_alloc(&pending->arena, sizeof(*ack));
    if (ack == NULL) {
        refuse(pending, out, STELE_NO_MEMORY, "out of memory after the record was written");
        return;
    }
    *ack = (struct waiting_ack){.pending = pending, .result = out, .end_offset = stele_log_end_offset(partition->log)};
    stele_list_init(&ack->link);
    stele_list_push(&partition->acks, &ack->link);
    pending->waits++;
    stele_partition_flush(partition);
}

void stele_partition_produce(struct stele_partition *partition, struct stele_pending *pending, uint8_t *bytes,
                             size_t count, struct stele_produce_result *out)
{
    struct stele_node *node = partition->node;
    struct stele_validated validated = {.rebuilt = NULL};
    struct stele_appended appended;
    struct stele_error error = {.text = ""};
    if (partition->log == NULL || stele_log_is_failed(partition->log)) {
        refuse(pending, out, STELE_KAFKA_STORAGE_ERROR, "the partition is offline after a failure of its disk");
        return;
    }
    if (stele_log_dirs_is_full(node->dirs, partition->dir)) {
        refuse(pending, out, STELE_KAFKA_STORAGE_ERROR, "the disk is down to log.dir.reserve.bytes; free some space");
        return;
    }
    const struct stele_log_config *config = stele_log_config(partition->log);
    enum stele_err err =
        stele_validate(node->mem, config, bytes, count, stele_env_wall_ms(node->data), &validated, &error);
    if (err == STELE_OK) {
        struct stele_append append = {.bytes = validated.rebuilt == NULL ? bytes : validated.rebuilt->bytes,
                                      .count = validated.bytes,
                                      .origin = STELE_ORIGIN_CLIENT,
                                      .leader_epoch = LEADER_EPOCH};
        err = stele_log_append(partition->log, &append, &appended);
        stele_buf_unref(validated.rebuilt);
    }
    if (err != STELE_OK) {
        refuse(pending, out, err, error.text[0] == 0 ? stele_err_text(err) : error.text);
        return;
    }
    out->base_offset = appended.first_offset;
    out->log_append_time_ms = appended.log_append_time_ms;
    out->log_start_offset = stele_log_start_offset(partition->log);
    out->durability = STELE_DURABILITY_WRITTEN;
    if (config->flush_before_ack && !appended.is_duplicate)
        wait_for_sync(partition, pending, out);
    else if (appended.wants_flush)
        stele_partition_flush(partition);
    advance(partition);
    arm_flush(partition);
}
