#include "node/places.h"

#include <string.h>

void stele_place_of_found(const struct stele_found_log *found, struct stele_place *out_place)
{
    /* Names are synced before the first recovery point and before a clean marker. What has neither was perhaps made by
     * a node that was killed, and a loss of power would still take it. */
    bool is_synced = !stele_uuid_is_zero(&found->topic_id) && (found->was_clean || found->recovery_point > 0);
    *out_place = (struct stele_place){.number = found->partition,
                                      .is_placed = true,
                                      .has_directory = true,
                                      .is_new = !is_synced,
                                      .was_clean = found->was_clean,
                                      .dir = found->dir,
                                      .recovery_point = found->recovery_point,
                                      .log_start_offset = found->log_start_offset,
                                      .high_watermark = found->high_watermark};
}

static enum stele_err delete_copy(struct stele_places *places, const struct stele_place_left *left)
{
    struct stele_log_dirs_move move = {.topic = left->found->topic,
                                       .partition = left->found->partition,
                                       .topic_id = left->topic_id,
                                       .to = left->found->dir};
    memcpy(move.mark, left->mark, sizeof(move.mark));
    enum stele_err err = stele_log_dirs_condemn_copy(places->dirs, &move);
    places->has_left = places->has_left || err != STELE_OK;
    return err == STELE_OK ? stele_log_dirs_delete_moved(places->env, stele_log_dirs_path(places->dirs, move.to), &move)
                           : err;
}

/* What this leaves is deleted by its name at another start. */
static void delete_left(struct stele_places *places, const struct stele_place_left *left)
{
    const struct stele_found_log *found = left->found;
    struct stele_env *env = places->env;
    const char *dir = stele_log_dirs_path(places->dirs, found->dir);
    if (left->mark != NULL) {
        enum stele_err ignored = delete_copy(places, left);
        (void)ignored;
        return;
    }
    enum stele_err err =
        stele_log_dirs_condemn(places->dirs, found->dir, found->topic, found->partition, &left->topic_id);
    if (err == STELE_OK)
        err = stele_log_dirs_sync(places->dirs, found->dir);
    places->has_left = places->has_left || err != STELE_OK;
    if (err == STELE_OK)
        err = stele_log_dirs_delete(env, dir, found->topic, found->partition, &left->topic_id);
    stele_trace(env, err == STELE_OK ? STELE_TRACE_PARTITION_DELETED : STELE_TRACE_LOG_UNLINK_FAILED, found->topic,
                err == STELE_OK ? dir : stele_err_text(err), found->partition, 0, 0);
}

static int offline_dir(const struct stele_places *places)
{
    for (int i = 0; i < stele_log_dirs_count(places->dirs); i++) {
        if (stele_log_dirs_is_offline(places->dirs, i))
            return i;
    }
    return -1;
}

static void place(struct stele_places *places, const struct stele_place_topic *topic, struct stele_place *item)
{
    char path[STELE_PATH_BYTES];
    int offline = places->is_start ? offline_dir(places) : -1;
    *item = (struct stele_place){
        .number = item->number, .is_placed = true, .is_new = true, .was_clean = true, .high_watermark = -1};
    item->dir = offline >= 0 ? offline : stele_log_dirs_pick(places->dirs);
    if (offline >= 0 || item->dir < 0) {
        item->dir = offline >= 0 ? offline : 0;
        return;
    }
    enum stele_err err =
        stele_log_dirs_create(places->dirs, item->dir, topic->name, item->number, &topic->topic_id, path);
    item->is_made = err == STELE_OK;
    item->is_unmade = err == STELE_NO_SPACE || err == STELE_NO_MEMORY; /* it is made when it can be opened */
    item->has_directory = item->is_made || item->is_unmade;
    if (!item->has_directory)
        stele_trace(places->env, STELE_TRACE_LOG_FAILED, topic->name,
                    "a directory that could not be made (is there another of that name?)", item->number, 0, 0);
}

struct forgetting {
    const struct stele_place *items;
    int count;
};

static bool is_gone(void *arg, int32_t partition)
{
    const struct forgetting *forgetting = arg;
    for (int i = 0; i < forgetting->count; i++) {
        if (forgetting->items[i].number == partition)
            return true;
    }
    return false;
}

void stele_places_make(struct stele_places *places)
{
    places->err = STELE_OK;
    for (int i = 0; i < places->left_count; i++)
        delete_left(places, &places->left[i]);
    for (int i = 0; i < places->topic_count && places->err == STELE_OK; i++) {
        const struct stele_place_topic *topic = &places->topics[i];
        struct forgetting forgetting = {.items = &places->items[topic->first], .count = topic->count};
        struct stele_log_dirs_gone gone = {.is_gone = is_gone, .arg = &forgetting};
        places->err = stele_log_dirs_forget(places->dirs, topic->name, &gone); /* the names may have been used before */
        for (int k = 0; k < topic->count && places->err == STELE_OK; k++)
            place(places, topic, &places->items[topic->first + k]);
    }
}
