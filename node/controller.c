/* Where partitions lie, how they are opened, and what ends the process. Start and stop are in controller_life.c, the
 * rounds in controller_rounds.c, the creation of topics in handle_admin.c. */
#include "node/controller.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/topic_ops.h"

#include <stdio.h>
#include <string.h>

void stele_controller_job(struct stele_controller *control, struct stele_job *job)
{
    job->lane = control;
    control->shard->env->ops->job(control->shard->env, job);
}

void stele_controller_fatal(struct stele_controller *control, enum stele_err err, const char *what)
{
    struct stele_node *node = control->node;
    struct stele_error error;
    (void)stele_error_set(&error, err, "%s (%s): the node cannot go on without it; %s and start again", what,
                          stele_err_text(err), err == STELE_NO_MEMORY ? "give it more memory" : "repair the disk");
    node->options.fatal(node->options.arg, STELE_EXIT_STORAGE, &error);
}

static void disk_went_back(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    struct stele_error error;
    stele_metadata_log_halt(&control->mlog);
    (void)stele_error_set(&error, STELE_INVALID_VOTER_KEY,
                          "the leader of the metadata quorum knows this disk to have had more of the metadata log than "
                          "it has: an older copy was put back, or it lost what it had synced. Empty the data "
                          "directory, start the node again and readmit it: stele quorum readmit %d",
                          (int)node->node_id);
    node->options.fatal(node->options.arg, STELE_EXIT_DIR, &error);
}

/* What the voters' record says, then the list of peers, then what the node registered with. */
bool stele_controller_peer_address(struct stele_controller *control, int32_t node_id,
                                   char out_address[STELE_ADDRESS_BYTES])
{
    const struct stele_image *image = &control->mlog.image;
    const struct stele_peer_list *list = &control->formation.file.peers;
    const struct stele_listeners *own = &control->node->listeners;
    for (size_t i = 0; i < image->voter_count; i++) {
        if (image->voters[i].key.node_id == node_id && image->voters[i].host[0] != 0) {
            stele_address_join(image->voters[i].host, image->voters[i].port, out_address);
            return true;
        }
    }
    if (node_id >= 1 && node_id <= list->count) {
        memcpy(out_address, list->addresses[node_id - 1], STELE_ADDRESS_BYTES);
        return true;
    }
    const struct stele_image_member *member = stele_image_member_of(image, node_id);
    const char *name = own->count > 0 ? own->items[0].name : "";
    for (int i = 0; i < own->count; i++)
        name = own->items[i].is_peer ? own->items[i].name : name;
    for (size_t i = 0; member != NULL && i < member->listener_count; i++) {
        if (strcmp(member->listeners[i].name, name) != 0)
            continue;
        stele_address_join(member->listeners[i].host, member->listeners[i].port, out_address);
        return true;
    }
    return false;
}

static void log_failed(struct stele_metadata_log *mlog, enum stele_err err)
{
    struct stele_controller *control = STELE_CONTAINER_OF(mlog, struct stele_controller, mlog);
    if (err == STELE_INVALID_VOTER_KEY)
        disk_went_back(control);
    else
        stele_controller_metadata_failed(control, err);
}

static void log_changed(struct stele_metadata_log *mlog)
{
    stele_controller_metadata_changed(STELE_CONTAINER_OF(mlog, struct stele_controller, mlog));
}

static void log_idle(struct stele_metadata_log *mlog)
{
    struct stele_controller *control = STELE_CONTAINER_OF(mlog, struct stele_controller, mlog);
    stele_controller_metadata_changed(control); /* what is in the image is synced, perhaps */
    stele_controller_check_stopped(control);
}

static void log_stirred(struct stele_metadata_log *mlog)
{
    struct stele_controller *control = STELE_CONTAINER_OF(mlog, struct stele_controller, mlog);
    stele_quorum_calls_wake(control);
    stele_controller_metadata_changed(control);
}

static void log_send(struct stele_metadata_log *mlog, const struct stele_quorum_request *request)
{
    stele_peers_send(&STELE_CONTAINER_OF(mlog, struct stele_controller, mlog)->peers, request);
}

static bool log_address_of(struct stele_metadata_log *mlog, int32_t node_id, char out_address[STELE_ADDRESS_BYTES])
{
    return stele_controller_peer_address(STELE_CONTAINER_OF(mlog, struct stele_controller, mlog), node_id, out_address);
}

static void log_voters_changed(struct stele_metadata_log *mlog, enum stele_err err)
{
    stele_voters_call_ended(STELE_CONTAINER_OF(mlog, struct stele_controller, mlog), err);
}

static void formed(struct stele_formation *formation)
{
    stele_controller_formed(STELE_CONTAINER_OF(formation, struct stele_controller, formation));
}

