#include "storage/checkpoint.h"

#include "base/check.h"
#include "base/sort.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20, FIRST_ENTRIES = 8, ENTRY_TEXT_BYTES_MAX = STELE_TOPIC_NAME_MAX + 40 };

void stele_checkpoint_init(struct stele_checkpoint *checkpoint, struct stele_mem *mem)
{
    *checkpoint = (struct stele_checkpoint){.mem = mem};
}

void stele_checkpoint_deinit(struct stele_checkpoint *checkpoint)
{
    stele_mem_free(checkpoint->mem, checkpoint->entries);
    checkpoint->entries = NULL;
    checkpoint->count = checkpoint->capacity = 0;
}

static int compare(const struct stele_checkpoint_entry *entry, const char *topic, int32_t partition)
{
    int order = strcmp(entry->topic, topic);
    if (order != 0)
        return order;
    return entry->partition < partition ? -1 : entry->partition > partition;
}

/* Where the entry is or would be put. */
static int place_of(const struct stele_checkpoint *checkpoint, const char *topic, int32_t partition)
{
    int low = 0, high = checkpoint->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (compare(&checkpoint->entries[middle], topic, partition) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room for an entry at `at` and fills it. */
static enum stele_err insert(struct stele_checkpoint *checkpoint, int at,
                             const struct stele_checkpoint_entry *new_entry)
{
    if (checkpoint->count == checkpoint->capacity) {
        int capacity = checkpoint->capacity == 0 ? FIRST_ENTRIES : checkpoint->capacity * 2;
        struct stele_checkpoint_entry *entries =
            stele_mem_resize(checkpoint->mem, STELE_MEM_LOG, checkpoint->entries, (size_t)capacity * sizeof(*entries));
        if (entries == NULL)
            return STELE_NO_MEMORY;
        checkpoint->entries = entries;
        checkpoint->capacity = capacity;
    }
    struct stele_checkpoint_entry *entry = &checkpoint->entries[at];
    memmove(entry + 1, entry, (size_t)(checkpoint->count - at) * sizeof(*entry));
    *entry = *new_entry;
    checkpoint->count++;
    return STELE_OK;
}

static enum stele_err make_entry(const char *topic, int32_t partition, int64_t offset,
                                 struct stele_checkpoint_entry *out_entry)
{
    size_t bytes = strlen(topic);
    if (bytes == 0 || bytes > STELE_TOPIC_NAME_MAX || partition < 0 || offset < 0)
        return STELE_INVALID_ARGUMENT;
    *out_entry = (struct stele_checkpoint_entry){.partition = partition, .offset = offset};
    memcpy(out_entry->topic, topic, bytes);
    return STELE_OK;
}

enum stele_err stele_checkpoint_set(struct stele_checkpoint *checkpoint, const char *topic, int32_t partition,
                                    int64_t offset)
{
    struct stele_checkpoint_entry entry;
    enum stele_err err = make_entry(topic, partition, offset, &entry);
    if (err != STELE_OK)
        return err;
    int at = place_of(checkpoint, topic, partition);
    if (at == checkpoint->count || compare(&checkpoint->entries[at], topic, partition) != 0)
        return insert(checkpoint, at, &entry);
    checkpoint->entries[at].offset = offset;
    return STELE_OK;
}

enum stele_err stele_checkpoint_add(struct stele_checkpoint *checkpoint, const char *topic, int32_t partition,
                                    int64_t offset)
{
    struct stele_checkpoint_entry entry;
    enum stele_err err = make_entry(topic, partition, offset, &entry);
    return err == STELE_OK ? insert(checkpoint, checkpoint->count, &entry) : err;
}

static int compare_entries(const void *a, const void *b)
{
    const struct stele_checkpoint_entry *other = b;
    return compare(a, other->topic, other->partition);
}

bool stele_checkpoint_sort(struct stele_checkpoint *checkpoint)
{
    bool is_sorted = true;
    for (int i = 1; i < checkpoint->count && is_sorted; i++)
        is_sorted = compare_entries(&checkpoint->entries[i - 1], &checkpoint->entries[i]) < 0;
    if (is_sorted)
        return true;
    stele_sort(checkpoint->entries, (size_t)checkpoint->count, sizeof(*checkpoint->entries), compare_entries);
    for (int i = 1; i < checkpoint->count; i++) {
        if (compare_entries(&checkpoint->entries[i - 1], &checkpoint->entries[i]) == 0)
            return false;
    }
    return true;
}

bool stele_checkpoint_get(const struct stele_checkpoint *checkpoint, const char *topic, int32_t partition,
                          int64_t *out_offset)
{
    int at = place_of(checkpoint, topic, partition);
    if (at == checkpoint->count || compare(&checkpoint->entries[at], topic, partition) != 0)
        return false;
    *out_offset = checkpoint->entries[at].offset;
    return true;
}

/* "topic partition offset". */
static enum stele_err parse_entry(struct stele_checkpoint *checkpoint, const char *line, size_t bytes)
{
    struct stele_text_scan words = {.at = line, .end = line + bytes};
    const char *topic, *word;
    size_t topic_bytes, word_bytes;
    int64_t partition, offset;
    char name[STELE_TOPIC_NAME_MAX + 1];
    if (!stele_text_word(&words, &topic, &topic_bytes) || topic_bytes > STELE_TOPIC_NAME_MAX ||
        memchr(topic, 0, topic_bytes) != NULL)
        return STELE_CORRUPT;
    if (!stele_text_word(&words, &word, &word_bytes) || !stele_text_number(word, word_bytes, &partition) ||
        partition < 0 || partition > INT32_MAX)
        return STELE_CORRUPT;
    if (!stele_text_word(&words, &word, &word_bytes) || !stele_text_number(word, word_bytes, &offset) || offset < 0)
        return STELE_CORRUPT;
    if (stele_text_word(&words, &word, &word_bytes))
        return STELE_CORRUPT;
    memcpy(name, topic, topic_bytes);
    name[topic_bytes] = 0;
    return stele_checkpoint_add(checkpoint, name, (int32_t)partition, offset);
}

enum stele_err stele_checkpoint_parse(struct stele_checkpoint *checkpoint, const char *text, size_t count,
                                      struct stele_error *error)
{
    struct stele_text_scan lines = {.at = text, .end = text + count};
    const char *line;
    size_t bytes;
    int64_t number, seen = 0;
    checkpoint->count = 0;
    if (!stele_text_line(&lines, &line, &bytes))
        return STELE_OK;
    if (!stele_text_number(line, bytes, &number) || number != 0)
        return stele_error_set(error, STELE_CORRUPT, "line 1 must be the version 0");
    if (!stele_text_line(&lines, &line, &bytes))
        return STELE_OK;
    if (!stele_text_number(line, bytes, &number) || number < 0)
        return stele_error_set(error, STELE_CORRUPT, "line 2 must be the number of entries");
    while (stele_text_line(&lines, &line, &bytes)) {
        enum stele_err err = parse_entry(checkpoint, line, bytes);
        if (err != STELE_OK) {
            checkpoint->count = 0;
            return stele_error_set(error, err, "line %lld must be topic, partition, offset", (long long)seen + 3);
        }
        seen++;
    }
    bool is_sound = stele_checkpoint_sort(checkpoint);
    if (seen == number && is_sound)
        return STELE_OK;
    checkpoint->count = 0;
    if (!is_sound)
        return stele_error_set(error, STELE_CORRUPT, "a partition is named twice");
    return stele_error_set(error, STELE_CORRUPT, "line 2 says %lld entries, there are %lld", (long long)number,
                           (long long)seen);
}

enum stele_err stele_checkpoint_read(struct stele_checkpoint *checkpoint, struct stele_vfs *vfs, const char *dir,
                                     const char *name, struct stele_error *error)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    struct stele_error inner = {.text = ""};
    checkpoint->count = 0;
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, checkpoint->mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    if (err == STELE_OK)
        err = stele_checkpoint_parse(checkpoint, (const char *)text, count, &inner);
    else
        (void)stele_error_set(&inner, err, "%s", stele_err_text(err));
    stele_mem_free(checkpoint->mem, text);
    if (err != STELE_OK)
        (void)stele_error_set(error, err, "%.300s: %.150s", path, inner.text);
    return err;
}

enum stele_err stele_checkpoint_write(const struct stele_checkpoint *checkpoint, struct stele_vfs *vfs, const char *dir,
                                      const char *name)
{
    size_t capacity = 64 + (size_t)checkpoint->count * ENTRY_TEXT_BYTES_MAX;
    char *text = stele_mem_raw(checkpoint->mem, STELE_MEM_LOG, capacity);
    if (text == NULL)
        return STELE_NO_MEMORY;
    int used = snprintf(text, capacity, "0\n%d\n", checkpoint->count);
    for (int i = 0; i < checkpoint->count; i++) {
        const struct stele_checkpoint_entry *entry = &checkpoint->entries[i];
        used += snprintf(text + used, capacity - (size_t)used, "%s %d %lld\n", entry->topic, entry->partition,
                         (long long)entry->offset);
    }
    enum stele_err err = stele_vfs_replace(vfs, dir, name, text, (size_t)used);
    stele_mem_free(checkpoint->mem, text);
    return err;
}

bool stele_metadata_snapshot_name_is(const char *name)
{
    enum { OFFSET_DIGITS = 20, EPOCH_DIGITS = 10 };
    return strspn(name, "0123456789") == OFFSET_DIGITS && name[OFFSET_DIGITS] == '-' &&
           strspn(name + OFFSET_DIGITS + 1, "0123456789") == EPOCH_DIGITS &&
           strcmp(name + OFFSET_DIGITS + 1 + EPOCH_DIGITS, ".checkpoint") == 0;
}

bool stele_topic_name_is_legal(const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes > STELE_TOPIC_NAME_MAX || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    for (const char *at = name; *at != 0; at++) {
        bool is_legal = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
                        *at == '.' || *at == '_' || *at == '-';
        if (!is_legal)
            return false;
    }
    return true;
}

enum { STATE_ID_DIGITS = 32 };

/* Cuts ".<32 hex>-delete", "-stray" or "-future" off the end of a name. */
static enum stele_dir_kind cut_state(const char *name, size_t *inout_bytes)
{
    static const char *const ends[] = {
        [STELE_DIR_DELETE] = "-delete", [STELE_DIR_STRAY] = "-stray", [STELE_DIR_FUTURE] = "-future"};
    for (int kind = STELE_DIR_DELETE; kind <= STELE_DIR_FUTURE; kind++) {
        size_t length = strlen(ends[kind]) + STATE_ID_DIGITS + 1;
        if (*inout_bytes <= length)
            continue;
        const char *dot = name + *inout_bytes - length;
        if (*dot != '.' || strspn(dot + 1, "0123456789abcdefABCDEF") != STATE_ID_DIGITS ||
            strcmp(dot + 1 + STATE_ID_DIGITS, ends[kind]) != 0)
            continue;
        *inout_bytes -= length;
        return (enum stele_dir_kind)kind;
    }
    return STELE_DIR_LIVE;
}

enum stele_err stele_partition_dir_parse(const char *name, char out_topic[STELE_TOPIC_NAME_MAX + 1],
                                         int32_t *out_partition, enum stele_dir_kind *out_kind)
{
    size_t bytes = strlen(name);
    enum stele_dir_kind kind = cut_state(name, &bytes);
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int64_t partition;
    size_t dash = bytes;
    while (dash > 0 && name[dash - 1] != '-')
        dash--;
    if (dash < 2 || dash - 1 > STELE_TOPIC_NAME_MAX)
        return STELE_MALFORMED;
    memcpy(topic, name, dash - 1);
    topic[dash - 1] = 0;
    if (!stele_topic_name_is_legal(topic) || !stele_text_number(name + dash, bytes - dash, &partition) ||
        partition > INT32_MAX)
        return STELE_MALFORMED;
    memcpy(out_topic, topic, dash);
    *out_partition = (int32_t)partition;
    *out_kind = kind;
    return STELE_OK;
}
