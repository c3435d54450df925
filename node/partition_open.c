/* A partition from its making to its end: open in a job, close on the loop. */
#include "base/check.h"
#include "node/isr_wish.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"

#include <stdio.h>
#include <string.h>

enum { OPEN_RETRY_MS = 500 };

static void open_next(struct stele_shard *shard);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"

struct stele_partition *stele_partition_find(const struct stele_shard *shard, const struct stele_partition_key *key)
{
    struct stele_partition *partition = NULL;
    HASH_FIND(hh, shard->partitions, key, sizeof(*key), partition);
    return partition;
}

static bool table_add(struct stele_shard *shard, struct stele_partition *partition)
{
    struct stele_mem *uthash_mem = shard->env->mem;
    HASH_ADD(hh, shard->partitions, key, sizeof(partition->key), partition);
    return partition->hh.tbl != NULL;
}

static void table_remove(struct stele_shard *shard, struct stele_partition *partition)
{
    struct stele_mem *uthash_mem = shard->env->mem;
    HASH_DEL(shard->partitions, partition);
    partition->hh.tbl = NULL;
}

void stele_partition_forget_all(struct stele_shard *shard)
{
    struct stele_mem *uthash_mem = shard->env->mem;
    HASH_CLEAR(hh, shard->partitions);
}

#pragma GCC diagnostic pop

static void open_home(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, open_task);
    partition->open_done(partition, partition->open_arg);
}

static void tell_opened(struct stele_partition *partition)
{
    partition->is_told = true;
    partition->told_err = partition->open_error.err;
    partition->open_task.run = open_home;
    stele_shard_send(partition->shard, &partition->shard->node->shards[STELE_SHARD_CONTROL], &partition->open_task);
}

/* Where only what is synced is visible, what was visible before a crash is so again from the first moment on. Short
 * memory or space is no failure: the first flush comes later then. */
static enum stele_err sync_opened(struct stele_partition *partition, struct stele_vfs *vfs)
{
    struct stele_log *log = partition->opened;
    enum stele_err err = STELE_OK;
    if (!stele_log_config(log)->flush_before_ack || stele_log_end_offset(log) == stele_log_start_offset(log))
        return STELE_OK;
    if (stele_log_recovery_point(log) < stele_log_end_offset(log))
        err = stele_log_flush(log);
    if (err == STELE_OK && !partition->is_named) {
        err = stele_partition__sync_names(vfs, partition);
        partition->is_named = err == STELE_OK;
        if (err == STELE_OK)
            stele_log_directory_synced(log);
    }
    return stele_log_is_failed(log) || (err != STELE_NO_SPACE && err != STELE_NO_MEMORY) ? err : STELE_OK;
}

static void open_work(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, open_job);
    struct stele_vfs *vfs = job->env->vfs;
    enum stele_err err = partition->is_unmade ? vfs->ops->mkdir(vfs, partition->path) : STELE_OK;
    partition->open_error.text[0] = 0;
    if (err == STELE_OK || err == STELE_EXISTS)
        err = stele_log_open(&partition->open, &partition->opened, &partition->report, &partition->open_error);
    if (err == STELE_OK) {
        err = sync_opened(partition, vfs);
        if (err != STELE_OK) { /* another try opens it anew */
            stele_log_free(partition->opened);
            partition->opened = NULL;
        }
    }
    partition->open_error.err = err;
    partition->open.is_new = partition->open.is_new && err == STELE_OK; /* another try finds what this one left */
}

/* Room or memory may be there again: the partition stays OPENING, and who asked is told what keeps it. */
static bool try_again(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    enum stele_err err = partition->open_error.err;
    if ((err != STELE_NO_SPACE && err != STELE_NO_MEMORY) || partition->state != STELE_PARTITION_OPENING)
        return false;
    stele_shard_arm(shard, &partition->unlink_timer, stele_env_mono_ms(shard->env) + OPEN_RETRY_MS);
    return true;
}

static void start_opening(struct stele_partition *partition)
{
    if (partition->hh.tbl == NULL && !table_add(partition->shard, partition)) {
        (void)stele_error_set(&partition->open_error, STELE_NO_MEMORY, "memory ran out");
        partition->shard->node->dirs[partition->dir].has_failed_log = true; /* it is not found at the end */
        (void)try_again(partition);
        if (!partition->is_told)
            tell_opened(partition);
        return;
    }
    partition->job_count++;
    stele_list_push(&partition->shard->opening, &partition->opening_link);
    open_next(partition->shard);
}

