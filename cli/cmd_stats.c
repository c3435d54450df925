/* log stats: what the logs of topics are made of, in histograms, and how they grow. */
#include "cli/document.h"
#include "cli/format.h"
#include "cli/options.h"
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>

enum { HISTOGRAMS_MAX = 64, BUCKETS_MAX = 64, BAR_WIDTH = 40, NAME_BYTES = 128 };
#define DAY_MS 86400000.0

struct stats {
    struct stele_cli_words words;
    bool all, buckets;
};

/* The same histogram of several partitions. */
struct merged {
    char name[NAME_BYTES];
    int64_t count, sum, max;
    struct stele_bucket_description buckets[BUCKETS_MAX]; /* by up_to */
    size_t bucket_count;
};

struct topic {
    const char *name;
    int64_t partitions, bytes, segments;
    double bytes_a_day; /* at the rate since the nodes started */
    struct merged histograms[HISTOGRAMS_MAX];
    size_t histogram_count;
};

static void merge_bucket(struct merged *merged, const struct stele_bucket_description *bucket)
{
    size_t at = 0;
    while (at < merged->bucket_count && merged->buckets[at].up_to < bucket->up_to)
        at++;
    if (at < merged->bucket_count && merged->buckets[at].up_to == bucket->up_to) {
        merged->buckets[at].count += bucket->count;
        return;
    }
    if (merged->bucket_count == BUCKETS_MAX) /* nodes use powers of two: there are no more */
        return;
    memmove(merged->buckets + at + 1, merged->buckets + at, (merged->bucket_count - at) * sizeof(merged->buckets[0]));
    merged->buckets[at] = *bucket;
    merged->bucket_count++;
}

static void merge(struct topic *topic, const struct stele_histogram_description *histogram)
{
    size_t at = 0;
    while (at < topic->histogram_count && strcmp(topic->histograms[at].name, histogram->name) != 0)
        at++;
    if (at == HISTOGRAMS_MAX)
        return;
    struct merged *merged = &topic->histograms[at];
    if (at == topic->histogram_count) {
        topic->histogram_count++;
        *merged = (struct merged){.count = 0};
        (void)snprintf(merged->name, sizeof(merged->name), "%s", histogram->name);
    }
    merged->count += histogram->count;
    merged->sum += histogram->sum;
    merged->max = histogram->max > merged->max ? histogram->max : merged->max;
    for (size_t i = 0; i < histogram->bucket_count; i++)
        merge_bucket(merged, histogram->buckets[i]);
}

/* The bucket's upper end that `share` of the values are not above; no more than the largest value. */
static int64_t quantile(const struct merged *merged, double share)
{
    int64_t seen = 0;
    for (size_t i = 0; i < merged->bucket_count; i++) {
        seen += merged->buckets[i].count;
        if ((double)seen >= share * (double)merged->count)
            return merged->buckets[i].up_to < merged->max ? merged->buckets[i].up_to : merged->max;
    }
    return merged->max;
}

static enum stele_view view_of(const char *name)
{
    if (strstr(name, " bytes") != NULL)
        return STELE_VIEW_SIZE;
    return strstr(name, " ms") != NULL ? STELE_VIEW_SPAN_MS : STELE_VIEW_COUNT;
}

static const struct merged *histogram_of(const struct topic *topic, const char *name)
{
    for (size_t i = 0; i < topic->histogram_count; i++) {
        if (strcmp(topic->histograms[i].name, name) == 0)
            return &topic->histograms[i];
    }
    return NULL;
}

static void add_histogram(struct stele_document *document, cJSON *list, const struct merged *merged)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_text(document, row, "name", merged->name);
    stele_document_number(document, row, "count", merged->count);
    stele_document_number(document, row, "sum", merged->sum);
    stele_document_known(document, row, "mean", merged->count == 0 ? -1 : merged->sum / merged->count);
    stele_document_number(document, row, "p50_at_most", quantile(merged, 0.5));
    stele_document_number(document, row, "p99_at_most", quantile(merged, 0.99));
    stele_document_number(document, row, "max", merged->max);
    cJSON *buckets = stele_document_list(document, row, "buckets");
    for (size_t i = 0; i < merged->bucket_count; i++) {
        cJSON *bucket = stele_document_row(document, buckets);
        stele_document_number(document, bucket, "up_to", merged->buckets[i].up_to);
        stele_document_number(document, bucket, "count", merged->buckets[i].count);
    }
}

