#include "node/replica_fetcher.h"

#include "base/check.h"
#include "node/node_struct.h"

#include <stdio.h>
#include <string.h>

enum {
    REST_MS = 20, /* after a loss, before the next request; connections have a back-off of their own */
    CONNECT_BACKOFF_MS = 20,
    CONNECT_BACKOFF_MS_MAX = 1000,
    SET_UP_MS_MAX = 5000,
};

struct request {
    struct stele_call call;
    struct stele_replica_fetcher *fetcher;
    struct stele_fetcher_request words;
    uint64_t number;
    size_t line_count;
    bool is_under_way;
};

struct stele_replica_fetcher {
    struct stele_list all;
    struct stele_shard *shard;
    int32_t node_id; /* of the leaders */
    struct stele_link link;
    struct stele_fetcher session;
    struct request requests[STELE_FETCHES_IN_FLIGHT];
    int under_way;
    uint64_t last_number;
    int64_t rest_until_ms;
    struct stele_timer timer;

    struct stele_task kick_task, closed_task;
    bool is_kicked, is_closed_told;

    struct stele_fetch_partition *lines; /* of the request that is being made */
    struct stele_forgotten_partition *forgotten;
    size_t line_count, line_capacity, forgotten_count, forgotten_capacity;
};

static struct stele_replica_line *line_of(struct stele_fetcher_entry *entry)
{
    return STELE_CONTAINER_OF(entry, struct stele_replica_line, entry);
}

static struct stele_mem *mem_of(const struct stele_replica_fetcher *fetcher)
{
    return fetcher->shard->env->mem;
}

static void kick(struct stele_replica_fetcher *fetcher);

/* The link's own deadlines, and the end of a rest. */
static void arm(struct stele_replica_fetcher *fetcher)
{
    struct stele_shard *shard = fetcher->shard;
    int64_t now_ms = stele_env_mono_ms(shard->env), due_ms = stele_link_deadline(&fetcher->link);
    if (fetcher->rest_until_ms > now_ms)
        due_ms = stele_min_i64(due_ms, fetcher->rest_until_ms);
    if (due_ms == INT64_MAX)
        stele_timer_cancel(shard->wheel, &fetcher->timer);
    else
        stele_shard_arm(shard, &fetcher->timer, stele_max_i64(due_ms, now_ms));
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(timer, struct stele_replica_fetcher, timer);
    stele_link_tick(&fetcher->link, stele_env_mono_ms(fetcher->shard->env));
    kick(fetcher);
    arm(fetcher);
}

/* Losses. */

/* Every partition waits a moment; the first request after it is a full one. */
static void lose(struct stele_replica_fetcher *fetcher)
{
    struct stele_list *at = fetcher->session.entries.next;
    fetcher->rest_until_ms = stele_env_mono_ms(fetcher->shard->env) + REST_MS;
    while (at != &fetcher->session.entries) {
        struct stele_replica_line *line = line_of(STELE_CONTAINER_OF(at, struct stele_fetcher_entry, in_fetcher));
        at = at->next; /* the partition may fail in the call, and leave */
        if (line->asked[0].request != 0)
            stele_replica__lost(line->partition, &line->asked[0].ticket);
    }
}

/* Those that were not sent would come to a new connection with the words of the old session. */
static void drop_unsent(struct stele_replica_fetcher *fetcher)
{
    for (int i = 0; i < STELE_FETCHES_IN_FLIGHT; i++) {
        struct request *request = &fetcher->requests[i];
        if (!request->is_under_way || request->call.is_sent)
            continue;
        stele_link_cancel(&fetcher->link, &request->call);
        request->is_under_way = false;
        fetcher->under_way--;
    }
}

static void closed_home(struct stele_task *task)
{
    STELE_CONTAINER_OF(task, struct stele_replica_fetcher, closed_task)->is_closed_told = false;
}

static void closed_arrived(struct stele_task *task)
{
    struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(task, struct stele_replica_fetcher, closed_task);
    struct stele_node *node = fetcher->shard->node;
    if (node->hooks.connection_closed != NULL)
        node->hooks.connection_closed(node->hooks.arg, fetcher->node_id);
    task->run = closed_home;
    stele_shard_send(&node->shards[STELE_SHARD_CONTROL], fetcher->shard, task);
}

static void link_changed(struct stele_link *link, enum stele_err err)
{
    struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(link, struct stele_replica_fetcher, link);
    struct stele_shard *shard = fetcher->shard;
    kick(fetcher);
    if (err == STELE_OK || err == STELE_CANCELLED || fetcher->is_closed_told)
        return;
    fetcher->is_closed_told = true;
    fetcher->closed_task.run = closed_arrived;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &fetcher->closed_task);
}

