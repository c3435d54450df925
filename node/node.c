/* The object graph and the life of a node: start recovers and serves, rounds write checkpoints and delete what is due,
 * stop closes cleanly. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/settings.h"

#include <stdio.h>
#include <string.h>

enum { WHEEL_TICK_MS = 1, WHEEL_SLOTS = 20, PARTITIONS_MAX = 10000, LEADER_EPOCH = 0 };

static void data_retain(struct stele_timer *timer);
static void data_expire(struct stele_timer *timer);
static void control_checkpoint(struct stele_timer *timer);

enum stele_err stele_node_new(const struct stele_node_options *options, struct stele_node **out_node)
{
    struct stele_mem *mem = options->envs[0]->mem;
    STELE_ASSERT(options->shard_count >= 2);
    struct stele_node *node = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*node));
    if (node == NULL)
        return STELE_NO_MEMORY;
    const struct stele_settings *settings = options->settings;
    node->options = *options;
    node->mem = mem;
    node->control = options->envs[STELE_SHARD_CONTROL];
    node->data = options->envs[STELE_SHARD_DATA];
    node->net = options->nets[STELE_SHARD_DATA];
    node->node_id = (int32_t)stele_settings_int(settings, "node.id");
    node->frame_bytes_max = (uint32_t)stele_settings_int(settings, "socket.request.max.bytes");
    stele_list_init(&node->partitions);
    stele_list_init(&node->sessions);
    stele_list_init(&node->parked);
    node->fetch_bytes_max = stele_settings_int(settings, "fetch.max.bytes");
    stele_timer_init(&node->retain_timer, data_retain);
    stele_timer_init(&node->expire_timer, data_expire);
    stele_timer_init(&node->checkpoint_timer, control_checkpoint);
    node->cache = stele_file_cache_new(node->data, (int)stele_settings_int(settings, "open.files.max"),
                                       stele_settings_int(settings, "index.map.bytes.max"));
    node->wheel = stele_timing_wheel_new(mem, WHEEL_TICK_MS, WHEEL_SLOTS, stele_env_mono_ms(node->data));
    node->control_wheel = stele_timing_wheel_new(mem, WHEEL_TICK_MS, WHEEL_SLOTS, stele_env_mono_ms(node->control));
    if (node->cache == NULL || node->wheel == NULL || node->control_wheel == NULL) {
        stele_node_free(node);
        return STELE_NO_MEMORY;
    }
    *out_node = node;
    return STELE_OK;
}

void stele_node_set_advertised(struct stele_node *node, const char *host, int32_t port)
{
    (void)snprintf(node->host, sizeof(node->host), "%s", host);
    node->port = port;
}

int64_t stele_node_deadline(struct stele_node *node, int shard)
{
    return stele_timing_wheel_next(shard == STELE_SHARD_CONTROL ? node->control_wheel : node->wheel);
}

void stele_node_tick(struct stele_node *node, int shard)
{
    if (shard == STELE_SHARD_CONTROL)
        stele_timing_wheel_advance(node->control_wheel, stele_env_mono_ms(node->control));
    else
        stele_timing_wheel_advance(node->wheel, stele_env_mono_ms(node->data));
}

/* Start */

static enum stele_err open_dirs(struct stele_node *node, struct stele_error *error)
{
    char text[4096];
    const char *paths[STELE_DIRS_MAX];
    int count = 0;
    (void)snprintf(text, sizeof(text), "%s", stele_settings_text(node->options.settings, "log.dirs"));
    for (char *at = text; at != NULL && count < STELE_DIRS_MAX;) {
        char *comma = strchr(at, ',');
        if (comma != NULL)
            *comma++ = 0;
        if (*at != 0)
            paths[count++] = at;
        at = comma;
    }
    if (count == 0)
        return stele_error_set(error, STELE_INVALID_CONFIG, "log.dirs names no directory");
    struct stele_log_dirs_options options = {.env = node->control,
                                             .paths = paths,
                                             .count = count,
                                             .reserve_bytes =
                                                 stele_settings_int(node->options.settings, "log.dir.reserve.bytes")};
    return stele_log_dirs_open(&options, &node->dirs, error);
}

