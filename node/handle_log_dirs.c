/* Log directories: which replica lies where, how far moves are, and the wish that one move (KIP-113). Both are of the
 * node that answers. */
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/server_call.h"

#include <string.h>

/* Alter: the control shard is asked for each. */

struct alter;

struct wish {
    struct stele_move_ask ask;
    struct alter *all;
};

struct alter {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct wish *wishes;
    struct stele_alter_log_dirs_result *results;
    size_t count, pending;
};

static void altered_home(struct stele_task *task)
{
    struct alter *all = STELE_CONTAINER_OF(task, struct alter, task);
    all->call->response.body.alter_log_dirs =
        (struct stele_alter_log_dirs_response){.results = all->results, .result_count = all->count};
    stele_server_call_done(all->call);
}

static void one_done(struct alter *all)
{
    struct stele_server_call *call = all->call;
    if (--all->pending > 0)
        return;
    all->task.run = altered_home;
    stele_shard_send(&call->shard->node->shards[STELE_SHARD_CONTROL], call->shard, &all->task);
}

static void asked(struct stele_move_ask *ask)
{
    struct wish *wish = STELE_CONTAINER_OF(ask, struct wish, ask);
    struct stele_alter_log_dirs_result *result = &wish->all->results[wish - wish->all->wishes];
    result->err = ask->err;
    result->message = ask->message;
    one_done(wish->all);
}

/* A slash at the end names the same directory. */
static bool is_same_path(const char *a, const char *b)
{
    size_t bytes = strlen(a), other = strlen(b);
    while (bytes > 1 && a[bytes - 1] == '/')
        bytes--;
    while (other > 1 && b[other - 1] == '/')
        other--;
    return bytes == other && memcmp(a, b, bytes) == 0;
}

static int find_dir(const struct stele_node *node, const char *path)
{
    for (int i = 0; i < node->dir_count; i++) {
        if (is_same_path(node->dir_paths[i], path))
            return i;
    }
    return -1;
}

static void ask(struct alter *all, size_t at)
{
    struct stele_node *node = all->call->shard->node;
    const struct stele_moved_replica *in = &all->call->request.body.alter_log_dirs.replicas[at];
    struct stele_alter_log_dirs_result *result = &all->results[at];
    struct wish *wish = &all->wishes[at];
    struct stele_image *image = &node->control.mlog.image;
    const struct stele_image_topic *topic = stele_image_topic_named(image, in->topic);
    *result = (struct stele_alter_log_dirs_result){.message = "", .topic = in->topic, .partition = in->partition};
    *wish = (struct wish){.all = all, .ask = {.dir = find_dir(node, in->directory), .done = asked}};
    stele_list_init(&wish->ask.link);
    if (wish->ask.dir < 0) {
        result->err = STELE_LOG_DIR_NOT_FOUND;
        result->message = "it is none of log.dirs of this node";
    } else if (topic == NULL || in->partition < 0 || in->partition >= topic->partition_count) {
        result->err = STELE_UNKNOWN_TOPIC_OR_PARTITION;
    } else {
        wish->ask.key = (struct stele_partition_key){.topic_id = topic->topic_id, .number = in->partition};
        stele_moves_ask(&node->control, &wish->ask);
        return;
    }
    one_done(all);
}

static void alter_arrived(struct stele_task *task)
{
    struct alter *all = STELE_CONTAINER_OF(task, struct alter, task);
    for (size_t i = 0; i < all->count; i++)
        ask(all, i);
    one_done(all);
}

/* Only when the node ends in the middle is one still asked for. */
static void release(struct stele_server_call *call)
{
    struct alter *all = call->state;
    for (size_t i = 0; i < all->count; i++)
        stele_list_remove(&all->wishes[i].ask.link);
}

static bool is_other_node(const struct stele_server_call *call, int32_t node_id)
{
    return node_id >= 0 && node_id != call->shard->node->node_id;
}

void stele_handle_alter_log_dirs(struct stele_server_call *call)
{
    const struct stele_alter_log_dirs_request *request = &call->request.body.alter_log_dirs;
    size_t count = request->replica_count;
    struct alter *all = stele_arena_alloc(&call->arena, sizeof(*all));
    struct wish *wishes = stele_arena_array(&call->arena, count, sizeof(*wishes));
    struct stele_alter_log_dirs_result *results = stele_arena_array(&call->arena, count, sizeof(*results));
    if (all == NULL || ((wishes == NULL || results == NULL) && count > 0)) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    *all = (struct alter){.call = call, .wishes = wishes, .results = results, .count = count, .pending = count + 1};
    if (is_other_node(call, request->node_id)) {
        for (size_t i = 0; i < count; i++)
            results[i] = (struct stele_alter_log_dirs_result){.err = STELE_REPLICA_NOT_AVAILABLE,
                                                              .message = "this is another node",
                                                              .topic = request->replicas[i].topic,
                                                              .partition = request->replicas[i].partition};
        altered_home(&all->task);
        return;
    }
    for (size_t i = 0; i < count; i++)
        stele_list_init(&wishes[i].ask.link);
    call->state = all;
    call->release = release;
    all->task.run = alter_arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &all->task);
}

/* Describe: goes from shard to shard, each fills in its replicas. */

struct entry {
    struct entry *next;
    struct stele_described_replica replica;
};

struct describe {
    struct stele_task task;
    struct stele_server_call *call;
    struct stele_described_log_dir *dirs;
    struct entry **entries; /* of each directory */
    int at;                 /* the shard */
    bool has_no_memory;
};

