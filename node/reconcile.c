/* Invariants: reconcile.h. Placing and opening are in reconcile_open.c. */
#include "node/reconcile.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/removal.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 200 };

static struct stele_image *image_of(const struct stele_reconcile *reconcile)
{
    return &reconcile->control->mlog.image;
}

static bool is_serving(const struct stele_reconcile *reconcile)
{
    return reconcile->control->state == STELE_CONTROLLER_SERVING;
}

/* The table. */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"

struct stele_local *stele_reconcile_find(const struct stele_reconcile *reconcile, const struct stele_partition_key *key)
{
    struct stele_local *local = NULL;
    HASH_FIND(hh, reconcile->locals, key, sizeof(*key), local);
    return local;
}

static bool table_add(struct stele_reconcile *reconcile, struct stele_local *local)
{
    struct stele_mem *uthash_mem = reconcile->control->shard->env->mem;
    HASH_ADD(hh, reconcile->locals, key, sizeof(local->key), local);
    return local->hh.tbl != NULL;
}

static void table_remove(struct stele_reconcile *reconcile, struct stele_local *local)
{
    struct stele_mem *uthash_mem = reconcile->control->shard->env->mem;
    HASH_DEL(reconcile->locals, local);
}

#pragma GCC diagnostic pop

struct stele_local *stele_reconcile__add(struct stele_reconcile *reconcile, const struct stele_partition_key *key)
{
    struct stele_mem *mem = reconcile->control->shard->env->mem;
    struct stele_local *local = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*local));
    if (local == NULL)
        return NULL;
    local->key = *key;
    stele_list_init(&local->link);
    if (table_add(reconcile, local))
        return local;
    stele_mem_free(mem, local);
    return NULL;
}

void stele_reconcile__drop(struct stele_reconcile *reconcile, struct stele_local *local)
{
    table_remove(reconcile, local);
    stele_list_remove(&local->link);
    stele_mem_free(reconcile->control->shard->env->mem, local);
}

struct stele_image_topic *stele_reconcile__wants(const struct stele_reconcile *reconcile,
                                                 const struct stele_partition_key *key)
{
    struct stele_image_topic *topic = stele_image_topic_of(image_of(reconcile), &key->topic_id);
    if (topic == NULL || key->number >= topic->partition_count)
        return NULL;
    const struct stele_image_partition *partition = &topic->partitions[key->number];
    bool is_replica = stele_node_set_has(&partition->state.replicas, reconcile->control->node->node_id);
    return partition->is_known && is_replica ? topic : NULL;
}

/* Who waits. */

static bool is_settled(const struct stele_reconcile *reconcile, const struct stele_partition_key *key)
{
    const struct stele_local *local = stele_reconcile_find(reconcile, key);
    if (!is_serving(reconcile))
        return local == NULL || local->state == STELE_LOCAL_OPEN || local->state == STELE_LOCAL_WANTED;
    if (stele_reconcile__wants(reconcile, key) == NULL)
        return local == NULL;
    return local != NULL && local->state == STELE_LOCAL_OPEN;
}

static bool may_end(const struct stele_reconcile *reconcile, struct stele_reconcile_wait *wait)
{
    struct stele_partition_key key = {.topic_id = wait->topic_id};
    for (; wait->next < wait->end; wait->next++) {
        key.number = wait->next;
        if (!is_settled(reconcile, &key))
            return false;
    }
    return true;
}

void stele_reconcile_wait_drop(struct stele_reconcile_wait *wait)
{
    if (wait->reconcile == NULL)
        return;
    stele_timer_cancel(wait->reconcile->control->shard->wheel, &wait->timer);
    stele_list_remove(&wait->link);
    wait->reconcile = NULL;
}

static void end_wait(struct stele_reconcile_wait *wait)
{
    stele_reconcile_wait_drop(wait);
    wait->done(wait);
}

static void wait_is_over(struct stele_timer *timer)
{
    end_wait(STELE_CONTAINER_OF(timer, struct stele_reconcile_wait, timer));
}

