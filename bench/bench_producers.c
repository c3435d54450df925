/* Requests of a single record from several producers at once, each with a connection and a thread of its own: acks=all,
 * batch.size=1, a hundred records of 100 bytes waiting at most, as many of them under way as the client allows. Prints
 * how many were acknowledged a second; the first second does not count. bench/ManyProducers.java does the same of
 * Kafka.
 *
 *   bench_producers SERVERS TOPIC PRODUCERS SECONDS */
#include "bench/bench_util.h"

#include "client/stele.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCERS_MAX = 64, WAITING_MAX = 100 };

struct load {
    const char *servers, *topic;
    double from_s, until_s; /* what is acknowledged in between counts */
    long long acknowledged;
    pthread_t thread;
};

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct load *load = arg;
    double now_s = bench_now_s();
    bench_require(delivery->result.code == 0, delivery->result.text);
    if (now_s >= load->from_s && now_s < load->until_s)
        load->acknowledged++;
}

static void *produce(void *arg)
{
    static const struct stele_setting settings[] = {
        {"acks", "all"}, {"linger.ms", "0"}, {"batch.size", "1"}, {NULL, NULL}};
    static const char value[] =
        "a record of one hundred bytes, which is as long as that of the other client that it is "
        "compared with..";
    struct load *load = arg;
    struct stele_result result;
    struct stele_client *client = stele_client_new(load->servers, NULL, &result);
    bench_require(client != NULL, result.text);
    struct stele_producer *producer = stele_producer_new(client, load->topic, settings, delivered, load, &result);
    bench_require(producer != NULL, result.text);
    while (bench_now_s() < load->until_s) {
        struct stele_message message = {.partition = -1, .timestamp = -1, .value = value, .value_bytes = 100};
        result = stele_producer_send(producer, &message, 0);
        bench_require(result.code == 0, result.text);
        while (stele_producer_pending(producer) >= WAITING_MAX)
            (void)stele_client_poll(client, 100);
    }
    while (stele_producer_pending(producer) > 0)
        (void)stele_client_poll(client, 100);
    stele_producer_free(producer);
    stele_client_free(client);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct load loads[PRODUCERS_MAX];
    long long acknowledged = 0;
    if (argc == 2 && strcmp(argv[1], "--quick") == 0)
        return 0; /* it needs a cluster */
    int count = argc == 5 ? atoi(argv[3]) : 0, seconds = argc == 5 ? atoi(argv[4]) : 0;
    bench_require(count > 0 && count <= PRODUCERS_MAX && seconds > 0,
                  "bench_producers SERVERS TOPIC PRODUCERS SECONDS");
    double from_s = bench_now_s() + 1;
    for (int i = 0; i < count; i++) {
        loads[i] = (struct load){.servers = argv[1], .topic = argv[2], .from_s = from_s, .until_s = from_s + seconds};
        bench_require(pthread_create(&loads[i].thread, NULL, produce, &loads[i]) == 0, "a thread");
    }
    for (int i = 0; i < count; i++) {
        bench_require(pthread_join(loads[i].thread, NULL) == 0, "a thread");
        acknowledged += loads[i].acknowledged;
    }
    printf("%.0f\n", (double)acknowledged / seconds);
    return 0;
}