static int64_t setting_of(const struct stele_config *config, const char *name)
{
    int64_t value = -1;
    for (size_t i = 0; i < config->setting_count; i++) {
        if (strcmp(config->settings[i]->name, name) == 0 && config->settings[i]->value != NULL)
            (void)stele_cli_number(config->settings[i]->value, -1, INT64_MAX, &value);
    }
    return value;
}

static double smaller(double left, double right)
{
    return left < right ? left : right;
}

static int64_t whole(double value)
{
    return value < 9e18 ? (int64_t)value : INT64_MAX;
}

/* What the topic will hold if it goes on as it did: segments go as a whole, so that one a partition stays on top. */
static void add_forecast(struct stele_document *document, cJSON *row, const struct topic *topic,
                         struct stele_client *client)
{
    static const char *const names[] = {"retention.ms", "retention.bytes", "segment.bytes", "cleanup.policy", NULL};
    struct stele_config *config = NULL;
    double limit = -1, then = (double)topic->bytes + topic->bytes_a_day * 30;
    struct stele_result result = stele_config_describe(client, STELE_CONFIG_TOPIC, topic->name, names, 0, &config);
    for (size_t i = 0; result.code == 0 && i < config->setting_count; i++) {
        const struct stele_config_setting *setting = config->settings[i];
        if (strcmp(setting->name, "cleanup.policy") != 0 || setting->value == NULL ||
            strstr(setting->value, "delete") == NULL)
            continue;
        double segments = (double)setting_of(config, "segment.bytes") * (double)topic->partitions;
        int64_t ms = setting_of(config, "retention.ms"), bytes = setting_of(config, "retention.bytes");
        double by_time = (double)ms / DAY_MS * topic->bytes_a_day + segments;
        double by_size = (double)bytes * (double)topic->partitions + segments;
        limit = ms >= 0 ? by_time : -1;
        limit = bytes >= 0 && (limit < 0 || by_size < limit) ? by_size : limit;
    }
    if (result.code == 0)
        stele_config_free(config);
    stele_document_number(document, row, "bytes_a_day", whole(topic->bytes_a_day));
    stele_document_number(document, row, "bytes_in_30_days", whole(limit < 0 ? then : smaller(then, limit)));
    stele_document_known(document, row, "bytes_at_most", limit < 0 ? -1 : whole(limit));
}

static void add_topic(struct stele_document *document, const struct topic *topic, struct stele_client *client)
{
    const struct merged *indexes = histogram_of(topic, "index bytes"), *segments = histogram_of(topic, "segment bytes");
    cJSON *row = stele_document_row(document, cJSON_GetObjectItemCaseSensitive(document->root, "topics"));
    bool has_share = indexes != NULL && segments != NULL && segments->sum > 0;
    stele_document_text(document, row, "topic", topic->name);
    stele_document_number(document, row, "partitions", topic->partitions);
    stele_document_number(document, row, "segments", topic->segments);
    stele_document_number(document, row, "bytes", topic->bytes);
    stele_document_known(document, row, "index_bytes_a_gb",
                         has_share ? whole((double)indexes->sum * 1e9 / (double)segments->sum) : -1);
    add_forecast(document, row, topic, client);
    cJSON *list = stele_document_list(document, row, "histograms");
    for (size_t i = 0; i < topic->histogram_count; i++) {
        if (topic->histograms[i].count > 0)
            add_histogram(document, list, &topic->histograms[i]);
    }
}

static void take_log(struct topic *topic, const struct stele_log_description *log)
{
    topic->partitions++;
    topic->bytes += log->bytes;
    topic->segments += log->segment_total;
    if (log->appended_ms > 0)
        topic->bytes_a_day += (double)log->bytes_appended * DAY_MS / (double)log->appended_ms;
    for (size_t i = 0; i < log->histogram_count; i++)
        merge(topic, log->histograms[i]);
}

/* View */

static void view_buckets(const struct stele_cli *cli, const cJSON *histogram, enum stele_view view)
{
    static const char bar[BAR_WIDTH + 1] = "########################################";
    const struct stele_view_column column = {"up_to", "", view};
    const cJSON *buckets = cJSON_GetObjectItemCaseSensitive(histogram, "buckets"), *bucket;
    char text[STELE_FORMAT_BYTES];
    int64_t most = 1;
    cJSON_ArrayForEach(bucket, buckets)
    {
        int64_t count = stele_document_get(bucket, "count", 0);
        most = count > most ? count : most;
    }
    printf("\n%s, up to:\n", cJSON_GetObjectItemCaseSensitive(histogram, "name")->valuestring);
    cJSON_ArrayForEach(bucket, buckets)
    {
        int64_t count = stele_document_get(bucket, "count", 0);
        int width = (int)((double)count * BAR_WIDTH / (double)most);
        (void)stele_view_cell(bucket, &column, cli->is_exact, text, sizeof(text));
        printf("  %14s  %12lld  %.*s\n", text, (long long)count, width == 0 && count > 0 ? 1 : width, bar);
    }
}

