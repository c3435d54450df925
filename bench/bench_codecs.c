/* The codecs on real records: what a topic takes on disk and what packing (in the producer) and unpacking with
 * validation (in the node) cost. Records are the lines of --input FILE, up to a tab the key, in batches of up to 64 KiB
 * and 1 MB before compression. */
#include "bench/bench_util.h"

#include "storage/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES_MAX = 20000, QUICK_BYTES = 300000 };

struct text {
    uint8_t *bytes;
    size_t count;
};

static struct text read_input(struct bench_world *world)
{
    struct text text;
    if (world->input != NULL) {
        bench_check(stele_vfs_read_whole(world->vfs, &world->mem, STELE_MEM_TOOL, world->input, SIZE_MAX / 2,
                                         &text.bytes, &text.count),
                    world->input);
        return text;
    }
    /* Without a file: text of our own, one line. */
    struct stele_buf *batch = bench_batch(world, QUICK_BYTES, 1000, 1);
    text.bytes = stele_mem_raw(&world->mem, STELE_MEM_TOOL, batch->count);
    text.count = batch->count;
    bench_require(text.bytes != NULL, "text");
    memcpy(text.bytes, batch->bytes, batch->count);
    stele_buf_unref(batch);
    return text;
}

static bool next_line(const struct text *text, size_t *inout_at, struct stele_record_in *out)
{
    const uint8_t *at = text->bytes + *inout_at;
    size_t left = text->count - *inout_at;
    if (left == 0)
        return false;
    const uint8_t *end = memchr(at, '\n', left);
    size_t bytes = end == NULL ? left : (size_t)(end - at);
    const uint8_t *tab = memchr(at, '\t', bytes);
    *out = (struct stele_record_in){.timestamp = 1700000000000, .value = at, .value_bytes = (int32_t)bytes};
    if (tab != NULL) {
        out->key = at;
        out->key_bytes = (int32_t)(tab - at);
        out->value = tab + 1;
        out->value_bytes = (int32_t)(bytes - (size_t)(tab - at) - 1);
    }
    *inout_at += bytes + (end != NULL);
    return true;
}

struct codec_case {
    struct stele_buf *batches[BATCHES_MAX];
    int count;
};

/* The whole text as batches; CPU seconds. */
static double pack(struct bench_world *world, const struct text *text, const struct stele_batch_options *options,
                   size_t batch_bytes, struct codec_case *c)
{
    struct stele_batch_builder *builder = stele_batch_builder_new(&world->mem, options);
    struct stele_record_in record;
    size_t at = 0;
    bench_require(builder != NULL, "a builder");
    c->count = 0;
    double from = bench_cpu_s();
    bool is_more = next_line(text, &at, &record);
    while (is_more) {
        bench_check(stele_batch_builder_add(builder, &record), "a record");
        is_more = next_line(text, &at, &record);
        if (is_more && stele_batch_builder_bytes(builder) + stele_record_bytes_max(&record) <= batch_bytes)
            continue;
        bench_require(c->count < BATCHES_MAX, "batches");
        bench_check(stele_batch_builder_finish(builder, &c->batches[c->count++]), "a batch");
    }
    double seconds = bench_cpu_s() - from;
    stele_batch_builder_free(builder);
    return seconds;
}

static double validate(struct bench_world *world, struct codec_case *c)
{
    struct stele_log_config config;
    stele_log_config_default(&config);
    config.max_message_bytes = INT32_MAX;
    double from = bench_cpu_s();
    for (int i = 0; i < c->count; i++) {
        struct stele_validated validated;
        bench_check(stele_validate(&world->mem, &config, c->batches[i]->bytes, c->batches[i]->count,
                                   stele_env_wall_ms(world->env), &validated, NULL),
                    "validation");
        bench_require(validated.rebuilt == NULL, "a batch is taken as it is");
    }
    return bench_cpu_s() - from;
}

static void run_codec(struct bench_world *world, const struct text *text, enum stele_codec codec, size_t batch_bytes)
{
    double packed_s[BENCH_ROUNDS_MAX], validated_s[BENCH_ROUNDS_MAX], bytes = 0;
    struct codec_case *c = calloc(1, sizeof(*c));
    struct stele_batch_options options = {.codec = codec,
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    int rounds = (int)stele_min_i64(world->rounds, 3);
    bench_require(c != NULL, "a case");
    for (int i = 0; i < rounds; i++) {
        packed_s[i] = pack(world, text, &options, batch_bytes, c);
        validated_s[i] = validate(world, c);
        bytes = 0;
        for (int k = 0; k < c->count; k++) {
            bytes += (double)c->batches[k]->count;
            stele_buf_unref(c->batches[k]);
        }
    }
    double input = (double)text->count, packed = bench_median(packed_s, rounds),
           validated = bench_median(validated_s, rounds);
    printf("%-8s %9zu %10.1f %7.1f%% %10.0f %10.0f\n", stele_codec_name(codec), batch_bytes, bytes / 1e6,
           100 * bytes / input, input / 1e6 / packed, input / 1e6 / validated);
    fflush(stdout);
    free(c);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {65536, 1000000};
    struct bench_world world;
    bench_open(&world, argc, argv);
    struct text text = read_input(&world);
    printf("\ncodecs on %.1f MB; MB of input a second of CPU\n%-8s %9s %10s %8s %10s %10s\n", (double)text.count / 1e6,
           "codec", "batch", "MB", "size", "pack", "validate");
    for (size_t i = 0; i < STELE_ARRAY_LEN(sizes); i++) {
        for (int codec = STELE_CODEC_NONE; codec < STELE_CODEC_COUNT; codec++)
            run_codec(&world, &text, (enum stele_codec)codec, sizes[i]);
    }
    stele_mem_free(&world.mem, text.bytes);
    bench_close(&world);
    return 0;
}
