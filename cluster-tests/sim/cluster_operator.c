/* Those who run the cluster: two programs that do the lines of a plan which take a call, each in the order of the plan.
 * A call that takes long makes what comes behind it late. What a line begins, it ends, at the latest when the faults
 * are over. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "node/partition.h"

#include <stdio.h>
#include <string.h>

enum { LIVES_LEFT = 6, LOOK_US = 5000000, MOVES_US = 20000000, REMOVAL_US = 20000000 };

static const char *name_of(const struct cluster_operator *self)
{
    return self->sim.process.name;
}

static bool is_done(struct cluster_operator *self, const struct stele_result *result, const char *call)
{
    return cluster_call_is_done(self->run, &self->sim, result, call);
}

/* Topics. */

/* Where the answer says that it is not there, nobody has it any more either, unless it was made since it was asked. */
static void delete_topic(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster *run = self->run;
    int name = fault->a % run->book.topic_count, lives = run->book.life_count;
    struct cluster_topic *first = &run->book.topics[name];
    if (run->book.life_count + LIVES_LEFT >= CLUSTER_LIVES_MAX)
        return;
    bool was_seen[CLUSTER_LIVES_MAX];
    for (int i = 0; i < lives; i++)
        was_seen[i] = run->book.topics[i].is_seen;
    first->deletes++;
    struct stele_result result = stele_topic_delete(self->sim.client, first->name);
    first->is_made = false;
    sim_world_log(&run->world, "%s: delete %s: %s", name_of(self), first->name,
                  result.code == 0 ? "done" : result.text);
    bool is_gone = result.code == (int)STELE_UNKNOWN_TOPIC_OR_PARTITION || is_done(self, &result, "topic delete");
    for (int i = 0; i < lives && is_gone; i++) {
        const struct cluster_topic *topic = &run->book.topics[i];
        if (topic->first == name && was_seen[i] && !topic->is_gone)
            sim_world_fail(&run->world, "K20: %s is deleted, and every node still has it", topic->name);
    }
    if (fault->for_us == 0)
        return;
    sim_client_pause(&self->sim, fault->for_us);
    (void)cluster_topic_make(run, &self->sim, name);
}

/* Records. */

static void delete_below(struct cluster_operator *self, struct cluster_topic *topic, int32_t partition, int64_t wanted)
{
    struct cluster *run = self->run;
    int name = topic->first;
    int64_t start = -1;
    struct cluster_replica *leader = cluster_replicas_leader(run, topic, partition);
    int32_t epoch = leader == NULL ? -1 : leader->leader_epoch;
    int64_t starts = run->world.reached[SIM_POINT_START];
    cluster_book_ask(run, &(struct cluster_deletion){
                              .name = name, .partition = partition, .below = wanted < 0 ? INT64_MAX : wanted});
    struct stele_result result = stele_records_delete(self->sim.client, topic->name, partition, wanted, &start);
    cluster_book_asked(run);
    sim_world_log(&run->world, "%s: delete the records of %s-%d below %lld: %s, %lld", name_of(self), topic->name,
                  partition, (long long)wanted, result.code == 0 ? "done" : result.text, (long long)start);
    if (result.code == (int)STELE_OFFSET_OUT_OF_RANGE) /* a leader that knows less, or the topic is another */
        return;
    if (!is_done(self, &result, "records delete"))
        return;
    cluster_reach(run, CLUSTER_POINT_DELETE_ACKED);
    if (start < wanted)
        sim_world_fail(&run->world, "D31: %s-%d begins at %lld, and was to be deleted up to %lld", topic->name,
                       partition, (long long)start, (long long)wanted);
    /* Who led all the time has said so. */
    bool is_sure = leader != NULL && leader == cluster_replicas_leader(run, topic, partition) &&
                   leader->leader_epoch == epoch && starts == run->world.reached[SIM_POINT_START];
    if (is_sure && cluster_book_last(run, name) == topic && leader->start_offset >= wanted)
        leader->start_floor = stele_max_i64(leader->start_floor, wanted);
}

