/* Start: directories, metadata log, partitions. Stop: shards, checkpoints, markers. Each step is a job or a message to
 * the data shards, and the next one begins when it has ended. */
#include "base/check.h"
#include "node/controller.h"
#include "node/node_struct.h"
#include "node/partition.h"

#include <stdio.h>
#include <string.h>

static struct stele_controller *control_of(struct stele_job *job)
{
    return STELE_CONTAINER_OF(job, struct stele_controller, job);
}

static void run(struct stele_controller *control, void (*work)(struct stele_job *), void (*done)(struct stele_job *))
{
    control->job = (struct stele_job){.work = work, .done = done};
    stele_controller_job(control, &control->job);
}

static void start_failed(struct stele_controller *control, enum stele_err err)
{
    struct stele_node *node = control->node;
    if (control->error.text[0] == 0)
        (void)stele_error_set(&control->error, err, "the node cannot start: %s", stele_err_text(err));
    control->error.err = err;
    control->state = STELE_CONTROLLER_FAILED;
    node->options.ready(node->options.arg, err, &control->error);
}

/* Step 5: everything that could be opened is open. */
static void serve(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    control->state = STELE_CONTROLLER_SERVING;
    stele_life_serve(&control->life);
    node->has_cluster_id = true;
    node->is_ready = true;
    stele_controller_begin_rounds(control);
    stele_controller_take_new_settings(control); /* of records that came meanwhile */
    stele_reconcile_stir(&control->reconcile);
    stele_moves_resume(control);
    node->options.ready(node->options.arg, STELE_OK, NULL);
    if (control->wants_stop)
        stele_controller_stop(control);
}

static void partitions_opened(struct stele_controller *control, enum stele_err err)
{
    if (err == STELE_OK)
        serve(control);
    else
        start_failed(control, err);
}

/* Step 4 */
static void format_done(struct stele_job *job)
{
    struct stele_controller *control = control_of(job);
    if (control->job_err != STELE_OK) {
        start_failed(control, control->job_err);
        return;
    }
    stele_life_begin(&control->life);
    stele_reconcile_begin(&control->reconcile, partitions_opened);
}

static void format_work(struct stele_job *job)
{
    struct stele_controller *control = control_of(job);
    const struct stele_node *node = control->node;
    control->job_err = stele_log_dirs_format(control->dirs, node->cluster_id, node->node_id);
}

/* Step 3: the image holds all that was ever committed, a FORMAT record at least. */
static void formatted(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    struct stele_meta_properties properties;
    const char *cluster_id = control->mlog.image.cluster_id;
    bool has_identity = stele_log_dirs_identity(control->dirs, &properties);
    if (has_identity && strcmp(properties.cluster_id, cluster_id) != 0) {
        start_failed(control,
                     stele_error_set(&control->error, STELE_FOREIGN,
                                     "%s belongs to cluster %s, and the metadata log in it to cluster %s: it "
                                     "was put together from two; restore the one or the other from a copy",
                                     stele_log_dirs_path(control->dirs, 0), properties.cluster_id, cluster_id));
        return;
    }
    if (strcmp(node->cluster_id, cluster_id) != 0) /* who forms a cluster tells it already, on every shard */
        (void)snprintf(node->cluster_id, sizeof(node->cluster_id), "%s", cluster_id);
    stele_controller_take_settings(control);
    run(control, format_work, format_done);
}

/* Step 2: this node takes part in the metadata quorum. Alone it leads at once; a log that is empty gets its first
 * record then. */
/* The id under which this node votes: a crash may have left the log that says so without the file that does. */
static bool voted_as(const struct stele_controller *control, struct stele_uuid *out_directory_id)
{
    if (control->begin.history_count == 0)
        return false;
    const struct stele_voters *voters = &control->begin.history[control->begin.history_count - 1].voters;
    int32_t at = stele_voters_find_node(voters, control->node->node_id);
    if (at < 0 || stele_uuid_is_zero(&voters->keys[at].directory_id))
        return false;
    *out_directory_id = voters->keys[at].directory_id;
    return true;
}