static void formation_failed(struct stele_formation *formation, enum stele_err err)
{
    stele_controller_formation_failed(STELE_CONTAINER_OF(formation, struct stele_controller, formation), err);
}

static void connection_closed(void *arg, int32_t node_id)
{
    struct stele_controller *control = arg;
    stele_active_nodes_doubt(&control->active_nodes, node_id);
    stele_life_shaken(&control->life, node_id);
}

void stele_controller_init(struct stele_controller *control, struct stele_node *node)
{
    *control = (struct stele_controller){.node = node, .shard = &node->shards[STELE_SHARD_CONTROL]};
    stele_list_init(&control->turns);
    stele_list_init(&control->removals);
    stele_list_init(&control->waits);
    stele_list_init(&control->producer_ids.asking);
    stele_list_init(&control->parked);
    control->formation.control = control;
    control->formation.formed = formed;
    control->formation.failed = formation_failed;
    stele_controller_init_stop(control);
    stele_metadata_log_init(&control->mlog, control->shard);
    control->mlog.failed = log_failed;
    control->mlog.changed = log_changed;
    stele_metadata_tail_init(&control->begin.tail, control->shard->env->mem);
    stele_controller_init_settings(control);
    stele_active_init(&control->active, control);
    stele_active_scan_init(&control->scan, &control->active);
    stele_active_nodes_init(&control->active_nodes, &control->active);
    stele_life_init(&control->life, control);
    node->hooks = (struct stele_cluster_hooks){.connection_closed = connection_closed, .arg = control};
    control->mlog.idle = log_idle;
    control->mlog.stirred = log_stirred;
    control->mlog.send = log_send;
    control->mlog.address_of = log_address_of;
    control->mlog.voters_changed = log_voters_changed;
    control->mlog.snapshot_bytes_max =
        stele_settings_int(node->settings, "metadata.log.max.record.bytes.between.snapshots");
}

void stele_controller_places_free(struct stele_controller *control, struct stele_place *places, int count)
{
    struct stele_mem *mem = control->shard->env->mem;
    for (int i = 0; i < count; i++)
        stele_mem_free(mem, places[i].path);
    stele_mem_free(mem, places);
}

void stele_controller_deinit(struct stele_controller *control)
{
    if (control->shard == NULL)
        return;
    stele_controller_places_free(control, control->places, control->place_count);
    stele_removals_free(control);
    stele_controller_round_free(control);
    stele_formation_end(&control->formation);
    stele_metadata_log_halt(&control->mlog);
    stele_isr_wishes_drop(&control->wishes);
    stele_forward_end(&control->forward);
    stele_life_end(&control->life);
    stele_active_nodes_end(&control->active_nodes);
    stele_peers_end(&control->peers);
    stele_active_scan_end(&control->scan);
    stele_active_drop(&control->producer_ids.turn);
    stele_active_deinit(&control->active);
    stele_log_free(control->opened);
    stele_metadata_tail_deinit(&control->begin.tail);
    stele_metadata_log_deinit(&control->mlog);
    stele_log_dirs_close(control->dirs);
}

/* Places. All of it runs in a job. */

struct placing {
    struct stele_controller *control;
    bool has_left; /* of a removed topic */
    struct stele_place *places;
    int count, capacity;
};

static enum stele_err add_place(struct placing *placing, const struct stele_place *place, const char *path)
{
    struct stele_mem *mem = placing->control->shard->env->mem;
    if (placing->count == placing->capacity) {
        int capacity = placing->capacity == 0 ? 16 : placing->capacity * 2;
        struct stele_place *grown =
            stele_mem_resize(mem, STELE_MEM_NODE, placing->places, (size_t)capacity * sizeof(*grown));
        if (grown == NULL)
            return STELE_NO_MEMORY;
        placing->places = grown;
        placing->capacity = capacity;
    }
    struct stele_place *added = &placing->places[placing->count];
    *added = *place;
    added->path = NULL;
    if (path != NULL) {
        added->path = stele_mem_string(mem, STELE_MEM_NODE, path);
        if (added->path == NULL)
            return STELE_NO_MEMORY;
    }
    placing->count++;
    struct stele_image_partition *partition = &place->topic->partitions[place->number];
    partition->is_placed = true;
    partition->has_directory = path != NULL;
    partition->dir = place->dir;
    return STELE_OK;
}