static void delete_records(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster_topic *topic = cluster_book_last(self->run, fault->a % self->run->book.topic_count);
    int32_t partition = (fault->b < 0 ? 0 : fault->b) % topic->partition_count;
    int64_t wanted = topic->partitions[partition].end_offset * stele_min_i64(fault->arg, 1000) / 1000;
    delete_below(self, topic, partition, fault->arg > 1000 ? STELE_OFFSET_LATEST : wanted);
}

/* Up to where the leader's log is damaged at the front of what no other replica has; -1: not, or not all are there. */
static int64_t end_of_lost(struct cluster *run, struct cluster_topic *topic, int32_t partition)
{
    const struct cluster_replica *leader = cluster_replicas_leader(run, topic, partition);
    const struct cluster_partition *it = &topic->partitions[partition];
    if (leader == NULL || leader->of->log == NULL || stele_log_damaged_count(leader->of->log) == 0)
        return -1;
    const struct stele_damaged_range *range = stele_log_damaged(leader->of->log, 0);
    for (int i = 0; i < run->node_count; i++) {
        const struct cluster_node *node = &run->nodes[i];
        const struct cluster_replica *other = &node->replicas[topic - run->book.topics][partition];
        if (other == leader || node->is_gone || !stele_node_set_has(&it->state.replicas, i + 1))
            continue;
        if (!cluster_node_lives(node) || other->of == NULL || other->end_offset > range->first_offset)
            return -1;
    }
    return range->last_offset + 1;
}

/* What rotted where it was the last copy, for those that are lost came by force or with the power, nobody gives again:
 * then its partition goes on when it is deleted. */
static void delete_what_rotted(struct cluster_operator *self)
{
    struct cluster *run = self->run;
    for (int i = 0; i < run->book.topic_count; i++) {
        struct cluster_topic *topic = cluster_book_last(run, i);
        for (int32_t partition = 0; partition < topic->partition_count && !topic->is_gone; partition++) {
            int64_t end = end_of_lost(run, topic, partition);
            if (end >= 0)
                delete_below(self, topic, partition, end);
        }
    }
}

/* Replicas and leaders. */

/* True when it was begun; `replicas` NULL: ends it. */
static bool reassign(struct cluster_operator *self, const struct cluster_topic *topic, int32_t partition,
                     const int32_t *replicas, size_t count)
{
    struct cluster *run = self->run;
    struct stele_partition_wish wish = {
        .topic = topic->name, .partition = partition, .replicas = replicas, .replica_count = count};
    struct stele_partition_results *results = NULL;
    struct stele_result result = stele_partitions_reassign(self->sim.client, &wish, 1, &results);
    if (result.code == (int)STELE_UNKNOWN_TOPIC_OR_PARTITION || !is_done(self, &result, "reassign"))
        return false;
    bool is_begun = results->outcome_count == 1 && results->outcomes[0]->code == 0;
    sim_world_log(&run->world, "%s: reassign %s-%d: %s", name_of(self), topic->name, partition,
                  results->outcome_count == 1 && !is_begun ? results->outcomes[0]->text : "done");
    if (is_begun)
        cluster_reach(run, replicas == NULL ? CLUSTER_POINT_MOVE_ENDED : CLUSTER_POINT_MOVED);
    stele_partition_results_free(results);
    return is_begun;
}

static void end_later(struct cluster_operator *self, const struct cluster_fault *fault)
{
    if (self->later_count == CLUSTER_ORDERS_MAX)
        return;
    struct cluster_fault *later = &self->later[self->later_count++];
    *later = *fault;
    later->at_us = sim_world_now_us(&self->run->world) + fault->for_us;
}

