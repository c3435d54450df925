#include "node/fetch_hold.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/session.h"

#include <string.h>

static void hold_free(struct stele_fetch_hold *hold)
{
    stele_list_remove(&hold->link);
    stele_mem_free(hold->home->env->mem, hold);
}

static void hold_home(struct stele_task *task)
{
    hold_free(STELE_CONTAINER_OF(task, struct stele_fetch_hold, task));
}

static void hold_arrived(struct stele_task *task)
{
    struct stele_fetch_hold *hold = STELE_CONTAINER_OF(task, struct stele_fetch_hold, task);
    struct stele_partition *partition = stele_partition_find(hold->owner, &hold->key);
    stele_slice_release(&hold->slice);
    if (hold->send.is_bad && partition != NULL && partition->generation == hold->generation)
        /* Whoever asks again would only lose its connection again. */
        stele_partition_unreadable(partition);
    hold->task.run = hold_home;
    stele_shard_send_idly(hold->owner, hold->home, &hold->task);
}

void stele_fetch_holds_free(struct stele_shard *shard)
{
    while (!stele_list_is_empty(&shard->holds)) {
        struct stele_fetch_hold *hold = STELE_CONTAINER_OF(shard->holds.next, struct stele_fetch_hold, link);
        STELE_ASSERT(hold->refs == 0); /* the connections are gone */
        stele_slice_release(&hold->slice);
        hold_free(hold);
    }
}

static void hold_ref(struct stele_send_file *send)
{
    STELE_CONTAINER_OF(send, struct stele_fetch_hold, send)->refs++;
}

static void hold_unref(struct stele_send_file *send)
{
    stele_fetch_hold_unref(STELE_CONTAINER_OF(send, struct stele_fetch_hold, send));
}

void stele_fetch_hold_unref(struct stele_fetch_hold *hold)
{
    STELE_ASSERT(hold->refs > 0);
    if (--hold->refs > 0)
        return;
    if (hold->slice.file == NULL) {
        hold_free(hold);
    } else if (!hold->home->node->is_freeing) {
        hold->task.run = hold_arrived;
        stele_shard_send_idly(hold->home, hold->owner, &hold->task);
    }
}

struct stele_fetch_hold *stele_fetch_hold_new_for(struct stele_shard *owner, struct stele_shard *home)
{
    struct stele_fetch_hold *hold = stele_mem_alloc(owner->env->mem, STELE_MEM_REQUEST, sizeof(*hold));
    if (hold == NULL)
        return NULL;
    hold->send = (struct stele_send_file){.ref = hold_ref, .unref = hold_unref};
    hold->home = home;
    hold->owner = owner;
    hold->refs = 1;
    stele_list_init(&hold->link);
    return hold;
}

void stele_fetch_hold_arrived(struct stele_fetch_hold *hold)
{
    stele_list_push(&hold->home->holds, &hold->link);
}

struct stele_fetch_hold *stele_fetch_hold_new(struct stele_shard *home)
{
    struct stele_fetch_hold *hold = stele_fetch_hold_new_for(home, home);
    if (hold != NULL)
        stele_fetch_hold_arrived(hold);
    return hold;
}

void stele_fetch_hold_free(struct stele_fetch_hold *hold)
{
    stele_slice_release(&hold->slice);
    hold_free(hold);
}

/* True when a connection was closed for it: other holds went with that. */
static bool revoke(struct stele_fetch_hold *hold, const struct stele_truncate_op *truncate)
{
    const struct stele_slice *slice = hold->pending != NULL ? hold->pending : &hold->slice;
    if (hold->refs == 0 || hold->send.is_revoked || hold->generation >= truncate->generation ||
        hold->key.number != truncate->op.number ||
        memcmp(&hold->key.topic_id, &truncate->op.topic_id, sizeof(hold->key.topic_id)) != 0 ||
        !stele_slice_is_cut(slice, &truncate->cut))
        return false;
    if (hold->pending != NULL) {
        hold->pending = NULL;
        hold->revoked(hold);
        return false;
    }
    hold->send.is_revoked = true; /* the net may still be sending for a session that is gone */
    return stele_session_drop(hold->home, hold->session_id, "what it was being sent is cut away");
}

void stele_fetch_revoke(struct stele_shard *shard, const struct stele_truncate_op *truncate)
{
    struct stele_list *at = shard->holds.next;
    while (at != &shard->holds)
        at = revoke(STELE_CONTAINER_OF(at, struct stele_fetch_hold, link), truncate) ? shard->holds.next : at->next;
}
