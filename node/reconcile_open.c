/* Placing and opening, a batch at a time: a job finds or makes the directories, then the shards open the logs. */
#include "node/controller.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/removal.h"

#include <stdio.h>
#include <string.h>

enum { BATCH_MAX = 512 };

static struct stele_local *local_at(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_local, link);
}

/* Settings. */

enum stele_err stele_reconcile__send_settings(struct stele_reconcile *reconcile, const struct stele_image_topic *topic)
{
    struct stele_partition_key key = {.topic_id = topic->topic_id};
    struct stele_log_config config;
    bool has_config = false;
    for (; key.number < topic->partition_count; key.number++) {
        struct stele_local *local = stele_reconcile_find(reconcile, &key);
        if (local == NULL || (local->state != STELE_LOCAL_OPENING && local->state != STELE_LOCAL_OPEN))
            continue;
        enum stele_err err = has_config ? STELE_OK : stele_controller_topic_config(reconcile->control, topic, &config);
        if (err != STELE_OK) /* what is not legal any more is left as it was */
            return STELE_OK;
        has_config = true;
        stele_partition_send_config(local->partition, &config);
    }
    return STELE_OK;
}

/* Opening. */

static void opened(struct stele_partition *partition, void *arg)
{
    struct stele_local *local = arg;
    struct stele_controller *control = &partition->shard->node->control;
    struct stele_reconcile *reconcile = &control->reconcile;
    struct stele_uuid topic_id = local->key.topic_id;
    local->state = STELE_LOCAL_OPEN; /* one that did not open is offline and says so */
    reconcile->opening_count--;
    if (reconcile->has_unwanted || stele_reconcile__wants(reconcile, &local->key) == NULL) {
        reconcile->has_unwanted = true;
        stele_reconcile_stir(reconcile);
    }
    stele_reconcile__settle(reconcile, &topic_id);
    stele_reconcile__begun(reconcile, STELE_OK);
    stele_controller_check_stopped(control);
}

static enum stele_err take_config(struct stele_opener *opener, const struct stele_image_topic *topic)
{
    struct stele_controller *control = opener->reconcile->control;
    if (stele_uuid_equal(&opener->topic_id, &topic->topic_id))
        return STELE_OK;
    opener->why_offline = NULL;
    enum stele_err err = stele_controller_topic_config(control, topic, &opener->config);
    if (err == STELE_INVALID_CONFIG) {
        /* Settings that an older version took: this topic is offline and says why, the others go on. */
        opener->why_offline = "a setting of its topic is not legal any more";
        stele_log_config_default(&opener->config);
        err = STELE_OK;
    }
    if (err == STELE_OK)
        opener->topic_id = topic->topic_id;
    return err;
}

enum stele_err stele_opener_open(struct stele_opener *opener, struct stele_local *local, const char *topic,
                                 const struct stele_place *place)
{
    struct stele_reconcile *reconcile = opener->reconcile;
    struct stele_controller *control = reconcile->control;
    const struct stele_image_topic *known = stele_reconcile__wants(reconcile, &local->key);
    char path[STELE_PATH_BYTES] = "", name[STELE_TOPIC_NAME_MAX + 16];
    struct stele_partition_setup setup = {.topic = topic,
                                          .key = local->key,
                                          .state.leader_id = STELE_NO_NODE,
                                          .dir = place->dir,
                                          .path = path,
                                          .is_made = place->is_made,
                                          .is_unmade = place->is_unmade,
                                          .is_new = place->is_new,
                                          .was_clean = place->was_clean,
                                          .recovery_point = place->recovery_point,
                                          .log_start_offset = place->log_start_offset,
                                          .high_watermark = place->high_watermark};
    stele_log_config_default(&setup.config);
    if (known != NULL) { /* otherwise it goes again as soon as it is open */
        enum stele_err err = take_config(opener, known);
        if (err != STELE_OK)
            return err;
        setup.config = opener->config;
        setup.why_offline = opener->why_offline;
        setup.state = stele_reconcile__state_of(reconcile, &known->partitions[local->key.number].state);
    }
    (void)snprintf(name, sizeof(name), "%s-%d", topic, (int)place->number);
    if (!place->has_directory)
        setup.why_offline = "its log directory is offline";
    else if (stele_path_join(path, stele_log_dirs_path(control->dirs, place->dir), name) != STELE_OK)
        setup.why_offline = "the path of its directory is too long";
    local->leader_epoch = setup.state.leader_epoch;
    local->partition_epoch = setup.state.partition_epoch;
    enum stele_err err = stele_partition_open(control->node, &setup, opened, local, &local->partition);
    if (err == STELE_OK) {
        local->state = STELE_LOCAL_OPENING;
        reconcile->opening_count++;
    }
    return err;
}

static void end_batch(struct stele_reconcile *reconcile)
{
    struct stele_mem *mem = reconcile->control->shard->env->mem;
    struct stele_places *places = &reconcile->places;
    stele_mem_free(mem, places->topics);
    stele_mem_free(mem, places->items);
    stele_mem_free(mem, places->left);
    reconcile->has_left = reconcile->has_left || places->has_left;
    *places = (struct stele_places){
        .env = reconcile->control->shard->env, .dirs = reconcile->control->dirs, .is_start = reconcile->begun != NULL};
    reconcile->is_placing = false;
}

/* What has no place yet waits for the next batch, in front. */
static void want_again(struct stele_reconcile *reconcile)
{
    struct stele_list *front = reconcile->wanted.next;
    /* From the front: see take_back in node/isr_wishes.c. */
    while (!stele_list_is_empty(&reconcile->making)) {
        struct stele_local *local = local_at(reconcile->making.next);
        stele_list_remove(&local->link);
        local->state = STELE_LOCAL_WANTED;
        stele_list_push(front, &local->link); /* before it */
    }
}

