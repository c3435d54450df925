/* Writes a log directory of partitions of every kind through our storage, for real Kafka to read:
 *
 *   write_logs topics PREFIX              prints the names of its topics
 *   write_logs clean|killed DIR PREFIX [IDS]
 *
 * clean leaves what a clean stop leaves. killed leaves what the death of the process does: the files as the appends
 * left them, half a batch at the end of some logs, no marker. IDS has a line "TOPIC TOPIC-ID" for each topic whose
 * partition.metadata is to hold that id. Prints what a consumer must find (made_print). */
#include "cluster-tests/kafka/made_log.h"
#include "host/vfs_posix.h"
#include "storage/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void must(enum stele_err err, const char *what, const char *detail)
{
    if (err == STELE_OK)
        return;
    (void)fprintf(stderr, "write_logs: %s: %s %s\n", what, stele_err_name(err), detail);
    abort();
}

static void flush(struct made_log *made)
{
    must(stele_log_flush(made->log), "flush", made->topic);
}

/* --- the kinds of logs --- */

static void fill(struct made_log *made, struct made_batch batch, int batches)
{
    for (int i = 0; i < batches; i++) {
        batch.records = (int)stele_prng_range(&made->world->prng, 1, 12);
        made_append(made, &batch);
        if (i == batches / 2)
            flush(made);
    }
}

/* Records of every shape, and one larger than an index interval. */
static void fill_codec(struct made_log *made, enum stele_codec codec)
{
    struct made_batch batch = {.codec = codec, .value_bytes_max = 200};
    fill(made, batch, 25);
    batch.producer = -1;
    fill(made, batch, 25);
    batch.records = 1;
    batch.value_bytes_max = 100000;
    made_append(made, &batch);
    batch.producer = 1;
    batch.value_bytes_max = 2000;
    fill(made, batch, 25);
}

static void fill_none(struct made_log *made)
{
    fill_codec(made, STELE_CODEC_NONE);
}

static void fill_gzip(struct made_log *made)
{
    fill_codec(made, STELE_CODEC_GZIP);
}

static void fill_snappy(struct made_log *made)
{
    fill_codec(made, STELE_CODEC_SNAPPY);
}

static void fill_lz4(struct made_log *made)
{
    fill_codec(made, STELE_CODEC_LZ4);
}

static void fill_zstd(struct made_log *made)
{
    fill_codec(made, STELE_CODEC_ZSTD);
}

static void fill_rolled(struct made_log *made)
{
    for (int i = 0; i < 5; i++)
        fill(made, (struct made_batch){.codec = (enum stele_codec)i, .producer = i % 3 - 1, .value_bytes_max = 900},
             40);
}

static void delete_records(struct made_log *made, int64_t offset)
{
    made->start = offset;
    must(stele_log_set_start_offset(made->log, offset), "delete records", made->topic);
}

static void retain(struct made_log *made)
{
    int deleted = 0;
    must(stele_log_retain(made->log, &deleted), "retention", made->topic);
    must(deleted > 0 ? STELE_OK : STELE_NOT_FOUND, "retention deleted nothing", made->topic);
}

static void fill_trimmed(struct made_log *made)
{
    fill_rolled(made);
    delete_records(made, made->end * 2 / 3 + 1);
    retain(made);
}

/* Deleted records whose segments have not been deleted yet. Until they are, Kafka looks there for times, of its own
 * logs too, and answers that there is none. */
static void fill_trimming(struct made_log *made)
{
    fill_rolled(made);
    delete_records(made, made->end * 2 / 3 + 1);
    made->is_time_unsure = true;
}

static void fill_emptied(struct made_log *made)
{
    fill(made, (struct made_batch){.value_bytes_max = 300}, 20);
    delete_records(made, made->end);
    must(stele_log_roll(made->log, STELE_REASON_TIME), "roll", made->topic);
    retain(made);
}

static void fill_emptying(struct made_log *made)
{
    fill(made, (struct made_batch){.value_bytes_max = 300}, 20);
    delete_records(made, made->end);
    made->is_time_unsure = true;
}

