#include "client/refresh.h"

#include <string.h>

enum { URGENT_BACKOFFS = 2 /* longest pauses for which an answer is waited for that others wait for */ };

void stele_refresh__init(struct stele_refresh *refresh, struct stele_leaders *leaders,
                         const struct stele_settings *settings, const char *topic)
{
    refresh->client = leaders->client;
    refresh->leaders = leaders;
    refresh->topic = topic;
    refresh->age_ms = stele_settings_int(settings, "metadata.max.age.ms");
    refresh->asked_ms = stele_client__now_ms(refresh->client);
    refresh->next_ms = refresh->asked_ms + refresh->age_ms;
    if (stele_leaders__has_gap(leaders))
        stele_refresh__note(refresh, STELE_LEADER_NOT_AVAILABLE);
}

static void ask_again(struct stele_refresh *refresh)
{
    refresh->is_asking = false;
    stele_client__wait_before_retry(refresh->client, &refresh->backoff);
    refresh->next_ms = refresh->backoff.at_ms;
}

/* Whether it is another topic than is known, by the word of one node alone of a cluster. Where no other answers it is
 * believed when it says so again: see choose_node. */
static bool is_doubtful(struct stele_refresh *refresh, const struct stele_uuid *topic_id)
{
    bool is_told = refresh->is_other_told && stele_uuid_equal(&refresh->other_id, topic_id);
    bool is_other = refresh->client->is_cluster && !stele_uuid_equal(&refresh->leaders->topic_id, topic_id);
    refresh->is_other_told = is_other && !is_told && refresh->node->node_id >= 0; /* `any` may be the next one */
    refresh->other_id = *topic_id;
    refresh->other_from = refresh->node;
    return is_other && !is_told;
}

static enum stele_err take(struct stele_refresh *refresh, const struct stele_metadata_response *metadata)
{
    for (size_t i = 0; metadata->err == STELE_OK && i < metadata->topic_count; i++) {
        const struct stele_metadata_topic *topic = &metadata->topics[i];
        if (strcmp(topic->name, refresh->topic) != 0 || topic->partition_count == 0)
            continue;
        if (topic->err != STELE_OK)
            return topic->err;
        enum stele_err err = stele_client__take_nodes(refresh->client, metadata->nodes, metadata->node_count);
        if (err == STELE_OK && is_doubtful(refresh, &topic->topic_id)) {
            refresh->is_urgent = true; /* another node is asked */
            return STELE_UNKNOWN_TOPIC_ID;
        }
        if (err == STELE_OK)
            err = stele_leaders__take(refresh->leaders, topic);
        return err == STELE_OK ? refresh->changed(refresh, &topic->topic_id, refresh->leaders->count) : err;
    }
    return metadata->err != STELE_OK ? metadata->err : STELE_UNKNOWN_TOPIC_OR_PARTITION;
}

static void refresh_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_refresh *refresh = STELE_CONTAINER_OF(call, struct stele_refresh, call);
    refresh->is_asking = false;
    if (err != STELE_OK)
        refresh->other_from = NULL;
    if (err == STELE_OK)
        err = take(refresh, &answer->response->body.metadata);
    if (err == STELE_OK) {
        refresh->backoff = (struct stele_backoff){0};
        refresh->next_ms = stele_client__now_ms(refresh->client) + refresh->age_ms;
        refresh->is_urgent = false;
        if (stele_leaders__has_gap(refresh->leaders))
            stele_refresh__note(refresh, STELE_LEADER_NOT_AVAILABLE);
        return;
    }
    ask_again(refresh);
}

/* Where there are others, a node that is in trouble may have lost what it led. */
static bool is_trouble(enum stele_err err)
{
    return err == STELE_CLOSED || err == STELE_REQUEST_TIMED_OUT || err == STELE_UNREACHABLE || err == STELE_IO ||
           err == STELE_BROKER_NOT_AVAILABLE || err == STELE_KAFKA_STORAGE_ERROR || err == STELE_UNKNOWN_LEADER_EPOCH;
}

void stele_refresh__note(struct stele_refresh *refresh, enum stele_err err)
{
    bool is_change = err == STELE_UNKNOWN_TOPIC_OR_PARTITION || err == STELE_UNKNOWN_TOPIC_ID ||
                     err == STELE_NOT_LEADER_OR_FOLLOWER || err == STELE_LEADER_NOT_AVAILABLE ||
                     err == STELE_FENCED_LEADER_EPOCH;
    if (!is_change && !(refresh->client->is_cluster && is_trouble(err)))
        return;
    refresh->is_urgent = true;
    int64_t pause_ms = stele_settings_int(refresh->client->settings, "retry.backoff.ms");
    refresh->next_ms = stele_min_i64(refresh->next_ms, refresh->asked_ms + pause_ms);
}

static void choose_node(struct stele_refresh *refresh)
{
    struct stele_client *client = refresh->client;
    bool takes_turns = refresh->is_urgent && client->is_cluster;
    refresh->node = takes_turns ? stele_client__next_node(client) : &client->any;
    if (takes_turns && refresh->is_other_told && refresh->node == refresh->other_from)
        refresh->node = stele_client__next_node(client);
}

void stele_refresh__tick(struct stele_refresh *refresh, int64_t now_ms)
{
    if (refresh->is_asking && stele_client__is_unreached(refresh->node, STELE_FOR_CONTROL, &refresh->call)) {
        stele_client__cancel(refresh->node, STELE_FOR_CONTROL, &refresh->call);
        refresh->other_from = NULL;
        ask_again(refresh);
    }
    if (refresh->is_asking || now_ms < refresh->next_ms)
        return;
    struct stele_request request = {.header.api = STELE_API_METADATA,
                                    .body.metadata = {.topics = &refresh->topic, .topic_count = 1}};
    refresh->call = (struct stele_call){.done = refresh_done};
    stele_list_init(&refresh->call.link);
    refresh->is_asking = true;
    refresh->asked_ms = now_ms;
    choose_node(refresh);
    if (stele_client__call(refresh->node, STELE_FOR_CONTROL, &refresh->call, &request, NULL) != STELE_OK) {
        ask_again(refresh);
        return;
    }
    int64_t pause_ms = stele_settings_int(refresh->client->settings, "retry.backoff.max.ms");
    if (refresh->node->node_id >= 0)
        refresh->call.deadline_ms = stele_min_i64(refresh->call.deadline_ms, now_ms + URGENT_BACKOFFS * pause_ms);
}

int64_t stele_refresh__deadline(const struct stele_refresh *refresh)
{
    return refresh->is_asking ? INT64_MAX : refresh->next_ms;
}

void stele_refresh__stop(struct stele_refresh *refresh)
{
    if (refresh->is_asking)
        stele_client__cancel(refresh->node, STELE_FOR_CONTROL, &refresh->call);
    refresh->is_asking = false;
}