static void next_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(link, struct stele_replica_fetcher, link);
    const struct stele_known_node *known = stele_nodes_find(fetcher->shard->nodes, fetcher->node_id);
    (void)snprintf(out_address, STELE_ADDRESS_BYTES, "%s", known != NULL ? known->peer_address : "");
}

/* Answers. */

static const struct stele_follower_ticket *ticket_of(const struct stele_replica_line *line, uint64_t number)
{
    for (int i = 0; i < STELE_FETCHES_IN_FLIGHT; i++) {
        if (line->asked[i].request != 0 && line->asked[i].request <= number)
            return &line->asked[i].ticket;
    }
    return NULL;
}

static struct stele_fetch_answer answer_of(const struct stele_fetch_result *result)
{
    return (struct stele_fetch_answer){.err = result->err,
                                       .diverging = {result->diverging_epoch, result->diverging_end_offset},
                                       .high_watermark = result->high_watermark,
                                       .log_start_offset = result->log_start_offset,
                                       .log_end_offset = result->log_end_offset,
                                       .leader_id = result->current_leader_id,
                                       .current_leader_epoch = result->current_leader_epoch};
}

static void take_result(struct stele_replica_fetcher *fetcher, const struct request *request,
                        const struct stele_fetch_result *result, uint8_t *bytes)
{
    struct stele_partition_key key = {.topic_id = result->topic_id, .number = result->partition};
    struct stele_partition *partition = stele_partition_find(fetcher->shard, &key);
    struct stele_replica_line *line = partition != NULL ? partition->replica.line : NULL;
    if (line == NULL || line->entry.fetcher != &fetcher->session)
        return; /* it left meanwhile */
    const struct stele_follower_ticket *known = ticket_of(line, request->number);
    if (known == NULL)
        return;
    struct stele_follower_ticket ticket = *known;
    if (result->err != STELE_OK || result->diverging_epoch >= 0 || result->records_bytes > 0)
        line->is_used_up = true;
    struct stele_replica_answer answer = {.answer = answer_of(result), .bytes = bytes, .count = result->records_bytes};
    stele_fetcher_touch(&line->entry);
    stele_replica__answered(partition, &ticket, &answer);
}

/* False when it is not what was asked for. */
static bool take_answer(struct stele_replica_fetcher *fetcher, const struct request *request,
                        const struct stele_answer *answer)
{
    const struct stele_fetch_response *response = &answer->response->body.fetch;
    uint64_t bytes = 0;
    for (size_t i = 0; i < response->result_count; i++)
        bytes += response->results[i].records_bytes;
    if (bytes != answer->records_bytes || (request->words.is_full && response->result_count < request->line_count))
        return false;
    /* The frame is this node's alone: batches are appended from it. */
    uint8_t *at = answer->frame->bytes + (answer->records - answer->frame->bytes);
    for (size_t i = 0; i < response->result_count; i++) {
        take_result(fetcher, request, &response->results[i], at);
        at += response->results[i].records_bytes;
    }
    return true;
}

static void request_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct request *request = STELE_CONTAINER_OF(call, struct request, call);
    struct stele_replica_fetcher *fetcher = request->fetcher;
    const struct stele_fetch_response *response = answer->response != NULL ? &answer->response->body.fetch : NULL;
    enum stele_err told = err == STELE_OK ? response->err : err;
    bool was_broken = fetcher->session.is_broken;
    request->is_under_way = false;
    fetcher->under_way--;
    bool is_good =
        stele_fetcher_answered(&fetcher->session, &request->words, told, response != NULL ? response->session_id : 0);
    if (is_good && !take_answer(fetcher, request, answer)) {
        (void)stele_fetcher_answered(&fetcher->session, &request->words, STELE_UNKNOWN_SERVER_ERROR, 0);
    }
    if (fetcher->session.is_broken && err != STELE_CANCELLED)
        STELE_METRIC_ADD(fetcher->shard->env->metrics, replica_fetches_failed, 1);
    if (fetcher->session.is_broken && !was_broken) {
        drop_unsent(fetcher);
        lose(fetcher);
    }
    kick(fetcher);
}

/* Requests. */

