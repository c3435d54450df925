#include "cluster-tests/sim/cluster_watch.h"

#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "proto/codec.h"

#include <stdio.h>
#include <string.h>

/* Something that happens at a moment. */
struct moment {
    enum cluster_condition_kind kind;
    int host, other, number, connection;
    int64_t tag;
    const struct stele_trace_event *event;
};

/* Roles. */

static int controller_of(const struct cluster *run)
{
    int found = CLUSTER_NOBODY;
    int32_t epoch = -1;
    for (int i = 0; i < run->node_count; i++) {
        const struct stele_metadata_log *mlog = cluster_metadata_of(&run->nodes[i]);
        if (mlog != NULL && mlog->quorum.role == STELE_QUORUM_LEADER && mlog->quorum.election.epoch > epoch) {
            found = i;
            epoch = mlog->quorum.election.epoch;
        }
    }
    return found;
}

/* The partition that the script is about; NULL: none has a leader yet. */
static const struct cluster_partition *partition_of(struct cluster *run)
{
    struct cluster_watch *watch = &run->watch;
    int controller = controller_of(run);
    for (int round = 0; round < 2 && watch->topic == NULL; round++) {
        for (int i = 0; i < run->book.topic_count * CLUSTER_PARTITIONS_MAX && watch->topic == NULL; i++) {
            struct cluster_topic *topic = &run->book.topics[i / CLUSTER_PARTITIONS_MAX];
            const struct cluster_partition *it = &topic->partitions[i % CLUSTER_PARTITIONS_MAX];
            if (!it->has_state || it->state.leader_id < 1 || (it->state.leader_id - 1 == controller && round == 0))
                continue;
            watch->topic = topic;
            watch->partition = i % CLUSTER_PARTITIONS_MAX;
            sim_world_log(&run->world, "SCRIPT is about %s-%d, led by n%d", topic->name, watch->partition,
                          (int)it->state.leader_id);
        }
    }
    return watch->topic == NULL ? NULL : &watch->topic->partitions[watch->partition];
}

/* In sync and no controller, if there is such a one; `but` is another. */
static int follower_of(struct cluster *run, const struct stele_partition_state *state, int but)
{
    int controller = controller_of(run);
    for (int round = 0; round < 3; round++) {
        for (int32_t i = 0; i < state->replicas.count; i++) {
            int32_t id = state->replicas.ids[i];
            bool is_fine = round == 2 || (stele_node_set_has(&state->isr, id) && (round == 1 || id - 1 != controller));
            if (id != state->leader_id && id - 1 != but && is_fine)
                return id - 1;
        }
    }
    return CLUSTER_NOBODY;
}

static int another(const struct cluster *run)
{
    for (int i = 0; i < run->node_count; i++) {
        bool is_called = false;
        for (size_t k = 0; k < STELE_ARRAY_LEN(run->watch.letters); k++)
            is_called = is_called || run->watch.letters[k] == i + 1;
        if (!is_called)
            return i;
    }
    return CLUSTER_NOBODY;
}

static int resolve(struct cluster *run, const struct cluster_line *line, int host)
{
    if (host < CLUSTER_LEADER)
        return host;
    if (host == CLUSTER_CONTROLLER)
        return controller_of(run);
    if (host == CLUSTER_ANOTHER)
        return another(run);
    if (host == CLUSTER_IT)
        return line->it;
    if (host >= CLUSTER_LETTER_A)
        return run->watch.letters[host - CLUSTER_LETTER_A] - 1;
    const struct cluster_partition *partition = partition_of(run);
    if (partition == NULL || host == CLUSTER_ANY)
        return CLUSTER_NOBODY;
    if (host == CLUSTER_LEADER)
        return partition->state.leader_id < 1 ? CLUSTER_NOBODY : (int)partition->state.leader_id - 1;
    int follower = follower_of(run, &partition->state, CLUSTER_NOBODY);
    return host == CLUSTER_FOLLOWER ? follower : follower_of(run, &partition->state, follower);
}

/* Conditions. */

static const struct cluster_replica *replica_of(struct cluster *run, int node)
{
    const struct cluster_watch *watch = &run->watch;
    return &run->nodes[node].replicas[watch->topic - run->book.topics][watch->partition];
}

static bool is_whole(struct cluster *run, const struct stele_partition_state *state, int node)
{
    if (state->leader_id < 1 || !cluster_node_lives(&run->nodes[node]))
        return false;
    const struct cluster_replica *replica = replica_of(run, node), *leader = replica_of(run, state->leader_id - 1);
    return replica->of != NULL && leader->of != NULL && replica->end_offset == leader->end_offset;
}

