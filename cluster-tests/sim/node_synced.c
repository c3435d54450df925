/* What the node says of syncs, held against the disk at that moment and not only when the machine dies: an answer of
 * durability 3 is given for bytes that are on the platter, and a log whose sync failed takes nothing more before it was
 * opened anew, since the pages that the sync lost look clean. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "storage/checkpoint.h"
#include "storage/scan.h"
#include "storage/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When a log is surely offline after a sync of it failed: calls of the disk may stall. */
enum { OFFLINE_US = 5000000 };

bool run_parse_place(const struct run *run, const char *name, int *out_topic, int *out_partition)
{
    *out_topic = name[0] == 't' ? name[1] - '0' : -1;
    *out_partition = *out_topic >= 0 && name[2] == '-' ? name[3] - '0' : -1;
    return *out_topic >= 0 && *out_topic < run->topic_count && *out_partition >= 0 &&
           *out_partition < RUN_PARTITIONS_MAX && (name[4] == 0 || name[4] == '/');
}

void synced_failed(struct sim_server *server, const char *path)
{
    struct run *run = server->arg;
    size_t bytes = strlen(path);
    int topic = -1, partition = -1;
    if (bytes < 6 || strcmp(path + bytes - 4, ".log") != 0 || !run_parse_place(run, path + 2, &topic, &partition))
        return;
    sim_world_log(&run->world, "model: a sync of %s failed", path);
    if (run->sync_failed_us[topic][partition] == 0)
        run->sync_failed_us[topic][partition] = run->world.now_us;
}

/* Whichever topic of that name it is: the disk tells. */
static struct run_life *life_on_disk(struct run *run, int topic, int partition)
{
    struct sim_disk *disk = model_look(run);
    struct run_life *life = NULL;
    for (int i = 0; i < run->dir_count && life == NULL; i++) {
        char dir[32];
        struct stele_uuid id;
        (void)snprintf(dir, sizeof(dir), "%c/%s-%d", 'a' + i, run->topics[topic].name, partition);
        if (stele_partition_metadata_read(sim_disk_vfs(disk), &run->mem, dir, &id) == STELE_OK)
            life = model_known_life(run, &id);
    }
    sim_disk_free(disk);
    return life;
}

/* A deletion of records that was answered lasts, whatever was lost. */
void synced_opened(struct run *run, const struct stele_trace_event *event)
{
    int topic = -1, partition = -1;
    bool was_deleted = false;
    if (!run_parse_place(run, event->subject, &topic, &partition))
        return;
    run->sync_failed_us[topic][partition] = 0;
    for (int i = 0; i < run->topics[topic].life_count; i++)
        was_deleted = was_deleted || run->topics[topic].lives[i]->partitions[partition].start > event->a;
    struct run_life *life = was_deleted ? life_on_disk(run, topic, partition) : NULL;
    if (life != NULL && life->partitions[partition].start > event->a)
        sim_world_fail(&run->world, "%s is opened at %lld, and was deleted to %lld", event->subject,
                       (long long)event->a, (long long)life->partitions[partition].start);
}

void synced_acked(struct run *run, const struct run_record *record, int partition)
{
    int64_t failed_us = run->sync_failed_us[record->topic][partition];
    if (failed_us > 0 && record->sent_us > failed_us + OFFLINE_US)
        sim_world_fail(&run->world, "%s-%d takes records %lld us after a sync of it failed",
                       run->topics[record->topic].name, partition, (long long)(record->sent_us - failed_us));
}

struct looking {
    int64_t offset, base_offset; /* of the last segment that begins at it or before; -1: none */
};

static enum stele_err see_name(void *arg, const char *name)
{
    struct looking *looking = arg;
    const char *suffix;
    int64_t base_offset;
    if (stele_segment_name_parse(name, &base_offset, &suffix) && strcmp(suffix, ".log") == 0 &&
        base_offset <= looking->offset)
        looking->base_offset = stele_max_i64(looking->base_offset, base_offset);
    return STELE_OK;
}

/* The batch of `offset` in the segment's file; false: it is not there. */
static bool find_batch(struct run *run, struct stele_vfs *vfs, const char *path, int64_t offset,
                       struct stele_scanned *out_batch)
{
    struct stele_scan scan;
    struct stele_file *file = NULL;
    int64_t bytes = 0;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_READ, &file);
    STELE_ASSERT(err == STELE_OK);
    stele_scan_init(&scan, &run->mem);
    err = vfs->ops->size(file, &bytes);
    if (err == STELE_OK)
        err = stele_scan_start(&scan, file, 0, bytes);
    STELE_ASSERT(err == STELE_OK);
    do {
        err = stele_scan_next(&scan, out_batch);
        if (err == STELE_CORRUPT && stele_scan_resync(&scan, 0) == STELE_OK)
            err = stele_scan_next(&scan, out_batch);
    } while (err == STELE_OK && stele_batch_last_offset(&out_batch->header) < offset);
    stele_scan_deinit(&scan);
    vfs->ops->close(file);
    return err == STELE_OK && out_batch->header.base_offset <= offset;
}

/* In one of the log directories; false: the partition or the offset is not there. */
static bool look_in(struct run *run, struct sim_disk *disk, const char *dir, const struct stele_produce_result *result)
{
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_uuid id;
    struct stele_scanned batch;
    struct looking looking = {.offset = result->base_offset, .base_offset = -1};
    if (stele_partition_metadata_read(vfs, &run->mem, dir, &id) != STELE_OK ||
        !stele_uuid_equal(&id, &result->topic_id) || vfs->ops->list(vfs, dir, see_name, &looking) != STELE_OK ||
        looking.base_offset < 0)
        return false;
    stele_segment_name(looking.base_offset, ".log", name);
    enum stele_err err = stele_path_join(path, dir, name);
    STELE_ASSERT(err == STELE_OK);
    if (!find_batch(run, vfs, path, result->base_offset, &batch))
        return false;
    if (!sim_disk_is_durable(run->server.disk, path, batch.pos, batch.pos + batch.bytes))
        sim_world_fail(&run->world, "%s offset %lld is answered as synced, and it is not", dir,
                       (long long)result->base_offset);
    run_reach(run, RUN_POINT_SYNCED_LOOKED_AT);
    return true;
}

static void look(struct run *run, struct run_life *life, const struct stele_produce_result *result)
{
    struct sim_disk *disk = model_look(run);
    bool is_found = false;
    for (int i = 0; i < run->dir_count && !is_found; i++) {
        char dir[32];
        (void)snprintf(dir, sizeof(dir), "%c/%s-%d", 'a' + i, run->topics[life->topic].name, result->partition);
        is_found = look_in(run, disk, dir, result);
    }
    sim_disk_free(disk);
    if (!is_found && !model_may_be_gone(run, life) &&
        !model_may_start_above(run, life, result->partition, result->base_offset))
        sim_world_fail(&run->world, "%s-%d offset %lld is answered as synced, and is not there",
                       run->topics[life->topic].name, result->partition, (long long)result->base_offset);
}

void synced_answered(struct run *run, const struct stele_produce_response *response)
{
    for (size_t i = 0; i < response->result_count; i++) {
        const struct stele_produce_result *result = &response->results[i];
        struct run_life *life = model_known_life(run, &result->topic_id);
        if (result->err == STELE_OK && result->durability == STELE_DURABILITY_SYNCED && life != NULL)
            look(run, life, result);
    }
}