/* Of one topic, or (NULL) of all. */
static void settle(struct stele_reconcile *reconcile, const struct stele_uuid *topic_id)
{
    struct stele_list ended, *at = reconcile->waits.next;
    stele_list_init(&ended);
    while (at != &reconcile->waits) {
        struct stele_reconcile_wait *wait = STELE_CONTAINER_OF(at, struct stele_reconcile_wait, link);
        at = at->next;
        if ((topic_id != NULL && !stele_uuid_equal(topic_id, &wait->topic_id)) || !may_end(reconcile, wait))
            continue;
        stele_list_remove(&wait->link);
        stele_list_push(&ended, &wait->link);
    }
    while (!stele_list_is_empty(&ended)) {
        struct stele_reconcile_wait *wait = STELE_CONTAINER_OF(ended.next, struct stele_reconcile_wait, link);
        end_wait(wait);
    }
}

void stele_reconcile__settle(struct stele_reconcile *reconcile, const struct stele_uuid *topic_id)
{
    settle(reconcile, topic_id);
}

void stele_reconcile_await(struct stele_reconcile *reconcile, struct stele_reconcile_wait *wait)
{
    wait->reconcile = reconcile;
    stele_list_push(&reconcile->waits, &wait->link);
    stele_timer_init(&wait->timer, wait_is_over);
    if (wait->deadline_ms < INT64_MAX)
        stele_shard_arm(reconcile->control->shard, &wait->timer, wait->deadline_ms);
    stele_reconcile_stir(reconcile);
}

/* Those that go. */

/* Goes on with the removal of the same topic, or begins another. */
static enum stele_err leave(struct stele_reconcile *reconcile, struct stele_local *local,
                            struct stele_removal **inout_removal)
{
    struct stele_removal *removal = *inout_removal;
    if (removal != NULL && !stele_uuid_equal(stele_removal_topic(removal), &local->key.topic_id)) {
        stele_removal_run(removal);
        removal = NULL;
    }
    if (removal == NULL)
        removal = stele_removal_new(reconcile->control, &local->key.topic_id, local->partition->topic);
    *inout_removal = removal;
    return removal == NULL ? STELE_NO_MEMORY : stele_removal_add(removal, local);
}

/* What is being made is looked at again when it is open. Until then it has its name. */
static enum stele_err see_unwanted(struct stele_reconcile *reconcile, struct stele_local *local,
                                   struct stele_removal **inout_removal)
{
    if (local->state == STELE_LOCAL_WANTED)
        stele_reconcile__drop(reconcile, local);
    else if (local->state == STELE_LOCAL_OPEN && stele_moves_hold(local))
        reconcile->has_unwanted = true;
    else if (local->state == STELE_LOCAL_OPEN)
        return leave(reconcile, local, inout_removal);
    else if (local->state != STELE_LOCAL_LEAVING)
        reconcile->has_unwanted = true;
    return STELE_OK;
}

static void run_removal(struct stele_removal *removal)
{
    if (removal != NULL)
        stele_removal_run(removal);
}

static enum stele_err look_at_gone(struct stele_reconcile *reconcile, struct stele_image_removed *removed)
{
    struct stele_removal *removal = NULL;
    enum stele_err err = STELE_OK;
    struct stele_partition_key key = {.topic_id = removed->topic_id};
    for (; key.number < removed->partition_count && err == STELE_OK; key.number++) {
        struct stele_local *local = stele_reconcile_find(reconcile, &key);
        if (local != NULL)
            err = see_unwanted(reconcile, local, &removal);
    }
    run_removal(removal);
    if (err == STELE_OK)
        stele_list_remove(&removed->gone);
    return err;
}

static enum stele_err remove_unwanted(struct stele_reconcile *reconcile)
{
    struct stele_removal *removal = NULL;
    struct stele_local *local, *next;
    enum stele_err err = STELE_OK;
    reconcile->has_unwanted = false;
    HASH_ITER(hh, reconcile->locals, local, next)
    {
        if (err == STELE_OK && stele_reconcile__wants(reconcile, &local->key) == NULL)
            err = see_unwanted(reconcile, local, &removal);
    }
    run_removal(removal);
    reconcile->has_unwanted = reconcile->has_unwanted || err != STELE_OK;
    return err;
}

