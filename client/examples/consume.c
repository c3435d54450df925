/* Prints the records of every partition of a topic, from a point in time (milliseconds since 1970) or the beginning on,
 * until none comes for a second.
 *
 *   cc consume.c $(pkg-config --cflags --libs stele) -o consume
 *   ./consume 127.0.0.1:7835 numbers */
#include <stele.h>

#include <stdio.h>
#include <stdlib.h>

/* Retention may delete records before they are read: the consumer goes on at the earliest that is left, and says so. */
static void on_reset(void *arg, const struct stele_reset *reset)
{
    (void)arg;
    fprintf(stderr, "%s: %lld offsets skipped, %lld read again\n", reset->text, (long long)reset->skipped,
            (long long)reset->repeated);
}

static int print_all(struct stele_consumer *consumer)
{
    enum { NONE_CAME = 7 };
    for (;;) {
        struct stele_record_view record;
        struct stele_result result = stele_consumer_next(consumer, 1000, &record);
        if (result.code == NONE_CAME)
            return 0;
        if (result.code != 0) {
            fprintf(stderr, "%s\n", result.text);
            return 1;
        }
        printf("%d %lld ", record.partition, (long long)record.offset);
        fwrite(record.value, 1, record.value_bytes, stdout);
        putchar('\n');
    }
}

static int run(struct stele_client *client, const char *topic, int64_t from)
{
    const struct stele_setting settings[] = {{"auto.offset.reset", "earliest"}, {NULL, NULL}};
    struct stele_result result;
    struct stele_consumer *consumer = stele_consumer_new(client, topic, settings, &result);
    int status = consumer == NULL;
    for (int32_t i = 0; status == 0 && i < stele_consumer_partitions(consumer); i++) {
        result = stele_consumer_assign_at(consumer, i, from);
        status = result.code != 0;
    }
    if (status != 0) {
        fprintf(stderr, "%s\n", result.text);
    } else {
        stele_consumer_on_reset(consumer, on_reset, NULL);
        status = print_all(consumer);
    }
    stele_consumer_free(consumer);
    return status;
}

int main(int argc, char **argv)
{
    struct stele_result result;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: consume HOST:PORT TOPIC [TIME_MS]\n");
        return 2;
    }
    struct stele_client *client = stele_client_new(argv[1], NULL, &result);
    if (client == NULL) {
        fprintf(stderr, "%s\n", result.text);
        return 1;
    }
    int status = run(client, argv[2], argc == 4 ? strtoll(argv[3], NULL, 10) : STELE_OFFSET_EARLIEST);
    stele_client_free(client);
    return status;
}