static const struct stele_found_log *find_found(struct stele_node *node, const char *topic, int32_t number)
{
    for (int i = 0; i < stele_log_dirs_found_count(node->dirs); i++) {
        const struct stele_found_log *found = stele_log_dirs_found(node->dirs, i);
        if (found->partition == number && strcmp(found->topic, topic) == 0)
            return found;
    }
    return NULL;
}

static bool has_offline_dir(const struct stele_node *node)
{
    for (int i = 0; i < stele_log_dirs_count(node->dirs); i++) {
        if (stele_log_dirs_is_offline(node->dirs, i))
            return true;
    }
    return false;
}

/* Where a partition lies: where it was found; else it is made, for a topic was recorded and the node died before its
 * directory was. With a directory offline it may lie there, and a new one would hide it: it stays offline (OFFLINE). */
static enum stele_err place(struct stele_node *node, const struct stele_topic *topic,
                            struct stele_found_log *inout_found, char out_path[STELE_PATH_BYTES],
                            struct stele_error *error)
{
    char name[STELE_TOPIC_NAME_MAX + 16];
    int32_t number = inout_found->partition;
    const struct stele_found_log *known = find_found(node, topic->name, number);
    (void)snprintf(name, sizeof(name), "%s-%d", topic->name, number);
    if (known != NULL && !stele_uuid_is_zero(&known->topic_id) && !stele_uuid_equal(&known->topic_id, &topic->topic_id))
        return stele_error_set(error, STELE_INCONSISTENT_TOPIC_ID,
                               "%s belongs to another topic of that name; move its directory away", name);
    if (known != NULL) {
        *inout_found = *known;
        return stele_path_join(out_path, stele_log_dirs_path(node->dirs, known->dir), name);
    }
    inout_found->dir = -1;
    if (!topic->is_new && has_offline_dir(node))
        return stele_error_set(error, STELE_OFFLINE, "%s may lie in a log directory that is offline", name);
    inout_found->dir = stele_log_dirs_pick(node->dirs);
    if (inout_found->dir < 0)
        return stele_error_set(error, STELE_OFFLINE, "%s: every log directory is offline", name);
    enum stele_err err =
        stele_log_dirs_create(node->dirs, inout_found->dir, topic->name, number, &topic->topic_id, out_path);
    return err == STELE_OK ? err : stele_error_set(error, err, "%s: %s", name, stele_err_text(err));
}

/* Opens, or makes, one partition of a topic of the image; offline when its disk does not serve. */
static enum stele_err open_partition(struct stele_node *node, const struct stele_topic *topic, int32_t number,
                                     struct stele_partition **out_partition, struct stele_error *error)
{
    char path[STELE_PATH_BYTES];
    struct stele_found_log found = {.partition = number, .high_watermark = -1};
    enum stele_err err = place(node, topic, &found, path, error);
    if (err == STELE_NO_MEMORY || err == STELE_INCONSISTENT_TOPIC_ID || err == STELE_TOO_LARGE)
        return err;
    if (err != STELE_OK)
        stele_trace(node->control, STELE_TRACE_LOG_FAILED, topic->name, error->text, 0, 0, 0);
    return stele_partition_open(node, topic, &found, err == STELE_OK ? path : NULL, out_partition, error);
}

static enum stele_err open_all(struct stele_node *node, struct stele_error *error)
{
    for (int i = 0; i < node->image.count; i++) {
        const struct stele_topic *topic = &node->image.topics[i];
        for (int32_t k = 0; k < topic->partition_count; k++) {
            struct stele_partition *partition = NULL;
            enum stele_err err = open_partition(node, topic, k, &partition, error);
            if (err != STELE_OK)
                return err;
            stele_partition_adopt(partition);
        }
    }
    return STELE_OK;
}

