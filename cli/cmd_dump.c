/* Prints what lies in a file of a log, line for line as Kafka's kafka-dump-log does, or verifies whole directories. One
 * set of functions makes both the text and the JSON objects. */
#include "base/utf8.h"
#include "cli/format.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "host/clock.h"
#include "host/heap.h"
#include "host/loop.h"
#include "host/vfs_posix.h"
#include "proto/record_batch.h"
#include "storage/checkpoint.h"
#include "storage/producer_state.h"
#include "storage/scan.h"
#include "storage/segment.h"
#include "storage/verify.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNPACKED_BYTES_MAX = 1 << 30, SMALL_FILE_BYTES_MAX = 1 << 30 };

struct dump {
    struct stele_cli_words words;
    bool print_records, verify, is_compacted;

    bool is_json;
    struct stele_mem mem;
    struct stele_vfs *vfs;
    struct stele_loop *loop;
    struct stele_env *env;
    struct stele_progress progress;
    /* the line being made */
    cJSON *object;
    bool has_field;
    int status;
};

static void line_begin(struct dump *dump, const char *prefix, const char *kind)
{
    dump->has_field = false;
    dump->object = dump->is_json ? cJSON_CreateObject() : NULL;
    if (dump->is_json)
        cJSON_AddStringToObject(dump->object, "kind", kind);
    else
        fputs(prefix, stdout);
}

static void line_end(struct dump *dump)
{
    if (dump->is_json) {
        char *text = cJSON_PrintUnformatted(dump->object);
        puts(text == NULL ? "{}" : text);
        cJSON_free(text);
        cJSON_Delete(dump->object);
        dump->object = NULL;
    } else {
        putchar('\n');
    }
}

static void field_name(struct dump *dump, const char *name)
{
    printf("%s%s: ", dump->has_field ? " " : "", name);
    dump->has_field = true;
}

static void field_int(struct dump *dump, const char *name, int64_t value)
{
    char number[32];
    (void)snprintf(number, sizeof(number), "%lld", (long long)value);
    if (dump->is_json) {
        cJSON_AddRawToObject(dump->object, name, number);
    } else {
        field_name(dump, name);
        fputs(number, stdout);
    }
}

static void field_text(struct dump *dump, const char *name, const char *value)
{
    if (dump->is_json) {
        cJSON_AddStringToObject(dump->object, name, value);
    } else {
        field_name(dump, name);
        fputs(value, stdout);
    }
}

static void field_bool(struct dump *dump, const char *name, bool value)
{
    if (dump->is_json)
        cJSON_AddBoolToObject(dump->object, name, value);
    else
        field_text(dump, name, value ? "true" : "false");
}

static void field_optional(struct dump *dump, const char *name, bool is_there, int64_t value)
{
    char text[48];
    if (dump->is_json && is_there)
        field_int(dump, name, value);
    else if (dump->is_json)
        cJSON_AddNullToObject(dump->object, name);
    else {
        (void)snprintf(text, sizeof(text), is_there ? "OptionalLong[%lld]" : "OptionalLong.empty", (long long)value);
        field_text(dump, name, text);
    }
}

/* Bytes as text, with the replacement character for what is no UTF-8, as Kafka's tool prints them. */
static void put_text(const uint8_t *bytes, size_t count)
{
    size_t from = 0; /* of what is valid and not written yet */
    bool is_valid = false;
    for (size_t at = 0, taken; (taken = stele_utf8_next(bytes + at, count - at, &is_valid)) > 0; at += taken) {
        if (is_valid)
            continue;
        (void)fwrite(bytes + from, 1, at - from, stdout);
        (void)fputs(STELE_UTF8_REPLACEMENT, stdout);
        from = at + taken;
    }
    (void)fwrite(bytes + from, 1, count - from, stdout);
}

