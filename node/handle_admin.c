/* Topics are created, grown and deleted: the call goes to the control shard, is carried out there (node/topic_ops.h),
 * and comes back. */
#include "node/node.h"
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/topic_ops.h"

#include <string.h>

struct admin {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_topic_make make;
    struct stele_topic_remove remove;
};

static void home(struct stele_task *task)
{
    stele_server_call_done(STELE_CONTAINER_OF(task, struct admin, task)->call);
}

static void send_home(struct admin *admin)
{
    struct stele_server_call *call = admin->call;
    admin->task.run = home;
    stele_shard_send(&call->shard->node->shards[STELE_SHARD_CONTROL], call->shard, &admin->task);
}

/* Only when the node ends in the middle is anything still held. */
static void release(struct stele_server_call *call)
{
    struct admin *admin = call->state;
    stele_topic_make_drop(&admin->make);
    stele_topic_remove_drop(&admin->remove);
}

static void begin(struct stele_server_call *call, void (*arrived)(struct stele_task *task))
{
    struct admin *admin = stele_arena_alloc(&call->arena, sizeof(*admin));
    if (admin == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    admin->call = call;
    call->state = admin;
    call->release = release;
    admin->task.run = arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &admin->task);
}

static const char *text_of(const struct stele_error *error)
{
    return error->err == STELE_OK ? "" : error->text;
}

/* Create. */

static void created(struct stele_topic_make *make)
{
    struct admin *admin = STELE_CONTAINER_OF(make, struct admin, make);
    admin->call->response.body.create_topic =
        (struct stele_create_topic_response){.err = make->error.err,
                                             .message = text_of(&make->error),
                                             .topic_id = make->topic_id,
                                             .partition_count = make->partition_count,
                                             .replication_factor = make->replication_factor};
    send_home(admin);
}

static void create_arrived(struct stele_task *task)
{
    struct admin *admin = STELE_CONTAINER_OF(task, struct admin, task);
    struct stele_server_call *call = admin->call;
    const struct stele_create_topic_request *request = &call->request.body.create_topic;
    admin->make = (struct stele_topic_make){.control = &call->shard->node->control,
                                            .name = request->name,
                                            .validate_only = request->validate_only,
                                            .partition_count = request->partition_count,
                                            .replication_factor = request->replication_factor,
                                            .settings = request->settings,
                                            .setting_count = request->setting_count,
                                            .assignments = request->assignments,
                                            .assignment_count = request->assignment_count,
                                            .timeout_ms = request->timeout_ms,
                                            .done = created};
    stele_topic_make(&admin->make);
}

void stele_handle_create_topic(struct stele_server_call *call)
{
    begin(call, create_arrived);
}

/* Grow. */

static void grown(struct stele_topic_make *make)
{
    struct admin *admin = STELE_CONTAINER_OF(make, struct admin, make);
    admin->call->response.body.create_partitions =
        (struct stele_create_partitions_response){.err = make->error.err, .message = text_of(&make->error)};
    send_home(admin);
}

static void grow_arrived(struct stele_task *task)
{
    struct admin *admin = STELE_CONTAINER_OF(task, struct admin, task);
    struct stele_server_call *call = admin->call;
    const struct stele_create_partitions_request *request = &call->request.body.create_partitions;
    admin->make = (struct stele_topic_make){.control = &call->shard->node->control,
                                            .name = request->name,
                                            .is_growth = true,
                                            .validate_only = request->validate_only,
                                            .partition_count = request->partition_count,
                                            .replication_factor = -1,
                                            .assignments = request->assignments,
                                            .assignment_count = request->assignment_count,
                                            .timeout_ms = request->timeout_ms,
                                            .done = grown};
    stele_topic_make(&admin->make);
}

void stele_handle_create_partitions(struct stele_server_call *call)
{
    begin(call, grow_arrived);
}

/* Delete. */

static void deleted(struct stele_topic_remove *remove)
{
    struct admin *admin = STELE_CONTAINER_OF(remove, struct admin, remove);
    admin->call->response.body.delete_topic = (struct stele_delete_topic_response){
        .err = remove->error.err,
        .message = text_of(&remove->error),
        .name = remove->name,
        .topic_id = remove->topic_id,
    };
    send_home(admin);
}

static void delete_arrived(struct stele_task *task)
{
    struct admin *admin = STELE_CONTAINER_OF(task, struct admin, task);
    struct stele_server_call *call = admin->call;
    const struct stele_delete_topic_request *request = &call->request.body.delete_topic;
    admin->remove = (struct stele_topic_remove){.control = &call->shard->node->control,
                                                .arena = &call->arena,
                                                .name = request->name,
                                                .topic_id = request->topic_id,
                                                .timeout_ms = request->timeout_ms,
                                                .done = deleted};
    stele_topic_remove(&admin->remove);
}

void stele_handle_delete_topic(struct stele_server_call *call)
{
    begin(call, delete_arrived);
}