static bool holds_of(struct cluster *run, const struct cluster_condition *condition, int node)
{
    const struct cluster_partition *partition = partition_of(run);
    switch ((int)condition->kind) {
    case CLUSTER_IF_LEADS:
        return partition != NULL && partition->state.leader_id == node + 1;
    case CLUSTER_IF_IN_SYNC:
        return partition != NULL && stele_node_set_has(&partition->state.isr, node + 1);
    case CLUSTER_IF_ELIGIBLE:
        return partition != NULL && stele_node_set_has(&partition->state.elr, node + 1);
    case CLUSTER_IF_WHOLE:
        return partition != NULL && is_whole(run, &partition->state, node);
    case CLUSTER_IF_CONTROLS:
        return controller_of(run) == node;
    case CLUSTER_IF_SERVES:
        return cluster_node_lives(&run->nodes[node]) && run->nodes[node].server.state == SIM_SERVER_SERVING &&
               run->nodes[node].has_served;
    default:
        return run->nodes[node].server.state == SIM_SERVER_DOWN;
    }
}

static bool is_of_nobody(struct cluster *run, const struct cluster_line *line,
                         const struct cluster_condition *condition)
{
    const struct cluster_partition *partition = partition_of(run);
    switch ((int)condition->kind) {
    case CLUSTER_IF_SO_MANY:
        return partition != NULL && partition->state.isr.count == condition->number;
    case CLUSTER_IF_LEADERLESS:
        return partition != NULL && partition->state.leader_id < 1;
    default:
        return run->reached[CLUSTER_POINT_FORCED] > line->from_lost;
    }
}

/* Of those that hold for a while. */
static bool holds(struct cluster *run, struct cluster_line *line, const struct cluster_condition *condition)
{
    enum cluster_condition_kind kind = condition->kind;
    int node = resolve(run, line, condition->host);
    if (kind <= CLUSTER_IF_TELLS || kind == CLUSTER_IF_ACKNOWLEDGED || kind == CLUSTER_IF_RESET)
        return false;
    if (kind == CLUSTER_IF_SO_MANY || kind == CLUSTER_IF_LEADERLESS || kind == CLUSTER_IF_LOST)
        return is_of_nobody(run, line, condition) != condition->is_not;
    for (int i = 0; i < run->node_count; i++) {
        if ((i == node || condition->host == CLUSTER_ANY) && holds_of(run, condition, i) != condition->is_not) {
            line->it = i;
            return true;
        }
    }
    return false;
}

static bool is_saying(const struct cluster_condition *condition, const struct stele_trace_event *event)
{
    char text[512];
    if (condition->saying[0] == 0)
        return true;
    (void)stele_trace_text(event, text, sizeof(text));
    return strstr(text, condition->saying) != NULL;
}

static bool is_met(struct cluster *run, const struct cluster_line *line, const struct cluster_condition *condition,
                   const struct moment *moment)
{
    if (condition->kind != moment->kind)
        return false;
    if (condition->kind == CLUSTER_IF_RESET)
        return true;
    if (condition->kind == CLUSTER_IF_ACKNOWLEDGED)
        return moment->tag >= line->from_tag;
    if (condition->number != moment->number ||
        (condition->host != CLUSTER_ANY && resolve(run, line, condition->host) != moment->host))
        return false;
    if (condition->other != CLUSTER_NOBODY && condition->other != CLUSTER_ANY &&
        resolve(run, line, condition->other) != moment->other)
        return false;
    return moment->event == NULL || is_saying(condition, moment->event);
}

/* The lives of lines. */

static void fail(struct cluster *run, const struct cluster_line *line, const char *what)
{
    char text[CLUSTER_TEXT_BYTES];
    cluster_fault_text(&line->fault, run->node_count, text);
    sim_world_fail(&run->world, "SCRIPT: %s: %s", what, text);
}

static void stop_watching(struct cluster *run, struct cluster_line *line, enum cluster_line_state state)
{
    run->watch.watching--;
    line->state = state;
    sim_event_cancel(&run->world, &line->end);
}

/* The line that is to begin behind this one does. */
static void go_on(struct cluster *run, const struct cluster_line *line)
{
    struct cluster_line *next = run->plan.lines + (line - run->plan.lines) + 1;
    if (next < run->plan.lines + run->plan.count && next->fault.words.is_behind)
        sim_event_after(&run->world, &next->begin, next->fault.words.after_us);
}