void stele_reconcile__abandon(struct stele_reconcile *reconcile)
{
    struct stele_places *places = &reconcile->places;
    if (!reconcile->is_placing || reconcile->has_job)
        return;
    for (int i = reconcile->place_next; i < places->count; i++) {
        if (places->items[i].is_made) /* its names are not synced */
            reconcile->control->node->dirs[places->items[i].dir].has_failed_log = true;
    }
    want_again(reconcile);
    end_batch(reconcile);
}

void stele_reconcile__open(struct stele_reconcile *reconcile)
{
    struct stele_places *places = &reconcile->places;
    struct stele_opener opener = {.reconcile = reconcile};
    enum stele_err err = STELE_OK;
    while (err == STELE_OK && reconcile->place_next < places->count) {
        const struct stele_place *place = &places->items[reconcile->place_next];
        while (reconcile->place_next >=
               places->topics[reconcile->place_topic].first + places->topics[reconcile->place_topic].count)
            reconcile->place_topic++;
        if (!place->is_placed)
            break;
        struct stele_local *local = local_at(reconcile->making.next);
        err = stele_opener_open(&opener, local, places->topics[reconcile->place_topic].name, place);
        if (err != STELE_OK)
            break;
        stele_list_remove(&local->link);
        reconcile->place_next++;
    }
    if (err != STELE_OK && reconcile->control->state == STELE_CONTROLLER_SERVING) {
        stele_reconcile__retry(reconcile);
        return;
    }
    if (err == STELE_OK)
        err = places->err;
    stele_reconcile__abandon(reconcile);
    if (err == STELE_OK)
        stele_reconcile__place(reconcile);
    else
        stele_reconcile__retry(reconcile);
    stele_reconcile__begun(reconcile, err);
}

/* Placing. */

static void place_done(struct stele_job *job)
{
    struct stele_reconcile *reconcile = STELE_CONTAINER_OF(job, struct stele_reconcile, job);
    struct stele_controller *control = reconcile->control;
    reconcile->has_job = false;
    if (stele_log_dirs_is_offline(control->dirs, 0)) /* with the line of who was made while another one was offline */
        stele_controller_look_for_failed(control, STELE_IO, "the place of a partition could not be written");
    stele_reconcile__open(reconcile);
    stele_controller_check_stopped(control);
}

static void place_work(struct stele_job *job)
{
    stele_places_make(&STELE_CONTAINER_OF(job, struct stele_reconcile, job)->places);
}

/* Takes those whose names are free into `making`. */
static void pick(struct stele_reconcile *reconcile)
{
    struct stele_places *places = &reconcile->places;
    struct stele_list *at = reconcile->wanted.next;
    const struct stele_image_topic *last = NULL, *held = NULL;
    places->count = places->topic_count = 0;
    while (at != &reconcile->wanted && places->count < BATCH_MAX) {
        struct stele_local *local = local_at(at);
        const struct stele_image_topic *topic = stele_reconcile__wants(reconcile, &local->key);
        at = at->next;
        if (topic == NULL) {
            stele_reconcile__drop(reconcile, local);
            continue;
        }
        if (topic != last && topic != held && stele_removals_hold(reconcile->control, topic->name))
            held = topic;
        if (topic == held)
            continue;
        places->topic_count += topic != last;
        last = topic;
        places->count++;
        stele_list_remove(&local->link);
        local->state = STELE_LOCAL_MAKING;
        stele_list_push(&reconcile->making, &local->link);
    }
}

static bool fill(struct stele_reconcile *reconcile)
{
    struct stele_mem *mem = reconcile->control->shard->env->mem;
    struct stele_places *places = &reconcile->places;
    const struct stele_image_topic *last = NULL;
    int at = 0;
    if (places->count == 0)
        return true;
    places->topics = stele_mem_array(mem, STELE_MEM_NODE, (size_t)places->topic_count, sizeof(*places->topics));
    places->items = stele_mem_array(mem, STELE_MEM_NODE, (size_t)places->count, sizeof(*places->items));
    if (places->topics == NULL || places->items == NULL)
        return false;
    places->topic_count = 0;
    for (struct stele_list *link = reconcile->making.next; link != &reconcile->making; link = link->next) {
        const struct stele_local *local = local_at(link);
        const struct stele_image_topic *topic = stele_reconcile__wants(reconcile, &local->key);
        if (topic != last) {
            struct stele_place_topic *next = &places->topics[places->topic_count++];
            *next = (struct stele_place_topic){.topic_id = topic->topic_id, .first = at};
            (void)snprintf(next->name, sizeof(next->name), "%s", topic->name);
            last = topic;
        }
        places->topics[places->topic_count - 1].count++;
        places->items[at++].number = local->key.number;
    }
    return true;
}

void stele_reconcile__place(struct stele_reconcile *reconcile)
{
    struct stele_controller *control = reconcile->control;
    struct stele_places *places = &reconcile->places;
    bool is_start = reconcile->begun != NULL;
    if (reconcile->is_placing || (!is_start && (reconcile->has_unwanted || control->state != STELE_CONTROLLER_SERVING)))
        return;
    pick(reconcile);
    bool is_filled = fill(reconcile);
    if (!is_filled || (places->count == 0 && places->left_count == 0)) {
        want_again(reconcile);
        end_batch(reconcile);
        if (is_filled)
            return;
        stele_reconcile__retry(reconcile);
        stele_reconcile__begun(reconcile, STELE_NO_MEMORY);
        return;
    }
    reconcile->is_placing = reconcile->has_job = true;
    reconcile->place_next = reconcile->place_topic = 0;
    reconcile->job = (struct stele_job){.work = place_work, .done = place_done};
    stele_controller_job(control, &reconcile->job);
}
