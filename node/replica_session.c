#include "node/replica_session.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition_repair.h"

#include <string.h>

static struct stele_replica_entry *entry_of(struct stele_fetch_session_entry *entry)
{
    return STELE_CONTAINER_OF(entry, struct stele_replica_entry, entry);
}

static struct stele_replica_entry *watcher_at(struct stele_list *link)
{
    return entry_of(STELE_CONTAINER_OF(link, struct stele_fetch_session_entry, in_watchers));
}

/* Waking. */

static void wake_arrived(struct stele_task *task);

/* As a message: several appends of one turn of the loop become one answer. */
static void wake(struct stele_replica_part *part)
{
    struct stele_env *env = part->shard->env;
    if (part->state != STELE_PART_PARKED || part->is_woken)
        return;
    part->is_woken = true;
    part->wake_task.run = wake_arrived;
    env->ops->post(env, &part->wake_task);
}

void stele_replica_watchers_wake(struct stele_partition *partition)
{
    struct stele_list *watchers = &partition->replica.watchers;
    stele_fetch_session_mark(watchers);
    for (struct stele_list *at = watchers->next; at != watchers; at = at->next)
        wake(watcher_at(at)->part);
}

void stele_replica_watchers_raise(struct stele_partition *partition)
{
    struct stele_list *watchers = &partition->replica.watchers;
    int64_t high_watermark = stele_log_high_watermark(partition->log);
    stele_fetch_session_mark(watchers);
    for (struct stele_list *at = watchers->next; at != watchers; at = at->next) {
        if (high_watermark > watcher_at(at)->entry.line.known_high_watermark)
            wake(watcher_at(at)->part);
    }
}

static void forget_partition(struct stele_replica_entry *entry)
{
    entry->partition = NULL;
    stele_list_remove(&entry->entry.in_watchers);
    stele_list_push(&entry->part->homeless, &entry->entry.in_watchers);
}

void stele_replica_watchers_part(struct stele_partition *partition)
{
    struct stele_list *watchers = &partition->replica.watchers;
    stele_replica_watchers_wake(partition);
    while (!stele_list_is_empty(watchers))
        forget_partition(watcher_at(watchers->next));
}

/* Entries. */

static void entry_free(struct stele_replica_entry *entry)
{
    if (entry->is_loading) {
        entry->is_dropped = true;
        return;
    }
    stele_mem_free(entry->part->shard->env->mem, entry);
}

static void drop(struct stele_replica_entry *entry)
{
    stele_fetch_session_drop(&entry->entry);
    entry->partition = NULL;
    entry_free(entry);
}

static void drop_all(struct stele_replica_part *part)
{
    struct stele_fetch_session_entry *entry = stele_fetch_session_first(&part->entries);
    for (; entry != NULL; entry = stele_fetch_session_first(&part->entries))
        drop(entry_of(entry));
}

static struct stele_replica_entry *find(const struct stele_replica_part *part, const struct stele_partition_key *key)
{
    struct stele_partition *partition = stele_partition_find(part->shard, key);
    struct stele_fetch_session_entry *entry =
        partition != NULL ? stele_fetch_session_find(&part->entries, &partition->replica.watchers) : NULL;
    return entry != NULL ? entry_of(entry) : NULL;
}

static bool reserve_result(struct stele_replica_part *part)
{
    if (part->result_count < part->result_capacity)
        return true;
    size_t capacity = part->result_capacity == 0 ? 16 : part->result_capacity * 2;
    struct stele_replica_result *results =
        stele_mem_resize(part->shard->env->mem, STELE_MEM_CONNECTION, part->results, capacity * sizeof(*results));
    if (results == NULL)
        return false;
    part->results = results;
    part->result_capacity = capacity;
    return true;
}

