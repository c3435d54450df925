/* How topics are removed. */
#include "node/node_struct.h"
#include "node/topic_ops.h"

#include <string.h>

void stele_topic_remove_drop(struct stele_topic_remove *remove)
{
    if (remove->control == NULL)
        return;
    stele_active_drop(&remove->turn);
    stele_reconcile_wait_drop(&remove->wait);
}

/* Step 3: this node has nothing under its name any more. */
static void left(struct stele_reconcile_wait *wait)
{
    struct stele_topic_remove *remove = STELE_CONTAINER_OF(wait, struct stele_topic_remove, wait);
    remove->done(remove);
}

/* Step 2: the record is committed and in the image. */
static void turn_done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_topic_remove *remove = STELE_CONTAINER_OF(turn, struct stele_topic_remove, turn);
    if (err != STELE_OK) {
        stele_active_explain(&remove->control->active, err, &remove->error);
        remove->done(remove);
        return;
    }
    remove->wait.topic_id = remove->topic_id;
    remove->wait.next = 0;
    remove->wait.end = remove->partition_count;
    remove->wait.deadline_ms = remove->deadline_ms;
    remove->wait.done = left;
    stele_reconcile_await(&remove->control->reconcile, &remove->wait);
}

static enum stele_err find(struct stele_topic_remove *remove, const struct stele_image_topic **out_topic)
{
    const struct stele_image *image = &remove->control->mlog.image;
    bool is_by_id = !stele_uuid_is_zero(&remove->topic_id);
    const struct stele_image_topic *topic = is_by_id && remove->name[0] == 0
                                                ? stele_image_topic_of(image, &remove->topic_id)
                                                : stele_image_topic_named(image, remove->name);
    if (is_by_id && (topic == NULL || !stele_uuid_equal(&topic->topic_id, &remove->topic_id)))
        return stele_error_set(&remove->error, STELE_UNKNOWN_TOPIC_ID, "there is no topic of that id");
    if (topic == NULL)
        return stele_error_set(&remove->error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic '%.249s'",
                               remove->name);
    *out_topic = topic;
    return STELE_OK;
}

/* Step 1: the turn. */
static enum stele_err work_out(struct stele_topic_remove *remove)
{
    const struct stele_image_topic *topic = NULL;
    if (remove->control->state != STELE_CONTROLLER_SERVING)
        return stele_error_set(&remove->error, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    enum stele_err err = find(remove, &topic);
    if (err != STELE_OK)
        return err;
    const char *name = stele_arena_string(remove->arena, topic->name, strlen(topic->name));
    if (name == NULL)
        return stele_error_set(&remove->error, STELE_NO_MEMORY, "memory ran out");
    remove->name = name;
    remove->topic_id = topic->topic_id;
    remove->partition_count = topic->partition_count;
    err = stele_active_add(&remove->turn, &(struct stele_metadata_record){
                                              .kind = STELE_METADATA_TOPIC_REMOVED,
                                              .u.topic_removed = {.topic_id = remove->topic_id, .name = name}});
    return err == STELE_OK ? STELE_OK : stele_error_set(&remove->error, err, "memory ran out");
}

static void turn_begins(struct stele_active_turn *turn)
{
    struct stele_topic_remove *remove = STELE_CONTAINER_OF(turn, struct stele_topic_remove, turn);
    if (work_out(remove) == STELE_OK) {
        stele_active_write(turn);
        return;
    }
    stele_active_end(turn);
    remove->done(remove);
}

void stele_topic_remove(struct stele_topic_remove *remove)
{
    remove->error.text[0] = 0;
    remove->error.err = STELE_OK;
    remove->deadline_ms = stele_topic__deadline_ms(remove->control, remove->timeout_ms);
    remove->wait.reconcile = NULL;
    remove->turn = (struct stele_active_turn){.begin = turn_begins, .done = turn_done};
    stele_active_take(&remove->control->active, &remove->turn);
}
