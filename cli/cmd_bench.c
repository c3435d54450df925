/* bench produce, and the sending half of bench end-to-end.
 *
 * Latency counts from when a record was INTENDED to go out: by the rate, whatever held the loop up; without a rate,
 * from when there was first an attempt to send it. A stall then shows in every record that should have gone out during
 * it. */
#include "cli/bench.h"

#include "base/prng.h"
#include "host/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_BYTES = 1 << 20, POLL_EVERY = 64, SIZE_MAX_BYTES = 1 << 20, NUMBER_BYTES = 24 };

struct sending {
    const struct stele_bench *bench;
    struct stele_client *client;
    struct stele_producer *producer;
    struct stele_bench_result *result;
    struct stele_progress progress;
    uint8_t *pool; /* of which values are parts */
    int64_t start_us, last_us;
    int64_t sent;
    bool has_failed;
};

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct sending *sending = arg;
    struct stele_bench_result *result = sending->result;
    if (delivery->result.code != 0) {
        stele_progress_wipe(&sending->progress);
        if (result->failed++ == 0)
            (void)stele_cli_fail(sending->bench->cli, STELE_CLI_FAILED, "%s", delivery->result.text);
        return;
    }
    sending->last_us = stele_clock_mono_us();
    result->records++;
    result->bytes += sending->bench->size_bytes;
    stele_latency_add(&result->latency, sending->last_us - sending->start_us - (int64_t)delivery->tag);
}

/* Text of 64 letters: batches are packed by about a quarter. */
static void fill_pool(struct sending *sending)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
    struct stele_prng prng;
    stele_prng_init(&prng, 7, 0);
    for (size_t i = 0; i < POOL_BYTES + SIZE_MAX_BYTES; i++)
        sending->pool[i] = (uint8_t)letters[stele_prng_u64(&prng) % 64];
}

static bool is_over(const struct sending *sending, int64_t now_us)
{
    const struct stele_bench *bench = sending->bench;
    if (stele_bench_is_stopped() || sending->has_failed || sending->result->failed > 0)
        return true;
    if (bench->records > 0 && sending->sent >= bench->records)
        return true;
    return bench->seconds > 0 && now_us - sending->start_us >= bench->seconds * 1000000;
}

/* The next record. False: there is no room for it; it is tried again. */
static bool send_one(struct sending *sending, int64_t intended_us)
{
    const struct stele_bench *bench = sending->bench;
    size_t bytes = (size_t)bench->size_bytes;
    uint8_t *value = sending->pool + (size_t)sending->sent * 4093 % POOL_BYTES;
    if (sending->bench->run_id != 0)
        stele_bench_stamp_write(value, sending->bench->run_id, intended_us);
    struct stele_message message = {
        .partition = (int32_t)bench->partition, .timestamp = -1, .value = value, .value_bytes = bytes};
    struct stele_result result =
        stele_producer_send(sending->producer, &message, (uint64_t)(intended_us - sending->start_us));
    if (result.code == 0) {
        sending->sent++;
        return true;
    }
    if (!result.is_retriable) {
        (void)stele_cli_report(bench->cli, &result);
        sending->has_failed = true;
    }
    return false;
}

static void poll_client(struct sending *sending, int wait_ms)
{
    (void)stele_client_poll(sending->client, wait_ms);
    stele_bench_show_progress(&sending->progress, sending->result, sending->start_us);
}

static void send_all(struct sending *sending)
{
    int64_t rate = sending->bench->rate, intended_us = -1, now_us = sending->start_us;
    for (; !is_over(sending, now_us); now_us = stele_clock_mono_us()) {
        if (rate > 0)
            intended_us = sending->start_us + (int64_t)((double)sending->sent * 1e6 / (double)rate);
        else
            intended_us = intended_us < 0 ? now_us : intended_us;
        if (intended_us > now_us) {
            poll_client(sending, (int)((intended_us - now_us) / 1000));
            stele_bench_pause(intended_us);
            continue;
        }
        int64_t before = sending->sent;
        if (!send_one(sending, intended_us))
            poll_client(sending, 1);
        else if (sending->sent % POLL_EVERY == 0)
            poll_client(sending, 0);
        intended_us = sending->sent > before ? -1 : intended_us;
    }
}

