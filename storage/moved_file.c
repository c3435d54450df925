#include "storage/moved_file.h"

#include "base/crc32c.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum {
    LINE_BYTES_MAX = 2 * STELE_UUID_TEXT_BYTES + 16,
    ENDS_BYTES = 32,
    FILE_BYTES_MAX = 1 << 20,
    FIRST_CAPACITY = 4,
    SUM_DIGITS = 8
};

void stele_moved_list_init(struct stele_moved_list *list, struct stele_mem *mem)
{
    *list = (struct stele_moved_list){.mem = mem};
}

void stele_moved_list_deinit(struct stele_moved_list *list)
{
    stele_mem_free(list->mem, list->items);
    *list = (struct stele_moved_list){.mem = list->mem};
}

static int place_of(const struct stele_moved_list *list, const struct stele_uuid *topic_id, int32_t partition)
{
    int at = 0;
    while (at < list->count &&
           (list->items[at].partition != partition || !stele_uuid_equal(&list->items[at].topic_id, topic_id)))
        at++;
    return at;
}

const struct stele_moved *stele_moved_find(const struct stele_moved_list *list, const struct stele_uuid *topic_id,
                                           int32_t partition)
{
    int at = place_of(list, topic_id, partition);
    return at < list->count ? &list->items[at] : NULL;
}

enum stele_err stele_moved_set(struct stele_moved_list *list, const struct stele_moved *moved)
{
    int at = place_of(list, &moved->topic_id, moved->partition);
    if (at == list->capacity) {
        int capacity = at == 0 ? FIRST_CAPACITY : at * 2;
        struct stele_moved *items =
            stele_mem_resize(list->mem, STELE_MEM_LOG, list->items, (size_t)capacity * sizeof(*items));
        if (items == NULL)
            return STELE_NO_MEMORY;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[at] = *moved;
    list->count += at == list->count;
    return STELE_OK;
}

void stele_moved_forget(struct stele_moved_list *list, const struct stele_uuid *topic_id, int32_t partition)
{
    int at = place_of(list, topic_id, partition);
    if (at < list->count)
        list->items[at] = list->items[--list->count];
}

/* Reading. */

static bool read_line(struct stele_text_scan line, struct stele_moved *out)
{
    const char *topic, *number, *directory, *more;
    size_t topic_bytes, number_bytes, directory_bytes, more_bytes;
    int64_t partition;
    if (!stele_text_word(&line, &topic, &topic_bytes) || !stele_text_word(&line, &number, &number_bytes) ||
        !stele_text_word(&line, &directory, &directory_bytes) || stele_text_word(&line, &more, &more_bytes) ||
        !stele_text_number(number, number_bytes, &partition) || partition < 0 || partition > INT32_MAX ||
        stele_uuid_parse(topic, topic_bytes, &out->topic_id) != STELE_OK ||
        stele_uuid_parse(directory, directory_bytes, &out->directory_id) != STELE_OK)
        return false;
    out->partition = (int32_t)partition;
    return !stele_uuid_is_zero(&out->topic_id) && !stele_uuid_is_zero(&out->directory_id);
}

static bool is_sum_of(const char *line, size_t bytes, const char *body, size_t body_bytes)
{
    char expected[ENDS_BYTES];
    (void)snprintf(expected, sizeof(expected), "%08x", (unsigned)stele_crc32c(0, body, body_bytes));
    return bytes == SUM_DIGITS && memcmp(line, expected, SUM_DIGITS) == 0;
}

enum stele_err stele_moved_list_parse(struct stele_moved_list *list, const char *text, size_t count)
{
    struct stele_text_scan scan = {.at = text, .end = text + count};
    const char *line;
    size_t bytes;
    if (!stele_text_line(&scan, &line, &bytes) || bytes != 1 || line[0] != '0')
        return STELE_CORRUPT;
    const char *body = scan.at;
    while (stele_text_line(&scan, &line, &bytes)) {
        struct stele_moved moved;
        if (scan.at == scan.end)
            return is_sum_of(line, bytes, body, (size_t)(line - body)) ? STELE_OK : STELE_CORRUPT;
        if (!read_line((struct stele_text_scan){.at = line, .end = line + bytes}, &moved) ||
            stele_moved_find(list, &moved.topic_id, moved.partition) != NULL)
            return STELE_CORRUPT;
        enum stele_err err = stele_moved_set(list, &moved);
        if (err != STELE_OK)
            return err;
    }
    return STELE_CORRUPT;
}

enum stele_err stele_moved_list_read(struct stele_moved_list *list, struct stele_vfs *vfs, const char *dir)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_MOVED_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, list->mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    if (err == STELE_OK)
        err = stele_moved_list_parse(list, (const char *)text, count);
    stele_mem_free(list->mem, text);
    return err == STELE_TOO_LARGE ? STELE_CORRUPT : err;
}

/* Writing. */

static enum stele_err make_text(const struct stele_moved_list *list, char **out_text, size_t *out_count)
{
    size_t capacity = (size_t)list->count * LINE_BYTES_MAX + ENDS_BYTES, at = 2;
    char *text = stele_mem_raw(list->mem, STELE_MEM_LOG, capacity);
    if (text == NULL)
        return STELE_NO_MEMORY;
    memcpy(text, "0\n", 3);
    for (int i = 0; i < list->count; i++) {
        char topic[STELE_UUID_TEXT_BYTES], directory[STELE_UUID_TEXT_BYTES];
        stele_uuid_text(&list->items[i].topic_id, topic);
        stele_uuid_text(&list->items[i].directory_id, directory);
        at += (size_t)snprintf(text + at, capacity - at, "%s %d %s\n", topic, (int)list->items[i].partition, directory);
    }
    at += (size_t)snprintf(text + at, capacity - at, "%08x\n", (unsigned)stele_crc32c(0, text + 2, at - 2));
    *out_text = text;
    *out_count = at;
    return STELE_OK;
}

static enum stele_err write_synced(struct stele_vfs *vfs, const char *path, const char *text, size_t count)
{
    struct stele_file *file = NULL;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, text, count, 0);
    if (err == STELE_OK)
        err = vfs->ops->sync(file);
    vfs->ops->close(file);
    return err;
}

/* As stele_vfs_replace, which does not tell a failure before the rename from one after it. */
enum stele_err stele_moved_list_write(const struct stele_moved_list *list, struct stele_vfs *vfs, const char *dir,
                                      bool *out_is_in_doubt)
{
    char path[STELE_PATH_BYTES], temporary[STELE_PATH_BYTES];
    char *text = NULL;
    size_t count = 0;
    *out_is_in_doubt = false;
    enum stele_err err = stele_path_join(path, dir, STELE_MOVED_FILE);
    if (err == STELE_OK)
        err = stele_path_join(temporary, dir, STELE_MOVED_FILE ".tmp");
    if (err == STELE_OK)
        err = make_text(list, &text, &count);
    if (err == STELE_OK)
        err = write_synced(vfs, temporary, text, count);
    stele_mem_free(list->mem, text);
    if (err != STELE_OK)
        return err;
    err = vfs->ops->rename(vfs, temporary, path);
    if (err == STELE_OK)
        err = vfs->ops->sync_dir(vfs, dir);
    *out_is_in_doubt = err != STELE_OK;
    return err;
}
