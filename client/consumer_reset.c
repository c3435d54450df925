/* Where a partition goes on when it does not hold the consumer's position (auto.offset.reset, KIP-1106). A reset begins
 * when what was fetched before is read, and is told of before the first record after it. */
#include "client/consumer_internal.h"

#include <stdio.h>
#include <string.h>

/* The number of a duration's next field ("5H"), in 1/1000 for a fraction of seconds; false when there is none. */
static bool read_field(const char **inout_at, char *out_unit, int64_t *out_thousandths)
{
    const char *at = *inout_at;
    int64_t whole = 0, part = 0, scale = 1000;
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (whole > INT64_MAX / 10000000000)
            return false;
        whole = whole * 10 + (*at - '0');
    }
    bool has_part = *at == '.';
    for (at += has_part; has_part && *at >= '0' && *at <= '9'; at++) {
        scale /= 10;
        part += scale * (*at - '0');
    }
    *out_unit = (char)(*at & ~0x20); /* upper case */
    *out_thousandths = whole * 1000 + part;
    *inout_at = at + (*at != 0);
    return !has_part || *out_unit == 'S';
}

/* PnDTnHnMn.nS as java.time.Duration writes it, without negative numbers. */
static bool parse_duration(const char *text, int64_t *out_ms)
{
    static const struct {
        char unit;
        bool is_time;
        int64_t ms;
    } units[] = {{'D', false, 86400000}, {'H', true, 3600000}, {'M', true, 60000}, {'S', true, 1000}};
    bool is_time = false, has_field = false;
    size_t next = 0;
    *out_ms = 0;
    if (*text != 'P' && *text != 'p')
        return false;
    for (text++; *text != 0; has_field = true) {
        char unit;
        int64_t thousandths;
        if (!is_time && (*text == 'T' || *text == 't')) {
            is_time = true;
            text++;
        }
        if (!read_field(&text, &unit, &thousandths))
            return false;
        while (next < STELE_ARRAY_LEN(units) && units[next].unit != unit)
            next++;
        if (next == STELE_ARRAY_LEN(units) || units[next].is_time != is_time)
            return false;
        if (thousandths / 1000 > (INT64_MAX / 4 - *out_ms) / units[next].ms)
            return false;
        *out_ms += thousandths / 1000 * units[next].ms + thousandths % 1000 * units[next].ms / 1000;
        next++;
    }
    return has_field;
}

enum stele_err stele_consumer__read_reset(struct stele_consumer *consumer, struct stele_error *error)
{
    static const char by_duration[] = "by_duration:";
    const char *text = stele_settings_text(consumer->settings, "auto.offset.reset");
    if (strcmp(text, "latest") == 0)
        consumer->reset_to = RESET_TO_LATEST;
    else if (strcmp(text, "earliest") == 0)
        consumer->reset_to = RESET_TO_EARLIEST;
    else if (strcmp(text, "none") == 0)
        consumer->reset_to = RESET_NEVER;
    else if (strncmp(text, by_duration, sizeof(by_duration) - 1) == 0 &&
             parse_duration(text + sizeof(by_duration) - 1, &consumer->reset_age_ms))
        consumer->reset_to = RESET_BY_AGE;
    else
        return stele_error_set(
            error, STELE_INVALID_CONFIG,
            "auto.offset.reset=%.100s: the value must be latest, earliest, none, or by_duration: and "
            "a duration as PnDTnHnMn.nS, for instance by_duration:PT12H",
            text);
    return STELE_OK;
}

void stele_consumer__out_of_range(struct stele_consumer *consumer, struct assigned *assigned, int64_t log_start,
                                  int64_t log_end)
{
    if (consumer->reset_to == RESET_NEVER) {
        stele_consumer__fail(consumer, assigned, STELE_OFFSET_OUT_OF_RANGE,
                             "the partition does not hold that offset (any more); read from its beginning or its end");
        return;
    }
    assigned->needs_reset = true;
    assigned->diverging_end = -1;
    assigned->log_start = log_start;
    assigned->log_end = log_end;
}