static void begin_data_rounds(struct stele_task *task)
{
    struct stele_node *node = STELE_CONTAINER_OF(task, struct stele_node, drain_task);
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, link);
        if (partition->log != NULL)
            stele_log_set_high_watermark(partition->log, stele_log_end_offset(partition->log));
    }
    data_retain(&node->retain_timer);
    data_expire(&node->expire_timer);
}

/* The data shard does nothing yet, so that the start may use what will be its own. */
void stele_node_start(struct stele_node *node)
{
    struct stele_error error = {.text = ""};
    enum stele_err err = open_dirs(node, &error);
    if (err == STELE_OK)
        err = stele_metadata_open(node, &error);
    if (err == STELE_OK)
        err = open_all(node, &error);
    if (err != STELE_OK) {
        if (error.text[0] == 0)
            (void)stele_error_set(&error, err, "%s", stele_err_text(err));
        node->options.ready(node->options.arg, err, &error);
        return;
    }
    node->drain_task.run = begin_data_rounds;
    node->data->ops->post(node->data, &node->drain_task);
    int64_t due = stele_env_mono_ms(node->control) +
                  stele_settings_int(node->options.settings, "log.flush.offset.checkpoint.interval.ms");
    if (stele_timer_arm(node->control_wheel, &node->checkpoint_timer, due) != STELE_OK)
        stele_trace(node->control, STELE_TRACE_CHECKPOINT_BAD, "checkpoints", "memory is short", 0, 0, 0);
    stele_trace(node->control, STELE_TRACE_NODE_STARTED, node->host, NULL, node->node_id, node->port, 0);
    node->options.ready(node->options.arg, STELE_OK, &error);
}

/* Rounds */

static void unlink_due(struct stele_node *node, struct stele_partition *partition)
{
    int64_t *bases = NULL;
    int count = 0;
    int64_t now = stele_env_mono_ms(node->data);
    if (stele_log_unlink_due(partition->log) > now ||
        stele_log_take_due(partition->log, now, &bases, &count) != STELE_OK)
        return;
    for (int i = 0; i < count; i++) {
        if (stele_segment_unlink_deleted(node->data->vfs, stele_log_dir(partition->log), bases[i]) != STELE_OK)
            stele_trace(node->data, STELE_TRACE_LOG_FAILED, stele_log_dir(partition->log), "an unlink that failed", 0,
                        0, 0);
    }
    stele_mem_free(node->mem, bases);
}

static void data_retain(struct stele_timer *timer)
{
    struct stele_node *node = STELE_CONTAINER_OF(timer, struct stele_node, retain_timer);
    int64_t due =
        stele_env_mono_ms(node->data) + stele_settings_int(node->options.settings, "log.retention.check.interval.ms");
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, link);
        bool rolled = false;
        int deleted = 0;
        if (partition->log == NULL || stele_log_is_failed(partition->log))
            continue;
        enum stele_err err = stele_log_roll_if_old(partition->log, &rolled);
        if (err == STELE_OK)
            err = stele_log_retain(partition->log, &deleted);
        if (err == STELE_OK)
            unlink_due(node, partition);
        stele_log_dirs_measure(node->dirs, partition->dir);
    }
    if (!node->refuses && stele_timer_arm(node->wheel, &node->retain_timer, due) != STELE_OK)
        stele_trace(node->data, STELE_TRACE_CHECKPOINT_BAD, "retention", "memory is short", 0, 0, 0);
}

static void data_expire(struct stele_timer *timer)
{
    struct stele_node *node = STELE_CONTAINER_OF(timer, struct stele_node, expire_timer);
    int64_t due = stele_env_mono_ms(node->data) +
                  stele_settings_int(node->options.settings, "producer.id.expiration.check.interval.ms");
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, link);
        if (partition->log != NULL)
            (void)stele_log_expire_producers(partition->log);
    }
    if (!node->refuses && stele_timer_arm(node->wheel, timer, due) != STELE_OK)
        stele_trace(node->data, STELE_TRACE_CHECKPOINT_BAD, "producer expiry", "memory is short", 0, 0, 0);
}

