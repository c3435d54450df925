#include "node/formation.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/session.h"

#include <stdio.h>
#include <string.h>

enum { ROUND_MS = 100, SILENT_MS = 10000, SILENT_AGAIN_MS = 60000 };

enum trouble { FINE, OTHER_LIST, OTHER_CLUSTER, SAME_NODE, OTHER_NODE, OTHER_DISK, REFUSES };

static const char *const troubles[] = {
    [FINE] = "",
    [OTHER_LIST] = "its list of peers is another: start both nodes with the same --peers",
    [OTHER_CLUSTER] = "its disk belongs to another cluster: give it an empty directory, or check --peers",
    [SAME_NODE] = "it has this node's number: check --node and --peers of both",
    [OTHER_NODE] = "another node serves at its address: check --peers",
    [OTHER_DISK] = "forming began with another disk of it: empty the directories of all nodes, nothing is stored yet",
    [REFUSES] = "it says no",
};

bool stele_formation_is_wanted(const struct stele_formation *formation)
{
    return formation->file.peers.count > 0;
}

static bool is_listed(const struct stele_formation *formation)
{
    return formation->file.node_id >= 1 && formation->file.node_id <= formation->file.peers.count;
}

/* What the disk knows against what the settings say. */

static enum stele_err check_disk(const struct stele_formation *formation, const struct stele_formation_file *disk,
                                 const struct stele_peer_list *wanted, struct stele_error *error)
{
    int32_t node_id = formation->control->node->node_id;
    char known[STELE_PEERS_TEXT_BYTES], asked[STELE_PEERS_TEXT_BYTES];
    if (disk->node_id != node_id)
        return stele_error_set(error, STELE_FOREIGN,
                               "the data directory is of node %d of its cluster, this is node %d: check --node and "
                               "--data",
                               (int)disk->node_id, (int)node_id);
    stele_peer_list_text(&disk->peers, known);
    stele_peer_list_text(wanted, asked);
    if (disk->stage != STELE_FORM_EMPTY && wanted->count > 0 && strcmp(known, asked) != 0)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "the cluster of this data directory was formed with --peers %.200s, which is not the "
                               "list given: give that one, or none",
                               known);
    return STELE_OK;
}

enum stele_err stele_formation_load(struct stele_formation *formation, struct stele_env *env, const char *dir,
                                    struct stele_error *error)
{
    struct stele_node *node = formation->control->node;
    struct stele_formation_file *file = &formation->file, disk;
    struct stele_peer_list wanted;
    *file = (struct stele_formation_file){.stage = STELE_FORM_EMPTY};
    enum stele_err err = stele_peer_list_parse(stele_settings_text(node->settings, "peers"), &wanted, error);
    if (err != STELE_OK)
        return err;
    err = stele_formation_file_read(env->vfs, env->mem, dir, &disk, error);
    if (err == STELE_OK) {
        err = check_disk(formation, &disk, &wanted, error);
        *file = disk;
    }
    if (err != STELE_OK && err != STELE_NOT_FOUND)
        return err;
    if (file->stage == STELE_FORM_EMPTY)
        file->peers = wanted;
    file->node_id = node->node_id;
    error->text[0] = 0;
    return STELE_OK;
}

/* Writing. */

static void advance(struct stele_formation *formation);

static void write_work(struct stele_job *job)
{
    struct stele_formation *formation = STELE_CONTAINER_OF(job, struct stele_formation, job);
    formation->job_err =
        stele_formation_file_write(job->env->vfs, stele_log_dir(formation->control->mlog.log), &formation->next);
}