static void fill_nothing(struct made_log *made)
{
    (void)made;
}

/* Two producers of transactions and a plain one between each other; what the log ends with stays open. */
static void fill_txn(struct made_log *made)
{
    for (int i = 0; i < 120; i++) {
        struct made_batch batch = {.codec = (enum stele_codec)(i % STELE_CODEC_COUNT),
                                   .producer = (int)stele_prng_below(&made->world->prng, 3),
                                   .records = (int)stele_prng_range(&made->world->prng, 1, 4),
                                   .value_bytes_max = 400};
        batch.is_txn = batch.producer > 0;
        made_append(made, &batch);
        int ends = (int)stele_prng_below(&made->world->prng, 3);
        if (ends > 0 && i < 110 && made->producers[ends].txn_first_offset >= 0 && made->producers[ends].id != 0)
            made_end_txn(made, ends, stele_prng_chance(&made->world->prng, 1, 2));
        if (i == 70)
            flush(made);
    }
    if (made->producers[2].txn_first_offset < 0)
        made_append(made, &(struct made_batch){.producer = 2, .is_txn = true, .records = 2, .value_bytes_max = 9});
}

/* A follower that began above 0 and met a new leader. */
static void fill_followed(struct made_log *made)
{
    made->start = made->end = 1000;
    must(stele_log_restart_at(made->log, made->start), "restart", made->topic);
    for (int i = 0; i < 60; i++) {
        struct made_batch batch = {.codec = (enum stele_codec)(i % STELE_CODEC_COUNT),
                                   .producer = -1,
                                   .records = (int)stele_prng_range(&made->world->prng, 1, 12),
                                   .value_bytes_max = 300};
        made->leader_epoch = i / 40;
        if (i < 50)
            made_replicate(made, &batch, 1 + i % 3);
        else
            made_append(made, &batch);
        if (i == 30)
            flush(made);
    }
}

static void small_segments(struct stele_log_config *config)
{
    config->segment_bytes = 65536;
    config->index_interval_bytes = 1024;
}

static void tiny_index(struct stele_log_config *config)
{
    config->segment_index_bytes = 128;
    config->index_interval_bytes = 1024;
}

static void append_time(struct stele_log_config *config)
{
    config->log_append_time = true;
    config->index_interval_bytes = 1024;
}

static void recode(struct stele_log_config *config)
{
    config->compression_producer = false;
    config->compression = STELE_CODEC_LZ4;
}

static void preallocate(struct stele_log_config *config)
{
    small_segments(config);
    config->preallocate = true;
}

static void txn_segments(struct stele_log_config *config)
{
    config->segment_bytes = 16384;
    config->index_interval_bytes = 500;
}

struct kind {
    const char *name;
    void (*configure)(struct stele_log_config *config); /* NULL: the defaults */
    void (*fill)(struct made_log *made);
};

static const struct kind kinds[] = {
    {"none", NULL, fill_none},
    {"gzip", NULL, fill_gzip},
    {"snappy", NULL, fill_snappy},
    {"lz4", NULL, fill_lz4},
    {"zstd", NULL, fill_zstd},
    {"recoded", recode, fill_gzip},
    {"appendtime", append_time, fill_rolled},
    {"rolled", small_segments, fill_rolled},
    {"preallocated", preallocate, fill_rolled},
    {"fullindex", tiny_index, fill_rolled},
    {"trimmed", small_segments, fill_trimmed},
    {"trimming", small_segments, fill_trimming},
    {"emptied", NULL, fill_emptied},
    {"emptying", NULL, fill_emptying},
    {"empty", NULL, fill_nothing},
    {"txn", txn_segments, fill_txn},
    {"followed", txn_segments, fill_followed},
};

/* --- the directory --- */

enum end { END_CLEAN, END_KILLED, END_RECOVERED, END_COUNT };

static const char *const end_names[END_COUNT] = {"clean", "killed", "recovered"};

struct output {
    struct made_world world;
    const char *dir, *prefix;
    FILE *ids; /* NULL: ids of our own */
    enum end end;
    struct stele_checkpoint points, starts, marks;
};

