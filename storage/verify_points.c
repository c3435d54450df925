/* The checkpoints of a log directory against its logs. */
#include "storage/verify_struct.h"

#include <string.h>

static const char *const names[STELE_POINT_COUNT] = {
    [STELE_POINT_RECOVERY] = STELE_RECOVERY_POINT_FILE,
    [STELE_POINT_START] = STELE_LOG_START_FILE,
    [STELE_POINT_HIGH_WATERMARK] = STELE_HIGH_WATERMARK_FILE,
    [STELE_POINT_CLEANER] = STELE_CLEANER_OFFSET_FILE,
};

/* A checkpoint that does not parse is told by whoever walks the directory; here it says nothing. Nor does a directory
 * above a partition that cannot be read. */
enum stele_err stele_verify__points_load(struct stele_verifying *v, const char *dir)
{
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < STELE_POINT_COUNT && err == STELE_OK; i++) {
        err = stele_checkpoint_read(&v->points[i], v->env->vfs, dir, names[i], NULL);
        if (err == STELE_CORRUPT || (err != STELE_NO_MEMORY && v->log_dir == NULL))
            err = STELE_OK;
    }
    if (err == STELE_OK)
        err = stele_path_join(path, dir, STELE_CLEAN_SHUTDOWN_FILE);
    if (err != STELE_OK)
        return err;
    err = v->env->vfs->ops->stat(v->env->vfs, path, &stat);
    v->was_clean = err == STELE_OK;
    return err == STELE_NOT_FOUND || v->log_dir == NULL ? STELE_OK : err;
}

void stele_verify__points_of(struct stele_verifying *v, const char *topic, int32_t partition)
{
    v->rebuilt_from = v->cut_from = INT64_MAX;
    v->is_clean = v->was_clean;
    for (int i = 0; i < STELE_POINT_COUNT; i++) {
        v->point[i] = -1;
        if (topic != NULL)
            (void)stele_checkpoint_get(&v->points[i], topic, partition, &v->point[i]);
    }
    /* Recovery's rule: it scans from the recovery point and cuts above the high watermark too. Nothing is excused after
     * a clean stop and in a partition that no checkpoint names. */
    if (v->was_clean || v->point[STELE_POINT_RECOVERY] < 0)
        return;
    v->rebuilt_from = v->point[STELE_POINT_RECOVERY];
    v->cut_from = stele_max_i64(v->rebuilt_from, v->point[STELE_POINT_HIGH_WATERMARK]);
}

static void tell(struct stele_verifying *v, enum stele_verify_point point, const char *what, int64_t other)
{
    char path[STELE_PATH_BYTES];
    if (stele_path_join(path, v->log_dir, names[point]) == STELE_OK)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, -1, "%.100s: %lld is %s %lld", v->name,
                            (long long)v->point[point], what, (long long)other);
}

static const char metadata_topic[] = "__cluster_metadata";

static bool is_base(const struct stele_verifying *v, int64_t offset)
{
    for (int i = 0; i < v->base_count; i++) {
        if (v->bases[i] == offset)
            return true;
    }
    return false;
}

/* What a clean stop leaves: the end; the base of a segment where other replicas may have what is behind it cut off; of
 * the metadata log what is committed. */
static bool is_clean_point(const struct stele_verifying *v, int64_t offset)
{
    return offset == v->end || is_base(v, offset) || strncmp(v->name, metadata_topic, sizeof(metadata_topic) - 1) == 0;
}

/* Start <= high watermark <= end; the recovery point is never beyond it; the cleaner leaves the last segment alone. */
void stele_verify__points_compare(struct stele_verifying *v)
{
    int64_t start = stele_max_i64(v->point[STELE_POINT_START], v->bases[0]), recovery = v->point[STELE_POINT_RECOVERY];
    int64_t mark = v->point[STELE_POINT_HIGH_WATERMARK], cleaned = v->point[STELE_POINT_CLEANER];
    if (v->point[STELE_POINT_START] > v->end)
        tell(v, STELE_POINT_START, "beyond the log's end", v->end);
    else if (v->is_clean && v->point[STELE_POINT_START] >= 0 && v->point[STELE_POINT_START] <= v->bases[0])
        tell(v, STELE_POINT_START, "not above the first segment's", v->bases[0]);
    if (recovery > v->end)
        tell(v, STELE_POINT_RECOVERY, "beyond the log's end", v->end);
    else if (v->is_clean && recovery >= 0 && !is_clean_point(v, recovery))
        tell(v, STELE_POINT_RECOVERY, "after a clean stop neither a segment's base nor the log's end", v->end);
    if (mark > v->end)
        tell(v, STELE_POINT_HIGH_WATERMARK, "beyond the log's end", v->end);
    else if (v->is_clean && mark >= 0 && mark < start)
        tell(v, STELE_POINT_HIGH_WATERMARK, "below the log's start", start);
    if (cleaned > v->bases[v->base_count - 1])
        tell(v, STELE_POINT_CLEANER, "beyond the last segment's", v->bases[v->base_count - 1]);
}

/* After a clean stop every partition of the directory is in the file of recovery points; Kafka keeps the point of the
 * metadata log elsewhere. */
void stele_verify__points_missing(struct stele_verifying *v, const char *topic)
{
    char path[STELE_PATH_BYTES];
    if (!v->is_clean || v->point[STELE_POINT_RECOVERY] >= 0 || strcmp(topic, metadata_topic) == 0)
        return;
    if (stele_path_join(path, v->log_dir, names[STELE_POINT_RECOVERY]) == STELE_OK)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, -1, "%.100s is missing", v->name);
}

static bool is_there(const struct stele_checkpoint *partitions, const struct stele_checkpoint_entry *entry)
{
    int64_t ignored;
    return stele_checkpoint_get(partitions, entry->topic, entry->partition, &ignored);
}

void stele_verify__points_strays(struct stele_verifying *v)
{
    char path[STELE_PATH_BYTES];
    for (int point = 0; point < STELE_POINT_COUNT; point++) {
        for (int i = 0; i < v->points[point].count; i++) {
            const struct stele_checkpoint_entry *entry = &v->points[point].entries[i];
            if (is_there(&v->partitions, entry) || stele_path_join(path, v->log_dir, names[point]) != STELE_OK)
                continue;
            stele_verify__found(v, v->was_clean ? STELE_FINDING_DAMAGE : STELE_FINDING_CRASH, path, -1,
                                "%.100s-%d is not in the directory", entry->topic, entry->partition);
        }
    }
}