/* A JSON string of the same text; cJSON's own end at a zero byte. NULL when out of memory. */
static cJSON *json_text(const uint8_t *bytes, size_t count)
{
    char *text = malloc(count * 6 + 3), *end = text;
    bool is_valid = false;
    if (text == NULL)
        return NULL;
    *end++ = '"';
    for (size_t at = 0, taken; (taken = stele_utf8_next(bytes + at, count - at, &is_valid)) > 0; at += taken) {
        if (is_valid && (bytes[at] < 0x20 || bytes[at] == '"' || bytes[at] == '\\')) {
            end += snprintf(end, 7, "\\u%04x", bytes[at]);
        } else if (is_valid) {
            memcpy(end, bytes + at, taken);
            end += taken;
        } else {
            memcpy(end, STELE_UTF8_REPLACEMENT, sizeof(STELE_UTF8_REPLACEMENT) - 1);
            end += sizeof(STELE_UTF8_REPLACEMENT) - 1;
        }
    }
    *end++ = '"';
    *end = 0;
    cJSON *raw = cJSON_CreateRaw(text);
    free(text);
    return raw;
}

static void field_bytes(struct dump *dump, const char *name, const uint8_t *bytes, int32_t count)
{
    if (bytes == NULL)
        return;
    if (dump->is_json) {
        cJSON_AddItemToObject(dump->object, name, json_text(bytes, (size_t)count));
        return;
    }
    field_name(dump, name);
    put_text(bytes, (size_t)count);
}

static void field_header_keys(struct dump *dump, const struct stele_record *record)
{
    struct stele_record_header header;
    size_t pos = 0;
    cJSON *array = dump->is_json ? cJSON_AddArrayToObject(dump->object, "headerKeys") : NULL;
    if (!dump->is_json)
        field_name(dump, "headerKeys");
    if (!dump->is_json)
        putchar('[');
    for (bool is_first = true; stele_record_header_next(record, &pos, &header); is_first = false) {
        if (dump->is_json) {
            cJSON_AddItemToArray(array, json_text(header.key, (size_t)header.key_bytes));
            continue;
        }
        if (!is_first)
            putchar(',');
        put_text(header.key, (size_t)header.key_bytes);
    }
    if (!dump->is_json)
        putchar(']');
}

static void print_batch(struct dump *dump, const struct stele_batch_header *header, int64_t pos, bool is_valid)
{
    int16_t attributes = header->attributes;
    line_begin(dump, "", "batch");
    field_int(dump, "baseOffset", header->base_offset);
    field_int(dump, "lastOffset", stele_batch_last_offset(header));
    field_int(dump, "count", header->record_count);
    field_int(dump, "baseSequence", header->base_sequence);
    field_int(dump, "lastSequence",
              header->base_sequence < 0 || header->last_offset_delta < 0
                  ? -1
                  : stele_sequence_add(header->base_sequence, header->last_offset_delta));
    field_int(dump, "producerId", header->producer_id);
    field_int(dump, "producerEpoch", header->producer_epoch);
    field_int(dump, "partitionLeaderEpoch", header->partition_leader_epoch);
    field_bool(dump, "isTransactional", (attributes & STELE_BATCH_TRANSACTIONAL) != 0);
    field_bool(dump, "isControl", (attributes & STELE_BATCH_CONTROL) != 0);
    field_optional(dump, "deleteHorizonMs", (attributes & STELE_BATCH_DELETE_HORIZON) != 0, header->base_timestamp);
    field_int(dump, "position", pos);
    field_int(dump, (attributes & STELE_BATCH_LOG_APPEND_TIME) != 0 ? "LogAppendTime" : "CreateTime",
              header->max_timestamp);
    field_int(dump, "size", (int64_t)header->length + STELE_BATCH_PREFIX_BYTES);
    field_int(dump, "magic", header->magic);
    field_text(dump, "compresscodec", stele_codec_name((enum stele_codec)(attributes & STELE_BATCH_CODEC_MASK)));
    field_int(dump, "crc", header->crc);
    field_bool(dump, "isvalid", is_valid);
    line_end(dump);
}

static void print_record(struct dump *dump, const struct stele_batch_header *header, const struct stele_record *record)
{
    struct stele_control control;
    line_begin(dump, "| ", "record");
    field_int(dump, "offset", record->offset);
    field_int(dump, (header->attributes & STELE_BATCH_LOG_APPEND_TIME) != 0 ? "LogAppendTime" : "CreateTime",
              record->timestamp);
    field_int(dump, "keySize", record->key == NULL ? -1 : record->key_bytes);
    field_int(dump, "valueSize", record->value == NULL ? -1 : record->value_bytes);
    field_int(dump, "sequence", record->sequence);
    field_header_keys(dump, record);
    if ((header->attributes & STELE_BATCH_CONTROL) != 0) {
        if (stele_control_read(record, &control) == STELE_OK &&
            (control.type == STELE_CONTROL_ABORT || control.type == STELE_CONTROL_COMMIT)) {
            field_text(dump, "endTxnMarker", control.type == STELE_CONTROL_ABORT ? "ABORT" : "COMMIT");
            field_int(dump, "coordinatorEpoch", control.coordinator_epoch);
        }
    } else if (dump->print_records) {
        field_bytes(dump, "key", record->key, record->key_bytes);
        field_bytes(dump, "payload", record->value, record->value_bytes);
    }
    line_end(dump);
}

