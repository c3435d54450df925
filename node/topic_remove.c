/* How topics are removed. */
#include "base/check.h"
#include "node/node.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/topic_ops.h"

#include <string.h>

enum { RETRY_MS = 200 };

/* What is left of a topic until its files are deleted. */
struct stele_removal {
    struct stele_list link; /* in control's removals */
    struct stele_controller *control;
    struct stele_topic_remove *remove; /* NULL: it was answered */
    char *name;
    struct stele_uuid topic_id;
    struct part {
        int32_t number;
        int dir;
    } * parts; /* its directories */
    int part_count;
    int closing_count; /* partitions that their shards still have */
    bool waits_for_round, is_complete, is_full;
    struct stele_job job;
    struct stele_timer timer;
    enum stele_err err;
};

static void removal_free(struct stele_removal *removal)
{
    struct stele_mem *mem = removal->control->shard->env->mem;
    stele_timer_cancel(removal->control->shard->wheel, &removal->timer);
    stele_list_remove(&removal->link);
    stele_mem_free(mem, removal->parts);
    stele_mem_free(mem, removal->name);
    stele_mem_free(mem, removal);
}

void stele_removals_free(struct stele_controller *control)
{
    while (!stele_list_is_empty(&control->removals))
        removal_free(STELE_CONTAINER_OF(control->removals.next, struct stele_removal, link));
}

static void finish(struct stele_topic_remove *remove)
{
    stele_topic_turn_end(&remove->turn);
    remove->done(remove);
}

/* Step 5: the files. What cannot be deleted now goes at the next start. */

static void delete_work(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    removal->err = STELE_OK;
    for (int i = 0; i < removal->part_count; i++) {
        const struct part *part = &removal->parts[i];
        enum stele_err err = stele_log_dirs_delete(job->env, removal->control->node->dir_paths[part->dir],
                                                   removal->name, part->number, &removal->topic_id);
        if (err != STELE_OK)
            removal->err = err;
    }
}

static void delete_done(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    struct stele_controller *control = removal->control;
    if (removal->err != STELE_OK)
        stele_trace(control->shard->env, STELE_TRACE_LOG_UNLINK_FAILED, removal->name, stele_err_text(removal->err), 0,
                    0, 0);
    control->deleting_count--;
    removal_free(removal);
    stele_controller_check_stopped(control);
}

static void start_deleting(struct stele_removal *removal)
{
    struct stele_env *env = removal->control->shard->env;
    removal->control->deleting_count++;
    removal->job = (struct stele_job){.work = delete_work, .done = delete_done, .lane = removal};
    env->ops->job(env, &removal->job);
}

static void condemn(struct stele_removal *removal);

static void timer_fired(struct stele_timer *timer)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(timer, struct stele_removal, timer);
    if (removal->remove != NULL)
        condemn(removal);
    else
        start_deleting(removal);
}

void stele_removals_stop(struct stele_controller *control)
{
    struct stele_list *at = control->removals.next;
    while (at != &control->removals) {
        struct stele_removal *removal = STELE_CONTAINER_OF(at, struct stele_removal, link);
        at = at->next;
        if (removal->remove == NULL && stele_timer_is_armed(&removal->timer))
            removal_free(removal);
    }
}

/* Step 4: the directories are renamed, and it lasts. */

static bool has_offline_dir(const struct stele_controller *control)
{
    for (int i = 0; i < control->node->dir_count; i++) {
        if (stele_log_dirs_is_offline(control->dirs, i))
            return true;
    }
    return false;
}

static void condemned(struct stele_removal *removal)
{
    struct stele_controller *control = removal->control;
    struct stele_topic_remove *remove = removal->remove;
    struct stele_shard *shard = control->shard;
    int64_t delay_ms = stele_settings_int(control->node->settings, "log.segment.delete.delay.ms");
    struct stele_image_removed *known = stele_image_removed_of(&control->mlog.image, &removal->topic_id, NULL);
    if (removal->is_complete && known != NULL && !has_offline_dir(control))
        stele_image_forget_removed(&control->mlog.image, known);
    stele_trace(shard->env, STELE_TRACE_TOPIC_REMOVED, removal->name, NULL, removal->part_count, 0, 0);
    removal->remove = NULL;
    if (removal->part_count == 0 || control->state != STELE_CONTROLLER_SERVING)
        removal_free(removal);
    else
        stele_shard_arm(shard, &removal->timer, stele_env_mono_ms(shard->env) + stele_min_i64(delay_ms, INT32_MAX));
    finish(remove);
}

static void condemn_done(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    struct stele_controller *control = removal->control;
    struct stele_shard *shard = control->shard;
    if (removal->err != STELE_OK)
        stele_controller_look_for_failed(control, removal->err, "a removed topic could not be renamed");
    if (removal->is_full && control->state == STELE_CONTROLLER_SERVING) {
        stele_shard_arm(shard, &removal->timer, stele_env_mono_ms(shard->env) + RETRY_MS);
        return;
    }
    condemned(removal);
}

/* A full disk has room later. Any other failure takes the directory out: the next start finds what is left in it. */
static void see_result(struct stele_removal *removal, int dir, enum stele_err err)
{
    if (err == STELE_OK)
        return;
    removal->is_complete = false;
    if (err == STELE_NO_SPACE) {
        removal->is_full = true;
    } else if (err != STELE_OFFLINE) {
        removal->err = err;
        stele_log_dirs_fail(removal->control->dirs, dir, "the directory of a removed topic could not be renamed");
    }
}