/* The epoch that the leader names ends there in its log, which is where both begin to differ at the latest. */
void stele_consumer__diverged(struct stele_consumer *consumer, struct assigned *assigned,
                              const struct stele_fetch_result *result)
{
    char text[160];
    if (consumer->reset_to == RESET_NEVER) {
        (void)snprintf(text, sizeof(text),
                       "the partition was truncated: the records from offset %lld on that were read are not in it any "
                       "more; read from there",
                       (long long)result->diverging_end_offset);
        stele_consumer__fail(consumer, assigned, STELE_OFFSET_OUT_OF_RANGE, text);
        return;
    }
    assigned->needs_reset = true;
    assigned->diverging_end = stele_max_i64(result->diverging_end_offset, 0);
    assigned->diverging_epoch = result->diverging_epoch;
    assigned->log_start = result->log_start_offset;
    assigned->log_end = result->high_watermark;
}

/* What was fetched before is read, so that the reset comes behind it; of a batch that is walked the end is still to be
 * met, which moves the position, and its last record may be in use. */
static bool is_due(const struct stele_consumer *consumer, const struct assigned *assigned)
{
    bool is_walked = consumer->is_walking && consumer->walked == assigned;
    return assigned->is_assigned && !is_walked && assigned->needs_reset && !assigned->is_paused &&
           assigned->err == STELE_OK && assigned->position >= assigned->fetched;
}

static void tell(struct stele_consumer *consumer, const struct assigned *assigned, int64_t old)
{
    char text[320];
    struct stele_reset reset = {.partition = assigned->partition,
                                .old_offset = old,
                                .new_offset = assigned->position,
                                .log_start = assigned->log_start,
                                .log_end = assigned->log_end,
                                .text = text};
    bool is_below = assigned->log_start < 0 || old < assigned->log_start;
    reset.reason = is_below ? STELE_RESET_BELOW_START : STELE_RESET_ABOVE_END;
    const char *why = is_below ? "below the partition's start: its records were deleted"
                               : "above the partition's end: its records were lost";
    if (assigned->diverging_end >= 0) {
        reset.reason = STELE_RESET_TRUNCATED;
        why = "not the one that follows what was read: the partition was truncated";
    }
    reset.skipped = stele_max_i64(reset.new_offset - old, 0);
    reset.repeated = stele_max_i64(stele_min_i64(old, reset.log_end) - reset.new_offset, 0);
    if (assigned->diverging_end >= 0)
        reset.repeated = old - reset.new_offset; /* with other records, as far as there are some yet */
    (void)snprintf(text, sizeof(text), "%.100s-%d: offset %lld is %s; goes on at %lld (auto.offset.reset=%.40s)",
                   consumer->topic, assigned->partition, (long long)old, why, (long long)reset.new_offset,
                   stele_settings_text(consumer->settings, "auto.offset.reset"));
    consumer->client->callbacks++;
    if (consumer->on_reset != NULL)
        consumer->on_reset(consumer->reset_arg, &reset);
}

static void finish_reset(struct stele_consumer *consumer, struct assigned *assigned, int64_t offset)
{
    int64_t old = assigned->position;
    assigned->needs_reset = assigned->resets_to_latest = false;
    assigned->position = offset;
    assigned->position_epoch = assigned->diverging_end >= 0 ? assigned->diverging_epoch : -1;
    assigned->backoff = (struct stele_backoff){0};
    stele_consumer__restart(assigned, offset);
    tell(consumer, assigned, old);
    assigned->diverging_end = -1;
}

/* Nothing has to be asked for. The leader's log agrees up to the end of the epoch that it names, and has nothing of
 * later ones: what was read of those goes too. What was not read before it was forgotten is not missed. */
static void finish_divergence(struct stele_consumer *consumer, struct assigned *assigned)
{
    int64_t offset = assigned->diverging_end;
    if (assigned->position_epoch > assigned->diverging_epoch)
        offset = stele_min_i64(offset, assigned->epoch_start);
    if (offset < assigned->position) {
        finish_reset(consumer, assigned, offset);
        return;
    }
    assigned->needs_reset = false;
    assigned->diverging_end = -1;
    assigned->position_epoch = (int32_t)stele_min_i64(assigned->position_epoch, assigned->diverging_epoch);
    stele_consumer__restart(assigned, assigned->position);
    stele_client__wait_before_retry(consumer->client, &assigned->backoff);
}