void stele_reconcile__gone(struct stele_reconcile *reconcile, struct stele_local *local)
{
    if (stele_reconcile__wants(reconcile, &local->key) == NULL) {
        stele_reconcile__drop(reconcile, local);
        return;
    }
    local->state = STELE_LOCAL_WANTED;
    stele_list_push(&reconcile->wanted, &local->link);
}

/* Those that come and stay. */

/* What the image says of a node that is not registered is about an earlier life of it, which had what this one perhaps
 * lost, or about another process of that number: such a partition follows nobody, so that the state that comes after
 * the registration counts as another one. */
struct stele_partition_state stele_reconcile__state_of(const struct stele_reconcile *reconcile,
                                                       const struct stele_partition_state *state)
{
    struct stele_partition_state here = *state;
    if (!stele_life_is_known(&reconcile->control->life)) {
        here.leader_id = STELE_NO_NODE;
        here.leader_epoch = state->leader_epoch - 1;
    }
    return here;
}

void stele_reconcile_see_all(struct stele_reconcile *reconcile)
{
    struct stele_image *image = image_of(reconcile);
    for (struct stele_image_topic *topic = image->by_name; topic != NULL; topic = topic->by_name.next) {
        for (int32_t i = 0; i < topic->partition_count; i++) {
            if (topic->partitions[i].is_known)
                stele_image_touch(image, topic, i);
        }
    }
    stele_reconcile_stir(reconcile);
}

static enum stele_err look_at_partition(struct stele_reconcile *reconcile, const struct stele_image_topic *topic,
                                        int32_t number, struct stele_removal **inout_removal)
{
    struct stele_partition_key key = {.topic_id = topic->topic_id, .number = number};
    const struct stele_partition_state state = stele_reconcile__state_of(reconcile, &topic->partitions[number].state);
    struct stele_local *local = stele_reconcile_find(reconcile, &key);
    if (!stele_node_set_has(&state.replicas, reconcile->control->node->node_id))
        return local == NULL ? STELE_OK : see_unwanted(reconcile, local, inout_removal);
    if (local == NULL) {
        local = stele_reconcile__add(reconcile, &key);
        if (local == NULL)
            return STELE_NO_MEMORY;
        stele_list_push(&reconcile->wanted, &local->link);
    } else if (local->state == STELE_LOCAL_OPENING || local->state == STELE_LOCAL_OPEN) {
        if (local->leader_epoch == state.leader_epoch && local->partition_epoch == state.partition_epoch)
            return STELE_OK;
        local->leader_epoch = state.leader_epoch;
        local->partition_epoch = state.partition_epoch;
        stele_partition_send_state(local->partition, &state);
    }
    return STELE_OK;
}

static enum stele_err look_at_topic(struct stele_reconcile *reconcile, struct stele_image_topic *topic)
{
    struct stele_removal *removal = NULL;
    enum stele_err err = STELE_OK;
    int32_t number;
    while (err == STELE_OK && (number = stele_image_take_touched(topic)) >= 0) {
        err = look_at_partition(reconcile, topic, number, &removal);
        if (err != STELE_OK)
            stele_image_touch(image_of(reconcile), topic, number);
    }
    run_removal(removal);
    if (err == STELE_OK && topic->has_new_settings)
        err = stele_reconcile__send_settings(reconcile, topic);
    if (err != STELE_OK)
        return err;
    topic->has_new_settings = false;
    stele_list_remove(&topic->touched);
    return STELE_OK;
}

static enum stele_err look_at_touched(struct stele_reconcile *reconcile)
{
    struct stele_image *image = image_of(reconcile);
    enum stele_err err = STELE_OK;
    while (err == STELE_OK && !stele_list_is_empty(&image->touched))
        err = look_at_topic(reconcile, STELE_CONTAINER_OF(image->touched.next, struct stele_image_topic, touched));
    return err;
}