static bool draw_ids(struct stele_controller *control, struct stele_uuid *out_directory_id)
{
    struct stele_env *env = control->shard->env;
    struct stele_meta_properties properties;
    bool has_identity = stele_log_dirs_identity(control->dirs, &properties), is_usable = false;
    if (has_identity && control->mlog.image.cluster_id == NULL) {
        start_failed(control, stele_error_set(&control->error, STELE_CORRUPT,
                                              "%s has a " STELE_META_PROPERTIES_FILE
                                              " but no metadata log: restore " STELE_METADATA_TOPIC_NAME
                                              "-0 from a copy, or choose another directory",
                                              stele_log_dirs_path(control->dirs, 0)));
        return false;
    }
    if (has_identity &&
        stele_uuid_parse(properties.directory_id, strlen(properties.directory_id), out_directory_id) == STELE_OK)
        return true;
    is_usable = voted_as(control, out_directory_id);
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        *out_directory_id = stele_uuid_make(high, low, &is_usable);
    }
    if (!has_identity)
        stele_log_dirs_set_id(control->dirs, 0, out_directory_id);
    is_usable = control->mlog.image.cluster_id != NULL;
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        struct stele_uuid uuid = stele_uuid_make(high, low, &is_usable);
        stele_uuid_text(&uuid, control->node->cluster_id);
    }
    return true;
}

static void join_quorum(struct stele_controller *control)
{
    const char *cluster_id = control->mlog.image.cluster_id;
    struct stele_quorum_start start = {.settings = stele_quorum_settings_default(),
                                       .self = {.node_id = control->node->node_id}};
    if (!draw_ids(control, &start.self.directory_id))
        return;
    if (cluster_id == NULL)
        cluster_id = control->node->cluster_id;
    if (stele_uuid_parse(cluster_id, strlen(cluster_id), &start.cluster_id) != STELE_OK)
        start.cluster_id = (struct stele_uuid){.bytes = {0}}; /* an id that is no uuid names no cluster */
    control->mlog.new_cluster_id = control->node->cluster_id;
    stele_metadata_log_run(&control->mlog, &control->begin, &start);
}

/* Of a cluster. */

static void take_part(struct stele_controller *control)
{
    struct stele_formation_file *file = &control->formation.file;
    struct stele_meta_properties properties;
    struct stele_quorum_start start = {.settings = stele_quorum_settings_default(),
                                       .self = {.node_id = file->node_id, .directory_id = file->directory_id},
                                       .cluster_id = file->cluster_id};
    for (int i = 0; i < file->peers.count; i++)
        start.peers.ids[start.peers.count++] = i + 1;
    if (!stele_log_dirs_identity(control->dirs, &properties))
        stele_log_dirs_set_id(control->dirs, 0, &file->directory_id);
    if (control->begin.history_count == 0) /* it was not formed when the log was read: the log is empty */
        control->begin.history[control->begin.history_count++] =
            (struct stele_voters_at){.offset = -1, .voters = file->voters};
    control->mlog.new_cluster_id = control->node->cluster_id;
    stele_metadata_log_run(&control->mlog, &control->begin, &start);
}

void stele_controller_formed(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    const struct stele_formation_file *file = &control->formation.file;
    stele_uuid_text(&file->cluster_id, node->cluster_id);
    node->has_cluster_id = true;
    stele_peers_set_identity(&control->peers, node->cluster_id, &file->directory_id);
    take_part(control);
}

void stele_controller_formation_failed(struct stele_controller *control, enum stele_err err)
{
    (void)stele_error_set(&control->error, err, STELE_FORMATION_FILE " cannot be written: %s", stele_err_text(err));
    start_failed(control, err);
}

/* A directory of a node that was alone does not begin another cluster. */
static bool may_form(struct stele_controller *control)
{
    struct stele_meta_properties properties;
    const struct stele_formation_file *file = &control->formation.file;
    bool has_identity = stele_log_dirs_identity(control->dirs, &properties);
    bool is_used = has_identity || control->begin.has_election || stele_log_end_offset(control->mlog.log) > 0;
    if (file->stage == STELE_FORM_FORMED || !is_used)
        return true;
    start_failed(control, stele_error_set(&control->error, STELE_FOREIGN,
                                          "%s holds a node that was started without --peers: start it so, or give an "
                                          "empty directory with --data",
                                          stele_log_dirs_path(control->dirs, 0)));
    return false;
}