static struct stele_uuid topic_id(struct output *out, const char *topic)
{
    char name[STELE_TOPIC_NAME_MAX + 1], text[64];
    struct stele_uuid id;
    bool is_usable = false;
    while (out->ids == NULL && !is_usable)
        id = stele_uuid_make(stele_prng_u64(&out->world.prng), stele_prng_u64(&out->world.prng), &is_usable);
    if (out->ids != NULL)
        rewind(out->ids);
    while (!is_usable && fscanf(out->ids, "%249s %63s", name, text) == 2) {
        if (strcmp(name, topic) == 0) {
            must(stele_uuid_parse(text, strlen(text), &id), "topic id", text);
            is_usable = true;
        }
    }
    must(is_usable ? STELE_OK : STELE_NOT_FOUND, "topic id", topic);
    return id;
}

/* Half of a batch after the last one: the process died in its write. */
static void tear(const struct made_log *made)
{
    const struct stele_segment *seg = stele_log_segment(made->log, stele_log_segment_count(made->log) - 1);
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    uint8_t bytes[100] = {0};
    struct stele_vfs *vfs = made->world->test.env.vfs;
    struct stele_file *file = NULL;
    struct stele_batch_header header = {.base_offset = made->end, .length = 500, .magic = STELE_BATCH_MAGIC};
    stele_batch_header_write(&header, bytes);
    stele_segment_name(seg->base_offset, ".log", name);
    must(stele_path_join(path, stele_log_dir(made->log), name), "path", name);
    must(vfs->ops->open(vfs, path, STELE_OPEN_WRITE, &file), "open", path);
    must(stele_file_write(file, bytes, sizeof(bytes), seg->bytes), "write", path);
    vfs->ops->close(file);
}

static void open_log(struct made_log *made, const struct stele_log_open *open)
{
    struct stele_recovery_report report;
    struct stele_error error = {.text = ""};
    must(stele_log_open(open, &made->log, &report, &error), "open", error.text);
    stele_log_attach(made->log, made->world->cache);
}

/* The process dies, with the checkpoints as they were, and the next one recovers. */
static void end_log(const struct output *out, struct made_log *made, struct stele_log_open *open, bool is_torn)
{
    open->recovery_point = stele_log_recovery_point(made->log);
    open->log_start_offset = stele_log_start_offset(made->log);
    open->high_watermark = stele_log_high_watermark(made->log);
    if (out->end == END_CLEAN)
        must(stele_log_close(made->log), "close", made->topic);
    else if (is_torn)
        tear(made);
    if (out->end != END_RECOVERED)
        return;
    stele_log_free(made->log);
    open_log(made, open);
    must(stele_log_end_offset(made->log) == made->end ? STELE_OK : STELE_CORRUPT, "recovery", made->topic);
}

static void note_points(struct output *out, const struct made_log *made)
{
    const struct stele_log *log = made->log;
    must(stele_checkpoint_set(&out->points, made->topic, 0, stele_log_recovery_point(log)), "checkpoint", made->topic);
    must(stele_checkpoint_set(&out->marks, made->topic, 0, stele_log_high_watermark(log)), "checkpoint", made->topic);
    if (stele_log_start_offset(log) > stele_log_segment(log, 0)->base_offset)
        must(stele_checkpoint_set(&out->starts, made->topic, 0, stele_log_start_offset(log)), "checkpoint",
             made->topic);
}