static bool reserve(struct stele_mem *mem, void **items, size_t count, size_t *inout_capacity, size_t bytes)
{
    if (count < *inout_capacity)
        return true;
    size_t capacity = *inout_capacity == 0 ? 16 : *inout_capacity * 2;
    void *grown = stele_mem_resize(mem, STELE_MEM_NODE, *items, capacity * bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *inout_capacity = capacity;
    return true;
}

static bool is_same_ticket(const struct stele_follower_ticket *a, const struct stele_follower_ticket *b)
{
    return a->leader_id == b->leader_id && a->leader_epoch == b->leader_epoch && a->generation == b->generation &&
           a->fetch_offset == b->fetch_offset && a->last_fetched_epoch == b->last_fetched_epoch;
}

/* What the server knows needs no saying; said again while records are on their way, it would send them again. */
static bool is_said(const struct stele_replica_line *line, const struct stele_follower_question *question)
{
    const struct stele_fetch_line *a = &line->sent, *b = &question->line;
    return line->entry.is_known && !line->is_used_up && is_same_ticket(&line->asked[0].ticket, &question->ticket) &&
           a->synced_offset == b->synced_offset && a->log_start_offset == b->log_start_offset &&
           a->damaged_offset == b->damaged_offset && a->known_high_watermark == b->known_high_watermark;
}

static void add_line(struct stele_replica_fetcher *fetcher, struct stele_replica_line *line)
{
    struct stele_partition *partition = line->partition;
    struct stele_shard *shard = fetcher->shard;
    struct stele_follower_question question;
    struct stele_log_view view = stele_replica__view(partition);
    if (partition->replica.cut != STELE_CUT_NONE || stele_replica__is_held_back(partition) ||
        !stele_follower_fetch(&partition->replica.follower, stele_env_mono_ms(shard->env), &view, &question) ||
        is_said(line, &question))
        return;
    line->sent = question.line;
    line->is_used_up = false;
    fetcher->lines[fetcher->line_count++] =
        (struct stele_fetch_partition){.topic_id = line->key.topic_id,
                                       .partition = line->key.number,
                                       .fetch_offset = question.line.fetch_offset,
                                       .max_bytes = shard->node->limits.replica_fetch_bytes_max,
                                       .current_leader_epoch = question.line.leader_epoch,
                                       .last_fetched_epoch = question.line.last_fetched_epoch,
                                       .log_start_offset = question.line.log_start_offset,
                                       .synced_offset = question.line.synced_offset,
                                       .known_high_watermark = question.line.known_high_watermark,
                                       .damaged_offset = question.line.damaged_offset,
                                       .doubted_offset = stele_replica__doubted_offset(partition)};
    for (int i = STELE_FETCHES_IN_FLIGHT - 1; i > 0; i--)
        line->asked[i] = line->asked[i - 1];
    line->asked[0].request = fetcher->last_number;
    line->asked[0].ticket = question.ticket;
    stele_fetcher_sent(&line->entry);
}

/* False without memory for all of them. */
static bool collect_forgotten(struct stele_replica_fetcher *fetcher, bool is_full)
{
    while (!stele_list_is_empty(&fetcher->session.forgotten)) {
        void *items = fetcher->forgotten;
        bool has_room = is_full || reserve(mem_of(fetcher), &items, fetcher->forgotten_count,
                                           &fetcher->forgotten_capacity, sizeof(*fetcher->forgotten));
        fetcher->forgotten = items;
        if (!has_room)
            return false;
        struct stele_replica_line *line = line_of(stele_fetcher_next_forgotten(&fetcher->session));
        if (!is_full)
            fetcher->forgotten[fetcher->forgotten_count++] =
                (struct stele_forgotten_partition){.topic_id = line->key.topic_id, .partition = line->key.number};
        stele_mem_free(mem_of(fetcher), line);
    }
    return true;
}

/* False when the session is to begin anew: what is forgotten after it was asked for again would be gone from it. */
static bool collect(struct stele_replica_fetcher *fetcher, bool is_full)
{
    fetcher->line_count = fetcher->forgotten_count = 0;
    if (!collect_forgotten(fetcher, is_full))
        return false;
    for (;;) {
        void *items = fetcher->lines;
        bool has_room =
            reserve(mem_of(fetcher), &items, fetcher->line_count, &fetcher->line_capacity, sizeof(*fetcher->lines));
        fetcher->lines = items;
        struct stele_fetcher_entry *entry = has_room ? stele_fetcher_next_due(&fetcher->session) : NULL;
        if (entry == NULL)
            return true;
        add_line(fetcher, line_of(entry));
    }
}

static struct request *free_request(struct stele_replica_fetcher *fetcher)
{
    for (int i = 0; i < STELE_FETCHES_IN_FLIGHT; i++) {
        if (!fetcher->requests[i].is_under_way)
            return &fetcher->requests[i];
    }
    return NULL;
}

static enum stele_err call_leader(struct stele_replica_fetcher *fetcher, struct request *request)
{
    struct stele_shard *shard = fetcher->shard;
    const struct stele_node_limits *limits = &shard->node->limits;
    struct stele_request message = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {.replica_id = shard->node->node_id,
                                                   .max_wait_ms = limits->replica_fetch_wait_ms,
                                                   .min_bytes = 1,
                                                   .max_bytes = limits->replica_fetch_response_bytes_max,
                                                   .partitions = fetcher->lines,
                                                   .partition_count = fetcher->line_count,
                                                   .cluster_id = shard->node->cluster_id,
                                                   .replica_epoch = shard->node->node_epoch,
                                                   .session_id = request->words.id,
                                                   .session_epoch = request->words.epoch,
                                                   .forgotten = fetcher->forgotten,
                                                   .forgotten_count = fetcher->forgotten_count,
                                                   .rack = ""}};
    request->call.done = request_done;
    return stele_link_call(&fetcher->link, &request->call, &message, NULL);
}