static void reset_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(call, struct stele_consumer, reset_call);
    struct assigned *assigned = consumer->resetting;
    int64_t offset = -1;
    consumer->resetting = NULL;
    if (!is_due(consumer, assigned) || assigned->generation != assigned->asked_generation)
        return; /* it was assigned anew or paused meanwhile */
    if (err == STELE_OK) {
        const struct stele_list_offsets_response *listed = &answer->response->body.list_offsets;
        err = listed->result_count == 1 ? listed->results[0].err : STELE_UNKNOWN_SERVER_ERROR;
        offset = listed->result_count == 1 ? listed->results[0].offset : -1;
    }
    if (err != STELE_OK) {
        stele_refresh__note(&consumer->refresh, err);
        if (!stele_client__retry(consumer->client, &assigned->backoff, err))
            stele_consumer__fail(consumer, assigned, err, stele_err_text(err));
    } else if (offset >= 0) {
        finish_reset(consumer, assigned, offset);
    } else if (!assigned->resets_to_latest) {
        assigned->resets_to_latest = true; /* no record is that young */
    } else {
        stele_client__wait_before_retry(consumer->client, &assigned->backoff);
    }
}

static int64_t time_wanted(const struct stele_consumer *consumer, const struct assigned *assigned)
{
    if (assigned->resets_to_latest || consumer->reset_to == RESET_TO_LATEST)
        return STELE_TIME_LATEST;
    if (consumer->reset_to == RESET_TO_EARLIEST)
        return STELE_TIME_EARLIEST;
    return stele_max_i64(stele_env_wall_ms(consumer->client->env) - consumer->reset_age_ms, 0);
}

static void ask(struct stele_consumer *consumer, struct assigned *assigned)
{
    struct stele_list_offsets_partition wanted = {.topic_id = consumer->topic_id,
                                                  .partition = assigned->partition,
                                                  .current_leader_epoch =
                                                      stele_leaders__epoch(&consumer->leaders, assigned->partition),
                                                  .timestamp = time_wanted(consumer, assigned)};
    struct stele_request request = {
        .header.api = STELE_API_LIST_OFFSETS,
        .body.list_offsets = {
            .replica_id = -1, .isolation = consumer->isolation, .partitions = &wanted, .partition_count = 1}};
    consumer->reset_call = (struct stele_call){.done = reset_done};
    stele_list_init(&consumer->reset_call.link);
    consumer->resetting = assigned;
    consumer->reset_node = assigned->fetcher->node;
    assigned->asked_generation = assigned->generation;
    if (stele_client__call(consumer->reset_node, STELE_FOR_CONTROL, &consumer->reset_call, &request, NULL) == STELE_OK)
        return;
    consumer->resetting = NULL;
    stele_client__wait_before_retry(consumer->client, &assigned->backoff);
}

void stele_consumer__drive_resets(struct stele_consumer *consumer, int64_t now_ms)
{
    if (consumer->resetting != NULL &&
        stele_client__is_unreached(consumer->reset_node, STELE_FOR_CONTROL, &consumer->reset_call)) {
        stele_client__cancel(consumer->reset_node, STELE_FOR_CONTROL, &consumer->reset_call);
        stele_refresh__note(&consumer->refresh, STELE_UNREACHABLE);
        stele_client__wait_before_retry(consumer->client, &consumer->resetting->backoff);
        consumer->resetting = NULL;
    }
    for (int32_t i = 0; i < consumer->partitions; i++) {
        struct assigned *assigned = consumer->assigned[i];
        if (!is_due(consumer, assigned) || now_ms < assigned->backoff.at_ms)
            continue;
        if (assigned->diverging_end >= 0)
            finish_divergence(consumer, assigned);
        else if (consumer->resetting == NULL && assigned->fetcher != NULL)
            ask(consumer, assigned);
    }
}

int64_t stele_consumer__reset_deadline(const struct stele_consumer *consumer)
{
    int64_t deadline = INT64_MAX;
    for (int32_t i = 0; i < consumer->partitions; i++) {
        const struct assigned *assigned = consumer->assigned[i];
        bool has_way = assigned->diverging_end >= 0 || (consumer->resetting == NULL && assigned->fetcher != NULL);
        if (has_way && is_due(consumer, assigned))
            deadline = stele_min_i64(deadline, assigned->backoff.at_ms);
    }
    return deadline;
}