static struct stele_fetch_answer answer_with(enum stele_err err)
{
    return (struct stele_fetch_answer){.err = err,
                                       .diverging = {STELE_EPOCH_NONE, STELE_OFFSET_NONE},
                                       .high_watermark = -1,
                                       .log_start_offset = -1,
                                       .log_end_offset = -1,
                                       .leader_id = STELE_NO_NODE,
                                       .current_leader_epoch = -1};
}

/* A line of which nothing is kept: it comes again. */
static enum stele_err refuse_line(struct stele_replica_part *part, const struct stele_partition_key *key,
                                  enum stele_err err)
{
    if (!reserve_result(part))
        return STELE_NO_MEMORY;
    part->results[part->result_count++] =
        (struct stele_replica_result){.key = *key, .answer = answer_with(err), .hold = NULL};
    return STELE_OK;
}

static enum stele_err take_line(struct stele_replica_part *part, const struct stele_fetch_partition *in)
{
    struct stele_partition_key key = {.topic_id = in->topic_id, .number = in->partition};
    struct stele_fetch_line line = {.leader_epoch = in->current_leader_epoch,
                                    .last_fetched_epoch = in->last_fetched_epoch,
                                    .fetch_offset = in->fetch_offset,
                                    .synced_offset = in->synced_offset,
                                    .log_start_offset = in->log_start_offset,
                                    .damaged_offset = in->damaged_offset,
                                    .known_high_watermark = in->known_high_watermark};
    struct stele_partition *partition = stele_partition_find(part->shard, &key);
    if (partition == NULL)
        return refuse_line(part, &key, STELE_UNKNOWN_TOPIC_ID);
    if (stele_nodes_find(part->shard->nodes, part->question.node_id) == NULL)
        return refuse_line(part, &key, STELE_UNKNOWN_LEADER_EPOCH); /* what says that it is one is on the way */
    struct stele_fetch_session_entry *known = stele_fetch_session_find(&part->entries, &partition->replica.watchers);
    struct stele_replica_entry *entry = known != NULL ? entry_of(known) : NULL;
    if (entry != NULL) {
        stele_fetch_session_set(&entry->entry, &line);
    } else {
        entry = stele_mem_alloc(part->shard->env->mem, STELE_MEM_CONNECTION, sizeof(*entry));
        if (entry == NULL)
            return STELE_NO_MEMORY;
        entry->part = part;
        entry->key = key;
        entry->partition = partition;
        stele_fetch_session_put(&part->entries, &partition->replica.watchers, &entry->entry, &line);
    }
    entry->entry.max_bytes = in->max_bytes;
    entry->awaits_line = false;
    if (partition->replica.role == STELE_REPLICA_LEADER) {
        (void)stele_replica__fetched(partition, part->question.node_id, part->question.node_epoch, &line);
        if (in->doubted_offset >= 0)
            stele_partition_doubt(partition, in->doubted_offset);
    }
    return STELE_OK;
}

/* Ranges that are not in the page cache are loaded by a job; the entry waits for it, others do not. */

static void load_work(struct stele_job *job)
{
    struct stele_replica_entry *entry = STELE_CONTAINER_OF(job, struct stele_replica_entry, cold.job);
    struct stele_file *file = stele_cached_file_send(entry->slice.file)->file;
    enum stele_err err = stele_slice_load(job->env->mem, file, entry->slice.pos, (int64_t)entry->slice.bytes);
    (void)err; /* who reads it meets the same */
}

static void check_ended(struct stele_replica_part *part);

static void load_done(struct stele_job *job)
{
    struct stele_replica_entry *entry = STELE_CONTAINER_OF(job, struct stele_replica_entry, cold.job);
    struct stele_replica_part *part = entry->part;
    struct stele_partition *partition = entry->cold.partition;
    stele_slice_release(&entry->slice);
    stele_partition__cold_ended(&entry->cold);
    entry->is_loading = false;
    entry->is_loaded = true;
    stele_list_remove(&entry->in_loading);
    if (entry->is_dropped) {
        entry_free(entry);
        check_ended(part);
    } else {
        stele_fetch_session_set(&entry->entry, &entry->entry.line);
        wake(part);
    }
    stele_partition__job_done(partition);
}