void stele_partition__open_again(struct stele_partition *partition)
{
    STELE_ASSERT(partition->state == STELE_PARTITION_OPENING);
    if (!partition->shard->is_stopping && !partition->shard->is_closed)
        start_opening(partition);
}

static void open_failed(struct stele_partition *partition)
{
    const struct stele_error *error = &partition->open_error;
    partition->state = STELE_PARTITION_OFFLINE;
    partition->shard->node->dirs[partition->dir].has_failed_log = true;
    stele_trace(partition->shard->env, STELE_TRACE_LOG_FAILED, partition->name,
                error->text[0] != 0 ? error->text : stele_err_text(error->err), 0, 0, 0);
    stele_partition_failed_send(partition);
}

static void use_config(struct stele_partition *partition, const struct stele_log_config *config)
{
    stele_log_set_config(partition->log, config);
    stele_replica__configured(partition);
    stele_timer_cancel(partition->shard->wheel, &partition->flush_timer); /* flush.ms may be nearer now */
    stele_partition__advance(partition);
    stele_partition__arm_flush(partition);
}

static void open_done(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, open_job);
    struct stele_shard *shard = partition->shard;
    shard->opening_count--;
    if (partition->state == STELE_PARTITION_REMOVED) {
        open_next(shard);
        stele_partition__name_others(shard);
        stele_partition__job_done(partition);
        return;
    }
    if (partition->open_error.err == STELE_OK && partition->state != STELE_PARTITION_OPENING)
        (void)stele_error_set(&partition->open_error, STELE_OFFLINE, "its log directory failed meanwhile");
    if (partition->open_error.err != STELE_OK) {
        if (!try_again(partition))
            open_failed(partition);
    } else {
        partition->log = partition->opened;
        partition->opened = NULL;
        partition->state = STELE_PARTITION_OPEN;
        stele_log_attach(partition->log, shard->cache);
        shard->is_changed = true;
        if (!partition->is_named)
            stele_partition__name(partition);
        if (partition->has_next_config)
            stele_log_set_config(partition->log, &partition->next_config);
        stele_replica__opened(partition);
        stele_partition__advance(partition);
        stele_partition__arm_flush(partition);
        stele_partition__arm_unlink(partition);
    }
    if (!partition->is_told)
        tell_opened(partition);
    open_next(shard);
    stele_partition__name_others(shard);
    stele_partition__job_done(partition);
}

static void open_next(struct stele_shard *shard)
{
    while (!stele_list_is_empty(&shard->opening) && shard->opening_count < shard->node->limits.opening_max) {
        struct stele_partition *partition =
            STELE_CONTAINER_OF(shard->opening.next, struct stele_partition, opening_link);
        stele_list_remove(&partition->opening_link);
        shard->opening_count++;
        partition->open_job = (struct stele_job){.work = open_work, .done = open_done};
        shard->env->ops->job(shard->env, &partition->open_job);
    }
}

/* On the partition's shard. */
static void open_arrived(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, open_task);
    struct stele_shard *shard = partition->shard;
    if (shard->is_closed) {
        shard->node->dirs[partition->dir].has_failed_log = true; /* its names are not synced */
        partition->state = STELE_PARTITION_CLOSED;
        partition->open_error.err = STELE_CANCELLED;
        tell_opened(partition);
        return;
    }
    if (partition->open_error.err != STELE_OK) {
        (void)table_add(shard, partition); /* without memory it is unknown instead of offline */
        open_failed(partition);
        tell_opened(partition);
        return;
    }
    partition->open.env = shard->env;
    start_opening(partition);
}