static void write_done(struct stele_job *job)
{
    struct stele_formation *formation = STELE_CONTAINER_OF(job, struct stele_formation, job);
    struct stele_controller *control = formation->control;
    static const char *const texts[] = {[STELE_FORM_EMPTY] = "waits for its peers",
                                        [STELE_FORM_FORMING] = "has heard of all and begins to form it",
                                        [STELE_FORM_FORMED] = "is one of those that formed it"};
    char id[STELE_UUID_TEXT_BYTES] = "-";
    formation->is_writing = false;
    if (formation->job_err != STELE_OK) {
        formation->failed(formation, formation->job_err);
        return;
    }
    formation->file = formation->next;
    bool has_come = formation->file.stage == STELE_FORM_FORMED && formation->file.voters.count == 0;
    if (formation->file.stage != STELE_FORM_EMPTY)
        stele_uuid_text(&formation->file.cluster_id, id);
    stele_trace(control->shard->env, STELE_TRACE_CLUSTER_FORMED, id,
                has_come ? "comes to it with a new disk, as an observer: it votes once it is readmitted"
                         : texts[formation->file.stage],
                formation->file.node_id, 0, 0);
    if (formation->is_ended)
        stele_controller_check_stopped(control);
    else
        advance(formation);
}

static void write_next(struct stele_formation *formation)
{
    formation->is_writing = true;
    formation->job = (struct stele_job){.work = write_work, .done = write_done};
    stele_controller_job(formation->control, &formation->job);
}

/* The id of the cluster that these disks form: 128 bits of what they are, so that equal ids mean equal disks. */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 32)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 29);
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = mix(hash, ((const uint8_t *)bytes)[i]);
    return hash;
}

/* The voters as this node has heard of them; false: not of all. */
static bool voters_heard(const struct stele_formation *formation, struct stele_voters *out_voters)
{
    out_voters->count = formation->file.peers.count;
    for (int i = 0; i < formation->file.peers.count; i++) {
        const struct stele_formation_heard *heard = &formation->heard[i];
        bool is_self = i + 1 == formation->file.node_id;
        if (!is_self && !heard->is_heard)
            return false;
        out_voters->keys[i] = (struct stele_replica_key){
            .node_id = i + 1, .directory_id = is_self ? formation->file.directory_id : heard->directory_id};
    }
    return is_listed(formation);
}

static struct stele_uuid cluster_of(const struct stele_formation *formation, const struct stele_voters *voters)
{
    char peers[STELE_PEERS_TEXT_BYTES];
    uint64_t high = UINT64_C(0x9e3779b97f4a7c15), low = UINT64_C(0xd1b54a32d192ed03);
    struct stele_uuid uuid;
    bool is_usable = false;
    stele_peer_list_text(&formation->file.peers, peers);
    high = mix_bytes(high, peers, strlen(peers));
    low = mix_bytes(low, peers, strlen(peers));
    for (int32_t i = 0; i < voters->count; i++) {
        high = mix_bytes(high, voters->keys[i].directory_id.bytes, sizeof(voters->keys[i].directory_id.bytes));
        low = mix_bytes(low, voters->keys[i].directory_id.bytes, sizeof(voters->keys[i].directory_id.bytes));
    }
    do {
        high = mix(high, 1);
        uuid = stele_uuid_make(high, low, &is_usable);
    } while (!is_usable);
    return uuid;
}

/* Going on. */

static void told_trouble(struct stele_formation *formation, int32_t node_id, const char *where, enum trouble trouble,
                         const char *text)
{
    int *told = node_id >= 1 && node_id <= STELE_VOTERS_MAX ? &formation->heard[node_id - 1].trouble : NULL;
    if (trouble != FINE && (told == NULL || *told != (int)trouble))
        stele_trace(formation->control->shard->env,
                    trouble == REFUSES ? STELE_TRACE_PEER_REFUSES : STELE_TRACE_PEER_REFUSED, where, text, node_id, 0,
                    0);
    if (told != NULL)
        *told = (int)trouble;
}

static const char *address_of(const struct stele_formation *formation, int32_t node_id)
{
    return node_id >= 1 && node_id <= formation->file.peers.count ? formation->file.peers.addresses[node_id - 1] : "?";
}

static const struct stele_formation_heard *somebody_formed(const struct stele_formation *formation)
{
    for (int i = 0; i < formation->file.peers.count; i++) {
        const struct stele_formation_heard *heard = &formation->heard[i];
        if (i + 1 != formation->file.node_id && heard->is_heard && heard->stage == STELE_FORM_FORMED)
            return heard;
    }
    return NULL;
}