/* Who begins with the batch around the log's start gets it by the start. */
static int64_t read_offset(const struct stele_replica_entry *entry)
{
    return stele_max_i64(entry->entry.line.fetch_offset, stele_log_start_offset(entry->partition->log));
}

/* True when it must be loaded first. */
static bool is_cold(struct stele_replica_entry *entry, size_t max_bytes)
{
    struct stele_partition *partition = entry->partition;
    struct stele_vfs *vfs = partition->shard->env->vfs;
    struct stele_slice slice = {.file = NULL};
    bool was_loaded = entry->is_loaded;
    entry->is_loaded = false;
    if (was_loaded || stele_log_is_warm(partition->log, entry->entry.line.fetch_offset))
        return false; /* whatever is still cold is read at the loop's cost */
    if (stele_log_locate(partition->log, read_offset(entry), max_bytes, &slice) != STELE_OK)
        return false; /* the read knows what to say */
    if (slice.bytes == 0 || vfs->ops->resident(stele_cached_file_send(slice.file)->file, slice.pos,
                                               (int64_t)slice.bytes) == STELE_RESIDENT_YES) {
        stele_slice_release(&slice);
        return false;
    }
    entry->slice = slice;
    entry->is_loading = true;
    stele_list_push(&entry->part->loading, &entry->in_loading);
    entry->cold = (struct stele_cold){.job = {.work = load_work, .done = load_done}, .bytes = (int64_t)slice.bytes};
    stele_partition__run_cold(partition, &entry->cold);
    return true;
}

/* The round. */

struct look {
    struct stele_replica_entry *entry;
    struct stele_fetch_answer answer;
    struct stele_fetch_hold *hold;
    bool has_reason;
    bool is_put_off; /* there are records, but not now: it stays ready */
};

/* Stays ready: when the rate is down again all those that were held back are looked at. */
static bool is_held_back(struct stele_replica_part *part, const struct stele_partition *partition)
{
    if (!partition->replica.is_throttled[STELE_THROTTLE_LEADER] ||
        stele_leader_is_in_sync(&partition->replica.leader, part->question.node_id))
        return false;
    int64_t delay_ms = stele_throttle_delay(part->shard, STELE_THROTTLE_LEADER);
    if (delay_ms == 0)
        return false;
    STELE_METRIC_ADD(part->shard->env->metrics, throttle_held_sends, 1);
    stele_throttle_wait(part->shard, &part->throttle_wait, delay_ms);
    return true;
}

static void may_send_again(struct stele_throttle_wait *wait)
{
    wake(STELE_CONTAINER_OF(wait, struct stele_replica_part, throttle_wait));
}

static void count_throttled(const struct stele_partition *partition, const struct stele_fetch_hold *hold)
{
    if (!partition->replica.is_throttled[STELE_THROTTLE_LEADER])
        return;
    stele_throttle_count(partition->shard, STELE_THROTTLE_LEADER, (int64_t)hold->slice.bytes);
    STELE_METRIC_ADD(partition->shard->env->metrics, throttled_sent, hold->slice.bytes);
}

