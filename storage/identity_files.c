/* partition.metadata, meta.properties, the clean-shutdown marker and the epoch that a directory served in
 * (checkpoint.h). */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 65536, METADATA_BYTES = 128 };

static bool starts_with(const char *text, size_t bytes, const char *start)
{
    size_t length = strlen(start);
    return bytes >= length && memcmp(text, start, length) == 0;
}

enum stele_err stele_partition_metadata_parse(const char *text, size_t count, struct stele_uuid *out_topic_id)
{
    static const char version[] = "version: ", topic_id[] = "topic_id: ";
    struct stele_text_scan lines = {.at = text, .end = text + count};
    struct stele_uuid uuid;
    const char *line;
    size_t bytes;
    int64_t number;
    if (!stele_text_line(&lines, &line, &bytes) || !starts_with(line, bytes, version) ||
        !stele_text_number(line + strlen(version), bytes - strlen(version), &number) || number < 0)
        return STELE_CORRUPT;
    if (!stele_text_line(&lines, &line, &bytes) || !starts_with(line, bytes, topic_id) ||
        stele_uuid_parse(line + strlen(topic_id), bytes - strlen(topic_id), &uuid) != STELE_OK ||
        stele_uuid_is_zero(&uuid))
        return STELE_CORRUPT;
    *out_topic_id = uuid;
    return STELE_OK;
}

/* Is this what a crash leaves of a file that was written but not synced: a beginning of one, then only zeros? */
static bool is_unfinished(const char *text, size_t count)
{
    static const char start[] = "version: 0\ntopic_id: ";
    enum { START_BYTES = sizeof(start) - 1, WHOLE_BYTES = START_BYTES + STELE_UUID_TEXT_BYTES - 1 };
    size_t kept = count;
    while (kept > 0 && text[kept - 1] == 0)
        kept--;
    return kept < WHOLE_BYTES && count <= WHOLE_BYTES && memcmp(text, start, stele_min_size(kept, START_BYTES)) == 0;
}

enum stele_err stele_partition_metadata_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                             struct stele_uuid *out_topic_id)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_PARTITION_METADATA_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err != STELE_OK)
        return err == STELE_TOO_LARGE ? STELE_CORRUPT : err;
    err = stele_partition_metadata_parse((const char *)text, count, out_topic_id);
    if (err == STELE_CORRUPT && is_unfinished((const char *)text, count))
        err = STELE_NOT_FOUND;
    stele_mem_free(mem, text);
    return err;
}

static size_t metadata_text(const struct stele_uuid *topic_id, char out_text[METADATA_BYTES])
{
    char uuid[STELE_UUID_TEXT_BYTES];
    stele_uuid_text(topic_id, uuid);
    int count = snprintf(out_text, METADATA_BYTES, "version: 0\ntopic_id: %s", uuid);
    STELE_ASSERT(count > 0 && count < METADATA_BYTES);
    return (size_t)count;
}

#define TEMPORARY_FILE STELE_PARTITION_METADATA_FILE ".tmp"

static enum stele_err write_unsynced(struct stele_vfs *vfs, const char *dir, const char *name,
                                     const struct stele_uuid *topic_id)
{
    char path[STELE_PATH_BYTES], text[METADATA_BYTES];
    struct stele_file *file = NULL;
    size_t count = metadata_text(topic_id, text);
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, text, count, 0);
    vfs->ops->close(file);
    return err;
}

