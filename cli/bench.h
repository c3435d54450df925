/* What the three benchmarks share: their line, what they measure, how it is shown. */
#ifndef STELE_CLI_BENCH_H
#define STELE_CLI_BENCH_H

#include "cli/latency.h"
#include "cli/options.h"
#include "cli/progress.h"

enum { STELE_BENCH_STAMP_BYTES = 16 };

/** The line of `bench ...`. */
struct stele_bench {
    struct stele_cli_words words;
    int64_t records, seconds, size_bytes, rate, partitions, partition, batch_bytes, linger_ms, fetch_bytes;
    const char *acks, *codec;
    struct stele_cli_list settings;
    struct stele_cli_place from;

    const struct stele_cli *cli;
    const char *topic;
    uint64_t run_id; /* not 0: values begin with a stamp */
};

struct stele_bench_result {
    int64_t records, bytes, failed;
    int64_t wall_us, cpu_us;
    struct stele_latency latency;
};

/** Signals and the system's timers, before all else. */
void stele_bench_start(void);
/** True from the first SIGINT or SIGTERM on. */
bool stele_bench_is_stopped(void);
/** Waits until then, at most 50 us. The client waits in whole milliseconds, which is too coarse for a rate; to ask it
 * without a pause would take the core from the node. */
void stele_bench_pause(int64_t until_us);
/** CPU time of this process, all of it so far. */
int64_t stele_bench_cpu_us(void);
/** A client with the line's settings; NULL with *out_status set. Makes the topic when --partitions asks for it. */
struct stele_client *stele_bench_client(const struct stele_bench *bench, int *out_status);

/** Sends until the line's end is reached; each value begins with a stamp (see below) when `run_id` is not 0. Returns
 * the exit code; what failed is said. */
int stele_bench_produce(const struct stele_bench *bench, struct stele_client *client,
                        struct stele_bench_result *out_result);

/* The stamp: run id, then the intended time of sending by the monotonic clock, little end first. */
void stele_bench_stamp_write(uint8_t *to, uint64_t run_id, int64_t intended_us);
/** False: not of this run. */
bool stele_bench_stamp_read(const void *value, size_t bytes, uint64_t run_id, int64_t *out_intended_us);

/** Says on the terminal how far it is. */
void stele_bench_show_progress(struct stele_progress *progress, const struct stele_bench_result *result,
                               int64_t since_us);
/** Prints the result; *inout_status becomes FAILED when it cannot be. `latency_of` says what the times are. */
void stele_bench_print(const struct stele_bench *bench, const struct stele_bench_result *result, const char *latency_of,
                       int *inout_status);

/* Rows of their options. */
#define STELE_BENCH_LOAD_OPTIONS                                                                                       \
    {.name = "--records",                                                                                              \
     .alias = "-n",                                                                                                    \
     .value = "COUNT",                                                                                                 \
     .kind = STELE_CLI_NUMBER,                                                                                         \
     .at = offsetof(struct stele_bench, records),                                                                      \
     .min = 1,                                                                                                         \
     .max = INT64_MAX,                                                                                                 \
     .help = "stop after so many records"},                                                                            \
        {.name = "--seconds",                                                                                          \
         .alias = "-s",                                                                                                \
         .value = "SECONDS",                                                                                           \
         .kind = STELE_CLI_NUMBER,                                                                                     \
         .at = offsetof(struct stele_bench, seconds),                                                                  \
         .min = 1,                                                                                                     \
         .max = 1000000,                                                                                               \
         .help = "stop after so long (10, unless --records is given)"},                                                \
        {.name = "--rate",                                                                                             \
         .alias = "-r",                                                                                                \
         .value = "RECORDS",                                                                                           \
         .kind = STELE_CLI_NUMBER,                                                                                     \
         .at = offsetof(struct stele_bench, rate),                                                                     \
         .min = 1,                                                                                                     \
         .max = 100000000,                                                                                             \
         .help = "records a second (as many as go)"},                                                                  \
    {                                                                                                                  \
        .name = "--size", .value = "BYTES", .kind = STELE_CLI_NUMBER, .at = offsetof(struct stele_bench, size_bytes),  \
        .min = 16, .max = 1048576, .help = "bytes of each value (1024)"                                                \
    }

#define STELE_BENCH_PRODUCER_OPTIONS                                                                                   \
    {.name = "--partition",                                                                                            \
     .alias = "-p",                                                                                                    \
     .value = "PARTITION",                                                                                             \
     .kind = STELE_CLI_NUMBER,                                                                                         \
     .at = offsetof(struct stele_bench, partition),                                                                    \
     .max = INT32_MAX,                                                                                                 \
     .help = "all to this partition (spread over all)"},                                                               \
        {.name = "--batch",                                                                                            \
         .value = "BYTES",                                                                                             \
         .kind = STELE_CLI_NUMBER,                                                                                     \
         .at = offsetof(struct stele_bench, batch_bytes),                                                              \
         .min = 0,                                                                                                     \
         .max = INT32_MAX,                                                                                             \
         .help = "batch.size of the producer (16384)"},                                                                \
        {.name = "--linger",                                                                                           \
         .value = "MS",                                                                                                \
         .kind = STELE_CLI_NUMBER,                                                                                     \
         .at = offsetof(struct stele_bench, linger_ms),                                                                \
         .min = 0,                                                                                                     \
         .max = 600000,                                                                                                \
         .help = "linger.ms of the producer (5)"},                                                                     \
        {.name = "--acks",                                                                                             \
         .value = "0|1|all",                                                                                           \
         .kind = STELE_CLI_CHOICE,                                                                                     \
         .at = offsetof(struct stele_bench, acks),                                                                     \
         .help = "acks of the producer (all)"},                                                                        \
    {                                                                                                                  \
        .name = "--compression", .alias = "-z", .value = "none|gzip|snappy|lz4|zstd", .kind = STELE_CLI_CHOICE,        \
        .at = offsetof(struct stele_bench, codec), .help = "how batches are packed (none)"                             \
    }

#define STELE_BENCH_COMMON_OPTIONS                                                                                     \
    {.name = "--partitions",                                                                                           \
     .value = "PARTITIONS",                                                                                            \
     .kind = STELE_CLI_NUMBER,                                                                                         \
     .at = offsetof(struct stele_bench, partitions),                                                                   \
     .min = 1,                                                                                                         \
     .max = 100000,                                                                                                    \
     .help = "make the topic with so many when it is not there"},                                                      \
    {                                                                                                                  \
        .name = "--set", .value = "NAME=VALUE", .kind = STELE_CLI_LIST, .at = offsetof(struct stele_bench, settings),  \
        .help = "another setting of the client, as in client/stele.h"                                                  \
    }

#define STELE_BENCH_LATENCY_HELP                                                                                       \
    "With --rate a record has an intended time, and its latency counts from there, however long it was held up on "    \
    "its "                                                                                                             \
    "way: a node that stalls for a second shows in all records of that second. Without it, from the first attempt to " \
    "send it. Ctrl-C ends early and prints what was measured."

#endif