static void read(struct stele_replica_part *part, struct look *look, int64_t bytes_left, bool is_first)
{
    struct stele_replica_entry *entry = look->entry;
    struct stele_partition *partition = entry->partition;
    const struct stele_fetch_line *line = &entry->entry.line;
    struct stele_read in = {.offset = read_offset(entry),
                            .bound = look->answer.read_end_offset,
                            .max_bytes = (size_t)stele_max_i64(stele_min_i64(entry->entry.max_bytes, bytes_left), 0),
                            .min_one = is_first};
    if (line->fetch_offset >= look->answer.read_end_offset || (in.max_bytes == 0 && !is_first) || entry->awaits_line ||
        entry->is_loading)
        return;
    look->is_put_off = is_held_back(part, partition);
    if (look->is_put_off || is_cold(entry, in.max_bytes))
        return;
    struct stele_fetch_hold *hold = stele_fetch_hold_new_for(part->shard, part->session->home);
    if (hold == NULL) {
        look->is_put_off = true; /* the next round */
        return;
    }
    enum stele_err err = stele_log_read(partition->log, &in, &hold->slice);
    if (err == STELE_OK && hold->slice.bytes > 0) {
        hold->send.file = stele_cached_file_send(hold->slice.file)->file; /* pinned: open until released */
        hold->key = entry->key;
        hold->generation = partition->generation;
        hold->session_id = part->session->connection_id;
        look->hold = hold;
        count_throttled(partition, hold);
        return;
    }
    stele_fetch_hold_free(hold);
    look->is_put_off = err == STELE_NO_MEMORY;
    if (stele_log_is_failed(partition->log))
        stele_partition_fail(partition);
    if (err == STELE_DAMAGED_RANGE)
        stele_repair_look(partition);
    if (err != STELE_OK && err != STELE_NO_MEMORY)
        look->answer.err = err == STELE_IO || err == STELE_OFFLINE ? STELE_KAFKA_STORAGE_ERROR : err;
}

static struct look look_at(struct stele_replica_part *part, struct stele_replica_entry *entry, int64_t bytes_left,
                           bool is_first)
{
    struct look look = {.entry = entry, .answer = answer_with(STELE_UNKNOWN_TOPIC_ID), .has_reason = true};
    const struct stele_fetch_session_entry *in = &entry->entry;
    if (entry->partition == NULL)
        return look;
    look.answer.err = stele_partition__state_error(entry->partition);
    if (look.answer.err != STELE_OK)
        return look;
    look.answer = stele_replica__look(entry->partition, part->question.node_id, part->question.node_epoch, &in->line);
    if (look.answer.err != STELE_OK || stele_epoch_end_is_known(&look.answer.diverging))
        return look;
    read(part, &look, bytes_left, is_first);
    look.has_reason = look.answer.err != STELE_OK || look.hold != NULL ||
                      look.answer.high_watermark > in->line.known_high_watermark ||
                      (in->sent_start_offset >= 0 && look.answer.log_start_offset != in->sent_start_offset);
    return look;
}

/* Of a partition that went nothing is kept any more. */
static void add_result(struct stele_replica_part *part, struct look *look)
{
    look->entry->round = part->round;
    look->entry->awaits_line = look->entry->awaits_line || look->hold != NULL;
    part->results[part->result_count++] =
        (struct stele_replica_result){.key = look->entry->key, .answer = look->answer, .hold = look->hold};
    if (look->entry->partition == NULL)
        drop(look->entry);
}

/* Those that have a reason, or all that have something to say. */
static void pass(struct stele_replica_part *part, bool wants_reason, int64_t *inout_bytes_left)
{
    struct stele_fetch_session *entries = &part->entries;
    stele_fetch_session_round_begin(entries);
    while (*inout_bytes_left > 0 || part->result_count == 0 || part->question.is_full) {
        struct stele_fetch_session_entry *next = reserve_result(part) ? stele_fetch_session_round_next(entries) : NULL;
        if (next == NULL)
            break;
        struct stele_replica_entry *entry = entry_of(next);
        if (entry->round == part->round) {
            stele_fetch_session_keep(next);
            continue;
        }
        struct look look = look_at(part, entry, *inout_bytes_left, part->result_count == 0);
        if (wants_reason && !look.has_reason) {
            stele_fetch_session_keep(next);
            continue;
        }
        bool is_said = stele_fetch_session_settle(next, &look.answer, look.hold != NULL);
        if (look.is_put_off)
            stele_fetch_session_keep(next);
        if (!is_said && !part->question.is_full)
            continue;
        if (look.hold != NULL)
            *inout_bytes_left -= (int64_t)look.hold->slice.bytes;
        add_result(part, &look);
    }
    stele_fetch_session_round_end(entries);
}