static struct stele_producer *new_producer(struct sending *sending, struct stele_result *out_result)
{
    const struct stele_bench *bench = sending->bench;
    char batch[NUMBER_BYTES], linger[NUMBER_BYTES];
    struct stele_setting settings[5] = {{.name = NULL}};
    int count = 0;
    (void)snprintf(batch, sizeof(batch), "%lld", (long long)bench->batch_bytes);
    (void)snprintf(linger, sizeof(linger), "%lld", (long long)bench->linger_ms);
    if (bench->acks != NULL)
        settings[count++] = (struct stele_setting){"acks", bench->acks};
    if (bench->codec != NULL)
        settings[count++] = (struct stele_setting){"compression.type", bench->codec};
    if (bench->batch_bytes >= 0)
        settings[count++] = (struct stele_setting){"batch.size", batch};
    if (bench->linger_ms >= 0)
        settings[count++] = (struct stele_setting){"linger.ms", linger};
    return stele_producer_new(sending->client, bench->topic, settings, delivered, sending, out_result);
}

int stele_bench_produce(const struct stele_bench *bench, struct stele_client *client,
                        struct stele_bench_result *out_result)
{
    struct sending sending = {.bench = bench, .client = client, .result = out_result};
    struct stele_result result = {.code = 0};
    sending.pool = malloc(POOL_BYTES + SIZE_MAX_BYTES);
    if (sending.pool == NULL)
        return stele_cli_fail(bench->cli, STELE_CLI_FAILED, "out of memory");
    fill_pool(&sending);
    sending.producer = new_producer(&sending, &result);
    if (sending.producer == NULL) {
        free(sending.pool);
        return stele_cli_report(bench->cli, &result);
    }
    int64_t cpu_us = stele_bench_cpu_us();
    stele_progress_init(&sending.progress);
    sending.start_us = sending.last_us = stele_clock_mono_us();
    send_all(&sending);
    while (stele_producer_pending(sending.producer) > 0) {
        (void)stele_producer_flush(sending.producer, 0); /* nothing lingers any more */
        poll_client(&sending, 100);
    }
    out_result->wall_us = sending.last_us - sending.start_us;
    out_result->cpu_us = stele_bench_cpu_us() - cpu_us;
    stele_progress_end(&sending.progress);
    stele_producer_free(sending.producer);
    free(sending.pool);
    return sending.has_failed || out_result->failed > 0 ? STELE_CLI_FAILED : STELE_CLI_DONE;
}

static int run(const struct stele_cli *cli, void *line)
{
    struct stele_bench *bench = line;
    struct stele_bench_result *result = calloc(1, sizeof(*result));
    int status = STELE_CLI_FAILED;
    bench->cli = cli;
    bench->topic = bench->words.items[0];
    if (bench->records == 0 && bench->seconds == 0)
        bench->seconds = 10;
    stele_bench_start();
    struct stele_client *client = result == NULL ? NULL : stele_bench_client(bench, &status);
    if (client != NULL) {
        status = stele_bench_produce(bench, client, result);
        if (result->records > 0 || status == STELE_CLI_DONE)
            stele_bench_print(bench, result, "from the intended time of sending to the acknowledgement", &status);
    }
    stele_client_free(client);
    free(result);
    return status;
}

static const struct stele_bench initial = {.size_bytes = 1024, .partition = -1, .batch_bytes = -1, .linger_ms = -1};

static const struct stele_cli_option options[] = {
    STELE_BENCH_LOAD_OPTIONS,
    STELE_BENCH_PRODUCER_OPTIONS,
    STELE_BENCH_COMMON_OPTIONS,
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_bench_produce = {
    .name = "bench produce",
    .arguments = "TOPIC",
    .words_min = 1,
    .words_max = 1,
    .summary = "measure how fast records go in, and how long they take to be acknowledged",
    .details = STELE_BENCH_LATENCY_HELP "\n\nA MB has 1,000,000 bytes; values are counted, not what is around them.",
    .options = options,
    .line_bytes = sizeof(struct stele_bench),
    .initial = &initial,
    .run = run,
};