static enum stele_err fill(struct stele_partition *partition, const struct stele_partition_setup *setup,
                           struct stele_mem *mem)
{
    char name[STELE_TOPIC_NAME_MAX + 16];
    (void)snprintf(name, sizeof(name), "%s-%d", setup->topic, (int)setup->key.number);
    partition->topic = stele_mem_string(mem, STELE_MEM_NODE, setup->topic);
    partition->name = stele_mem_string(mem, STELE_MEM_NODE, name);
    partition->path = stele_mem_string(mem, STELE_MEM_NODE, setup->path);
    if (partition->topic == NULL || partition->name == NULL || partition->path == NULL)
        return STELE_NO_MEMORY;
    partition->key = setup->key;
    partition->dir = setup->dir;
    partition->is_named = !setup->is_new;
    partition->is_unmade = setup->is_unmade;
    partition->is_name_written = setup->is_made;
    partition->open = (struct stele_log_open){.dir = partition->path,
                                              .name = partition->name,
                                              .config = setup->config,
                                              .is_new = setup->is_made,
                                              .is_unnamed = setup->is_new,
                                              .was_clean = setup->was_clean,
                                              .recovery_point = setup->recovery_point,
                                              .log_start_offset = setup->log_start_offset,
                                              .high_watermark = setup->high_watermark};
    if (setup->why_offline != NULL)
        (void)stele_error_set(&partition->open_error, STELE_OFFLINE, "%s", setup->why_offline);
    return STELE_OK;
}

static void look_for_throttles(const struct stele_partition *partition, bool out_throttles[STELE_THROTTLE_SIDES])
{
    const struct stele_node *node = partition->shard->node;
    const struct stele_image_topic *topic = stele_image_topic_of(&node->control.mlog.image, &partition->key.topic_id);
    for (int side = 0; side < STELE_THROTTLE_SIDES; side++)
        out_throttles[side] =
            topic != NULL && stele_throttle_names(node, topic, (enum stele_throttle_side)side, partition->key.number);
}

enum stele_err stele_partition_open(struct stele_node *node, const struct stele_partition_setup *setup,
                                    void (*open_done_fn)(struct stele_partition *partition, void *arg), void *arg,
                                    struct stele_partition **out_partition)
{
    struct stele_shard *control = &node->shards[STELE_SHARD_CONTROL];
    struct stele_mem *mem = control->env->mem;
    struct stele_partition *partition = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*partition));
    if (partition == NULL)
        return STELE_NO_MEMORY;
    partition->shard = stele_shard_of(node, &setup->key.topic_id, setup->key.number);
    enum stele_err err = fill(partition, setup, mem);
    if (err != STELE_OK) {
        stele_mem_free(mem, partition->topic);
        stele_mem_free(mem, partition->name);
        stele_mem_free(mem, partition->path);
        stele_mem_free(mem, partition);
        return err;
    }
    stele_list_init(&partition->queue);
    stele_list_init(&partition->acks);
    stele_list_init(&partition->written_acks);
    stele_list_init(&partition->trims);
    stele_list_init(&partition->reads);
    stele_replica__init(partition, &setup->state);
    look_for_throttles(partition, partition->replica.is_throttled);
    stele_list_init(&partition->opening_link);
    stele_list_init(&partition->name_link);
    stele_list_init(&partition->failed_link);
    stele_list_init(&partition->damaged_link);
    stele_list_init(&partition->repair_link);
    stele_partition__init_timers(partition);
    stele_list_push(&node->partitions, &partition->all);
    partition->open_done = open_done_fn;
    partition->open_arg = arg;
    partition->open_task.run = open_arrived;
    *out_partition = partition;
    stele_shard_send(control, partition->shard, &partition->open_task);
    return STELE_OK;
}

static void config_home(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, config_task);
    partition->is_config_sent = false;
    if (partition->is_config_old) {
        partition->is_config_old = false;
        stele_controller_send_config(&partition->shard->node->control, partition);
    }
}

static void config_arrived(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, config_task);
    struct stele_shard *shard = partition->shard;
    memcpy(partition->replica.is_throttled, partition->throttles, sizeof(partition->throttles));
    if (partition->state == STELE_PARTITION_OPENING) {
        partition->next_config = partition->config;
        partition->has_next_config = true;
    } else if (partition->state == STELE_PARTITION_OPEN) {
        use_config(partition, &partition->config);
    }
    task->run = config_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], task);
}

void stele_partition_send_config(struct stele_partition *partition, const struct stele_log_config *config)
{
    struct stele_shard *shard = partition->shard;
    if (partition->is_leaving)
        return;
    if (partition->is_config_sent) {
        partition->is_config_old = true;
        return;
    }
    partition->is_config_sent = true;
    partition->config = *config;
    look_for_throttles(partition, partition->throttles);
    partition->config_task.run = config_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &partition->config_task);
}