static enum stele_err look_at_image(struct stele_reconcile *reconcile)
{
    struct stele_image *image = image_of(reconcile);
    enum stele_err err = STELE_OK;
    if (image->is_new || reconcile->has_unwanted)
        err = remove_unwanted(reconcile);
    if (err == STELE_OK && image->is_new)
        stele_image_touch_all(image);
    while (err == STELE_OK && !stele_list_is_empty(&image->gone))
        err = look_at_gone(reconcile, STELE_CONTAINER_OF(image->gone.next, struct stele_image_removed, gone));
    return err == STELE_OK ? look_at_touched(reconcile) : err;
}

void stele_reconcile_look(struct stele_reconcile *reconcile)
{
    if (is_serving(reconcile)) {
        enum stele_err err = stele_controller_tell_nodes(reconcile->control);
        if (err == STELE_OK)
            err = look_at_image(reconcile);
        if (err != STELE_OK)
            stele_reconcile__retry(reconcile);
        stele_reconcile__place(reconcile);
    }
    settle(reconcile, NULL);
}

static void came(struct stele_task *task)
{
    struct stele_reconcile *reconcile = STELE_CONTAINER_OF(task, struct stele_reconcile, task);
    reconcile->is_posted = false;
    stele_reconcile_look(reconcile);
}

void stele_reconcile_stir(struct stele_reconcile *reconcile)
{
    struct stele_env *env = reconcile->control->shard->env;
    if (reconcile->is_posted)
        return;
    reconcile->is_posted = true;
    env->ops->post(env, &reconcile->task);
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_reconcile *reconcile = STELE_CONTAINER_OF(timer, struct stele_reconcile, timer);
    if (reconcile->is_placing && !reconcile->has_job)
        stele_reconcile__open(reconcile);
    stele_reconcile_look(reconcile);
}

void stele_reconcile__retry(struct stele_reconcile *reconcile)
{
    struct stele_shard *shard = reconcile->control->shard;
    if (is_serving(reconcile))
        stele_shard_arm(shard, &reconcile->timer, stele_env_mono_ms(shard->env) + RETRY_MS);
}

/* The start. */

/* Nothing is left of removed topics where everything could be looked at. In a cluster other nodes may have some. */
static void forget_removed(struct stele_reconcile *reconcile)
{
    struct stele_controller *control = reconcile->control;
    struct stele_image *image = &control->mlog.image;
    for (int i = 0; i < stele_log_dirs_count(control->dirs); i++)
        reconcile->has_left = reconcile->has_left || stele_log_dirs_is_offline(control->dirs, i);
    while (!reconcile->has_left && control->peers.shard == NULL && !stele_list_is_empty(&image->removed))
        stele_image_forget_removed(image, STELE_CONTAINER_OF(image->removed.next, struct stele_image_removed, link));
}

void stele_reconcile__begun(struct stele_reconcile *reconcile, enum stele_err err)
{
    void (*begun)(struct stele_controller *, enum stele_err) = reconcile->begun;
    bool is_under_way =
        reconcile->is_placing || reconcile->opening_count > 0 || !stele_list_is_empty(&reconcile->wanted);
    if (begun == NULL || (err == STELE_OK && is_under_way))
        return;
    reconcile->begun = NULL;
    if (err == STELE_OK)
        forget_removed(reconcile);
    begun(reconcile->control, err);
}

/* What has no id was never synced, and may be of an earlier topic of that name. A node that is alone keeps it: nothing
 * in it was acknowledged, and nobody compares it with another log. A replica's must not agree by chance. */
static bool may_be_of(const struct stele_reconcile *reconcile, const struct stele_found_log *found)
{
    return reconcile->control->peers.shard == NULL || !stele_uuid_is_zero(&found->topic_id);
}