static bool add_point(struct stele_node *node, const struct stele_log_points *point)
{
    struct stele_log_points *points =
        stele_mem_resize(node->mem, STELE_MEM_NODE, node->points, (size_t)(node->point_count + 1) * sizeof(*points));
    if (points == NULL)
        return false;
    node->points = points;
    points[node->point_count++] = *point;
    return true;
}

static struct stele_log_points point_of(const struct stele_log *log, int dir, const char *topic, int32_t number)
{
    struct stele_log_points point = {.dir = dir,
                                     .partition = number,
                                     .recovery_point = stele_log_recovery_point(log),
                                     .log_start_offset = stele_log_start_offset(log),
                                     .high_watermark = stele_log_high_watermark(log),
                                     .first_segment_base = stele_log_segment(log, 0)->base_offset};
    (void)snprintf(point.topic, sizeof(point.topic), "%s", topic);
    return point;
}

static bool add_metadata_point(struct stele_node *node)
{
    struct stele_log_points point = point_of(node->metadata, 0, STELE_METADATA_TOPIC_NAME, 0);
    return add_point(node, &point);
}

/* On the data shard: what its logs say now; point_count is -1 when memory ran out, and then nothing is written in this
 * round. A log that is offline keeps what its checkpoints said: without it the next start would take damage for a torn
 * tail. */
static void take_points(struct stele_node *node)
{
    node->point_count = 0;
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, link);
        if (partition->log != NULL)
            partition->points = point_of(partition->log, partition->dir, partition->topic, partition->number);
        if (!add_point(node, &partition->points)) {
            node->point_count = -1;
            return;
        }
    }
}

static void write_points(struct stele_task *task)
{
    struct stele_node *node = STELE_CONTAINER_OF(task, struct stele_node, task);
    node->is_task_busy = false;
    if (node->is_stopping)
        return;
    if (node->point_count >= 0 && add_metadata_point(node) &&
        stele_log_dirs_checkpoint(node->dirs, node->points, node->point_count) != STELE_OK)
        stele_trace(node->control, STELE_TRACE_CHECKPOINT_BAD, "a checkpoint", "it could not be written", 0, 0, 0);
}

static void gather_points(struct stele_task *task)
{
    struct stele_node *node = STELE_CONTAINER_OF(task, struct stele_node, task);
    take_points(node);
    task->run = write_points;
    node->control->ops->post(node->control, task);
}

static void control_checkpoint(struct stele_timer *timer)
{
    struct stele_node *node = STELE_CONTAINER_OF(timer, struct stele_node, checkpoint_timer);
    const struct stele_settings *settings = node->options.settings;
    /* The three are written together, as often as the most frequent asks. */
    int64_t interval = stele_min_i64(stele_settings_int(settings, "log.flush.offset.checkpoint.interval.ms"),
                                     stele_settings_int(settings, "replica.high.watermark.checkpoint.interval.ms"));
    interval = stele_min_i64(interval, stele_settings_int(settings, "log.flush.start.offset.checkpoint.interval.ms"));
    if (!node->is_task_busy && !node->is_stopping) {
        node->is_task_busy = true;
        node->task.run = gather_points;
        node->data->ops->post(node->data, &node->task);
    }
    if (stele_timer_arm(node->control_wheel, timer, stele_env_mono_ms(node->control) + interval) != STELE_OK)
        stele_trace(node->control, STELE_TRACE_CHECKPOINT_BAD, "checkpoints", "memory is short", 0, 0, 0);
}

/* Topics, on the control shard */

static const char *copy_text(struct stele_pending *pending, const char *text)
{
    char *copy = stele_arena_string(&pending->arena, text, strlen(text));
    return copy == NULL ? "" : copy;
}