/* A directory that is left of a topic that was removed: a crash came before it was renamed, or it was offline then. */
static void delete_left(struct placing *placing, const struct stele_found_log *found,
                        const struct stele_image_removed *removed)
{
    struct stele_log_dirs *dirs = placing->control->dirs;
    struct stele_env *env = placing->control->shard->env;
    const char *dir = stele_log_dirs_path(dirs, found->dir);
    enum stele_err err = stele_log_dirs_condemn(dirs, found->dir, found->topic, found->partition, &removed->topic_id);
    if (err == STELE_OK)
        err = stele_log_dirs_sync(dirs, found->dir);
    placing->has_left = placing->has_left || err != STELE_OK;
    if (err == STELE_OK) /* what this leaves is deleted by its name at another start */
        err = stele_log_dirs_delete(env, dir, found->topic, found->partition, &removed->topic_id);
    stele_trace(env, err == STELE_OK ? STELE_TRACE_PARTITION_DELETED : STELE_TRACE_LOG_UNLINK_FAILED, found->topic,
                err == STELE_OK ? dir : stele_err_text(err), found->partition, 0, 0);
}

/* A directory that was there at start. One that no record ever named is left alone: it is nobody's to delete. */
static enum stele_err place_found(struct placing *placing, const struct stele_found_log *found)
{
    struct stele_controller *control = placing->control;
    struct stele_image_topic *topic = stele_image_topic_named(&control->mlog.image, found->topic);
    char name[STELE_TOPIC_NAME_MAX + 16], path[STELE_PATH_BYTES];
    (void)snprintf(name, sizeof(name), "%s-%d", found->topic, (int)found->partition);
    bool is_ours = topic != NULL && found->partition < topic->partition_count &&
                   topic->partitions[found->partition].is_known && !topic->partitions[found->partition].is_placed;
    bool has_id = !stele_uuid_is_zero(&found->topic_id);
    if (!is_ours || (has_id && !stele_uuid_equal(&found->topic_id, &topic->topic_id))) {
        /* Without an id its names were never synced, and nothing in it was acknowledged. */
        const struct stele_image_removed *removed = NULL;
        if (has_id || topic == NULL)
            removed = stele_image_removed_of(&control->mlog.image, has_id ? &found->topic_id : NULL, found->topic);
        if (removed != NULL) {
            delete_left(placing, found, removed);
            return STELE_OK;
        }
        stele_trace(control->shard->env, STELE_TRACE_PARTITION_STRAY, name,
                    stele_log_dirs_path(control->dirs, found->dir), 0, 0, 0);
        return STELE_OK;
    }
    /* Names are synced before the first recovery point and before a clean marker. What has neither was perhaps made by
     * a node that was killed, and a loss of power would still take it. */
    bool is_synced = has_id && (found->was_clean || found->recovery_point > 0);
    struct stele_place place = {.topic = topic,
                                .number = found->partition,
                                .dir = found->dir,
                                .is_new = !is_synced,
                                .was_clean = found->was_clean,
                                .recovery_point = found->recovery_point,
                                .log_start_offset = found->log_start_offset,
                                .high_watermark = found->high_watermark};
    enum stele_err err = stele_path_join(path, stele_log_dirs_path(control->dirs, found->dir), name);
    return err == STELE_OK ? add_place(placing, &place, path) : err;
}

static void make_place(struct placing *placing, struct stele_place *place)
{
    struct stele_controller *control = placing->control;
    struct stele_image_topic *topic = place->topic;
    char path[STELE_PATH_BYTES];
    enum stele_err err =
        stele_log_dirs_create(control->dirs, place->dir, topic->name, place->number, &topic->topic_id, path);
    place->is_made = err == STELE_OK;
    if (err == STELE_NO_SPACE || err == STELE_NO_MEMORY) {
        place->is_unmade = true; /* it is made when it can be opened */
    } else if (err != STELE_OK) {
        stele_trace(control->shard->env, STELE_TRACE_LOG_FAILED, topic->name,
                    "a directory that could not be made (is there another of that name?)", place->number, 0, 0);
        stele_mem_free(control->shard->env->mem, place->path);
        place->path = NULL;
        topic->partitions[place->number].has_directory = false;
    }
}

/* A partition that the records name and no directory holds: made now, unless it may lie on one that is offline. */
static enum stele_err place_missing(struct placing *placing, struct stele_image_topic *topic, int32_t number)
{
    struct stele_controller *control = placing->control;
    char name[STELE_TOPIC_NAME_MAX + 16], path[STELE_PATH_BYTES];
    struct stele_place place = {
        .topic = topic, .number = number, .is_new = true, .was_clean = true, .high_watermark = -1};
    for (int i = 0; i < stele_log_dirs_count(control->dirs); i++) {
        if (stele_log_dirs_is_offline(control->dirs, i) && control->state == STELE_CONTROLLER_STARTING) {
            place.dir = i;
            return add_place(placing, &place, NULL);
        }
    }
    place.dir = stele_log_dirs_pick(control->dirs);
    if (place.dir < 0) {
        place.dir = 0;
        return add_place(placing, &place, NULL);
    }
    (void)snprintf(name, sizeof(name), "%s-%d", topic->name, (int)number);
    enum stele_err err = stele_path_join(path, stele_log_dirs_path(control->dirs, place.dir), name);
    if (err == STELE_OK) /* before the directory is made: who tries again must not meet it */
        err = add_place(placing, &place, path);
    if (err == STELE_OK)
        make_place(placing, &placing->places[placing->count - 1]);
    return err;
}

