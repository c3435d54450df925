/* Sends every line of standard input as a record.
 *
 *   cc produce.c $(pkg-config --cflags --libs stele) -o produce
 *   seq 1000 | ./produce 127.0.0.1:7835 numbers
 *
 * Each record's fate comes by a callback, called from inside the calls that poll. The producer is idempotent: a record
 * is in the log once, whatever happens to connections and nodes on the way. */
#include <stele.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
    long acknowledged, failed;
};

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct counts *counts = arg;
    if (delivery->result.code == 0) {
        counts->acknowledged++;
        return;
    }
    counts->failed++;
    fprintf(stderr, "line %llu: %s\n", (unsigned long long)delivery->tag, delivery->result.text);
}

/* Waits while the buffer is full; false when the record itself is refused. */
static int send_line(struct stele_client *client, struct stele_producer *producer, const char *line, size_t bytes,
                     unsigned long long number)
{
    struct stele_message message = {.partition = -1, .timestamp = -1, .value = line, .value_bytes = bytes};
    for (;;) {
        struct stele_result result = stele_producer_send(producer, &message, number);
        if (result.code == 0)
            return 1;
        if (!result.is_retriable) {
            fprintf(stderr, "line %llu: %s\n", number, result.text);
            return 0;
        }
        stele_client_poll(client, 100);
    }
}

static int run(struct stele_client *client, const char *topic)
{
    const struct stele_setting settings[] = {{"compression.type", "zstd"}, {"linger.ms", "20"}, {NULL, NULL}};
    struct counts counts = {0, 0};
    struct stele_result result;
    struct stele_producer *producer = stele_producer_new(client, topic, settings, delivered, &counts, &result);
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    unsigned long long number = 0;
    if (producer == NULL) {
        fprintf(stderr, "%s\n", result.text);
        return 1;
    }
    while ((bytes = getline(&line, &room, stdin)) > 0) {
        if (line[bytes - 1] == '\n')
            bytes--;
        if (!send_line(client, producer, line, (size_t)bytes, ++number))
            break;
        stele_client_poll(client, 0); /* lets what is ready go out, without waiting */
    }
    free(line);
    result = stele_producer_flush(producer, -1); /* waits until every record is told of */
    stele_producer_free(producer);
    printf("%ld acknowledged, %ld failed\n", counts.acknowledged, counts.failed);
    return result.code != 0 || counts.failed != 0;
}

int main(int argc, char **argv)
{
    struct stele_result result;
    if (argc != 3) {
        fprintf(stderr, "usage: produce HOST:PORT TOPIC <lines\n");
        return 2;
    }
    struct stele_client *client = stele_client_new(argv[1], NULL, &result);
    if (client == NULL) {
        fprintf(stderr, "%s\n", result.text);
        return 1;
    }
    int status = run(client, argv[2]);
    stele_client_free(client);
    return status;
}