/* The arena of a pending is used by one shard at a time: it travels with the task. */
void stele_control_metadata(struct stele_pending *pending)
{
    struct stele_node *node = pending->session->node;
    const struct stele_metadata_request *request = &pending->request.body.metadata;
    struct stele_metadata_response *response = &pending->response.body.metadata;
    struct stele_arena *arena = &pending->arena;
    int32_t *ids = stele_arena_alloc(arena, sizeof(*ids));
    struct stele_metadata_node *self = stele_arena_alloc(arena, sizeof(*self));
    size_t wanted = request->all_topics ? (size_t)node->image.count : request->topic_count;
    struct stele_metadata_topic *topics = stele_arena_array(arena, wanted, sizeof(*topics));
    if (ids == NULL || self == NULL || topics == NULL) {
        response->err = STELE_NO_MEMORY;
        return;
    }
    *ids = node->node_id;
    *self = (struct stele_metadata_node){.node_id = node->node_id, .host = node->host, .port = node->port};
    *response = (struct stele_metadata_response){.cluster_id = node->image.cluster_id,
                                                 .controller_id = node->node_id,
                                                 .nodes = self,
                                                 .node_count = 1,
                                                 .topics = topics,
                                                 .topic_count = wanted};
    for (size_t i = 0; i < wanted; i++) {
        const struct stele_topic *topic =
            request->all_topics ? &node->image.topics[i] : stele_image_find(node, request->topics[i]);
        topics[i].name = copy_text(pending, topic == NULL ? request->topics[i] : topic->name);
        topics[i].err = topic == NULL ? STELE_UNKNOWN_TOPIC_OR_PARTITION : STELE_OK;
        if (topic == NULL)
            continue;
        size_t count = (size_t)topic->partition_count;
        struct stele_metadata_partition *partitions = stele_arena_array(arena, count, sizeof(*partitions));
        for (size_t k = 0; k < count && partitions != NULL; k++)
            partitions[k] = (struct stele_metadata_partition){.partition = (int32_t)k,
                                                              .leader_id = node->node_id,
                                                              .leader_epoch = LEADER_EPOCH,
                                                              .replicas = ids,
                                                              .replica_count = 1,
                                                              .isr = ids,
                                                              .isr_count = 1};
        topics[i].topic_id = topic->topic_id;
        topics[i].partitions = partitions;
        topics[i].partition_count = partitions == NULL ? 0 : count;
    }
}