/* One that no record ever named is left alone: it is nobody's to delete. */
static bool is_left(const struct stele_reconcile *reconcile, const struct stele_found_log *found,
                    const struct stele_image_topic *topic, struct stele_uuid *out_topic_id)
{
    bool has_id = !stele_uuid_is_zero(&found->topic_id);
    bool is_known =
        topic != NULL && found->partition < topic->partition_count && topic->partitions[found->partition].is_known;
    if (is_known) { /* another node has it now, or nobody knows what it is; unless this is its twin */
        *out_topic_id = topic->topic_id;
        return !may_be_of(reconcile, found) || !stele_node_set_has(&topic->partitions[found->partition].state.replicas,
                                                                   reconcile->control->node->node_id);
    }
    /* Without an id its names were never synced, and nothing in it was acknowledged. */
    const struct stele_image_removed *removed = NULL;
    if (has_id || topic == NULL)
        removed = stele_image_removed_of(image_of(reconcile), has_id ? &found->topic_id : NULL, found->topic);
    if (removed != NULL)
        *out_topic_id = removed->topic_id;
    return removed != NULL;
}

static enum stele_err keep_left(struct stele_reconcile *reconcile, const struct stele_found_log *found,
                                const struct stele_uuid *topic_id, const char *mark)
{
    struct stele_places *places = &reconcile->places;
    if (places->left == NULL)
        places->left = stele_mem_array(reconcile->control->shard->env->mem, STELE_MEM_NODE,
                                       (size_t)stele_log_dirs_found_count(places->dirs) +
                                           (size_t)stele_log_dirs_future_count(places->dirs),
                                       sizeof(*places->left));
    if (places->left == NULL)
        return STELE_NO_MEMORY;
    places->left[places->left_count++] = (struct stele_place_left){.found = found, .topic_id = *topic_id, .mark = mark};
    return STELE_OK;
}

static enum stele_err take_found(struct stele_opener *opener, const struct stele_found_log *found)
{
    struct stele_reconcile *reconcile = opener->reconcile;
    struct stele_image_topic *topic = stele_image_topic_named(image_of(reconcile), found->topic);
    struct stele_uuid topic_id;
    struct stele_place place;
    if (topic != NULL && !stele_uuid_is_zero(&found->topic_id) && !stele_uuid_equal(&topic->topic_id, &found->topic_id))
        topic = NULL;
    if (topic != NULL && may_be_of(reconcile, found)) {
        struct stele_partition_key key = {.topic_id = topic->topic_id, .number = found->partition};
        if (stele_reconcile__wants(reconcile, &key) != NULL && stele_reconcile_find(reconcile, &key) == NULL) {
            struct stele_local *local = stele_reconcile__add(reconcile, &key);
            stele_place_of_found(found, &place);
            return local == NULL ? STELE_NO_MEMORY : stele_opener_open(opener, local, topic->name, &place);
        }
    }
    if (is_left(reconcile, found, topic, &topic_id))
        return keep_left(reconcile, found, &topic_id, NULL);
    char name[STELE_TOPIC_NAME_MAX + 16];
    (void)snprintf(name, sizeof(name), "%s-%d", found->topic, (int)found->partition);
    stele_trace(reconcile->control->shard->env, STELE_TRACE_PARTITION_STRAY, name,
                stele_log_dirs_path(reconcile->places.dirs, found->dir), 0, 0, 0);
    return STELE_OK;
}

/* Those with an id first: one without takes a place that no other has. */
static enum stele_err take_all_found(struct stele_reconcile *reconcile)
{
    struct stele_opener opener = {.reconcile = reconcile};
    struct stele_log_dirs *dirs = reconcile->control->dirs;
    enum stele_err err = STELE_OK;
    int count = stele_log_dirs_found_count(dirs);
    for (int i = 0; i < 2 * count && err == STELE_OK; i++) {
        const struct stele_found_log *found = stele_log_dirs_found(dirs, i % count);
        if (strcmp(found->topic, STELE_METADATA_TOPIC_NAME) != 0 &&
            stele_uuid_is_zero(&found->topic_id) == (i >= count))
            err = take_found(&opener, found);
    }
    return err;
}

