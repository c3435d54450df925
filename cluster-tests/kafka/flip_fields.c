#include "base/cursor.h"
#include "cluster-tests/kafka/flips.h"
#include "proto/record_batch.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), length = strlen(end);
    return bytes >= length && strcmp(text + bytes - length, end) == 0;
}

/* A field and where it ends; the last one has the end 0. */
struct part {
    const char *name;
    size_t end;
};

static const char *part_of(const struct part *parts, size_t pos)
{
    while (parts->end != 0 && pos >= parts->end)
        parts++;
    return parts->name;
}

static struct flip_field log_field(const uint8_t *bytes, size_t count, size_t pos)
{
    static const struct part parts[] = {{"base_offset", 8}, {"length", 12}, {"leader_epoch", 16},
                                        {"magic", 17},      {"crc", 21},    {"under_checksum", 0}};
    size_t at = 0, before = 0, behind = 0, end;
    while (at + STELE_BATCH_HEADER_BYTES <= count) {
        size_t size = (size_t)stele_batch_size(bytes + at);
        if (size == 0 || pos < at + size)
            break;
        at += size;
        before++;
    }
    for (end = at; end + STELE_BATCH_HEADER_BYTES <= count; behind++)
        end += (size_t)stele_batch_size(bytes + end);
    return (struct flip_field){.name = part_of(parts, pos - at),
                               .is_checked = pos - at >= STELE_BATCH_POS_ATTRIBUTES,
                               .is_inner = before >= 2 && behind > 2};
}

static struct flip_field index_field(const uint8_t *bytes, size_t count, size_t pos, bool is_time)
{
    static const struct part offsets[] = {{"offset", 4}, {"position", 0}};
    static const struct part times[] = {{"timestamp", 8}, {"offset", 0}};
    size_t used = count, entry = is_time ? 12 : 8;
    while (used > 0 && bytes[used - 1] == 0)
        used--;
    used = (used + entry - 1) / entry * entry;
    /* Zeros are all alike: every 16th byte of the first ones, and the last entry. */
    if (pos >= used)
        return (struct flip_field){.name = "zeros", .is_skipped = pos >= used + 256 && pos + entry < count};
    return (struct flip_field){.name = part_of(is_time ? times : offsets, pos % entry)};
}

/* "key=value" or "key: value": the key names the field. */
static struct flip_field line_field(const uint8_t *bytes, size_t count, size_t pos, const struct part *keys)
{
    size_t start = pos;
    while (start > 0 && bytes[start - 1] != '\n')
        start--;
    for (; keys->name != NULL; keys++) {
        size_t length = strlen(keys->name);
        if (start + length <= count && memcmp(bytes + start, keys->name, length) == 0)
            return (struct flip_field){.name = keys->name[0] == '#' ? "comment" : keys->name};
    }
    return (struct flip_field){.name = "text"};
}

struct flip_field flip_field_of(const char *name, const uint8_t *bytes, size_t count, size_t pos)
{
    static const struct part txn[] = {
        {"version", 2}, {"producer_id", 10}, {"first_offset", 18}, {"last_offset", 26}, {"last_stable_offset", 0}};
    static const struct part snapshot[] = {{"version", 2}, {"crc", 6}, {"under_checksum", 0}};
    static const struct part properties[] = {{"#", 0},       {"node.id", 0},    {"directory.id", 0},
                                             {"version", 0}, {"cluster.id", 0}, {NULL, 0}};
    static const struct part metadata[] = {{"version", 0}, {"topic_id", 0}, {NULL, 0}};
    if (ends_with(name, ".deleted"))
        return (struct flip_field){.name = "all", .is_skipped = pos > 0};
    if (ends_with(name, ".log") || ends_with(name, ".checkpoint"))
        return log_field(bytes, count, pos);
    if (ends_with(name, ".index") || ends_with(name, ".timeindex"))
        return index_field(bytes, count, pos, ends_with(name, ".timeindex"));
    if (ends_with(name, ".txnindex"))
        return (struct flip_field){.name = part_of(txn, pos % 34)};
    if (ends_with(name, ".snapshot"))
        return (struct flip_field){.name = part_of(snapshot, pos), .is_checked = pos >= 6};
    if (strcmp(name, "meta.properties") == 0)
        return line_field(bytes, count, pos, properties);
    if (strcmp(name, "partition.metadata") == 0)
        return line_field(bytes, count, pos, metadata);
    return (struct flip_field){.name = "text"};
}