/* False when there is no reason for an answer. */
static bool make_round(struct stele_replica_part *part, bool is_forced)
{
    int64_t bytes_left = part->question.bytes_max;
    part->round++;
    pass(part, true, &bytes_left);
    if (part->result_count == 0 && !is_forced)
        return false;
    pass(part, false, &bytes_left);
    return true;
}

/* Questions. */

static void reply_home(struct stele_task *task)
{
    struct stele_replica_part *part = STELE_CONTAINER_OF(task, struct stele_replica_part, ask_task);
    part->is_asked = false;
    part->session->owner->replied(part->session, part);
}

static void reply(struct stele_replica_part *part)
{
    struct stele_env *env = part->session->home->env;
    part->state = STELE_PART_IDLE;
    part->entry_count = part->entries.count;
    part->ask_task.run = reply_home;
    env->ops->post(env, &part->ask_task);
}

static void go_round(struct stele_replica_part *part, bool is_forced)
{
    if (make_round(part, is_forced))
        reply(part);
    else
        part->state = STELE_PART_PARKED;
}

static void wake_arrived(struct stele_task *task)
{
    struct stele_replica_part *part = STELE_CONTAINER_OF(task, struct stele_replica_part, wake_task);
    part->is_woken = false;
    if (part->state == STELE_PART_PARKED)
        go_round(part, false);
    check_ended(part);
}

static void ask_arrived(struct stele_task *task)
{
    struct stele_replica_part *part = STELE_CONTAINER_OF(task, struct stele_replica_part, ask_task);
    const struct stele_replica_question *question = &part->question;
    part->err = STELE_OK;
    part->result_count = 0;
    if (question->drops_all)
        drop_all(part);
    for (size_t i = 0; i < question->forgotten_count; i++) {
        struct stele_partition_key key = {.topic_id = question->forgotten[i]->topic_id,
                                          .number = question->forgotten[i]->partition};
        struct stele_replica_entry *entry = find(part, &key);
        if (entry != NULL)
            drop(entry);
    }
    for (size_t i = 0; i < question->line_count && part->err == STELE_OK; i++)
        part->err = take_line(part, question->lines[i]);
    if (part->err != STELE_OK)
        reply(part);
    else
        go_round(part, question->is_full || question->is_hurried);
}

void stele_replica_part_ask(struct stele_replica_part *part)
{
    part->is_asked = true;
    part->is_hurried = false;
    part->ask_task.run = ask_arrived;
    part->shard->env->ops->post(part->shard->env, &part->ask_task);
}

static void hurry_home(struct stele_task *task)
{
    struct stele_replica_part *part = STELE_CONTAINER_OF(task, struct stele_replica_part, hurry_task);
    part->session->owner->hurried(part->session, part);
}

static void hurry_arrived(struct stele_task *task)
{
    struct stele_replica_part *part = STELE_CONTAINER_OF(task, struct stele_replica_part, hurry_task);
    struct stele_env *env = part->session->home->env;
    if (part->state == STELE_PART_PARKED)
        go_round(part, true);
    task->run = hurry_home;
    env->ops->post(env, task);
}

void stele_replica_part_hurry(struct stele_replica_part *part)
{
    STELE_ASSERT(part->is_asked);
    STELE_ASSERT(!part->is_hurried);
    part->is_hurried = true;
    part->hurry_task.run = hurry_arrived;
    part->shard->env->ops->post(part->shard->env, &part->hurry_task);
}

/* Life. */