/* Rows of one table, though each has a unit of its own. */
static void view_summary(const struct stele_cli *cli, const cJSON *histograms)
{
    static const struct stele_view_column columns[] = {
        {"name", "OF", STELE_VIEW_TEXT},     {"count", "COUNT", STELE_VIEW_COUNT}, {"mean", "MEAN", STELE_VIEW_COUNT},
        {"p50", "P50 <=", STELE_VIEW_COUNT}, {"p99", "P99 <=", STELE_VIEW_COUNT},  {"max", "MAX", STELE_VIEW_COUNT},
        {NULL, NULL, STELE_VIEW_TEXT}};
    static const char *const keys[][2] = {
        {"mean", "mean"}, {"p50_at_most", "p50"}, {"p99_at_most", "p99"}, {"max", "max"}};
    struct stele_document flat;
    char text[NAME_BYTES];
    const cJSON *histogram;
    stele_document_init(&flat);
    cJSON *rows = stele_document_list(&flat, flat.root, "rows");
    cJSON_ArrayForEach(histogram, histograms)
    {
        const char *name = cJSON_GetObjectItemCaseSensitive(histogram, "name")->valuestring;
        cJSON *row = stele_document_row(&flat, rows);
        stele_document_text(&flat, row, "name", name);
        stele_document_number(&flat, row, "count", stele_document_get(histogram, "count", 0));
        for (size_t i = 0; i < STELE_ARRAY_LEN(keys); i++) {
            const struct stele_view_column column = {keys[i][0], "", view_of(name)};
            (void)stele_view_cell(histogram, &column, cli->is_exact, text, sizeof(text));
            stele_document_text(&flat, row, keys[i][1], text);
        }
    }
    stele_view_table(stdout, rows, columns, cli->is_exact);
    stele_document_deinit(&flat);
}

static void view_topics(const struct stele_cli *cli, const struct stats *stats, const cJSON *list)
{
    static const struct stele_view_column fields[] = {{"topic", "topic", STELE_VIEW_TEXT},
                                                      {"partitions", "partitions", STELE_VIEW_TEXT},
                                                      {"segments", "segments", STELE_VIEW_TEXT},
                                                      {"bytes", "size", STELE_VIEW_SIZE},
                                                      {"index_bytes_a_gb", "index bytes a GB", STELE_VIEW_SIZE},
                                                      {"bytes_a_day", "grows a day by", STELE_VIEW_SIZE},
                                                      {"bytes_in_30_days", "in 30 days", STELE_VIEW_SIZE},
                                                      {"bytes_at_most", "at most", STELE_VIEW_SIZE},
                                                      {NULL, NULL, STELE_VIEW_TEXT}};
    const cJSON *topic, *histogram;
    cJSON_ArrayForEach(topic, list)
    {
        const cJSON *histograms = cJSON_GetObjectItemCaseSensitive(topic, "histograms");
        if (topic != list->child)
            puts("\n");
        stele_view_fields(stdout, topic, fields, cli->is_exact);
        puts("");
        view_summary(cli, histograms);
        cJSON_ArrayForEach(histogram, histograms)
        {
            if (stats->buckets)
                view_buckets(cli, histogram, view_of(cJSON_GetObjectItemCaseSensitive(histogram, "name")->valuestring));
        }
    }
}

/* Asking */

struct asking {
    const struct stele_cli *cli;
    struct stele_client *client;
    struct stele_client *patient; /* for what reads every batch header: the first one has found the node by then */
    struct stele_document *document;
    struct stele_progress progress;
    size_t topic_at, topic_count;
};

/* False: there is no more to tell of it, and why was said. */
static bool is_told(struct asking *asking, const struct stele_log_description *log, int *inout_status)
{
    if (log->code == 0)
        return true;
    stele_progress_wipe(&asking->progress);
    *inout_status =
        stele_cli_fail(asking->cli, stele_cli_exit_of(log->code), "%s/%d: %s", log->topic, log->partition, log->text);
    return false;
}

static int failed(struct asking *asking, const struct stele_result *result)
{
    stele_progress_wipe(&asking->progress);
    return stele_cli_report(asking->cli, result);
}

