/* The names of a new partition: its metadata file, its entry in the log directory, its first segment. They are synced
 * before its first acknowledgement.
 *
 * A topic may have thousands of partitions, and a sync takes milliseconds: so a shard names a few in one job, one job
 * after another, between which others get the disk and the job threads; those that somebody waits for come first, and
 * opening logs goes before all that nobody waits for. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

#include <string.h>

static enum stele_err sync_parent(struct stele_vfs *vfs, const struct stele_partition *partition)
{
    char parent[STELE_PATH_BYTES];
    size_t bytes = strlen(partition->path);
    while (bytes > 0 && partition->path[bytes - 1] != '/')
        bytes--;
    STELE_ASSERT(bytes > 0 && bytes < sizeof(parent));
    bytes = bytes > 1 ? bytes - 1 : 1; /* the root keeps its slash */
    memcpy(parent, partition->path, bytes);
    parent[bytes] = 0;
    return vfs->ops->sync_dir(vfs, parent);
}

static enum stele_err sync_own(struct stele_vfs *vfs, const struct stele_partition *partition)
{
    return stele_partition_metadata_write(vfs, partition->path, &partition->key.topic_id, true);
}

enum stele_err stele_partition__sync_names(struct stele_vfs *vfs, const struct stele_partition *partition)
{
    enum stele_err err = sync_own(vfs, partition);
    return err == STELE_OK ? sync_parent(vfs, partition) : err;
}

/* The directory that several lie in is synced once. */
static void sync_parents(struct stele_naming *naming, struct stele_vfs *vfs)
{
    for (int i = 0; i < naming->count; i++) {
        struct stele_partition *partition = naming->partitions[i];
        int before = 0;
        if (partition->name_err != STELE_OK)
            continue;
        while (before < i &&
               (naming->partitions[before]->dir != partition->dir || naming->partitions[before]->name_err != STELE_OK))
            before++;
        if (before == i)
            partition->name_err = sync_parent(vfs, partition);
    }
}

/* Step by step for all of them, so that the file system writes its journal once for a step and not for a partition. Of
 * a file that an earlier life wrote nobody knows what became of it on the disk: it is written anew. */
static void name_work(struct stele_job *job)
{
    static const struct {
        enum stele_metadata_step step;
        bool is_for_old, is_for_own;
    } steps[] = {{STELE_METADATA_WRITE, true, false},
                 {STELE_METADATA_SYNC, true, false},
                 {STELE_METADATA_REPLACE, true, false},
                 {STELE_METADATA_SYNC_OLD, false, true},
                 {STELE_METADATA_SYNC_DIR, true, true}};
    struct stele_naming *naming = STELE_CONTAINER_OF(job, struct stele_naming, job);
    for (int i = 0; i < naming->count; i++)
        naming->partitions[i]->name_err = STELE_OK;
    for (size_t k = 0; k < STELE_ARRAY_LEN(steps); k++) {
        for (int i = 0; i < naming->count; i++) {
            struct stele_partition *partition = naming->partitions[i];
            bool is_due = partition->is_name_written ? steps[k].is_for_own : steps[k].is_for_old;
            if (is_due && partition->name_err == STELE_OK)
                partition->name_err = stele_partition_metadata_step(job->env->vfs, partition->path,
                                                                    &partition->key.topic_id, steps[k].step);
        }
    }
    sync_parents(naming, job->env->vfs);
}

static void named(struct stele_partition *partition)
{
    partition->is_naming = false;
    if (partition->name_err == STELE_OK) {
        partition->is_named = true;
        if (partition->log != NULL)
            stele_log_directory_synced(partition->log);
        stele_partition__advance(partition);
    } else if (partition->state != STELE_PARTITION_OPEN) {
        /* nobody waits for its names any more */
    } else if (partition->name_err == STELE_NO_SPACE || partition->name_err == STELE_NO_MEMORY) {
        partition->is_name_written = false;
        stele_partition__try_later(partition, &partition->unlink_timer, partition->name_err);
    } else {
        stele_trace(partition->shard->env, STELE_TRACE_LOG_FAILED, partition->name,
                    "partition.metadata that could not be synced", 0, 0, 0);
        stele_partition_fail(partition);
    }
    stele_partition__job_done(partition);
}

static void name_done(struct stele_job *job)
{
    struct stele_naming *naming = STELE_CONTAINER_OF(job, struct stele_naming, job);
    struct stele_shard *shard = STELE_CONTAINER_OF(naming, struct stele_shard, naming);
    struct stele_partition *partitions[STELE_NAMING_MAX];
    int count = naming->count;
    memcpy(partitions, naming->partitions, sizeof(partitions));
    naming->count = 0;
    stele_partition__name_others(shard);
    for (int i = 0; i < count; i++)
        named(partitions[i]);
}

static void take_from(struct stele_naming *naming, struct stele_list *list)
{
    while (!stele_list_is_empty(list) && naming->count < STELE_NAMING_MAX) {
        struct stele_partition *partition = STELE_CONTAINER_OF(list->next, struct stele_partition, name_link);
        stele_list_remove(&partition->name_link);
        partition->is_named_first = false;
        naming->partitions[naming->count++] = partition;
    }
}

void stele_partition__name_others(struct stele_shard *shard)
{
    struct stele_naming *naming = &shard->naming;
    if (naming->count > 0)
        return;
    take_from(naming, &shard->unnamed_first);
    if (shard->opening_count == 0 && stele_list_is_empty(&shard->opening))
        take_from(naming, &shard->unnamed);
    if (naming->count == 0)
        return;
    naming->job = (struct stele_job){.work = name_work, .done = name_done};
    shard->env->ops->job(shard->env, &naming->job);
}

void stele_partition__name(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    if (partition->is_named || partition->state != STELE_PARTITION_OPEN)
        return;
    if (!partition->is_naming) {
        partition->is_naming = true;
        partition->job_count++;
        stele_list_push(&shard->unnamed, &partition->name_link);
    }
    bool is_waiting = !stele_list_is_empty(&partition->name_link),
         is_waited_for = !stele_list_is_empty(&partition->acks) || !stele_list_is_empty(&partition->written_acks);
    if (is_waiting && is_waited_for && !partition->is_named_first) {
        partition->is_named_first = true;
        stele_list_remove(&partition->name_link);
        stele_list_push(&shard->unnamed_first, &partition->name_link);
    }
    stele_partition__name_others(shard);
}

void stele_partition__name_never(struct stele_partition *partition)
{
    if (stele_list_is_empty(&partition->name_link))
        return;
    stele_list_remove(&partition->name_link);
    partition->is_naming = partition->is_named_first = false;
    partition->job_count--;
}