static bool is_gone(void *arg, int32_t partition)
{
    const struct stele_image_topic *topic = arg;
    return partition >= topic->partition_count || !topic->partitions[partition].is_placed;
}

static bool misses_some(const struct stele_image_topic *topic)
{
    for (int32_t number = 0; number < topic->partition_count; number++) {
        if (topic->partitions[number].is_known && !topic->partitions[number].is_placed)
            return true;
    }
    return false;
}

static enum stele_err place_topic(struct placing *placing, struct stele_image_topic *topic)
{
    struct stele_log_dirs_gone gone = {.is_gone = is_gone, .arg = topic};
    enum stele_err err = STELE_OK;
    if (misses_some(topic)) /* the name may have been used before */
        err = stele_log_dirs_forget(placing->control->dirs, topic->name, &gone);
    for (int32_t number = 0; number < topic->partition_count && err == STELE_OK; number++) {
        if (topic->partitions[number].is_known && !topic->partitions[number].is_placed)
            err = place_missing(placing, topic, number);
    }
    return err;
}

/* Nothing is left of them where everything could be looked at. */
static void forget_removed(const struct placing *placing)
{
    struct stele_controller *control = placing->control;
    struct stele_image *image = &control->mlog.image;
    for (int i = 0; i < stele_log_dirs_count(control->dirs); i++) {
        if (placing->has_left || stele_log_dirs_is_offline(control->dirs, i))
            return;
    }
    while (!stele_list_is_empty(&image->removed))
        stele_image_forget_removed(image, STELE_CONTAINER_OF(image->removed.next, struct stele_image_removed, link));
}

enum stele_err stele_controller_place(struct stele_controller *control, struct stele_image_topic *topic,
                                      struct stele_place **out_places, int *out_count)
{
    struct placing placing = {.control = control};
    enum stele_err err = STELE_OK;
    if (topic != NULL) {
        err = place_topic(&placing, topic);
    } else {
        int count = stele_log_dirs_found_count(control->dirs);
        /* Those with an id first: one without takes a place that no other has. */
        for (int i = 0; i < 2 * count && err == STELE_OK; i++) {
            const struct stele_found_log *found = stele_log_dirs_found(control->dirs, i % count);
            if (strcmp(found->topic, STELE_METADATA_TOPIC_NAME) != 0 &&
                stele_uuid_is_zero(&found->topic_id) == (i >= count))
                err = place_found(&placing, found);
        }
        for (topic = control->mlog.image.by_name; topic != NULL && err == STELE_OK; topic = topic->by_name.next)
            err = place_topic(&placing, topic);
        if (err == STELE_OK)
            forget_removed(&placing);
    }
    *out_places = placing.places; /* also on failure: what was made is freed with them */
    *out_count = placing.count;
    return err;
}

enum stele_err stele_controller_open(struct stele_controller *control, const struct stele_place *place,
                                     void (*opened)(struct stele_partition *partition, void *arg), void *arg)
{
    struct stele_partition_setup setup = {.topic = place->topic->name,
                                          .key = {.topic_id = place->topic->topic_id, .number = place->number},
                                          .state = place->topic->partitions[place->number].state,
                                          .dir = place->dir,
                                          .path = place->path != NULL ? place->path : "",
                                          .why_offline = place->path != NULL ? NULL : "its log directory is offline",
                                          .is_made = place->is_made,
                                          .is_unmade = place->is_unmade,
                                          .is_new = place->is_new,
                                          .was_clean = place->was_clean,
                                          .recovery_point = place->recovery_point,
                                          .log_start_offset = place->log_start_offset,
                                          .high_watermark = place->high_watermark};
    enum stele_err err = stele_controller_topic_config(control, place->topic, &setup.config);
    if (err == STELE_INVALID_CONFIG) {
        /* Settings that an older version took: this topic is offline and says why, the others go on. */
        setup.why_offline = "a setting of its topic is not legal any more";
        stele_log_config_default(&setup.config);
        err = STELE_OK;
    }
    return err == STELE_OK ? stele_partition_open(control->node, &setup, opened, arg) : err;
}
