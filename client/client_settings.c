/* The settings of clients, producers and consumers: Kafka 4's names and defaults. */
#include "client/client_internal.h"

static const struct stele_setting_row rows[] = {
#define INT_ROW(name_, default_, min_, max_, unit_, doc_)                                                              \
    {                                                                                                                  \
        .name = (name_), .type = STELE_SETTING_INT, .default_text = (default_), .min = (min_), .max = (max_),          \
        .unit = STELE_UNIT_##unit_, .doc = (doc_)                                                                      \
    }
#define BOOL_ROW(name_, default_, doc_)                                                                                \
    {                                                                                                                  \
        .name = (name_), .type = STELE_SETTING_BOOL, .default_text = (default_), .doc = (doc_)                         \
    }
#define ENUM_ROW(name_, default_, choices_, doc_)                                                                      \
    {                                                                                                                  \
        .name = (name_), .type = STELE_SETTING_ENUM, .default_text = (default_), .choices = (choices_), .doc = (doc_)  \
    }
#define STRING_ROW(name_, default_, doc_)                                                                              \
    {                                                                                                                  \
        .name = (name_), .type = STELE_SETTING_STRING, .default_text = (default_), .doc = (doc_)                       \
    }
    STRING_ROW("client.id", "stele", "Name told to the node."),
    INT_ROW("request.timeout.ms", "30000", 1, INT32_MAX, MS, "Time for an answer."),
    INT_ROW("socket.connection.setup.timeout.ms", "10000", 1, INT32_MAX, MS, "Time for a connection to come up."),
    INT_ROW("reconnect.backoff.ms", "50", 0, INT32_MAX, MS, "Pause before the first new connection."),
    INT_ROW("reconnect.backoff.max.ms", "1000", 0, INT32_MAX, MS, "To which it doubles with every failure."),
    INT_ROW("retry.backoff.ms", "100", 0, INT32_MAX, MS, "Pause before the first repetition of a request."),
    INT_ROW("retry.backoff.max.ms", "1000", 0, INT32_MAX, MS, "To which it doubles with every failure."),
    INT_ROW("metadata.max.age.ms", "300000", 1, INT32_MAX, MS, "Time after which a topic is asked for again."),
    BOOL_ROW("allow.auto.create.topics", "false", "Producers and consumers make a topic that is missing."),
    INT_ROW("max.in.flight.requests.per.connection", "5", 1, 1000, COUNT,
            "Requests that wait for an answer at the same time."),
    ENUM_ROW("acks", "all", "all,-1,0,1", "Who must have a record before it is acknowledged."),
    BOOL_ROW("enable.idempotence", "true", "No record is written twice."),
    INT_ROW("retries", "2147483647", 0, INT32_MAX, COUNT, "Repetitions of a request that failed."),
    INT_ROW("linger.ms", "5", 0, INT32_MAX, MS, "Time for which a batch waits for more records."),
    INT_ROW("batch.size", "16384", 0, 1 << 30, BYTES, "Bytes from which a batch is sent at once."),
    INT_ROW("max.request.size", "1048576", 1, 1 << 30, BYTES, "Most bytes of a record or a batch."),
    ENUM_ROW("compression.type", "none", "none,gzip,snappy,lz4,zstd", "Codec of batches."),
    INT_ROW("compression.gzip.level", "-1", -1, 9, COUNT, "-1 is the codec's own default."),
    INT_ROW("compression.lz4.level", "9", 1, 17, COUNT, "Up to 9 the fast compressor."),
    INT_ROW("compression.zstd.level", "3", -131072, 22, COUNT, "More is smaller and slower."),
    INT_ROW("delivery.timeout.ms", "120000", 1, INT32_MAX, MS, "Time from send to delivery or failure."),
    INT_ROW("buffer.memory", "33554432", 1024, INT64_MAX, BYTES, "Memory for records not yet delivered."),
    STRING_ROW("auto.offset.reset", "latest", "Where to go on when the partition does not hold the position."),
    INT_ROW("fetch.min.bytes", "1", 0, INT32_MAX, BYTES, "Bytes that a fetch waits for."),
    INT_ROW("fetch.max.wait.ms", "500", 0, INT32_MAX, MS, "Time for which a fetch waits."),
    INT_ROW("fetch.max.bytes", "52428800", 1, INT32_MAX, BYTES, "Most bytes of an answer to a fetch."),
    INT_ROW("max.partition.fetch.bytes", "1048576", 1, INT32_MAX, BYTES, "Most bytes of one partition in it."),
    BOOL_ROW("check.crcs", "true", "Verify the checksum of every batch read."),
    STRING_ROW("client.rack", "", "Where it is: a consumer may be sent to a replica there."),
    ENUM_ROW("isolation.level", "read_uncommitted", "read_uncommitted,read_committed",
             "Which records a consumer sees."),
#undef INT_ROW
#undef BOOL_ROW
#undef ENUM_ROW
#undef STRING_ROW
};

struct stele_settings *stele_client__settings_new(struct stele_mem *mem)
{
    return stele_settings_new(mem, rows, (int)STELE_ARRAY_LEN(rows));
}

enum stele_err stele_client__set_all(struct stele_settings *set, const struct stele_setting *settings,
                                     struct stele_error *error)
{
    for (; settings != NULL && settings->name != NULL; settings++) {
        if (settings->value == NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG, "%.200s has no value", settings->name);
        enum stele_err err = stele_settings_set(set, settings->name, settings->value, "call", error);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

enum stele_err stele_client__settings(struct stele_client *client, const struct stele_setting *settings,
                                      struct stele_settings **out, struct stele_error *error)
{
    struct stele_settings *set = NULL;
    enum stele_err err = stele_settings_overlay(client->settings, NULL, NULL, 0, &set, error);
    if (err == STELE_OK)
        err = stele_client__set_all(set, settings, error);
    if (err != STELE_OK)
        stele_settings_free(set);
    else
        *out = set;
    return err;
}