static void advance_empty(struct stele_formation *formation)
{
    const struct stele_formation_heard *formed = somebody_formed(formation);
    struct stele_voters voters;
    formation->next = formation->file;
    if (formed != NULL) {
        formation->next.stage = STELE_FORM_FORMED;
        formation->next.cluster_id = formed->cluster_id;
        write_next(formation);
        return;
    }
    if (!voters_heard(formation, &voters))
        return;
    struct stele_uuid cluster_id = cluster_of(formation, &voters);
    for (int i = 0; i < voters.count; i++) {
        const struct stele_formation_heard *heard = &formation->heard[i];
        if (i + 1 == formation->file.node_id || heard->stage == STELE_FORM_EMPTY)
            continue;
        if (!stele_uuid_equal(&heard->cluster_id, &cluster_id)) {
            told_trouble(formation, i + 1, address_of(formation, i + 1), OTHER_DISK, troubles[OTHER_DISK]);
            return;
        }
    }
    formation->next.stage = STELE_FORM_FORMING;
    formation->next.cluster_id = cluster_id;
    formation->next.voters = voters;
    write_next(formation);
}

static void advance_forming(struct stele_formation *formation)
{
    struct stele_formation_file *file = &formation->file;
    bool is_ready = true, is_formed = false;
    for (int i = 0; i < file->peers.count; i++) {
        const struct stele_formation_heard *heard = &formation->heard[i];
        if (i + 1 == file->node_id)
            continue;
        bool is_same = heard->is_heard && heard->stage != STELE_FORM_EMPTY &&
                       stele_uuid_equal(&heard->cluster_id, &file->cluster_id);
        bool is_disk = stele_uuid_equal(&heard->directory_id, &file->voters.keys[i].directory_id);
        is_formed = is_formed || (is_same && heard->stage == STELE_FORM_FORMED);
        is_ready = is_ready && is_same && is_disk;
        if (heard->is_heard && !is_disk)
            told_trouble(formation, i + 1, address_of(formation, i + 1), OTHER_DISK, troubles[OTHER_DISK]);
    }
    if (!is_ready && !is_formed)
        return;
    formation->next = *file;
    formation->next.stage = STELE_FORM_FORMED;
    write_next(formation);
}

static void advance(struct stele_formation *formation)
{
    if (formation->is_writing || formation->is_ended || !formation->is_begun)
        return;
    switch (formation->file.stage) {
    case STELE_FORM_EMPTY:
        advance_empty(formation);
        return;
    case STELE_FORM_FORMING:
        advance_forming(formation);
        return;
    case STELE_FORM_FORMED:
        stele_timer_cancel(formation->control->shard->wheel, &formation->timer);
        formation->is_ended = true;
        formation->formed(formation);
        return;
    }
}

/* What is heard. */

struct said {
    int32_t node_id;
    const struct stele_uuid *directory_id;
    enum stele_form_stage stage;
    const char *cluster_id;
};

static enum trouble hear(struct stele_formation *formation, const struct said *said)
{
    const struct stele_formation_file *file = &formation->file;
    struct stele_uuid cluster_id = {.bytes = {0}};
    if (said->node_id == file->node_id)
        return SAME_NODE;
    if (said->stage != STELE_FORM_EMPTY &&
        stele_uuid_parse(said->cluster_id, strlen(said->cluster_id), &cluster_id) != STELE_OK)
        return OTHER_CLUSTER;
    bool is_formed_elsewhere = said->stage == STELE_FORM_FORMED && file->stage != STELE_FORM_EMPTY &&
                               !stele_uuid_equal(&cluster_id, &file->cluster_id);
    if (is_formed_elsewhere || (file->stage == STELE_FORM_FORMED && said->stage == STELE_FORM_FORMING &&
                                !stele_uuid_equal(&cluster_id, &file->cluster_id)))
        return OTHER_CLUSTER;
    if (said->node_id < 1 || said->node_id > file->peers.count)
        return FINE; /* one that comes to the cluster and never formed it */
    struct stele_formation_heard *heard = &formation->heard[said->node_id - 1];
    heard->is_heard = true;
    heard->directory_id = *said->directory_id;
    heard->stage = said->stage;
    heard->cluster_id = cluster_id;
    return FINE;
}