static void free_results(struct stele_replica_part *part)
{
    for (size_t i = 0; i < part->result_count; i++) {
        if (part->results[i].hold != NULL)
            stele_fetch_hold_free(part->results[i].hold);
    }
    stele_mem_free(part->shard->env->mem, part->results);
}

static void session_free(struct stele_replica_session *session)
{
    for (int i = 0; i < session->part_count; i++) {
        drop_all(&session->parts[i]);
        stele_list_remove(&session->parts[i].throttle_wait.link);
        free_results(&session->parts[i]);
    }
    stele_list_remove(&session->link);
    stele_mem_free(session->home->env->mem, session);
}

static void end_home(struct stele_task *task)
{
    struct stele_replica_session *session = STELE_CONTAINER_OF(task, struct stele_replica_part, ask_task)->session;
    if (--session->ending_count == 0)
        session_free(session);
}

static void check_ended(struct stele_replica_part *part)
{
    struct stele_env *env = part->session->home->env;
    if (part->state != STELE_PART_ENDED || part->is_woken || !stele_list_is_empty(&part->loading))
        return;
    part->ask_task.run = end_home;
    env->ops->post(env, &part->ask_task);
}

static void end_arrived(struct stele_task *task)
{
    struct stele_replica_part *part = STELE_CONTAINER_OF(task, struct stele_replica_part, ask_task);
    drop_all(part);
    stele_list_remove(&part->throttle_wait.link);
    part->state = STELE_PART_ENDED;
    check_ended(part);
}

void stele_replica_session_end(struct stele_replica_session *session)
{
    if (session == NULL || session->home->node->is_freeing)
        return;
    session->is_over = session->is_beginning || session->is_finishing;
    if (session->is_over)
        return;
    session->ending_count = session->part_count;
    for (int i = 0; i < session->part_count; i++) {
        struct stele_replica_part *part = &session->parts[i];
        part->ask_task.run = end_arrived;
        part->shard->env->ops->post(part->shard->env, &part->ask_task);
    }
}

/* Jobs never end any more. */
static void abandon_loads(struct stele_replica_part *part)
{
    while (!stele_list_is_empty(&part->loading)) {
        struct stele_replica_entry *entry =
            STELE_CONTAINER_OF(part->loading.next, struct stele_replica_entry, in_loading);
        stele_list_remove(&entry->in_loading);
        stele_slice_release(&entry->slice);
        entry->is_loading = false;
        if (entry->is_dropped)
            entry_free(entry);
    }
}

void stele_replica_sessions_free(struct stele_shard *home)
{
    while (!stele_list_is_empty(&home->replica_sessions)) {
        struct stele_replica_session *session =
            STELE_CONTAINER_OF(home->replica_sessions.next, struct stele_replica_session, link);
        for (int i = 0; i < session->part_count; i++)
            abandon_loads(&session->parts[i]);
        session_free(session);
    }
}

struct stele_replica_session *stele_replica_session_new(struct stele_shard *home, int64_t connection_id)
{
    struct stele_node *node = home->node;
    int count = node->shard_count - STELE_SHARD_DATA;
    struct stele_replica_session *session = stele_mem_alloc(
        home->env->mem, STELE_MEM_CONNECTION, sizeof(*session) + (size_t)count * sizeof(session->parts[0]));
    if (session == NULL)
        return NULL;
    session->home = home;
    session->connection_id = connection_id;
    session->part_count = count;
    stele_fetch_session_init(&session->words);
    stele_list_init(&session->waiting);
    stele_list_push(&home->replica_sessions, &session->link);
    for (int i = 0; i < count; i++) {
        struct stele_replica_part *part = &session->parts[i];
        part->session = session;
        part->shard = &node->shards[STELE_SHARD_DATA + i];
        stele_fetch_session_init(&part->entries);
        stele_list_init(&part->homeless);
        stele_list_init(&part->throttle_wait.link);
        part->throttle_wait.again = may_send_again;
        stele_list_init(&part->loading);
    }
    return session;
}
