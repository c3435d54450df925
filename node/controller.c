/* What ends the process, and the making of the controller. Start and stop are in controller_life.c, the rounds in
 * controller_rounds.c, what partitions lie here in reconcile.c. */
#include "node/controller.h"

#include "base/check.h"
#include "node/node_struct.h"

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
    stele_list_init(&control->waits);
    stele_list_init(&control->producer_ids.asking);
    stele_list_init(&control->parked);
    control->formation.control = control;
    control->formation.formed = formed;
    control->formation.failed = formation_failed;
    stele_controller_init_stop(control);
    stele_controller_init_rounds(control); /* they begin late, and a stop may come before */
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
    stele_reconcile_init(&control->reconcile, control);
    stele_moves_init(&control->moves);
    control->mlog.idle = log_idle;
    control->mlog.stirred = log_stirred;
    control->mlog.send = log_send;
    control->mlog.address_of = log_address_of;
    control->mlog.voters_changed = log_voters_changed;
    control->mlog.snapshot_bytes_max =
        stele_settings_int(node->settings, "metadata.log.max.record.bytes.between.snapshots");
}

void stele_controller_deinit(struct stele_controller *control)
{
    if (control->shard == NULL)
        return;
    stele_reconcile_deinit(&control->reconcile);
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