static enum stele_err print_records(struct dump *dump, const struct stele_batch_header *header, const uint8_t *batch,
                                    size_t bytes)
{
    struct stele_record_walker walker;
    struct stele_record record;
    enum stele_err err = stele_record_walker_init(&walker, &dump->mem, batch, bytes, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err;
    while ((err = stele_record_next(&walker, &record)) == STELE_OK)
        print_record(dump, header, &record);
    stele_record_walker_deinit(&walker);
    return err == STELE_END ? STELE_OK : err;
}

/* Batch by batch; a wrong checksum is printed as such, a size that makes no sense ends the file. */
static void dump_log(struct dump *dump, const char *path, const uint8_t *bytes, size_t count)
{
    size_t at = 0;
    while (count - at >= STELE_BATCH_HEADER_BYTES) {
        struct stele_batch_header header, checked;
        int64_t size = stele_batch_size(bytes + at);
        if (size < STELE_BATCH_HEADER_BYTES || (size_t)size > count - at ||
            stele_batch_header_read(bytes + at, count - at, &header) != STELE_OK)
            break;
        bool is_valid = stele_batch_check(bytes + at, (size_t)size, &checked) == STELE_OK;
        print_batch(dump, &header, (int64_t)at, is_valid);
        if (!is_valid || print_records(dump, &header, bytes + at, (size_t)size) != STELE_OK)
            dump->status = STELE_CLI_FAILED;
        at += (size_t)size;
    }
    if (at < count) {
        fprintf(stderr, "Found %zu invalid bytes at the end of %s\n", count - at, path);
        dump->status = STELE_CLI_FAILED;
    }
}

/* The zeros of a preallocated index end it, as in Kafka's tool. */
static void dump_index(struct dump *dump, const uint8_t *bytes, size_t count, int64_t base_offset, bool is_time)
{
    size_t entry_bytes = is_time ? STELE_TIME_ENTRY_BYTES : STELE_OFFSET_ENTRY_BYTES;
    for (size_t at = 0; count - at >= entry_bytes; at += entry_bytes) {
        int64_t offset = base_offset + stele_get_i32(bytes + at + (is_time ? 8 : 0));
        if (at > 0 && offset == base_offset)
            break;
        line_begin(dump, "", is_time ? "timeindex" : "index");
        if (is_time)
            field_int(dump, "timestamp", stele_get_i64(bytes + at));
        field_int(dump, "offset", offset);
        if (!is_time)
            field_int(dump, "position", stele_get_i32(bytes + at + 4));
        line_end(dump);
    }
}

static void dump_txn_index(struct dump *dump, const char *path, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; count - at >= STELE_TXN_ENTRY_BYTES; at += STELE_TXN_ENTRY_BYTES) {
        struct stele_aborted_txn txn;
        if (stele_aborted_txn_read(bytes + at, &txn) != STELE_OK) {
            fprintf(stderr, "stele dump: %s: position %zu: unknown version %d\n", path, at, stele_get_i16(bytes + at));
            dump->status = STELE_CLI_FAILED;
            return;
        }
        line_begin(dump, "", "txnindex");
        field_int(dump, "version", 0);
        field_int(dump, "producerId", txn.producer_id);
        field_int(dump, "firstOffset", txn.first_offset);
        field_int(dump, "lastOffset", txn.last_offset);
        field_int(dump, "lastStableOffset", txn.last_stable_offset);
        line_end(dump);
    }
}