static void met(struct cluster *run, struct cluster_line *line)
{
    const struct cluster_words *words = &line->fault.words;
    if (line->state == CLUSTER_WAITS) {
        stop_watching(run, line, CLUSTER_DUE);
        sim_event_after(&run->world, &line->begin, words->later_us);
    } else if (words->verb == CLUSTER_NEVER) {
        fail(run, line, "it is so");
    } else {
        stop_watching(run, line, CLUSTER_DONE);
        sim_world_log(&run->world, "SCRIPT as expected");
        go_on(run, line);
    }
}

static const struct cluster_condition *condition_of(const struct cluster_line *line)
{
    return line->state == CLUSTER_WAITS ? &line->fault.words.when : &line->fault.words.what;
}

static bool is_watching(const struct cluster_line *line)
{
    return line->state == CLUSTER_WAITS || line->state == CLUSTER_WATCHES;
}

static void watch(struct cluster *run, struct cluster_line *line, enum cluster_line_state state)
{
    line->state = state;
    line->from_tag = run->book.record_count;
    line->from_lost = run->reached[CLUSTER_POINT_FORCED];
    run->watch.watching++;
    (void)partition_of(run); /* what is acknowledged is of it */
    if (holds(run, line, condition_of(line)))
        met(run, line);
}

static void expect(struct cluster *run, struct cluster_line *line)
{
    bool is_never = line->fault.words.verb == CLUSTER_NEVER;
    watch(run, line, CLUSTER_WATCHES);
    if (is_never)
        go_on(run, line);
    if (line->state != CLUSTER_WATCHES || line->fault.for_us == CLUSTER_FOR_EVER)
        return;
    if (line->fault.for_us == 0 && !is_never)
        fail(run, line, "it is not so");
    sim_event_after(&run->world, &line->end, line->fault.for_us);
}

static void come(struct cluster *run, struct cluster_line *line)
{
    struct cluster_fault *fault = &line->fault;
    char text[CLUSTER_TEXT_BYTES];
    line->state = CLUSTER_DONE;
    if (fault->words.is_behind || fault->words.verb != CLUSTER_STRIKES ||
        fault->words.when.kind != CLUSTER_IF_NOTHING) {
        cluster_fault_text(fault, run->node_count, text);
        sim_world_log(&run->world, "SCRIPT %s", text);
    }
    if (fault->words.verb == CLUSTER_EXPECTS || fault->words.verb == CLUSTER_NEVER) {
        expect(run, line);
        return;
    }
    int a = resolve(run, line, fault->a), b = resolve(run, line, fault->b);
    if ((fault->a >= CLUSTER_LEADER && a < 0 && fault->words.verb != CLUSTER_NAMES) ||
        (fault->b >= CLUSTER_LEADER && b < 0))
        fail(run, line, "there is nobody of that role");
    if (fault->words.verb == CLUSTER_NAMES) {
        sim_world_log(&run->world, "SCRIPT %c is n%d", 'A' + fault->a - CLUSTER_LETTER_A, b + 1);
        run->watch.letters[fault->a - CLUSTER_LETTER_A] = b + 1;
    } else {
        fault->a = a;
        fault->b = b;
        cluster_fault_strike(run, line);
    }
    go_on(run, line);
}

void cluster_watch_line(struct cluster *run, struct cluster_line *line)
{
    if (line->fault.words.when.kind == CLUSTER_IF_NOTHING)
        come(run, line);
    else
        watch(run, line, CLUSTER_WAITS);
}

static void run_begin(struct sim_event *event)
{
    struct cluster_line *line = STELE_CONTAINER_OF(event, struct cluster_line, begin);
    struct cluster *run = line->arg;
    if (line->state == CLUSTER_DUE)
        come(run, line);
    else
        cluster_watch_line(run, line);
}

static void run_end(struct sim_event *event)
{
    struct cluster_line *line = STELE_CONTAINER_OF(event, struct cluster_line, end);
    struct cluster *run = line->arg;
    if (line->state == CLUSTER_WATCHES && line->fault.words.verb == CLUSTER_EXPECTS)
        fail(run, line, "it does not become so");
    if (line->state == CLUSTER_WATCHES)
        stop_watching(run, line, CLUSTER_DONE);
    else
        cluster_fault_mend(run, line);
}