static enum stele_err check_create(struct stele_node *node, const struct stele_create_topic_request *request,
                                   struct stele_error *error)
{
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    if (!stele_topic_name_is_legal(request->name) || strcmp(request->name, STELE_METADATA_TOPIC_NAME) == 0)
        return stele_error_set(error, STELE_INVALID_TOPIC_EXCEPTION,
                               "'%.100s' is no legal topic name: 1 to 249 of a-z A-Z 0-9 . _ -, not . or ..",
                               request->name);
    if (stele_image_find(node, request->name) != NULL)
        return stele_error_set(error, STELE_TOPIC_ALREADY_EXISTS, "topic '%s' exists already", request->name);
    if (request->partition_count != -1 && (request->partition_count < 1 || request->partition_count > PARTITIONS_MAX))
        return stele_error_set(error, STELE_INVALID_PARTITIONS, "a topic has 1 to %d partitions", PARTITIONS_MAX);
    if (request->replication_factor != -1 && request->replication_factor != 1)
        return stele_error_set(error, STELE_INVALID_REPLICATION_FACTOR, "there is one node: the factor must be 1");
    for (size_t i = 0; i < request->setting_count; i++) {
        enum stele_err err =
            stele_settings_check_topic(rows, count, request->settings[i].name, request->settings[i].value, error);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

static enum stele_err write_topic(struct stele_node *node, const struct stele_create_topic_request *request,
                                  int32_t partitions, struct stele_uuid topic_id)
{
    size_t count = 1 + (size_t)partitions + request->setting_count;
    struct stele_metadata_record *records = stele_mem_array(node->mem, STELE_MEM_METADATA, count, sizeof(*records));
    if (records == NULL)
        return STELE_NO_MEMORY;
    size_t at = 0;
    records[at++] = (struct stele_metadata_record){.kind = STELE_METADATA_TOPIC,
                                                   .u.topic = {.name = request->name, .topic_id = topic_id}};
    for (int32_t i = 0; i < partitions; i++)
        records[at++] = (struct stele_metadata_record){.kind = STELE_METADATA_PARTITION,
                                                       .u.partition = {.topic_id = topic_id,
                                                                       .partition = i,
                                                                       .leader_id = node->node_id,
                                                                       .leader_epoch = LEADER_EPOCH,
                                                                       .replicas = &node->node_id,
                                                                       .replica_count = 1,
                                                                       .isr = &node->node_id,
                                                                       .isr_count = 1}};
    for (size_t i = 0; i < request->setting_count; i++)
        records[at++] = (struct stele_metadata_record){.kind = STELE_METADATA_SETTING,
                                                       .u.setting = {.scope = 2,
                                                                     .subject = request->name,
                                                                     .name = request->settings[i].name,
                                                                     .value = request->settings[i].value}};
    enum stele_err err = stele_metadata_write(node, records, (int)count);
    stele_mem_free(node->mem, records);
    return err;
}

/* A partition opened on the control shard goes to the data shard by a task of its own; tasks keep their order, so it is
 * there before the answer is. */
struct adopt {
    struct stele_task task;
    struct stele_partition *partition;
};

static void adopt(struct stele_task *task)
{
    struct adopt *adopt_ = STELE_CONTAINER_OF(task, struct adopt, task);
    struct stele_node *node = adopt_->partition->node;
    stele_partition_adopt(adopt_->partition);
    stele_mem_free(node->mem, adopt_);
}

static enum stele_err make_partitions(struct stele_node *node, const struct stele_topic *topic,
                                      struct stele_error *error)
{
    enum stele_err failed = STELE_OK;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct stele_partition *partition = NULL;
        struct adopt *adopt_ = stele_mem_alloc(node->mem, STELE_MEM_NODE, sizeof(*adopt_));
        enum stele_err err = adopt_ == NULL ? STELE_NO_MEMORY : open_partition(node, topic, i, &partition, error);
        if (err != STELE_OK) {
            stele_mem_free(node->mem, adopt_);
            return err;
        }
        partition->is_named = false;
        if (partition->log == NULL)
            failed =
                stele_error_set(error, STELE_KAFKA_STORAGE_ERROR, "%s-%d was recorded but is offline", topic->name, i);
        adopt_->partition = partition;
        adopt_->task.run = adopt;
        node->data->ops->post(node->data, &adopt_->task);
    }
    return failed;
}

void stele_control_create_topic(struct stele_pending *pending)
{
    struct stele_node *node = pending->session->node;
    const struct stele_create_topic_request *request = &pending->request.body.create_topic;
    struct stele_create_topic_response *response = &pending->response.body.create_topic;
    struct stele_error error = {.text = ""};
    struct stele_uuid topic_id;
    int32_t partitions = request->partition_count == -1
                             ? (int32_t)stele_settings_int(node->options.settings, "num.partitions")
                             : request->partition_count;
    bool is_usable = false;
    enum stele_err err = node->is_stopping ? STELE_NOT_CONTROLLER : check_create(node, request, &error);
    while (err == STELE_OK && !is_usable)
        topic_id = stele_uuid_make(node->control->ops->random(node->control), node->control->ops->random(node->control),
                                   &is_usable);
    if (err == STELE_OK && !request->validate_only) {
        err = write_topic(node, request, partitions, topic_id);
        if (err == STELE_OK) {
            struct stele_topic *topic = stele_image_find(node, request->name);
            topic->is_new = true;
            err = make_partitions(node, topic, &error);
        }
        if (err == STELE_OK)
            stele_trace(node->control, STELE_TRACE_TOPIC_CREATED, request->name, NULL, partitions, 0, 0);
    }
    *response = (struct stele_create_topic_response){
        .err = err, .message = copy_text(pending, error.text), .partition_count = partitions, .replication_factor = 1};
    if (err == STELE_OK)
        response->topic_id = topic_id;
    if (stele_log_is_failed(node->metadata)) {
        (void)stele_error_set(&error, STELE_IO, "the metadata log could not be written: %s", stele_err_text(err));
        node->options.fatal(node->options.arg, STELE_EXIT_STORAGE, &error);
    }
}

/* Stop: refuse, answer what waits, close the logs on the data shard, then markers and locks on the control shard. */

static void finish_stop(struct stele_task *task)
{
    struct stele_node *node = STELE_CONTAINER_OF(task, struct stele_node, drain_task);
    enum stele_err err = node->stop_err;
    enum stele_err closed = stele_log_close(node->metadata);
    if (closed == STELE_OK && (node->point_count < 0 || !add_metadata_point(node)))
        closed = STELE_NO_MEMORY;
    err = err == STELE_OK ? closed : err;
    if (err == STELE_OK)
        err = stele_log_dirs_checkpoint(node->dirs, node->points, node->point_count);
    for (int i = 0; i < stele_log_dirs_count(node->dirs) && err == STELE_OK; i++) {
        if (!stele_log_dirs_is_offline(node->dirs, i) && !node->has_failed_log[i])
            err = stele_log_dirs_mark_clean(node->dirs, i);
    }
    node->options.stopped(node->options.arg, err);
}

static bool is_flushing(struct stele_node *node)
{
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        if (STELE_CONTAINER_OF(at, struct stele_partition, link)->is_flushing)
            return true;
    }
    return false;
}