static void peer_changed(struct stele_peers *peers, struct stele_peer *peer, bool was_up)
{
    struct stele_controller *control = STELE_CONTAINER_OF(peers, struct stele_controller, peers);
    stele_active_nodes_peer_changed(&control->active_nodes, peer, was_up);
    if (!peer->is_up)
        stele_life_shaken(&control->life, peer->node_id);
}

static void join_cluster(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    if (!may_form(control))
        return;
    stele_peers_init(&control->peers, control->shard, &control->mlog, &control->formation.file.peers);
    stele_isr_wishes_begin(&control->wishes, control);
    stele_forward_open(&control->forward, control);
    control->peers.changed = peer_changed;
    if (node->options.open != NULL)
        node->options.open(node->options.arg);
    control->is_joining = true;
    stele_formation_begin(&control->formation);
    if (control->wants_stop)
        stele_controller_stop(control);
}

static void trace_leader(struct stele_controller *control)
{
    const struct stele_election_state *election = &control->mlog.quorum.election;
    if (!control->mlog.is_running || control->peers.shard == NULL || election->leader_id == STELE_NO_NODE ||
        control->traced_epoch == election->epoch)
        return;
    control->traced_epoch = election->epoch;
    stele_trace(control->shard->env, STELE_TRACE_QUORUM_LEADER, STELE_METADATA_TOPIC_NAME, NULL, election->leader_id,
                election->epoch, 0);
}

void stele_controller_metadata_changed(struct stele_controller *control)
{
    trace_leader(control);
    stele_peers_look(&control->peers);
    stele_active_look(&control->active);
    stele_active_scan_look(&control->scan);
    stele_isr_wishes_look(&control->wishes);
    stele_active_nodes_look(&control->active_nodes);
    stele_life_look(&control->life);
    if (control->state == STELE_CONTROLLER_SERVING) {
        stele_controller_take_new_settings(control);
        stele_reconcile_stir(&control->reconcile);
    }
    stele_forward_look(&control->forward); /* last: who is answered finds everything taken over */
    if (control->state != STELE_CONTROLLER_STARTING || control->is_formatted ||
        !stele_metadata_log_is_current(&control->mlog))
        return;
    control->is_formatted = true;
    control->is_joining = false;
    formatted(control);
}

void stele_controller_metadata_failed(struct stele_controller *control, enum stele_err err)
{
    stele_metadata_log_halt(&control->mlog);
    if (control->state == STELE_CONTROLLER_STARTING && !control->is_formatted) {
        if (control->mlog.apply_error.text[0] != 0)
            (void)stele_error_set(&control->error, err, "%s", control->mlog.apply_error.text);
        start_failed(control, err);
    } else {
        stele_controller_fatal(control, err, "the metadata log " STELE_METADATA_TOPIC_NAME "-0 failed");
    }
}

static void open_done(struct stele_job *job)
{
    struct stele_controller *control = control_of(job);
    if (control->job_err != STELE_OK) {
        start_failed(control, control->job_err);
        return;
    }
    stele_metadata_log_attach(&control->mlog, control->opened, &control->begin);
    control->opened = NULL;
    if (stele_formation_is_wanted(&control->formation))
        join_cluster(control);
    else
        join_quorum(control);
}