static void dump_snapshot(struct dump *dump, const char *path, const uint8_t *bytes, size_t count)
{
    int entries = 0;
    if (stele_snapshot_check(bytes, count, &entries) != STELE_OK) {
        fprintf(stderr, "stele dump: %s: wrong version, checksum or length\n", path);
        dump->status = STELE_CLI_FAILED;
        return;
    }
    for (int i = 0; i < entries; i++) {
        struct stele_producer_entry entry;
        if (stele_snapshot_entry(bytes, count, i, &entry) != STELE_OK) {
            fprintf(stderr, "stele dump: %s: entry %d makes no sense\n", path, i);
            dump->status = STELE_CLI_FAILED;
            continue;
        }
        line_begin(dump, "", "snapshot");
        field_int(dump, "producerId", entry.producer_id);
        field_int(dump, "producerEpoch", entry.producer_epoch);
        field_int(dump, "coordinatorEpoch", entry.coordinator_epoch);
        field_optional(dump, "currentTxnFirstOffset", entry.txn_first_offset >= 0, entry.txn_first_offset);
        field_int(dump, "lastTimestamp", entry.timestamp);
        if (entry.last_offset >= 0) {
            field_int(dump, "firstSequence",
                      entry.last_sequence < 0 ? -1 : stele_sequence_sub(entry.last_sequence, entry.offset_delta));
            field_int(dump, "lastSequence", entry.last_sequence);
            field_int(dump, "lastOffset", entry.last_offset);
            field_int(dump, "offsetDelta", entry.offset_delta);
            field_int(dump, "timestamp", entry.timestamp);
        }
        line_end(dump);
    }
}

static bool has_suffix(const char *path, const char *suffix)
{
    size_t bytes = strlen(path), length = strlen(suffix);
    return bytes >= length && strcmp(path + bytes - length, suffix) == 0;
}

static void dump_file(struct dump *dump, const char *path)
{
    const char *name = strrchr(path, '/'), *suffix;
    int64_t base_offset = 0;
    uint8_t *bytes = NULL;
    size_t count = 0;
    name = name == NULL ? path : name + 1;
    bool is_checkpoint = stele_metadata_snapshot_name_is(name);
    if (!is_checkpoint && !stele_segment_name_parse(name, &base_offset, &suffix)) {
        fprintf(stderr,
                "stele dump: %s: want a file named by its offset: .log, .index, .timeindex, .txnindex, .snapshot, "
                ".checkpoint\n",
                path);
        dump->status = STELE_CLI_FAILED;
        return;
    }
    enum stele_err err = stele_vfs_read_whole(dump->vfs, &dump->mem, STELE_MEM_TOOL, path, INT32_MAX, &bytes, &count);
    if (err != STELE_OK) {
        fprintf(stderr, "stele dump: %s: %s\n", path, stele_err_text(err));
        dump->status = stele_cli_exit_of((int)err);
        return;
    }
    if (!dump->is_json)
        printf("Dumping %s\n", path);
    if (is_checkpoint) {
        dump_log(dump, path, bytes, count);
    } else if (has_suffix(path, ".log")) {
        if (!dump->is_json)
            printf("Log starting offset: %lld\n", (long long)base_offset);
        dump_log(dump, path, bytes, count);
    } else if (has_suffix(path, ".timeindex") || has_suffix(path, ".index")) {
        if (count == 0 && has_suffix(path, ".index") && !dump->is_json)
            printf("%s is empty.\n", path);
        dump_index(dump, bytes, count, base_offset, has_suffix(path, ".timeindex"));
    } else if (has_suffix(path, ".txnindex")) {
        dump_txn_index(dump, path, bytes, count);
    } else if (has_suffix(path, ".snapshot")) {
        dump_snapshot(dump, path, bytes, count);
    } else {
        fprintf(stderr, "stele dump: %s: unknown kind of file\n", path);
        dump->status = STELE_CLI_FAILED;
    }
    stele_mem_free(&dump->mem, bytes);
}

static void print_finding(void *arg, const struct stele_finding *finding)
{
    struct dump *dump = arg;
    stele_progress_wipe(&dump->progress);
    if (dump->is_json) {
        line_begin(dump, "", finding->kind == STELE_FINDING_DAMAGE ? "damage" : "leftover");
        field_text(dump, "path", finding->path);
        field_int(dump, "pos", finding->pos);
        field_text(dump, "text", finding->text);
        line_end(dump);
        return;
    }
    printf("%s %s:%lld: %s\n", finding->kind == STELE_FINDING_DAMAGE ? "damage" : "leftover", finding->path,
           (long long)finding->pos, finding->text);
}