/* False when there is nothing to ask. */
static bool ask(struct stele_replica_fetcher *fetcher)
{
    struct stele_fetcher *session = &fetcher->session;
    struct request *request = free_request(fetcher);
    bool is_full = session->is_broken;
    bool waits = fetcher->under_way == 0 && session->count > 0;
    if (request == NULL || session->is_opening || !(stele_fetcher_is_due(session) || waits) ||
        (is_full && session->count == 0))
        return false;
    fetcher->last_number++;
    if (is_full)
        request->words = stele_fetcher_begin(session);
    bool is_collected = collect(fetcher, is_full);
    if (is_collected && !is_full && !waits && fetcher->line_count == 0 && fetcher->forgotten_count == 0)
        return false;
    if (!is_full)
        request->words = stele_fetcher_begin(session);
    request->fetcher = fetcher;
    request->number = fetcher->last_number;
    request->line_count = fetcher->line_count;
    enum stele_err err = is_collected ? call_leader(fetcher, request) : STELE_NO_MEMORY;
    if (err != STELE_OK) {
        (void)stele_fetcher_answered(session, &request->words, err, 0);
        drop_unsent(fetcher);
        lose(fetcher);
        return false;
    }
    request->is_under_way = true;
    fetcher->under_way++;
    STELE_METRIC_ADD(fetcher->shard->env->metrics, replica_fetches, 1);
    return true;
}

static void kick_arrived(struct stele_task *task)
{
    struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(task, struct stele_replica_fetcher, kick_task);
    struct stele_shard *shard = fetcher->shard;
    fetcher->is_kicked = false;
    if (shard->fetchers.is_stopped)
        return;
    while (stele_env_mono_ms(shard->env) >= fetcher->rest_until_ms && ask(fetcher)) {
    }
    arm(fetcher);
}

/* As a message, so that what comes due together is asked for together. */
static void kick(struct stele_replica_fetcher *fetcher)
{
    struct stele_env *env = fetcher->shard->env;
    if (fetcher->is_kicked || fetcher->shard->fetchers.is_stopped)
        return;
    fetcher->is_kicked = true;
    fetcher->kick_task.run = kick_arrived;
    env->ops->post(env, &fetcher->kick_task);
}

/* Life. */

void stele_replica_fetchers_init(struct stele_shard *shard)
{
    stele_list_init(&shard->fetchers.all);
}

static void begin_group(struct stele_shard *shard)
{
    struct stele_link_group *group = &shard->fetchers.group;
    struct stele_node *node = shard->node;
    if (shard->fetchers.has_group)
        return;
    shard->fetchers.has_group = true;
    stele_link_group_init(group, shard->env, shard->net, STELE_MEM_NODE);
    group->client_id = "replica";
    group->software_name = "steled";
    group->role = STELE_ROLE_NODE;
    group->node_id = node->node_id;
    group->cluster_id = node->cluster_id;
    group->request_timeout_ms = node->limits.replica_timeout_ms;
    group->set_up_timeout_ms = stele_min_i64(node->limits.replica_timeout_ms, SET_UP_MS_MAX);
    group->backoff_ms = CONNECT_BACKOFF_MS;
    group->backoff_max_ms = CONNECT_BACKOFF_MS_MAX;
    group->in_flight_max = STELE_FETCHES_IN_FLIGHT;
}

struct stele_link_group *stele_replica_fetchers_group(struct stele_shard *shard)
{
    begin_group(shard);
    return &shard->fetchers.group;
}