/* Step 1 */
static enum stele_err open_metadata(struct stele_controller *control)
{
    char path[STELE_PATH_BYTES];
    struct stele_log_open open = {
        .env = control->shard->env, .dir = path, .name = STELE_METADATA_TOPIC_NAME "-0", .was_clean = true};
    open.high_watermark = -1;
    bool is_found = false, is_named = false;
    for (int i = 0; i < stele_log_dirs_found_count(control->dirs); i++) {
        const struct stele_found_log *found = stele_log_dirs_found(control->dirs, i);
        if (strcmp(found->topic, STELE_METADATA_TOPIC_NAME) != 0 || found->partition != 0 || found->dir != 0)
            continue;
        is_found = true;
        is_named = !stele_uuid_is_zero(&found->topic_id) && (found->was_clean || found->recovery_point > 0);
        open.was_clean = found->was_clean;
        open.recovery_point = found->recovery_point;
        open.log_start_offset = found->log_start_offset;
        open.high_watermark = found->high_watermark;
    }
    struct stele_uuid topic_id = stele_metadata_topic_id();
    enum stele_err err =
        is_found ? stele_path_join(path, stele_log_dirs_path(control->dirs, 0), STELE_METADATA_TOPIC_NAME "-0")
                 : stele_log_dirs_create(control->dirs, 0, STELE_METADATA_TOPIC_NAME, 0, &topic_id, path);
    stele_metadata_log_config(&open.config);
    if (err == STELE_OK && !is_named) /* before a recovery point says so */
        err = stele_partition_metadata_write(control->shard->env->vfs, path, &topic_id, true);
    if (err == STELE_OK)
        err = stele_formation_load(&control->formation, control->shard->env, path, &control->error);
    if (err == STELE_OK && control->formation.file.stage == STELE_FORM_FORMED)
        control->begin.history[control->begin.history_count++] =
            (struct stele_voters_at){.offset = -1, .voters = control->formation.file.voters};
    if (err == STELE_OK)
        err = stele_log_open(&open, &control->opened, &control->report, &control->error);
    if (err == STELE_OK)
        err = stele_metadata_log_replay(control->opened, control->shard->env, &control->mlog.image,
                                        control->node->node_id, &control->begin, &control->error);
    /* What a kill left in the page cache is committed by being synced now. */
    if (err == STELE_OK && stele_log_recovery_point(control->opened) < stele_log_end_offset(control->opened))
        err = stele_log_flush(control->opened);
    if (err == STELE_OK) /* the directory's entry, before anything rests on it */
        err = control->shard->env->vfs->ops->sync_dir(control->shard->env->vfs, stele_log_dirs_path(control->dirs, 0));
    return err;
}

static void open_work(struct stele_job *job)
{
    struct stele_controller *control = control_of(job);
    struct stele_node *node = control->node;
    struct stele_log_dirs_options options = {.env = control->shard->env,
                                             .paths = (const char *const *)node->dir_paths,
                                             .count = node->dir_count,
                                             .reserve_bytes = node->limits.reserve_bytes,
                                             .node_id = node->node_id};
    control->error.text[0] = 0;
    control->job_err = stele_log_dirs_open(&options, &control->dirs, &control->error);
    if (control->job_err == STELE_OK)
        control->job_err = open_metadata(control);
}

void stele_controller_start(struct stele_controller *control)
{
    STELE_ASSERT(control->state == STELE_CONTROLLER_NEW);
    control->state = STELE_CONTROLLER_STARTING;
    run(control, open_work, open_done);
}

/* Stop. */

static void stopped(struct stele_job *job)
{
    struct stele_controller *control = control_of(job);
    struct stele_node *node = control->node;
    control->state = STELE_CONTROLLER_STOPPED;
    stele_log_dirs_close(control->dirs);
    control->dirs = NULL;
    node->options.stopped(node->options.arg, control->job_err);
}

static void mark_work(struct stele_job *job)
{
    struct stele_controller *control = control_of(job);
    struct stele_node *node = control->node;
    for (int i = 0; i < node->dir_count; i++) {
        if (node->dirs[i].has_failed_log || stele_log_dirs_is_offline(control->dirs, i))
            continue;
        enum stele_err err = stele_log_dirs_mark_clean(control->dirs, i, node->node_epoch);
        if (err != STELE_OK)
            control->job_err = err;
    }
}

/* The marker says that nothing needs to be recovered: never without the checkpoints. */
static void last_checkpoint_done(struct stele_controller *control, enum stele_err err)
{
    control->job_err = err;
    if (err == STELE_OK) {
        run(control, mark_work, stopped);
        return;
    }
    stopped(&control->job);
}

/* A leader says that it goes, so that another is there at once; for a while it waits to be heard. */

enum { STOP_WAIT_MS = 500 };