/* Asking. */

static void form_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_formation_heard *heard = STELE_CONTAINER_OF(call, struct stele_formation_heard, call);
    struct stele_formation *formation = heard->formation;
    int32_t node_id = (int32_t)(heard - formation->heard) + 1;
    heard->is_asking = false;
    if (err != STELE_OK || formation->is_ended)
        return;
    const struct stele_form_response *response = &answer->response->body.form;
    enum trouble trouble = REFUSES;
    const char *text = response->message[0] != 0 ? response->message : stele_err_text(response->err);
    if (response->err == STELE_BROKER_NOT_AVAILABLE)
        return; /* it only begins */
    if (response->err == STELE_OK) {
        struct said said = {.node_id = response->node_id,
                            .directory_id = &response->directory_id,
                            .stage = response->stage,
                            .cluster_id = response->cluster_id};
        trouble = response->node_id != node_id ? OTHER_NODE : hear(formation, &said);
        text = troubles[trouble];
    }
    told_trouble(formation, node_id, address_of(formation, node_id), trouble, text);
    advance(formation);
}

static void ask(struct stele_formation *formation, struct stele_formation_heard *heard, struct stele_peer *peer)
{
    char peers[STELE_PEERS_TEXT_BYTES], cluster_id[STELE_UUID_TEXT_BYTES] = "";
    const struct stele_formation_file *file = &formation->file;
    stele_peer_list_text(&file->peers, peers);
    if (file->stage != STELE_FORM_EMPTY)
        stele_uuid_text(&file->cluster_id, cluster_id);
    struct stele_request request = {.header.api = STELE_API_FORM,
                                    .body.form = {.node_id = file->node_id,
                                                  .directory_id = file->directory_id,
                                                  .peers = peers,
                                                  .stage = file->stage,
                                                  .cluster_id = cluster_id}};
    heard->formation = formation;
    heard->call.done = form_done;
    heard->is_asking = stele_peers_call(peer, &heard->call, &request) == STELE_OK;
}

/* Whom it waits for, and why: without them it waits for ever. */
static void tell_silent(struct stele_formation *formation)
{
    struct stele_controller *control = formation->control;
    for (int i = 0; i < formation->file.peers.count; i++) {
        const struct stele_formation_heard *heard = &formation->heard[i];
        const struct stele_peer *peer = stele_peers_find(&control->peers, i + 1);
        if (i + 1 == formation->file.node_id || heard->is_heard || peer == NULL)
            continue;
        const char *text = heard->trouble != FINE ? troubles[heard->trouble]
                           : peer->is_up          ? "it gives no answer"
                                         : "no connection to it could be made: does it run, and is --peers right?";
        stele_trace(control->shard->env, STELE_TRACE_PEER_SILENT, address_of(formation, i + 1), text, i + 1, 0, 0);
    }
}

static void round_fired(struct stele_timer *timer)
{
    struct stele_formation *formation = STELE_CONTAINER_OF(timer, struct stele_formation, timer);
    struct stele_controller *control = formation->control;
    int64_t now_ms = stele_env_mono_ms(control->shard->env);
    stele_shard_arm(control->shard, timer, now_ms + ROUND_MS);
    if (now_ms >= formation->tell_ms) {
        formation->tell_ms = now_ms + SILENT_AGAIN_MS;
        tell_silent(formation);
    }
    for (int i = 0; i < formation->file.peers.count; i++) {
        struct stele_peer *peer = stele_peers_find(&control->peers, i + 1);
        if (peer != NULL && !formation->heard[i].is_asking && !formation->is_writing)
            ask(formation, &formation->heard[i], peer);
    }
}

void stele_formation_begin(struct stele_formation *formation)
{
    struct stele_env *env = formation->control->shard->env;
    stele_timer_init(&formation->timer, round_fired);
    formation->is_begun = true;
    if (formation->file.stage == STELE_FORM_FORMED) {
        advance(formation);
        return;
    }
    formation->tell_ms = stele_env_mono_ms(env) + SILENT_MS;
    stele_shard_arm(formation->control->shard, &formation->timer, stele_env_mono_ms(env));
    if (formation->file.stage != STELE_FORM_EMPTY)
        return;
    bool is_usable = !stele_uuid_is_zero(&formation->file.directory_id);
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        formation->file.directory_id = stele_uuid_make(high, low, &is_usable);
    }
    formation->next = formation->file;
    write_next(formation);
}