static void condemn_work(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    struct stele_log_dirs *dirs = removal->control->dirs;
    removal->err = STELE_OK;
    removal->is_complete = true;
    removal->is_full = false;
    for (int i = 0; i < removal->part_count; i++) {
        const struct part *part = &removal->parts[i];
        see_result(removal, part->dir,
                   stele_log_dirs_condemn(dirs, part->dir, removal->name, part->number, &removal->topic_id));
    }
    for (int dir = 0; dir < stele_log_dirs_count(dirs); dir++) {
        bool is_used = false;
        for (int i = 0; i < removal->part_count && !is_used; i++)
            is_used = removal->parts[i].dir == dir;
        if (is_used)
            see_result(removal, dir, stele_log_dirs_sync(dirs, dir));
    }
}

static void condemn(struct stele_removal *removal)
{
    removal->job = (struct stele_job){.work = condemn_work, .done = condemn_done};
    stele_controller_job(removal->control, &removal->job);
}

/* A round that began before may still write checkpoints that name these partitions. */
static void all_closed(struct stele_removal *removal)
{
    removal->waits_for_round = removal->control->round != NULL;
    if (!removal->waits_for_round)
        condemn(removal);
}

void stele_removals_go_on(struct stele_controller *control)
{
    for (struct stele_list *at = control->removals.next; at != &control->removals; at = at->next) {
        struct stele_removal *removal = STELE_CONTAINER_OF(at, struct stele_removal, link);
        if (removal->waits_for_round) {
            removal->waits_for_round = false;
            condemn(removal);
        }
    }
}

/* Step 3: nothing uses the partitions any more. */

static void partition_removed(struct stele_partition *partition, void *arg)
{
    struct stele_removal *removal = arg;
    if (partition != NULL)
        stele_partition_free(partition);
    if (--removal->closing_count == 0)
        all_closed(removal);
}

/* Step 2: the record is durable and applied. */
static void change_done(struct stele_metadata_change *change, enum stele_err err)
{
    struct stele_topic_remove *remove = STELE_CONTAINER_OF(change, struct stele_topic_remove, change);
    struct stele_removal *removal = remove->removal;
    struct stele_node *node = remove->control->node;
    if (err != STELE_OK) {
        removal_free(removal);
        (void)stele_error_set(&remove->error, err, "%s", stele_metadata_log_why(err));
        finish(remove);
        return;
    }
    removal->closing_count = 1; /* until all are told */
    struct stele_list *at = node->partitions.next;
    while (at != &node->partitions) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, all);
        at = at->next;
        if (!stele_uuid_equal(&partition->key.topic_id, &removal->topic_id))
            continue;
        removal->closing_count++;
        stele_partition_remove(partition, partition_removed, removal);
    }
    partition_removed(NULL, removal);
}

/* Step 1 */

static struct stele_removal *removal_new(struct stele_topic_remove *remove, const struct stele_image_topic *topic)
{
    struct stele_controller *control = remove->control;
    struct stele_mem *mem = control->shard->env->mem;
    struct stele_removal *removal = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*removal));
    if (removal == NULL)
        return NULL;
    removal->control = control;
    removal->remove = remove;
    removal->topic_id = topic->topic_id;
    stele_timer_init(&removal->timer, timer_fired);
    stele_list_push(&control->removals, &removal->link);
    removal->name = stele_mem_string(mem, STELE_MEM_NODE, topic->name);
    removal->parts = stele_mem_array(mem, STELE_MEM_NODE, (size_t)topic->partition_count, sizeof(*removal->parts));
    if (removal->name == NULL || removal->parts == NULL) {
        removal_free(removal);
        return NULL;
    }
    for (int32_t i = 0; i < topic->partition_count; i++) {
        if (topic->partitions[i].is_placed && topic->partitions[i].has_directory)
            removal->parts[removal->part_count++] = (struct part){.number = i, .dir = topic->partitions[i].dir};
    }
    return removal;
}

static void turn_begins(struct stele_topic_turn *turn)
{
    struct stele_topic_remove *remove = STELE_CONTAINER_OF(turn, struct stele_topic_remove, turn);
    struct stele_controller *control = remove->control;
    const struct stele_image_topic *topic = stele_image_topic_named(&control->mlog.image, remove->name);
    bool is_by_id = !stele_uuid_is_zero(&remove->topic_id);
    enum stele_err err = STELE_OK;
    if (control->state != STELE_CONTROLLER_SERVING)
        err = stele_error_set(&remove->error, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    else if (is_by_id && (topic == NULL || !stele_uuid_equal(&topic->topic_id, &remove->topic_id)))
        err = stele_error_set(&remove->error, STELE_UNKNOWN_TOPIC_ID, "there is no topic of that id");
    else if (topic == NULL)
        err = stele_error_set(&remove->error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic '%.249s'",
                              remove->name);
    if (err == STELE_OK) {
        remove->topic_id = topic->topic_id;
        remove->removal = removal_new(remove, topic);
        if (remove->removal == NULL)
            err = stele_error_set(&remove->error, STELE_NO_MEMORY, "memory ran out");
    }
    if (err != STELE_OK) {
        finish(remove);
        return;
    }
    remove->record = (struct stele_metadata_record){
        .kind = STELE_METADATA_TOPIC_REMOVED,
        .u.topic_removed = {.topic_id = remove->topic_id, .name = remove->removal->name}};
    remove->change = (struct stele_metadata_change){.records = &remove->record, .count = 1, .done = change_done};
    stele_metadata_log_change(&control->mlog, &remove->change);
}

void stele_topic_remove(struct stele_topic_remove *remove)
{
    remove->error.text[0] = 0;
    remove->error.err = STELE_OK;
    remove->turn.name = remove->name;
    remove->turn.begin = turn_begins;
    stele_topic_turn_take(remove->control, &remove->turn);
}