/* A copy is of use to a replica that lies elsewhere. One without an id was never whole. */
static enum stele_err take_future(struct stele_reconcile *reconcile, const struct stele_found_future *future)
{
    struct stele_image_topic *topic = stele_image_topic_named(image_of(reconcile), future->log.topic);
    struct stele_partition_key key = {.topic_id = future->log.topic_id, .number = future->log.partition};
    const struct stele_local *local = stele_reconcile_find(reconcile, &key);
    struct stele_uuid topic_id = future->log.topic_id;
    bool is_of_no_use = stele_uuid_is_zero(&topic_id);
    if (topic != NULL && !stele_uuid_equal(&topic->topic_id, &topic_id))
        topic = NULL;
    if (local != NULL)
        is_of_no_use = local->partition != NULL && local->partition->dir == future->log.dir;
    else if (!is_of_no_use)
        is_of_no_use = is_left(reconcile, &future->log, topic, &topic_id);
    return is_of_no_use ? keep_left(reconcile, &future->log, &topic_id, future->mark) : STELE_OK;
}

static enum stele_err take_all_futures(struct stele_reconcile *reconcile)
{
    struct stele_log_dirs *dirs = reconcile->control->dirs;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < stele_log_dirs_future_count(dirs) && err == STELE_OK; i++)
        err = take_future(reconcile, stele_log_dirs_future(dirs, i));
    return err;
}

void stele_reconcile_begin(struct stele_reconcile *reconcile,
                           void (*begun)(struct stele_controller *control, enum stele_err err))
{
    reconcile->begun = begun;
    reconcile->places = (struct stele_places){
        .env = reconcile->control->shard->env, .dirs = reconcile->control->dirs, .is_start = true};
    reconcile->opening_count = 1; /* until all are under way */
    enum stele_err err = stele_controller_tell_nodes(reconcile->control);
    if (err == STELE_OK)
        err = take_all_found(reconcile);
    if (err == STELE_OK)
        err = take_all_futures(reconcile);
    stele_image_touch_all(image_of(reconcile));
    if (err == STELE_OK)
        err = look_at_touched(reconcile);
    if (err == STELE_OK)
        stele_reconcile__place(reconcile);
    reconcile->opening_count--;
    stele_reconcile__begun(reconcile, err);
}

/* The end. */

void stele_reconcile_stop(struct stele_reconcile *reconcile)
{
    stele_timer_cancel(reconcile->control->shard->wheel, &reconcile->timer);
    stele_reconcile__abandon(reconcile);
    stele_removals_stop(reconcile->control);
    stele_moves_stop(reconcile->control);
    stele_reconcile_stir(reconcile); /* nobody waits for what is not begun */
}

bool stele_reconcile_is_idle(const struct stele_reconcile *reconcile)
{
    return !reconcile->has_job && reconcile->opening_count == 0 && stele_removals_are_idle(reconcile->control) &&
           stele_moves_are_idle(reconcile->control);
}

void stele_reconcile_init(struct stele_reconcile *reconcile, struct stele_controller *control)
{
    *reconcile = (struct stele_reconcile){.control = control, .task = {.run = came}, .told_members = -1};
    stele_list_init(&reconcile->wanted);
    stele_list_init(&reconcile->making);
    stele_list_init(&reconcile->removals);
    stele_list_init(&reconcile->waits);
    stele_timer_init(&reconcile->timer, timer_fired);
}

void stele_reconcile_deinit(struct stele_reconcile *reconcile)
{
    struct stele_local *local, *next;
    struct stele_mem *mem = reconcile->control->shard->env->mem;
    stele_timer_cancel(reconcile->control->shard->wheel, &reconcile->timer);
    stele_removals_free(reconcile->control);
    stele_moves_free(reconcile->control);
    HASH_ITER(hh, reconcile->locals, local, next)
    stele_reconcile__drop(reconcile, local);
    stele_mem_free(mem, reconcile->places.topics);
    stele_mem_free(mem, reconcile->places.items);
    stele_mem_free(mem, reconcile->places.left);
}