static void print_report(struct dump *dump, const char *path, const struct stele_verify_report *report)
{
    line_begin(dump, "", "verified");
    field_text(dump, "path", path);
    field_int(dump, "files", (int64_t)report->files);
    field_int(dump, "bytes", (int64_t)report->bytes);
    field_int(dump, "batches", (int64_t)report->batches);
    field_int(dump, "records", (int64_t)report->records);
    field_int(dump, "index_entries", (int64_t)report->index_entries);
    field_int(dump, "damages", (int64_t)report->damages);
    field_int(dump, "leftovers", (int64_t)report->crash_leftovers);
    line_end(dump);
}

static void show_progress(void *arg, const char *path, const struct stele_verify_report *so_far)
{
    struct dump *dump = arg;
    char size[STELE_FORMAT_BYTES];
    if (!stele_progress_is_due(&dump->progress))
        return;
    stele_format_size(so_far->bytes, size);
    stele_progress_show(&dump->progress, "%lld files, %s, %lld records, %lld damages; in %s", (long long)so_far->files,
                        size, (long long)so_far->records, (long long)so_far->damages, path);
}

static void verify_path(struct dump *dump, const char *path)
{
    struct stele_verify_options options = {
        .is_compacted = dump->is_compacted, .found = print_finding, .went_on = show_progress, .arg = dump};
    struct stele_verify_report report;
    enum stele_err err = stele_verify(dump->env, path, &options, &report);
    stele_progress_wipe(&dump->progress);
    if (err != STELE_OK) {
        fprintf(stderr, "stele dump: %s: %s\n", path, stele_err_text(err));
        dump->status = stele_cli_exit_of((int)err);
        return;
    }
    if (report.damages > 0)
        dump->status = STELE_CLI_FAILED;
    if (dump->is_json) {
        print_report(dump, path, &report);
        return;
    }
    printf("%s: %lld files, %lld bytes, %lld batches, %lld records, %lld index entries; %lld damages, %lld leftovers\n",
           path, (long long)report.files, (long long)report.bytes, (long long)report.batches, (long long)report.records,
           (long long)report.index_entries, (long long)report.damages, (long long)report.crash_leftovers);
}

static int run(const struct stele_cli *cli, void *line)
{
    struct dump *dump = line;
    dump->is_json = stele_cli_is_json(cli);
    dump->status = STELE_CLI_DONE;
    stele_mem_init(&dump->mem, stele_heap_source(), 0);
    dump->vfs = stele_vfs_posix_new(&dump->mem);
    dump->loop = stele_loop_new(&(struct stele_loop_options){.mem = &dump->mem, .vfs = dump->vfs});
    if (dump->loop == NULL)
        return stele_cli_fail(cli, STELE_CLI_FAILED, "out of memory");
    dump->env = stele_loop_env(dump->loop);
    stele_progress_init(&dump->progress);
    for (int i = 0; i < dump->words.count; i++) {
        if (dump->verify)
            verify_path(dump, dump->words.items[i]);
        else
            dump_file(dump, dump->words.items[i]);
    }
    stele_loop_free(dump->loop);
    stele_vfs_posix_free(dump->vfs);
    return dump->status;
}

static const struct stele_cli_option options[] = {
    {.name = "--print-records",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct dump, print_records),
     .help = "keys and values too"},
    {.name = "--verify",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct dump, verify),
     .help = "read everything, recompute every checksum, check indexes, snapshots and checkpoints against the log; a "
             "line for each fault with file and position. Done only when all is sound"},
    {.name = "--compacted",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct dump, is_compacted),
     .help = "gaps between offsets are no damage"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_dump = {
    .name = "dump",
    .arguments = "FILE|DIR...",
    .words_min = 1,
    .words_max = INT32_MAX,
    .summary = "print or verify the files of a log",
    .details = "Prints .log, .index, .timeindex, .txnindex, .snapshot and metadata .checkpoint files as kafka-dump-log "
               "--deep-iteration does; "
               "with -o json an object a line. Needs no node. Directories are for --verify.",
    .options = options,
    .line_bytes = sizeof(struct dump),
    .run = run,
};