static void stop_waited(struct stele_timer *timer)
{
    struct stele_controller *control = STELE_CONTAINER_OF(timer, struct stele_controller, stop_timer);
    control->has_waited = true;
    stele_controller_check_stopped(control);
}

void stele_controller_init_stop(struct stele_controller *control)
{
    stele_timer_init(&control->stop_timer, stop_waited);
    stele_list_init(&control->stop_input.link);
}

static void stop_taken(struct stele_quorum_input *input, const struct stele_quorum_answer *answer)
{
    struct stele_controller *control = STELE_CONTAINER_OF(input, struct stele_controller, stop_input);
    (void)answer;
    control->has_told_stop = true;
    stele_controller_check_stopped(control);
}

static void resign(struct stele_controller *control)
{
    control->has_told_stop = true;
    if (control->peers.shard == NULL || !control->mlog.is_running)
        return;
    control->has_told_stop = false;
    control->stop_input = (struct stele_quorum_input){.event = {.kind = STELE_QUORUM_STOP}, .done = stop_taken};
    stele_shard_arm(control->shard, &control->stop_timer, stele_env_mono_ms(control->shard->env) + STOP_WAIT_MS);
    stele_metadata_log_feed(&control->mlog, &control->stop_input);
}

static bool has_resigned(const struct stele_controller *control)
{
    return control->has_told_stop &&
           (control->has_waited || control->peers.shard == NULL || control->mlog.quorum.role != STELE_QUORUM_RESIGNED ||
            control->mlog.quorum.end_retry_ms == INT64_MAX);
}

static void shard_stopped(struct stele_shard *shard)
{
    struct stele_controller *control = &shard->node->control;
    control->stopping_shards--;
    stele_controller_check_stopped(control);
}

void stele_controller_check_stopped(struct stele_controller *control)
{
    if (control->state != STELE_CONTROLLER_STOPPING || control->stopping_shards > 0 || control->round != NULL ||
        control->is_measuring || !stele_reconcile_is_idle(&control->reconcile) ||
        !stele_metadata_log_is_idle(&control->mlog) || control->formation.is_writing || control->is_closing ||
        !has_resigned(control))
        return;
    control->is_closing = true;
    stele_timer_cancel(control->shard->wheel, &control->stop_timer);
    stele_metadata_log_halt(&control->mlog);
    stele_active_scan_end(&control->scan);
    stele_isr_wishes_end(&control->wishes);
    stele_forward_end(&control->forward);
    stele_life_end(&control->life);
    stele_active_nodes_end(&control->active_nodes);
    stele_peers_end(&control->peers);
    if (stele_log_close(control->mlog.log) != STELE_OK)
        control->node->dirs[0].has_failed_log = true;
    if (!control->is_formatted) { /* nothing of it is used yet */
        stopped(&control->job);
        return;
    }
    bool has_begun = stele_controller_checkpoint(control, last_checkpoint_done);
    STELE_ASSERT(has_begun);
}

void stele_controller_stop(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    if (control->state == STELE_CONTROLLER_STARTING)
        control->wants_stop = true;
    /* A start that waits for other nodes may be given up at any time, another at its end. */
    if ((control->state != STELE_CONTROLLER_SERVING && !control->is_joining) || control->is_leaving)
        return;
    control->is_joining = false;
    control->is_leaving = true;
    stele_formation_end(&control->formation);
    stele_trace(control->shard->env, STELE_TRACE_NODE_STOPPING, NULL, "it was asked to", node->node_id, 0, 0);
    stele_life_leave(&control->life);
}

void stele_controller_left(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    control->state = STELE_CONTROLLER_STOPPING;
    stele_timer_cancel(control->shard->wheel, &control->checkpoint_timer);
    stele_timer_cancel(control->shard->wheel, &control->space_timer);
    stele_forward_stop(&control->forward);
    stele_timer_cancel(control->shard->wheel, &control->settings_timer);
    control->stopping_shards = node->shard_count - 1;
    for (int i = STELE_SHARD_DATA; i < node->shard_count; i++)
        stele_shard_stop(&node->shards[i], shard_stopped);
    stele_reconcile_stop(&control->reconcile);
    resign(control);
}