enum stele_err stele_partition_metadata_step(struct stele_vfs *vfs, const char *dir, const struct stele_uuid *topic_id,
                                             enum stele_metadata_step step)
{
    char path[STELE_PATH_BYTES], temporary[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    enum stele_err err = stele_path_join(path, dir, STELE_PARTITION_METADATA_FILE);
    if (err == STELE_OK)
        err = stele_path_join(temporary, dir, TEMPORARY_FILE);
    if (err != STELE_OK)
        return err;
    switch (step) {
    case STELE_METADATA_WRITE:
        return write_unsynced(vfs, dir, TEMPORARY_FILE, topic_id);
    case STELE_METADATA_SYNC:
    case STELE_METADATA_SYNC_OLD:
        err = vfs->ops->open(vfs, step == STELE_METADATA_SYNC ? temporary : path, STELE_OPEN_WRITE, &file);
        if (err != STELE_OK)
            return err;
        err = vfs->ops->sync(file);
        vfs->ops->close(file);
        return err;
    case STELE_METADATA_REPLACE:
        return vfs->ops->rename(vfs, temporary, path);
    case STELE_METADATA_SYNC_DIR:
        return vfs->ops->sync_dir(vfs, dir);
    }
    return STELE_OK;
}

enum stele_err stele_partition_metadata_write(struct stele_vfs *vfs, const char *dir, const struct stele_uuid *topic_id,
                                              bool sync)
{
    char text[METADATA_BYTES];
    if (sync)
        return stele_vfs_replace(vfs, dir, STELE_PARTITION_METADATA_FILE, text, metadata_text(topic_id, text));
    return write_unsynced(vfs, dir, STELE_PARTITION_METADATA_FILE, topic_id);
}

static bool copy_value(char *out, size_t capacity, const char *value, size_t bytes)
{
    if (bytes >= capacity || memchr(value, 0, bytes) != NULL)
        return false;
    memcpy(out, value, bytes);
    out[bytes] = 0;
    return true;
}

enum stele_err stele_meta_properties_parse(const char *text, size_t count, struct stele_meta_properties *out,
                                           struct stele_error *error)
{
    struct stele_meta_properties found = {.node_id = -1};
    struct stele_text_scan lines = {.at = text, .end = text + count};
    const char *line;
    size_t bytes;
    int64_t node_id = -1, version = -1;
    while (stele_text_line(&lines, &line, &bytes)) {
        const char *equals = bytes == 0 ? NULL : memchr(line, '=', bytes);
        if (bytes == 0 || line[0] == '#' || equals == NULL)
            continue;
        const char *value = equals + 1;
        size_t value_bytes = bytes - (size_t)(value - line);
        while (value_bytes > 0 && value[value_bytes - 1] == '\r') /* of the line's end */
            value_bytes--;
        if (starts_with(line, bytes, "cluster.id=") &&
            !copy_value(found.cluster_id, sizeof(found.cluster_id), value, value_bytes))
            return stele_error_set(error, STELE_CORRUPT, "cluster.id is too long");
        else if (starts_with(line, bytes, "directory.id=") &&
                 !copy_value(found.directory_id, sizeof(found.directory_id), value, value_bytes))
            return stele_error_set(error, STELE_CORRUPT, "directory.id is too long");
        else if (starts_with(line, bytes, "node.id=") && !stele_text_number(value, value_bytes, &node_id))
            return stele_error_set(error, STELE_CORRUPT, "node.id is no number");
        else if (starts_with(line, bytes, "version=") && !stele_text_number(value, value_bytes, &version))
            return stele_error_set(error, STELE_CORRUPT, "version is no number");
    }
    if (version != 1 || node_id < 0 || node_id > INT32_MAX || found.cluster_id[0] == 0)
        return stele_error_set(error, STELE_CORRUPT, "version=1, node.id and cluster.id must be there");
    found.node_id = (int32_t)node_id;
    *out = found;
    return STELE_OK;
}

enum stele_err stele_meta_properties_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                          struct stele_meta_properties *out, struct stele_error *error)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    struct stele_error inner = {.text = ""};
    enum stele_err err = stele_path_join(path, dir, STELE_META_PROPERTIES_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err == STELE_NOT_FOUND)
        return err;
    if (err == STELE_OK)
        err = stele_meta_properties_parse((const char *)text, count, out, &inner);
    else
        (void)stele_error_set(&inner, err, "%s", stele_err_text(err));
    stele_mem_free(mem, text);
    if (err != STELE_OK)
        (void)stele_error_set(error, err, "%.300s: %.100s; restore the file from a copy of this directory", path,
                              inner.text);
    return err;
}