static void drain(struct stele_task *task)
{
    struct stele_node *node = STELE_CONTAINER_OF(task, struct stele_node, drain_task);
    node->refuses = true;
    stele_timer_cancel(node->wheel, &node->retain_timer);
    stele_timer_cancel(node->wheel, &node->expire_timer);
    stele_session_stop_all(node);
    if (is_flushing(node) || !stele_list_is_empty(&node->sessions)) {
        node->data->ops->post(node->data, task); /* after what is under way has ended */
        return;
    }
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, link);
        stele_timer_cancel(node->wheel, &partition->flush_timer);
        enum stele_err err = partition->log == NULL ? STELE_OFFLINE : stele_log_close(partition->log);
        if (err == STELE_OK && !partition->is_named)
            err = stele_partition_metadata_write(node->data->vfs, stele_log_dir(partition->log), &partition->topic_id,
                                                 true);
        /* A log that failed costs its own directory the marker, not the others. */
        if (err != STELE_OK && partition->dir >= 0)
            node->has_failed_log[partition->dir] = true;
        if (err != STELE_OK && err != STELE_OFFLINE && node->stop_err == STELE_OK)
            node->stop_err = err;
    }
    take_points(node);
    task->run = finish_stop;
    node->control->ops->post(node->control, task);
}

void stele_node_stop(struct stele_node *node)
{
    if (node->is_stopping)
        return;
    node->is_stopping = true;
    stele_trace(node->control, STELE_TRACE_NODE_STOPPING, node->host, "asked to", node->node_id, 0, 0);
    stele_timer_cancel(node->control_wheel, &node->checkpoint_timer);
    node->drain_task.run = drain;
    node->data->ops->post(node->data, &node->drain_task);
}

void stele_node_free(struct stele_node *node)
{
    if (node == NULL)
        return;
    while (!stele_list_is_empty(&node->sessions))
        stele_session_free(STELE_CONTAINER_OF(node->sessions.next, struct stele_session, link));
    while (!stele_list_is_empty(&node->partitions))
        stele_partition_free(STELE_CONTAINER_OF(node->partitions.next, struct stele_partition, link));
    stele_log_free(node->metadata);
    stele_image_free(node);
    stele_file_cache_free(node->cache);
    stele_timing_wheel_free(node->wheel);
    stele_timing_wheel_free(node->control_wheel);
    stele_log_dirs_close(node->dirs);
    stele_mem_free(node->mem, node->points);
    stele_mem_free(node->mem, node);
}
