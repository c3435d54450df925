/* How long writing stops when a node of a cluster dies: one record after the other to partition 0 of a topic, acks=all,
 * each sent when the one before is acknowledged. Prints one line for every gap between two acknowledgements that is
 * longer than a threshold, when it has ended: its milliseconds. Runs until it is told to end (SIGTERM), then prints how
 * many were acknowledged.
 *
 *   bench_gap SERVERS TOPIC THRESHOLD_MS */
#include "bench/bench_util.h"

#include "client/stele.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t is_ended;

static void end(int signal)
{
    (void)signal;
    is_ended = 1;
}

struct gaps {
    double threshold_s, last_s;
    long long acknowledged;
};

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct gaps *gaps = arg;
    double now_s = bench_now_s();
    bench_require(delivery->result.code == 0, delivery->result.text);
    if (gaps->acknowledged++ > 0 && now_s - gaps->last_s > gaps->threshold_s)
        printf("%.1f\n", (now_s - gaps->last_s) * 1000);
    (void)fflush(stdout);
    gaps->last_s = now_s;
}

int main(int argc, char **argv)
{
    static const struct stele_setting settings[] = {{"acks", "all"}, {"linger.ms", "0"}, {NULL, NULL}};
    static const char value[] =
        "a record of one hundred bytes, which is as long as that of the other client that it is "
        "compared with.";
    struct stele_result result;
    struct gaps gaps = {.threshold_s = 0.02};
    if (argc == 2 && strcmp(argv[1], "--quick") == 0)
        return 0; /* it needs a cluster */
    bench_require(argc == 4, "bench_gap SERVERS TOPIC THRESHOLD_MS");
    gaps.threshold_s = strtod(argv[3], NULL) / 1000;
    (void)signal(SIGTERM, end);
    struct stele_client *client = stele_client_new(argv[1], NULL, &result);
    bench_require(client != NULL, result.text);
    struct stele_producer *producer = stele_producer_new(client, argv[2], settings, delivered, &gaps, &result);
    bench_require(producer != NULL, result.text);
    while (!is_ended) {
        struct stele_message message = {
            .partition = 0, .timestamp = -1, .value = value, .value_bytes = sizeof(value) - 1};
        result = stele_producer_send(producer, &message, 0);
        bench_require(result.code == 0, result.text);
        while (stele_producer_pending(producer) > 0 && !is_ended)
            (void)stele_client_poll(client, 100);
    }
    printf("acknowledged %lld\n", gaps.acknowledged);
    stele_producer_free(producer);
    stele_client_free(client);
    return 0;
}