enum stele_err stele_meta_properties_write(struct stele_vfs *vfs, const char *dir,
                                           const struct stele_meta_properties *properties, int64_t wall_ms)
{
    char text[512];
    int count = snprintf(text, sizeof(text), "#\n#%lld\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n",
                         (long long)wall_ms, properties->cluster_id, properties->directory_id, properties->node_id);
    STELE_ASSERT(count > 0 && (size_t)count < sizeof(text));
    return stele_vfs_replace(vfs, dir, STELE_META_PROPERTIES_FILE, text, (size_t)count);
}

/* {"version":0,"brokerEpoch":N}, as Kafka writes it; Kafka's older versions wrote nothing. */
static int64_t epoch_of_marker(const char *text, size_t count)
{
    static const char key[] = "\"brokerEpoch\":";
    enum { KEY_BYTES = sizeof(key) - 1 };
    int64_t epoch;
    for (size_t at = 0; at + KEY_BYTES <= count; at++) {
        size_t bytes = 0;
        if (memcmp(text + at, key, KEY_BYTES) != 0)
            continue;
        text += at + KEY_BYTES;
        count -= at + KEY_BYTES;
        while (bytes < count && text[bytes] != ',' && text[bytes] != '}')
            bytes++;
        return stele_text_number(text, bytes, &epoch) && epoch >= 0 ? epoch : -1;
    }
    return -1;
}

enum stele_err stele_clean_shutdown_take(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                         struct stele_clean_shutdown *out_found)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    struct stele_clean_shutdown found = {.was_clean = true, .node_epoch = -1};
    enum stele_err err = stele_path_join(path, dir, STELE_CLEAN_SHUTDOWN_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err == STELE_OK)
        found.node_epoch = epoch_of_marker((const char *)text, count);
    stele_mem_free(mem, text);
    if (err == STELE_NOT_FOUND) {
        *out_found = (struct stele_clean_shutdown){.was_clean = false, .node_epoch = -1};
        return STELE_OK;
    }
    if (err == STELE_OK || err == STELE_TOO_LARGE)
        err = vfs->ops->unlink(vfs, path);
    if (err == STELE_OK)
        err = vfs->ops->sync_dir(vfs, dir);
    if (err == STELE_OK)
        *out_found = found;
    return err;
}

enum stele_err stele_clean_shutdown_write(struct stele_vfs *vfs, const char *dir, int64_t node_epoch)
{
    char path[STELE_PATH_BYTES], text[64];
    struct stele_file *file = NULL;
    int count = snprintf(text, sizeof(text), "{\"version\":0,\"brokerEpoch\":%lld}", (long long)node_epoch);
    enum stele_err err = stele_path_join(path, dir, STELE_CLEAN_SHUTDOWN_FILE);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, text, (size_t)count, 0);
    if (err == STELE_OK)
        err = vfs->ops->sync(file);
    vfs->ops->close(file);
    return err == STELE_OK ? vfs->ops->sync_dir(vfs, dir) : err;
}

enum stele_err stele_served_epoch_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                       int64_t *out_node_epoch)
{
    static const char key[] = "node_epoch: ";
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    int64_t epoch = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_SERVED_EPOCH_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err == STELE_OK) {
        struct stele_text_scan lines = {.at = (const char *)text, .end = (const char *)text + count};
        const char *line;
        size_t bytes;
        if (!stele_text_line(&lines, &line, &bytes) || !starts_with(line, bytes, "version: ") ||
            !stele_text_line(&lines, &line, &bytes) || !starts_with(line, bytes, key) ||
            !stele_text_number(line + strlen(key), bytes - strlen(key), &epoch) || epoch < 0)
            epoch = 0;
    }
    stele_mem_free(mem, text);
    if (err != STELE_OK && err != STELE_NOT_FOUND && err != STELE_TOO_LARGE)
        return err;
    *out_node_epoch = epoch;
    return STELE_OK;
}

enum stele_err stele_served_epoch_write(struct stele_vfs *vfs, const char *dir, int64_t node_epoch)
{
    char text[64];
    int count = snprintf(text, sizeof(text), "version: 0\nnode_epoch: %lld\n", (long long)node_epoch);
    return stele_vfs_replace(vfs, dir, STELE_SERVED_EPOCH_FILE, text, (size_t)count);
}