bool cluster_watch_is_over(const struct cluster *run)
{
    for (int64_t i = 0; i < run->plan.count; i++) {
        const struct cluster_line *line = &run->plan.lines[i];
        if (line->state != CLUSTER_DONE || (line->is_on && line->fault.for_us != CLUSTER_FOR_EVER))
            return false;
    }
    return true;
}

void cluster_watch_end(struct cluster *run)
{
    for (int64_t i = 0; i < run->plan.count; i++) {
        struct cluster_line *line = &run->plan.lines[i];
        sim_event_cancel(&run->world, &line->begin);
        if (line->state == CLUSTER_WAITS || line->state == CLUSTER_DUE ||
            (line->state == CLUSTER_IDLE && line->fault.words.is_behind) ||
            (line->state == CLUSTER_WATCHES && line->fault.words.verb == CLUSTER_EXPECTS))
            fail(run, line, "it never came");
        if (line->state == CLUSTER_WATCHES)
            stop_watching(run, line, CLUSTER_DONE);
    }
}

/* What happens. */

void cluster_watch_look(struct cluster *run)
{
    for (int64_t i = 0; i < run->plan.count && run->watch.watching > 0; i++) {
        struct cluster_line *line = &run->plan.lines[i];
        if (is_watching(line) && holds(run, line, condition_of(line)))
            met(run, line);
    }
}

static void happened(struct cluster *run, const struct moment *moment)
{
    for (int64_t i = 0; i < run->plan.count && run->watch.watching > 0; i++) {
        struct cluster_line *line = &run->plan.lines[i];
        if (is_watching(line) && is_met(run, line, condition_of(line), moment)) {
            line->it = moment->host;
            line->connection = moment->connection;
            met(run, line);
        }
    }
}

void cluster_watch_traced(struct cluster *run, int node, const struct stele_trace_event *event)
{
    struct moment moment = {.kind = CLUSTER_IF_TELLS,
                            .host = node,
                            .other = (int)event->a - 1,
                            .number = (int)event->kind,
                            .connection = -1,
                            .event = event};
    if (run->watch.watching > 0)
        happened(run, &moment);
}

void cluster_watch_acknowledged(struct cluster *run, int64_t tag)
{
    const struct cluster_record *record = &run->book.records[tag];
    const struct cluster_watch *watch = &run->watch;
    struct moment moment = {.kind = CLUSTER_IF_ACKNOWLEDGED, .host = CLUSTER_NOBODY, .connection = -1, .tag = tag};
    if (watch->watching > 0 && watch->topic == &run->book.topics[record->topic] &&
        record->partition == watch->partition)
        happened(run, &moment);
}

void cluster_watch_reset(struct cluster *run)
{
    struct moment moment = {.kind = CLUSTER_IF_RESET, .host = CLUSTER_NOBODY, .connection = -1};
    if (run->watch.watching > 0)
        happened(run, &moment);
}

static void sent(void *arg, const struct sim_net_sent *sent)
{
    struct cluster *run = arg;
    struct stele_arena arena;
    struct stele_request request;
    struct stele_response response;
    struct moment moment = {.kind = sent->is_answer ? CLUSTER_IF_ANSWERS : CLUSTER_IF_SENDS,
                            .host = sent->from,
                            .other = sent->to,
                            .connection = sent->connection};
    if (run->watch.watching == 0)
        return;
    stele_arena_init(&arena, &run->mem, STELE_MEM_SIM, 0);
    enum stele_err err = sent->is_answer ? stele_response_decode(&arena, sent->message, sent->bytes, &response)
                                         : stele_request_decode(&arena, sent->message, sent->bytes, &request);
    if (err == STELE_OK) {
        moment.number = (int)(sent->is_answer ? response.header.api : request.header.api);
        happened(run, &moment);
    }
    stele_arena_deinit(&arena);
}

void cluster_watch_begin(struct cluster *run)
{
    bool needs_tap = false;
    for (int64_t i = 0; i < run->plan.count; i++) {
        struct cluster_line *line = &run->plan.lines[i];
        line->arg = run;
        line->it = line->connection = -1;
        sim_event_init(&line->begin, "begins", NULL, run_begin);
        sim_event_init(&line->end, "mended", NULL, run_end);
        needs_tap = needs_tap || line->fault.words.when.kind != CLUSTER_IF_NOTHING ||
                    line->fault.words.what.kind != CLUSTER_IF_NOTHING;
    }
    if (needs_tap)
        sim_net_set_tap(&run->world, &(struct sim_net_tap){.sent = sent, .arg = run});
}