static void described(struct describe *all)
{
    struct stele_server_call *call = all->call;
    const struct stele_node *node = call->shard->node;
    for (int i = 0; i < node->dir_count && !all->has_no_memory; i++) {
        struct stele_described_log_dir *dir = &all->dirs[i];
        struct stele_described_replica *replicas =
            stele_arena_array(&call->arena, dir->replica_count, sizeof(*replicas));
        all->has_no_memory = replicas == NULL && dir->replica_count > 0;
        size_t at = 0;
        for (const struct entry *entry = all->entries[i]; entry != NULL && !all->has_no_memory; entry = entry->next)
            replicas[at++] = entry->replica;
        dir->replicas = replicas;
    }
    if (all->has_no_memory) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    call->response.body.describe_log_dirs = (struct stele_describe_log_dirs_response){
        .message = "", .node_id = node->node_id, .directories = all->dirs, .directory_count = (size_t)node->dir_count};
    stele_server_call_done(call);
}

static void describe_home(struct stele_task *task)
{
    described(STELE_CONTAINER_OF(task, struct describe, task));
}

static void add(struct describe *all, int dir, const struct stele_described_replica *replica)
{
    struct entry *entry = stele_arena_alloc(&all->call->arena, sizeof(*entry));
    if (entry == NULL) {
        all->has_no_memory = true;
        return;
    }
    *entry = (struct entry){.next = all->entries[dir], .replica = *replica};
    all->entries[dir] = entry;
    all->dirs[dir].replica_count++;
}

static bool is_asked_for(const struct stele_describe_log_dirs_request *request, const char *topic)
{
    for (size_t i = 0; i < request->topic_count; i++) {
        if (strcmp(request->topics[i], topic) == 0)
            return true;
    }
    return request->topic_count == 0;
}

static void describe_one(struct describe *all, const struct stele_partition *partition)
{
    const struct stele_log *log = partition->log;
    struct stele_described_replica replica = {.topic_id = partition->key.topic_id,
                                              .partition = partition->key.number,
                                              .log_end_offset = -1,
                                              .is_offline = partition->state == STELE_PARTITION_OFFLINE};
    replica.topic = stele_arena_string(&all->call->arena, partition->topic, strlen(partition->topic));
    if (replica.topic == NULL) {
        all->has_no_memory = true;
        return;
    }
    if (log != NULL) {
        replica.bytes = stele_log_bytes(log);
        replica.log_end_offset = stele_log_end_offset(log);
        replica.offset_lag = stele_max_i64(stele_log_high_watermark(log) - replica.log_end_offset, 0);
    }
    add(all, partition->dir, &replica);
    if (partition->mover == NULL || partition->mover->state == STELE_MOVER_OPENING || log == NULL)
        return;
    int64_t start_offset = stele_log_start_offset(log), end_offset = replica.log_end_offset;
    replica.bytes = partition->mover->copied_bytes;
    replica.log_end_offset = stele_max_i64(partition->mover->copy_end, start_offset);
    replica.offset_lag = end_offset - replica.log_end_offset;
    replica.is_future = true;
    add(all, partition->mover->dir, &replica);
}

static void describe_arrived(struct stele_task *task)
{
    struct describe *all = STELE_CONTAINER_OF(task, struct describe, task);
    struct stele_server_call *call = all->call;
    struct stele_node *node = call->shard->node;
    struct stele_shard *shard = &node->shards[all->at];
    struct stele_partition *partition, *next;
    HASH_ITER(hh, shard->partitions, partition, next)
    {
        if (!all->has_no_memory && is_asked_for(&call->request.body.describe_log_dirs, partition->topic))
            describe_one(all, partition);
    }
    if (++all->at < node->shard_count) {
        stele_shard_send(shard, &node->shards[all->at], task);
        return;
    }
    task->run = describe_home;
    stele_shard_send(shard, call->shard, task);
}

void stele_handle_describe_log_dirs(struct stele_server_call *call)
{
    struct stele_node *node = call->shard->node;
    size_t count = (size_t)node->dir_count;
    struct describe *all = stele_arena_alloc(&call->arena, sizeof(*all));
    struct stele_described_log_dir *dirs = stele_arena_array(&call->arena, count, sizeof(*dirs));
    struct entry **entries = stele_arena_array(&call->arena, count, sizeof(*entries));
    if (all == NULL || dirs == NULL || entries == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    if (is_other_node(call, call->request.body.describe_log_dirs.node_id)) {
        call->response.body.describe_log_dirs = (struct stele_describe_log_dirs_response){
            .err = STELE_REPLICA_NOT_AVAILABLE, .message = "this is another node", .node_id = node->node_id};
        stele_server_call_done(call);
        return;
    }
    for (int i = 0; i < node->dir_count; i++) {
        bool is_offline = stele_log_dirs_is_offline(node->control.dirs, i);
        dirs[i] = (struct stele_described_log_dir){
            .err = is_offline ? STELE_KAFKA_STORAGE_ERROR : STELE_OK,
            .path = node->dir_paths[i],
            .free_bytes = is_offline ? 0 : stele_log_dirs_free_bytes(node->control.dirs, i)};
        entries[i] = NULL;
    }
    *all = (struct describe){.call = call, .dirs = dirs, .entries = entries, .at = STELE_SHARD_DATA};
    all->task.run = describe_arrived;
    stele_shard_send(call->shard, &node->shards[all->at], &all->task);
}