static void move_partition(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster *run = self->run;
    struct cluster_topic *topic = cluster_book_last(run, fault->a % run->book.topic_count);
    int32_t partition = (fault->b < 0 ? 0 : fault->b) % topic->partition_count, replicas[CLUSTER_NODES_MAX];
    size_t count = 0;
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%lld", (long long)fault->arg);
    for (const char *digit = digits; *digit != 0 && count < CLUSTER_NODES_MAX; digit++)
        replicas[count++] = *digit - '0';
    (void)reassign(self, topic, partition, replicas, count);
    if (fault->for_us > 0)
        end_later(self, fault);
}

static void prefer(struct cluster_operator *self)
{
    struct stele_partition_results *results = NULL;
    struct stele_result result = stele_partitions_elect(self->sim.client, false, NULL, 0, &results);
    if (!is_done(self, &result, "prefer"))
        return;
    for (size_t i = 0; i < results->outcome_count; i++) {
        if (results->outcomes[i]->code == 0)
            cluster_reach(self->run, CLUSTER_POINT_PREFERRED);
    }
    stele_partition_results_free(results);
}

/* Log directories. */

/* The node may be away, the replica too, or its disk may not work. */
static void relocate(struct cluster_operator *self, const struct cluster_fault *fault)
{
    static const enum stele_err known[] = {
        STELE_OK,        STELE_REPLICA_NOT_AVAILABLE,    STELE_KAFKA_STORAGE_ERROR,
        STELE_NO_SPACE,  STELE_BROKER_NOT_AVAILABLE,     STELE_UNKNOWN_TOPIC_OR_PARTITION,
        STELE_NO_MEMORY, STELE_THROTTLING_QUOTA_EXCEEDED};
    static const char *const dirs[] = {"a", "b", "c"};
    struct cluster *run = self->run;
    const struct cluster_topic *topic = cluster_book_last(run, fault->a % run->book.topic_count);
    int node = (int)(fault->arg / 10 - 1) % run->node_count;
    struct stele_replica_move move = {.topic = topic->name,
                                      .partition = (fault->b < 0 ? 0 : fault->b) % topic->partition_count,
                                      .directory = dirs[fault->arg % 10 % run->nodes[node].dir_count]};
    struct stele_partition_results *results = NULL;
    struct stele_result result = stele_replicas_move(self->sim.client, node + 1, &move, 1, &results);
    if (!is_done(self, &result, "relocate"))
        return;
    bool is_known = false;
    for (size_t i = 0; i < STELE_ARRAY_LEN(known) && results->outcome_count == 1; i++)
        is_known = is_known || results->outcomes[0]->code == (int)known[i];
    if (!is_known)
        sim_world_fail(&run->world, "a move of %s-%d of n%d to %s got %zu answers, %d", topic->name, move.partition,
                       node + 1, move.directory, results->outcome_count,
                       results->outcome_count == 1 ? results->outcomes[0]->code : 0);
    sim_world_log(&run->world, "%s: relocate %s-%d of n%d to %s: %s", name_of(self), topic->name, move.partition,
                  node + 1, move.directory, results->outcomes[0]->code == 0 ? "done" : results->outcomes[0]->text);
    stele_partition_results_free(results);
}

/* Voters. */

static void log_voter(const struct cluster_operator *self, int number, const char *what,
                      const struct stele_result *result)
{
    sim_world_log(&self->run->world, "%s: n%d is %s as a voter: %s", name_of(self), number + 1, what,
                  result->code == 0 ? "done" : result->text);
}

static void remove_voter(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster *run = self->run;
    if (cluster_operators_hold(run))
        return;
    for (int i = 0; i < run->node_count; i++) {
        const struct cluster_node *node = &run->nodes[i];
        if (node->wants_wipe || node->is_gone || (node->is_wiped && !node->is_readmitted))
            return;
    }
    run->nodes[fault->a].is_removed = run->has_changed_voters = true;
    struct stele_result result = stele_quorum_remove(self->sim.client, fault->a + 1, NULL);
    log_voter(self, fault->a, "removed", &result);
    run->nodes[fault->a].is_removal_open = result.code != 0;
    if (result.code == 0)
        cluster_reach(run, CLUSTER_POINT_VOTER_REMOVED);
    end_later(self, fault);
}

