#include "node/removal.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

#include <string.h>

enum { RETRY_MS = 200 };

struct stele_removal {
    struct stele_list link; /* in reconcile's removals */
    struct stele_controller *control;
    char *topic;
    struct stele_uuid topic_id;
    struct part {
        struct stele_local *local; /* until the directory is renamed */
        int32_t number;
        int dir; /* -1: it has no directory */
    } * parts;
    int part_count, part_capacity;
    int closing_count; /* partitions that their shards still have */
    bool waits_for_round, is_condemned, is_complete, is_full;
    bool is_again; /* a directory of the same name and id may be waiting to be deleted */
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
    stele_mem_free(mem, removal->topic);
    stele_mem_free(mem, removal);
}

static struct stele_removal *removal_at(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_removal, link);
}

void stele_removals_free(struct stele_controller *control)
{
    while (!stele_list_is_empty(&control->reconcile.removals))
        removal_free(removal_at(control->reconcile.removals.next));
}

/* Step 3: the files. What cannot be deleted now goes at the next start. */

static void delete_work(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    removal->err = STELE_OK;
    for (int i = 0; i < removal->part_count; i++) {
        const struct part *part = &removal->parts[i];
        if (part->dir < 0)
            continue;
        enum stele_err err = stele_log_dirs_delete(job->env, removal->control->node->dir_paths[part->dir],
                                                   removal->topic, part->number, &removal->topic_id);
        if (err != STELE_OK)
            removal->err = err;
    }
}

static void delete_done(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    struct stele_controller *control = removal->control;
    control->reconcile.deleting_count--;
    if (removal->err == STELE_NO_MEMORY && control->state == STELE_CONTROLLER_SERVING) {
        stele_shard_arm(control->shard, &removal->timer, stele_env_mono_ms(control->shard->env) + RETRY_MS);
        return;
    }
    if (removal->err != STELE_OK)
        stele_trace(control->shard->env, STELE_TRACE_LOG_UNLINK_FAILED, removal->topic, stele_err_text(removal->err), 0,
                    0, 0);
    removal_free(removal);
    stele_controller_check_stopped(control);
}

static void start_deleting(struct stele_removal *removal)
{
    struct stele_env *env = removal->control->shard->env;
    removal->control->reconcile.deleting_count++;
    removal->job = (struct stele_job){.work = delete_work, .done = delete_done, .lane = removal};
    env->ops->job(env, &removal->job);
}

static void condemn(struct stele_removal *removal);

static void timer_fired(struct stele_timer *timer)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(timer, struct stele_removal, timer);
    if (removal->is_condemned)
        start_deleting(removal);
    else
        condemn(removal);
}

/* Step 2: the directories are renamed, and it lasts. */

static bool has_offline_dir(const struct stele_controller *control)
{
    for (int i = 0; i < control->node->dir_count; i++) {
        if (stele_log_dirs_is_offline(control->dirs, i))
            return true;
    }
    return false;
}

static int directory_count(const struct stele_removal *removal)
{
    int count = 0;
    for (int i = 0; i < removal->part_count; i++)
        count += removal->parts[i].dir >= 0;
    return count;
}

/* In a cluster other nodes may have directories of it still. */
static void forget(struct stele_removal *removal)
{
    struct stele_controller *control = removal->control;
    struct stele_image *image = &control->mlog.image;
    struct stele_image_removed *known = stele_image_removed_of(image, &removal->topic_id, NULL);
    control->reconcile.has_left = control->reconcile.has_left || !removal->is_complete || has_offline_dir(control);
    if (known != NULL && control->peers.shard == NULL && !control->reconcile.has_left)
        stele_image_forget_removed(image, known);
}

static void condemned(struct stele_removal *removal)
{
    struct stele_controller *control = removal->control;
    struct stele_shard *shard = control->shard;
    struct stele_uuid topic_id = removal->topic_id;
    int count = directory_count(removal);
    bool is_topic_gone = stele_image_topic_of(&control->mlog.image, &topic_id) == NULL;
    removal->is_condemned = true;
    stele_trace(shard->env, is_topic_gone ? STELE_TRACE_TOPIC_REMOVED : STELE_TRACE_REPLICAS_REMOVED, removal->topic,
                NULL, count, 0, 0);
    for (int i = 0; i < removal->part_count; i++)
        stele_reconcile__gone(&control->reconcile, removal->parts[i].local);
    if (is_topic_gone)
        forget(removal);
    int64_t delay_ms = stele_settings_int(control->node->settings, "log.segment.delete.delay.ms");
    if (count == 0 || control->state != STELE_CONTROLLER_SERVING)
        removal_free(removal);
    else
        stele_shard_arm(shard, &removal->timer, stele_env_mono_ms(shard->env) + stele_min_i64(delay_ms, INT32_MAX));
    stele_reconcile__settle(&control->reconcile, &topic_id);
    stele_reconcile_stir(&control->reconcile); /* the name is free */
    stele_controller_check_stopped(control);
}

static void condemn_done(struct stele_job *job)
{
    struct stele_removal *removal = STELE_CONTAINER_OF(job, struct stele_removal, job);
    struct stele_controller *control = removal->control;
    struct stele_shard *shard = control->shard;
    if (removal->err != STELE_OK)
        stele_controller_look_for_failed(control, removal->err, "a removed partition could not be renamed");
    if (removal->is_full && control->state == STELE_CONTROLLER_SERVING)
        stele_shard_arm(shard, &removal->timer, stele_env_mono_ms(shard->env) + RETRY_MS);
    else
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
        stele_log_dirs_fail(removal->control->dirs, dir, "the directory of a removed partition could not be renamed");
    }
}