void stele_formation_end(struct stele_formation *formation)
{
    formation->is_ended = true;
    if (!formation->is_begun)
        return;
    stele_timer_cancel(formation->control->shard->wheel, &formation->timer);
    for (int i = 0; i < formation->file.peers.count; i++) {
        struct stele_peer *peer = stele_peers_find(&formation->control->peers, i + 1);
        if (formation->heard[i].is_asking && peer != NULL)
            stele_link_cancel(&peer->control, &formation->heard[i].call);
        formation->heard[i].is_asking = false;
    }
}

/* Being asked. */

struct form_call {
    struct stele_task task;
    struct stele_server_call *call;
    char cluster_id[STELE_UUID_TEXT_BYTES];
    char where[STELE_ADDRESS_BYTES];
};

static void form_home(struct stele_task *task)
{
    stele_server_call_done(STELE_CONTAINER_OF(task, struct form_call, task)->call);
}

static enum trouble check_request(struct stele_formation *formation, const struct stele_form_request *request)
{
    char peers[STELE_PEERS_TEXT_BYTES];
    struct said said = {.node_id = request->node_id,
                        .directory_id = &request->directory_id,
                        .stage = request->stage,
                        .cluster_id = request->cluster_id};
    stele_peer_list_text(&formation->file.peers, peers);
    return strcmp(peers, request->peers) != 0 ? OTHER_LIST : hear(formation, &said);
}

static void form_arrived(struct stele_task *task)
{
    static const enum stele_err errs[] = {[FINE] = STELE_OK,
                                          [OTHER_LIST] = STELE_INVALID_CONFIG,
                                          [OTHER_CLUSTER] = STELE_INCONSISTENT_CLUSTER_ID,
                                          [SAME_NODE] = STELE_DUPLICATE_BROKER_REGISTRATION};
    struct form_call *form = STELE_CONTAINER_OF(task, struct form_call, task);
    struct stele_server_call *call = form->call;
    struct stele_controller *control = &call->shard->node->control;
    struct stele_formation *formation = &control->formation;
    const struct stele_form_request *request = &call->request.body.form;
    struct stele_form_response *response = &call->response.body.form;
    *response = (struct stele_form_response){
        .message = "", .node_id = formation->file.node_id, .stage = formation->file.stage, .cluster_id = ""};
    if (!formation->is_begun || stele_uuid_is_zero(&formation->file.directory_id) ||
        (formation->is_writing && formation->next.stage == STELE_FORM_EMPTY)) {
        response->err = STELE_BROKER_NOT_AVAILABLE;
        response->message = "the node is alone, or only starts";
    } else {
        enum trouble trouble = check_request(formation, request);
        response->err = errs[trouble];
        response->message = troubles[trouble];
        response->directory_id = formation->file.directory_id;
        if (formation->file.stage != STELE_FORM_EMPTY) {
            stele_uuid_text(&formation->file.cluster_id, form->cluster_id);
            response->cluster_id = form->cluster_id;
        }
        told_trouble(formation, request->node_id, form->where, trouble, troubles[trouble]);
        advance(formation);
    }
    task->run = form_home;
    stele_shard_send(control->shard, call->shard, task);
}

void stele_handle_form(struct stele_server_call *call)
{
    struct form_call *form = stele_arena_alloc(&call->arena, sizeof(*form));
    if (!call->session->listener->is_peer || form == NULL) {
        stele_server_call_fail(call, form == NULL ? "memory ran out"
                                                  : "a request between nodes, on a listener that is not theirs");
        return;
    }
    form->call = call;
    (void)snprintf(form->where, sizeof(form->where), "%s",
                   call->session->conn != NULL ? call->shard->net->ops->peer(call->session->conn) : "");
    form->task.run = form_arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &form->task);
}