static void readmit(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster_node *node = &self->run->nodes[fault->a];
    int64_t wipes = node->wipes;
    node->may_be_readmitted = self->run->has_changed_voters = true;
    struct stele_result result = stele_quorum_readmit(self->sim.client, fault->a + 1, NULL);
    log_voter(self, fault->a, "readmitted", &result);
    node->may_be_readmitted = true;
    if (result.code != 0)
        return;
    node->is_readmitted = node->is_wiped && node->wipes == wipes;
    cluster_reach(self->run, CLUSTER_POINT_READMITTED);
}

/* Until it is one again: at the end all nodes are. */
static void add_voter(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster *run = self->run;
    struct cluster_node *node = &run->nodes[fault->a];
    node->may_be_readmitted = true; /* with the disk that it has, as the removal may have come after a wipe */
    struct stele_result result = stele_quorum_add(self->sim.client, fault->a + 1, NULL);
    log_voter(self, fault->a, "added", &result);
    node->may_be_readmitted = true;
    if (result.code == 0)
        cluster_reach(run, CLUSTER_POINT_VOTER_ADDED);
    bool is_there = result.code == (int)STELE_DUPLICATE_VOTER; /* yet, where the removal may still come */
    if (result.code == 0 || (is_there && !node->is_removal_open)) {
        node->is_removed = node->is_removal_open = false;
        return;
    }
    struct cluster_fault again = *fault;
    again.for_us = is_there ? REMOVAL_US : 1000000;
    node->is_removal_open = node->is_removal_open && !is_there;
    sim_client_pause(&self->sim, 200000);
    end_later(self, &again);
}

bool cluster_operators_hold(const struct cluster *run)
{
    for (int i = 0; i < run->node_count; i++) {
        if (run->nodes[i].is_removed)
            return true;
    }
    return false;
}

static void run_later(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster *run = self->run;
    if (fault->kind == CLUSTER_REMOVE_VOTER) {
        add_voter(self, fault);
        return;
    }
    struct cluster_topic *topic = cluster_book_last(run, fault->a % run->book.topic_count);
    (void)reassign(self, topic, (fault->b < 0 ? 0 : fault->b) % topic->partition_count, NULL, 0);
}

/* A removal that nobody answered may have come late; and of a readmission that nobody answered half may be done. */
static void add_missing_voters(struct cluster_operator *self)
{
    struct cluster *run = self->run;
    for (int i = 0; i < run->node_count; i++) {
        const struct stele_metadata_log *mlog = cluster_metadata_of(&run->nodes[i]);
        if (mlog == NULL || mlog->quorum.role != STELE_QUORUM_LEADER)
            continue;
        for (int k = 0; k < run->node_count; k++) {
            struct cluster_fault missing = {.kind = CLUSTER_REMOVE_VOTER, .a = k};
            if (stele_voters_find_node(stele_quorum_voters(&mlog->quorum), k + 1) < 0)
                add_voter(self, &missing);
        }
        return;
    }
}

/* What cannot come to its end, for a node that is gone. */
static void end_moves(struct cluster_operator *self)
{
    struct cluster *run = self->run;
    for (int i = 0; i < run->book.life_count * CLUSTER_PARTITIONS_MAX; i++) {
        const struct cluster_topic *topic = &run->book.topics[i / CLUSTER_PARTITIONS_MAX];
        const struct cluster_partition *it = &topic->partitions[i % CLUSTER_PARTITIONS_MAX];
        if (topic->is_seen && !topic->is_gone && it->has_state &&
            (it->state.adding.count > 0 || it->state.removing.count > 0))
            (void)reassign(self, topic, i % CLUSTER_PARTITIONS_MAX, NULL, 0);
    }
    if (run->has_changed_voters)
        add_missing_voters(self);
    delete_what_rotted(self);
    sim_client_pause(&self->sim, LOOK_US);
}