void stele_partition_free(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    struct stele_mem *mem = shard->env->mem;
    stele_timer_cancel(shard->wheel, &partition->flush_timer);
    stele_timer_cancel(shard->wheel, &partition->unlink_timer);
    stele_timer_cancel(shard->wheel, &partition->replica.timer);
    stele_timer_cancel(shard->wheel, &partition->replica.fetch_timer);
    if (partition->mover != NULL)
        stele_mover_drop(partition->mover);
    stele_list_remove(&partition->opening_link);
    stele_list_remove(&partition->name_link);
    stele_list_remove(&partition->replica.truncate.wait.link);
    if (partition->flush != NULL)
        stele_log_flush_end(partition->log, partition->flush, STELE_CANCELLED);
    stele_slice_release(&partition->write_back); /* these two only when the node ends in the middle */
    stele_slice_release(&partition->doubt.slice);
    stele_log_free(partition->opened);
    stele_log_free(partition->log);
    stele_list_remove(&partition->all);
    stele_list_remove(&partition->failed_link);
    stele_list_remove(&partition->damaged_link);
    stele_list_remove(&partition->repair_link);
    stele_mem_free(mem, partition->unlink_bases);
    stele_mem_free(mem, partition->revokes);
    stele_mem_free(mem, partition->replica.behind_cut);
    stele_mem_free(mem, partition->topic);
    stele_mem_free(mem, partition->name);
    stele_mem_free(mem, partition->path);
    stele_mem_free(mem, partition);
}

/* The end of a partition whose topic goes. */

static void removed_home(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, remove_task);
    partition->removed(partition, partition->remove_arg);
}

void stele_partition__check_removed(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    if (partition->state != STELE_PARTITION_REMOVED || !stele_partition_is_idle(partition))
        return;
    stele_log_free(partition->opened);
    stele_log_free(partition->log);
    partition->opened = partition->log = NULL;
    partition->remove_task.run = removed_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &partition->remove_task);
}

/* On the partition's shard. */
static void remove_arrived(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, remove_task);
    struct stele_shard *shard = partition->shard;
    if (partition->hh.tbl != NULL)
        table_remove(shard, partition);
    stele_timer_cancel(shard->wheel, &partition->flush_timer);
    stele_timer_cancel(shard->wheel, &partition->unlink_timer);
    if (!stele_list_is_empty(&partition->opening_link)) {
        stele_list_remove(&partition->opening_link);
        partition->job_count--;
        stele_partition__name_others(shard);
    }
    stele_partition__name_never(partition);
    partition->state = STELE_PARTITION_REMOVED;
    stele_repair_forget(partition);
    stele_replica__end(partition);
    stele_partition__refuse_acks(partition, partition->remove_err);
    stele_partition__wake_reads(partition);
    stele_partition__check_removed(partition);
    stele_shard_check_stopped(shard);
}

void stele_partition_remove(struct stele_partition *partition, enum stele_err err,
                            void (*removed)(struct stele_partition *partition, void *arg), void *arg)
{
    struct stele_shard *shard = partition->shard;
    partition->is_leaving = true; /* what is on its way to the shard is there before this */
    partition->remove_err = err;
    partition->removed = removed;
    partition->remove_arg = arg;
    partition->remove_task.run = remove_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &partition->remove_task);
}

bool stele_partition_is_idle(const struct stele_partition *partition)
{
    return partition->job_count == 0 && stele_list_is_empty(&partition->queue) &&
           stele_list_is_empty(&partition->acks) && stele_list_is_empty(&partition->written_acks) &&
           stele_list_is_empty(&partition->trims);
}

void stele_partition_close(struct stele_partition *partition)
{
    STELE_ASSERT(stele_partition_is_idle(partition));
    stele_timer_cancel(partition->shard->wheel, &partition->flush_timer);
    stele_timer_cancel(partition->shard->wheel, &partition->unlink_timer);
    if (partition->state == STELE_PARTITION_OPENING) { /* it waited to be opened again */
        partition->state = STELE_PARTITION_CLOSED;
        partition->shard->node->dirs[partition->dir].has_failed_log = true;
    }
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    stele_replica__end(partition);
    enum stele_err err = stele_log_close(partition->log);
    partition->state = err == STELE_OK ? STELE_PARTITION_CLOSED : STELE_PARTITION_OFFLINE;
    if (err != STELE_OK || !partition->is_named)
        partition->shard->node->dirs[partition->dir].has_failed_log = true;
    partition->shard->is_changed = true;
}