static struct stele_replica_fetcher *fetcher_to(struct stele_shard *shard, int32_t node_id)
{
    struct stele_list *all = &shard->fetchers.all;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(at, struct stele_replica_fetcher, all);
        if (fetcher->node_id == node_id)
            return fetcher;
    }
    struct stele_replica_fetcher *fetcher = stele_mem_alloc(shard->env->mem, STELE_MEM_NODE, sizeof(*fetcher));
    if (fetcher == NULL)
        return NULL;
    begin_group(shard);
    fetcher->shard = shard;
    fetcher->node_id = node_id;
    stele_link_init(&fetcher->link, &shard->fetchers.group);
    fetcher->link.next_address = next_address;
    fetcher->link.changed = link_changed;
    stele_fetcher_init(&fetcher->session);
    stele_timer_init(&fetcher->timer, timer_fired);
    stele_list_push(all, &fetcher->all);
    return fetcher;
}

static void free_lines(struct stele_replica_fetcher *fetcher, struct stele_list *entries)
{
    while (!stele_list_is_empty(entries)) {
        struct stele_fetcher_entry *entry = STELE_CONTAINER_OF(entries->next, struct stele_fetcher_entry, in_fetcher);
        stele_list_remove(&entry->in_fetcher);
        stele_mem_free(mem_of(fetcher), line_of(entry));
    }
}

void stele_replica_fetchers_stop(struct stele_shard *shard)
{
    struct stele_list *all = &shard->fetchers.all;
    shard->fetchers.is_stopped = true;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        struct stele_replica_fetcher *fetcher = STELE_CONTAINER_OF(at, struct stele_replica_fetcher, all);
        drop_unsent(fetcher);
        stele_link_drop(&fetcher->link);
        stele_timer_cancel(shard->wheel, &fetcher->timer);
    }
}

void stele_replica_fetchers_free(struct stele_shard *shard)
{
    while (!stele_list_is_empty(&shard->fetchers.all)) {
        struct stele_replica_fetcher *fetcher =
            STELE_CONTAINER_OF(shard->fetchers.all.next, struct stele_replica_fetcher, all);
        stele_list_remove(&fetcher->all);
        stele_timer_cancel(shard->wheel, &fetcher->timer);
        stele_link_abandon(&fetcher->link);
        free_lines(fetcher, &fetcher->session.entries);
        free_lines(fetcher, &fetcher->session.forgotten);
        stele_mem_free(mem_of(fetcher), fetcher->lines);
        stele_mem_free(mem_of(fetcher), fetcher->forgotten);
        stele_mem_free(mem_of(fetcher), fetcher);
    }
    if (shard->fetchers.has_group)
        stele_link_group_deinit(&shard->fetchers.group);
    shard->fetchers.has_group = false;
}

static struct stele_replica_fetcher *fetcher_of(const struct stele_replica_line *line)
{
    return STELE_CONTAINER_OF(line->entry.fetcher, struct stele_replica_fetcher, session);
}

bool stele_replica_fetcher_join(struct stele_partition *partition, int32_t leader_id)
{
    struct stele_shard *shard = partition->shard;
    const struct stele_known_node *known = stele_nodes_find(shard->nodes, leader_id);
    if (partition->replica.line != NULL || shard->fetchers.is_stopped)
        return true;
    if (known == NULL || known->peer_address[0] == 0)
        return false;
    struct stele_replica_fetcher *fetcher = fetcher_to(shard, leader_id);
    struct stele_replica_line *line =
        fetcher != NULL ? stele_mem_alloc(shard->env->mem, STELE_MEM_NODE, sizeof(*line)) : NULL;
    if (line == NULL)
        return false;
    line->partition = partition;
    line->key = partition->key;
    partition->replica.line = line;
    stele_fetcher_add(&fetcher->session, &line->entry);
    kick(fetcher);
    return true;
}

void stele_replica_fetcher_leave(struct stele_partition *partition)
{
    struct stele_replica_line *line = partition->replica.line;
    if (line == NULL)
        return;
    struct stele_replica_fetcher *fetcher = fetcher_of(line);
    partition->replica.line = NULL;
    line->partition = NULL;
    if (stele_fetcher_remove(&line->entry))
        kick(fetcher); /* the server is to forget it */
    else
        stele_mem_free(partition->shard->env->mem, line);
}

int32_t stele_replica_fetcher_leader(const struct stele_partition *partition)
{
    return partition->replica.line != NULL ? fetcher_of(partition->replica.line)->node_id : STELE_NO_NODE;
}

void stele_replica_fetcher_touch(struct stele_partition *partition)
{
    struct stele_replica_line *line = partition->replica.line;
    if (line == NULL)
        return;
    stele_fetcher_touch(&line->entry);
    kick(fetcher_of(line));
}