/* All of it. */

static void run_order(struct cluster_operator *self, const struct cluster_fault *fault)
{
    switch ((int)fault->kind) {
    case CLUSTER_DELETE_TOPIC:
        delete_topic(self, fault);
        break;
    case CLUSTER_DELETE_RECORDS:
        delete_records(self, fault);
        break;
    case CLUSTER_REASSIGN:
        move_partition(self, fault);
        break;
    case CLUSTER_RELOCATE:
        relocate(self, fault);
        break;
    case CLUSTER_REMOVE_VOTER:
        remove_voter(self, fault);
        break;
    case CLUSTER_READMIT:
        readmit(self, fault);
        break;
    default:
        prefer(self);
        break;
    }
}

/* The first that is due, in the order in which they were begun; NULL: none is. */
static bool take_due(struct cluster_operator *self, struct cluster_fault *out_fault)
{
    for (int i = 0; i < self->later_count; i++) {
        if (!self->run->is_calm && self->later[i].at_us > sim_world_now_us(&self->run->world))
            continue;
        *out_fault = self->later[i];
        memmove(&self->later[i], &self->later[i + 1], (size_t)(--self->later_count - i) * sizeof(self->later[0]));
        return true;
    }
    return false;
}

static void wait_for_orders(struct cluster_operator *self)
{
    int64_t wait_us = LOOK_US;
    for (int i = 0; i < self->later_count; i++)
        wait_us = stele_min_i64(wait_us, self->later[i].at_us - sim_world_now_us(&self->run->world));
    self->is_idle = true;
    sim_client_pause(&self->sim, stele_max_i64(wait_us, 1));
    self->is_idle = false;
}

static void script(struct sim_client *sim)
{
    struct cluster_operator *self = sim->arg;
    struct cluster *run = self->run;
    struct cluster_fault due;
    int64_t calm_us = -1;
    self->sim.client = cluster_client_new(run, sim, &self->prng, "5000");
    while (!run->is_over) {
        if (run->is_calm && calm_us < 0)
            calm_us = sim_world_now_us(&run->world);
        if (take_due(self, &due))
            run_later(self, &due);
        else if (self->number == 1 && calm_us >= 0 && sim_world_now_us(&run->world) > calm_us + MOVES_US)
            end_moves(self);
        else if (self->taken == self->ordered || run->is_calm)
            wait_for_orders(self);
        else
            run_order(self, &self->orders[self->taken++ % CLUSTER_ORDERS_MAX]);
    }
    stele_client_free(self->sim.client);
    self->sim.client = NULL;
    self->step = NULL;
    run->done_count++;
}

void cluster_operators_order(struct cluster *run, const struct cluster_fault *fault)
{
    bool is_first = cluster_fault_class(fault->kind) == CLUSTER_CLASS_TOPICS;
    struct cluster_operator *self = &run->operators[is_first ? 0 : 1];
    if (self->ordered - self->taken == CLUSTER_ORDERS_MAX)
        return;
    self->orders[self->ordered++ % CLUSTER_ORDERS_MAX] = *fault;
    if (self->is_idle)
        sim_event_hurry(&run->world, &self->sim.wake, 1);
}

void cluster_operators_start(struct cluster *run)
{
    for (int i = 0; i < CLUSTER_OPERATORS; i++) {
        struct cluster_operator *self = &run->operators[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "o%d", i + 1);
        self->run = run;
        self->number = i;
        self->step = "its work";
        stele_prng_init(&self->prng, run->world.seed,
                        ((uint64_t)SIM_STREAM_WORKLOAD << 32) + CLUSTER_CLIENTS_MAX + (uint64_t)i);
        self->sim.arg = self;
        self->sim.script = script;
        sim_client_start(&self->sim, &run->world, name, 1000000 + i);
    }
}