static void write_log(struct output *out, const struct kind *kind, bool is_torn)
{
    struct stele_test_env *test = &out->world.test;
    char topic[STELE_TOPIC_NAME_MAX + 1], name[STELE_TOPIC_NAME_MAX + 8], dir[STELE_PATH_BYTES];
    (void)snprintf(topic, sizeof(topic), "%s.%s", out->prefix, kind->name);
    (void)snprintf(name, sizeof(name), "%s-0", topic);
    struct made_log made = {.world = &out->world, .topic = topic};
    stele_log_config_default(&made.config);
    if (kind->configure != NULL)
        kind->configure(&made.config);
    must(stele_path_join(dir, out->dir, name), "path", name);
    must(test->env.vfs->ops->mkdir(test->env.vfs, dir), "mkdir", dir);
    struct stele_uuid id = topic_id(out, topic);
    must(stele_partition_metadata_write(test->env.vfs, dir, &id, false), "partition.metadata", dir);
    struct stele_log_open open = {
        .env = &test->env, .dir = dir, .name = name, .config = made.config, .high_watermark = -1};
    open_log(&made, &open);
    kind->fill(&made);
    must(stele_log_end_offset(made.log) == made.end ? STELE_OK : STELE_CORRUPT, "end offset", name);
    end_log(out, &made, &open, is_torn);
    note_points(out, &made);
    made_print(&made, stdout);
    stele_log_free(made.log);
    made_free(&made);
}

static void write_all(struct output *out)
{
    struct stele_test_env *test = &out->world.test;
    struct stele_vfs *vfs = stele_vfs_posix_new(test->env.mem);
    must(vfs == NULL ? STELE_NO_MEMORY : STELE_OK, "vfs", "");
    test->env.vfs = vfs;
    out->world.cache = stele_file_cache_new(&test->env, 64, 1 << 20);
    must(out->world.cache == NULL ? STELE_NO_MEMORY : STELE_OK, "file cache", "");
    stele_checkpoint_init(&out->points, test->env.mem);
    stele_checkpoint_init(&out->starts, test->env.mem);
    stele_checkpoint_init(&out->marks, test->env.mem);
    for (size_t i = 0; i < STELE_ARRAY_LEN(kinds); i++)
        write_log(out, &kinds[i], i % 2 == 0);
    must(stele_checkpoint_write(&out->points, vfs, out->dir, STELE_RECOVERY_POINT_FILE), "checkpoint", "");
    must(stele_checkpoint_write(&out->starts, vfs, out->dir, STELE_LOG_START_FILE), "checkpoint", "");
    must(stele_checkpoint_write(&out->marks, vfs, out->dir, STELE_HIGH_WATERMARK_FILE), "checkpoint", "");
    if (out->end == END_CLEAN)
        must(stele_clean_shutdown_write(vfs, out->dir, -1), "marker", out->dir);
    stele_checkpoint_deinit(&out->points);
    stele_checkpoint_deinit(&out->starts);
    stele_checkpoint_deinit(&out->marks);
    stele_file_cache_free(out->world.cache);
    stele_vfs_posix_free(vfs);
    must(stele_mem_is_empty(test->env.mem) ? STELE_OK : STELE_CORRUPT, "memory is still held", "");
}

int main(int argc, char **argv)
{
    struct output out = {.dir = argc > 2 ? argv[2] : NULL, .prefix = argc > 3 ? argv[3] : NULL};
    if (argc == 3 && strcmp(argv[1], "topics") == 0) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(kinds); i++)
            (void)printf("%s.%s\n", argv[2], kinds[i].name);
        return 0;
    }
    while (argc > 1 && out.end < END_COUNT && strcmp(argv[1], end_names[out.end]) != 0)
        out.end++;
    if (argc < 4 || argc > 5 || out.end == END_COUNT) {
        (void)fputs("usage: write_logs topics PREFIX | clean|killed|recovered DIR PREFIX [IDS]\n", stderr);
        return 2;
    }
    out.ids = argc == 5 ? fopen(argv[4], "r") : NULL;
    must(argc == 5 && out.ids == NULL ? STELE_NOT_FOUND : STELE_OK, "open", argc == 5 ? argv[4] : "");
    stele_test_env_init(&out.world.test, NULL);
    out.world.test.wall_ms = (int64_t)time(NULL) * 1000;
    out.world.first_ms = out.world.test.wall_ms - 6 * 3600 * 1000;
    stele_prng_init(&out.world.prng, 3, (uint64_t)out.end);
    write_all(&out);
    if (out.ids != NULL)
        (void)fclose(out.ids);
    return 0;
}