static enum stele_err rename_part(const struct stele_removal *removal, const struct part *part, struct stele_env *env)
{
    struct stele_log_dirs *dirs = removal->control->dirs;
    enum stele_err err = STELE_OK;
    if (removal->is_again)
        err = stele_log_dirs_delete(env, stele_log_dirs_path(dirs, part->dir), removal->topic, part->number,
                                    &removal->topic_id);
    return err == STELE_OK ? stele_log_dirs_condemn(dirs, part->dir, removal->topic, part->number, &removal->topic_id)
                           : err;
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
        if (part->dir >= 0)
            see_result(removal, part->dir, rename_part(removal, part, job->env));
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
    struct stele_list *all = &removal->control->reconcile.removals;
    removal->is_again = false;
    for (struct stele_list *at = all->next; at != all; at = at->next)
        removal->is_again = removal->is_again || (at != &removal->link && removal_at(at)->is_condemned &&
                                                  stele_uuid_equal(&removal_at(at)->topic_id, &removal->topic_id));
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
    struct stele_list *all = &control->reconcile.removals;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        if (removal_at(at)->waits_for_round) {
            removal_at(at)->waits_for_round = false;
            condemn(removal_at(at));
        }
    }
}

/* Step 1: nothing uses the partitions any more. */

static void partition_removed(struct stele_partition *partition, void *arg)
{
    struct stele_removal *removal = arg;
    if (partition != NULL) {
        struct stele_local *local = stele_reconcile_find(&removal->control->reconcile, &partition->key);
        STELE_ASSERT(local != NULL && local->partition == partition);
        local->partition = NULL;
        stele_partition_free(partition);
    }
    if (--removal->closing_count == 0)
        all_closed(removal);
}

void stele_removal_run(struct stele_removal *removal)
{
    if (removal->part_count == 0) {
        removal_free(removal);
        return;
    }
    bool is_topic_gone = stele_image_topic_of(&removal->control->mlog.image, &removal->topic_id) == NULL;
    enum stele_err err = is_topic_gone ? STELE_UNKNOWN_TOPIC_ID : STELE_NOT_LEADER_OR_FOLLOWER;
    removal->closing_count = 1; /* until all are told */
    for (int i = 0; i < removal->part_count; i++) {
        removal->closing_count++;
        stele_partition_remove(removal->parts[i].local->partition, err, partition_removed, removal);
    }
    partition_removed(NULL, removal);
}

struct stele_removal *stele_removal_new(struct stele_controller *control, const struct stele_uuid *topic_id,
                                        const char *topic)
{
    struct stele_mem *mem = control->shard->env->mem;
    struct stele_removal *removal = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*removal));
    if (removal == NULL)
        return NULL;
    removal->control = control;
    removal->topic_id = *topic_id;
    stele_timer_init(&removal->timer, timer_fired);
    removal->topic = stele_mem_string(mem, STELE_MEM_NODE, topic);
    stele_list_push(&control->reconcile.removals, &removal->link);
    if (removal->topic != NULL)
        return removal;
    removal_free(removal);
    return NULL;
}

enum stele_err stele_removal_add(struct stele_removal *removal, struct stele_local *local)
{
    struct stele_mem *mem = removal->control->shard->env->mem;
    STELE_ASSERT(local->state == STELE_LOCAL_OPEN);
    if (removal->part_count == removal->part_capacity) {
        int capacity = removal->part_capacity == 0 ? 4 : removal->part_capacity * 2;
        struct part *grown =
            stele_mem_resize(mem, STELE_MEM_NODE, removal->parts, (size_t)capacity * sizeof(*removal->parts));
        if (grown == NULL)
            return STELE_NO_MEMORY;
        removal->parts = grown;
        removal->part_capacity = capacity;
    }
    const struct stele_partition *partition = local->partition;
    removal->parts[removal->part_count++] = (struct part){
        .local = local, .number = local->key.number, .dir = partition->path[0] != 0 ? partition->dir : -1};
    local->state = STELE_LOCAL_LEAVING;
    return STELE_OK;
}

const struct stele_uuid *stele_removal_topic(const struct stele_removal *removal)
{
    return &removal->topic_id;
}

bool stele_removals_hold(const struct stele_controller *control, const char *topic)
{
    const struct stele_list *all = &control->reconcile.removals;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        if (!removal_at(at)->is_condemned && strcmp(removal_at(at)->topic, topic) == 0)
            return true;
    }
    return false;
}

bool stele_removals_are_idle(const struct stele_controller *control)
{
    const struct stele_list *all = &control->reconcile.removals;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        if (!removal_at(at)->is_condemned)
            return false;
    }
    return control->reconcile.deleting_count == 0;
}

void stele_removals_stop(struct stele_controller *control)
{
    struct stele_list *all = &control->reconcile.removals, *at = all->next;
    while (at != all) {
        struct stele_removal *removal = removal_at(at);
        at = at->next;
        if (!stele_timer_is_armed(&removal->timer))
            continue;
        if (removal->is_condemned)
            removal_free(removal);
        else /* there is no room for the names */
            condemned(removal);
    }
}