static int ask_partition(struct asking *asking, struct topic *topic, int32_t partition)
{
    struct stele_log_descriptions *logs = NULL;
    int status = STELE_CLI_DONE;
    struct stele_result result = stele_topic_logs(asking->patient, topic->name, partition, STELE_LOG_WITH_STATS, &logs);
    if (result.code != 0)
        return failed(asking, &result);
    for (size_t i = 0; i < logs->log_count; i++) {
        if (is_told(asking, logs->logs[i], &status))
            take_log(topic, logs->logs[i]);
    }
    stele_log_descriptions_free(logs);
    return status;
}

static int ask(struct asking *asking, const struct stele_cli_partition *which)
{
    struct stele_log_descriptions *logs = NULL;
    int status = STELE_CLI_DONE;
    struct stele_result result = stele_topic_logs(asking->client, which->topic, which->partition, 0, &logs);
    if (result.code != 0)
        return failed(asking, &result);
    struct topic *topic = calloc(1, sizeof(*topic));
    if (topic == NULL)
        status = stele_cli_fail(asking->cli, STELE_CLI_FAILED, "out of memory");
    for (size_t i = 0; topic != NULL && i < logs->log_count; i++) {
        topic->name = which->topic;
        if (stele_progress_is_due(&asking->progress))
            stele_progress_show(&asking->progress, "topic %zu of %zu, partition %zu of %zu: %s/%d",
                                asking->topic_at + 1, asking->topic_count, i + 1, logs->log_count, which->topic,
                                logs->logs[i]->partition);
        int one =
            is_told(asking, logs->logs[i], &status) ? ask_partition(asking, topic, logs->logs[i]->partition) : status;
        status = one != STELE_CLI_DONE ? one : status;
    }
    if (topic != NULL && topic->partitions > 0)
        add_topic(asking->document, topic, asking->client);
    stele_log_descriptions_free(logs);
    free(topic);
    return status;
}

static int ask_all(struct asking *asking)
{
    struct stele_topics *topics = NULL;
    struct stele_result result = stele_topic_list(asking->client, &topics);
    int status = stele_cli_report(asking->cli, &result);
    for (size_t i = 0; result.code == 0 && i < topics->topic_count; i++) {
        struct stele_cli_partition which = {.partition = -1};
        (void)snprintf(which.topic, sizeof(which.topic), "%s", topics->topics[i]->name);
        asking->topic_at = i;
        asking->topic_count = topics->topic_count;
        int one = ask(asking, &which);
        status = one != STELE_CLI_DONE ? one : status;
    }
    stele_topics_free(topics);
    return status;
}

static int run(const struct stele_cli *cli, void *line)
{
    const struct stats *stats = line;
    struct stele_cli_partition which = {.partition = -1};
    struct stele_document document;
    struct asking asking = {.cli = cli, .document = &document, .topic_count = 1};
    int status = STELE_CLI_DONE;
    if (stats->all == (stats->words.count == 1))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "want TOPIC, TOPIC/PARTITION or --all");
    if (!stats->all && !stele_cli_partition(stats->words.items[0], &which))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want TOPIC or TOPIC/PARTITION", stats->words.items[0]);
    asking.client = stele_cli_client(cli, &status);
    asking.patient = asking.client == NULL ? NULL : stele_cli_client_patient(cli, &status);
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "topics");
    stele_progress_init(&asking.progress);
    if (asking.patient != NULL)
        status = stats->all ? ask_all(&asking) : ask(&asking, &which);
    stele_progress_end(&asking.progress);
    stele_client_free(asking.patient);
    stele_client_free(asking.client);
    if ((status == STELE_CLI_DONE || cJSON_GetArraySize(list) > 0) && !stele_document_print(&document, cli, &status))
        view_topics(cli, stats, list);
    stele_document_deinit(&document);
    return status;
}

static const struct stele_cli_option options[] = {
    {.name = "--all", .kind = STELE_CLI_FLAG, .at = offsetof(struct stats, all), .help = "every topic"},
    {.name = "--buckets",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct stats, buckets),
     .help = "draw the histograms, not only what they sum up to"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_log_stats = {
    .name = "log stats",
    .arguments = "[TOPIC[/PARTITION]]",
    .words_max = 1,
    .summary = "show sizes of records, batches, segments and indexes, why segments roll, and how a topic grows",
    .details = "The node reads every batch header for it. Percentiles are those of histograms with powers of two: the "
               "true one is not above what is shown. Growth is what was appended since the node started; 'at most' is "
               "what retention leaves at that rate.",
    .options = options,
    .line_bytes = sizeof(struct stats),
    .run = run,
};
