/* One partition in a small world, driven at random: five nodes that append, fetch, ask for ISR changes, die, lose
 * memory or disk, come back and learn late what the controller decided; requests and answers that are lost, repeated
 * and late. After every step the invariants of the facts are checked:
 *
 *   D13 subsets, disjoint, ELR empty with a large ISR   D14, D15 whoever is in ISR or ELR has every committed record
 *   D16 the ISR is active and online                    D28, D29, 4.6 the epochs move exactly as they must
 *   D10 what was committed is never committed otherwise
 *   4.7.5 no fewer than min.insync.replicas in ISR and ELR together, but for those that lost memory, since a commit
 *
 * and, when the faults stop: a leader, the full ISR, and no reassignment left (L2, L3, L7). The guards of mutations 9,
 * 10, 25 and 26 are switched off one at a time to see that this notices.
 *
 * Usage: without arguments the quick part; FIRST COUNT: that many seeds from FIRST. */
#include "base/test/support.h"
#include "replication/alter_partition.h"
#include "replication/forced_election.h"
#include "replication/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES = 5,
    LOG_MAX = 400,
    VERSIONS_MAX = 2048,
    MESSAGES_MAX = 12,
    STEPS = 300,
    SEEDS = 2000,
    SEEDS_MUTATED = 20000
};

int stele_mutation;

/* What the metadata log says after some record. */
struct version {
    struct stele_partition_state state;
    int32_t min_isr;
};

struct node {
    bool is_alive, is_active, is_offline, has_lost;
    int64_t node_epoch;
    int32_t log[LOG_MAX]; /* leader epoch and a number that no other record has */
    int32_t end, synced, high_watermark;
    int32_t seen; /* the version that it has applied */
    /* As a leader of `leader_epoch`. */
    struct stele_partition_state known; /* by metadata or a later answer */
    int32_t answered_min_isr, answered_epoch;
    int32_t epoch_start;
    int32_t ends[NODES + 1];         /* validated by a fetch in this leader epoch; -1: none */
    int64_t fetch_epochs[NODES + 1]; /* node epochs by which they came */
    bool has_pending;
    struct stele_node_set pending; /* members that a request in flight adds */
    int32_t item;
    int64_t sent;     /* requests of this life; the highest number */
    int64_t admitted; /* the controller's: the highest number of this life that it saw */
};

struct message {
    bool is_used, is_answer;
    int32_t node_id, item;
    int64_t node_epoch, number;
    int32_t leader_epoch, partition_epoch;
    struct stele_isr_candidate isr[STELE_REPLICAS_MAX];
    int32_t isr_count;
    bool is_recovering;
    enum stele_err err;
    struct stele_partition_answer answer;
};

struct world {
    struct stele_prng prng;
    struct node nodes[NODES + 1]; /* by id from 1 */
    struct version versions[VERSIONS_MAX];
    int32_t last;
    struct message messages[MESSAGES_MAX];
    int32_t committed[LOG_MAX];
    int32_t committed_end, next_value, next_item;
    int32_t copies; /* of what was committed: as many as were asked for then, and are left of them */
    int64_t next_epoch;
    bool is_tainted; /* after an unclean election, nothing is known of what is committed */
    uint64_t steps_per_fault;
    const char *violation;
    int64_t counts[13]; /* of what happened, so that nothing is missed */
};

enum {
    DID_APPEND,
    DID_COMMIT,
    DID_EXPAND,
    DID_SHRINK,
    DID_STALE,
    DID_INELIGIBLE,
    DID_ELR,
    DID_UNCLEAN,
    DID_DONE,
    DID_LOST,
    DID_CANCEL,
    DID_SOLE,
    DID_FORCE
};

static const struct stele_partition_state *state_now(const struct world *w)
{
    return &w->versions[w->last].state;
}

static int32_t below(struct world *w, int32_t bound)
{
    return (int32_t)stele_prng_below(&w->prng, (uint64_t)bound);
}

static bool chance(struct world *w, uint64_t one_in)
{
    return stele_prng_chance(&w->prng, 1, one_in);
}

static struct stele_partition_view view_now(const struct world *w)
{
    struct stele_partition_view view = {.min_isr = w->versions[w->last].min_isr};
    for (int32_t id = 1; id <= NODES; id++) {
        const struct node *node = &w->nodes[id];
        view.nodes[view.count++] = (struct stele_replica_view){.node_id = id,
                                                               .node_epoch = node->node_epoch,
                                                               .is_active = node->is_active,
                                                               .is_offline = node->is_offline};
    }
    return view;
}

/* Invariants. */

static void require(struct world *w, bool holds, const char *what)
{
    if (!holds && w->violation == NULL) {
        w->violation = what;
    }
}

static bool has_committed(const struct world *w, const struct node *node)
{
    return node->end >= w->committed_end &&
           memcmp(node->log, w->committed, (size_t)w->committed_end * sizeof w->committed[0]) == 0;
}

static void check(struct world *w)
{
    const struct stele_partition_state *state = state_now(w);
    const int32_t min_isr = stele_partition_min_isr(w->versions[w->last].min_isr, state->replicas.count);
    require(w, stele_partition_state_is_sound(state), "D13 sound");
    require(w, state->isr.count < min_isr || state->elr.count == 0, "D13 ELR beside a large ISR");
    require(w, (state->leader_id == STELE_NO_NODE) == (state->isr.count == 0), "a leader where there is an ISR");
    for (int32_t i = 0; i < state->isr.count; i++) {
        const struct node *node = &w->nodes[state->isr.ids[i]];
        require(w, node->is_active && !node->is_offline, "D16");
        require(w, w->is_tainted || node->has_lost || has_committed(w, node), "D14");
    }
    for (int32_t i = 0; i < state->elr.count; i++) {
        const struct node *node = &w->nodes[state->elr.ids[i]];
        require(w, w->is_tainted || node->has_lost || has_committed(w, node), "D15");
    }
    w->copies = (int32_t)stele_min_i64(w->copies, state->replicas.count); /* fewer were asked for */
    require(w, w->is_tainted || state->isr.count + state->elr.count >= w->copies, "4.7.5 copies");
}

/* Those in a place to keep what was committed are fewer now, and it is known. */
static void copies_bound(struct world *w)
{
    const struct stele_partition_state *state = state_now(w);
    w->copies = (int32_t)stele_min_i64(w->copies, state->isr.count + state->elr.count);
}

static void check_step(struct world *w, const struct stele_partition_state *before,
                       const struct stele_partition_outcome *outcome)
{
    const struct stele_partition_state *after = &outcome->next;
    const bool is_led_otherwise = after->leader_id != before->leader_id;
    const bool has_left = !stele_node_set_is_subset(&before->replicas, &after->replicas);
    const bool is_unclean = (outcome->changed & (STELE_CHANGED_UNCLEAN | STELE_CHANGED_SOLE_REPLICA)) != 0;
    require(w, after->partition_epoch == before->partition_epoch + (outcome->changed != 0), "4.6.2, D28");
    require(w, after->leader_epoch == before->leader_epoch + (is_led_otherwise || has_left || is_unclean),
            "4.6.1, 4.6.3, D29");
    require(w, outcome->changed != 0 || memcmp(before, after, sizeof *after) == 0, "4.6.6");
    if (before->isr.count > 0 && after->isr.count > 0 && !is_unclean && after->leader_id != STELE_NO_NODE &&
        (outcome->changed & STELE_CHANGED_FROM_ELR) != 0) {
        require(
            w, stele_node_set_has(&before->elr, after->leader_id) || stele_node_set_has(&before->isr, after->leader_id),
            "4.5.6");
    }
}

/* The controller. */

static void version_add(struct world *w, const struct stele_partition_state *state, int32_t min_isr)
{
    if (w->last + 1 < VERSIONS_MAX) {
        w->versions[++w->last] = (struct version){.state = *state, .min_isr = min_isr};
    }
}

static void outcome_take(struct world *w, const struct stele_partition_outcome *outcome)
{
    const struct stele_partition_state before = *state_now(w);
    check_step(w, &before, outcome);
    w->is_tainted |= (outcome->changed & (STELE_CHANGED_UNCLEAN | STELE_CHANGED_SOLE_REPLICA)) != 0;
    w->counts[DID_ELR] += (outcome->changed & STELE_CHANGED_FROM_ELR) != 0;
    w->counts[DID_UNCLEAN] += (outcome->changed & STELE_CHANGED_UNCLEAN) != 0;
    w->counts[DID_SOLE] += (outcome->changed & STELE_CHANGED_SOLE_REPLICA) != 0;
    w->counts[DID_DONE] += (outcome->changed & STELE_CHANGED_REASSIGN_DONE) != 0;
    w->counts[DID_CANCEL] += (outcome->changed & STELE_CHANGED_REASSIGN_CANCELLED) != 0;
    if (outcome->changed != 0) {
        version_add(w, &outcome->next, w->versions[w->last].min_isr);
    }
}

static void change(struct world *w, const struct stele_partition_change *wanted)
{
    const struct stele_partition_view view = view_now(w);
    struct stele_partition_outcome outcome;
    if (stele_partition_change(state_now(w), wanted, &view, &outcome) == STELE_OK) {
        outcome_take(w, &outcome);
    }
}

static void realign(struct world *w)
{
    const struct stele_partition_change nothing = {.mode = STELE_ELECT_ONLINE};
    change(w, &nothing);
}

static void min_isr_change(struct world *w)
{
    version_add(w, state_now(w), 1 + below(w, 3));
    w->copies = (int32_t)stele_min_i64(w->copies, w->versions[w->last].min_isr);
    realign(w);
}

static void reassign(struct world *w)
{
    struct stele_partition_change wanted = {.reassign = STELE_REASSIGN_START};
    if (chance(w, 4)) {
        wanted.reassign = STELE_REASSIGN_CANCEL;
    }
    const int32_t factor = 1 + below(w, 4);
    while (wanted.target.count < factor) {
        assert_true(stele_node_set_add(&wanted.target, 1 + below(w, NODES)));
    }
    wanted.may_lose_isr = chance(w, 16);
    const int64_t partition_epoch = state_now(w)->partition_epoch;
    change(w, &wanted);
    if (wanted.may_lose_isr && state_now(w)->partition_epoch != partition_epoch) {
        copies_bound(w);
    }
    w->counts[DID_FORCE] += wanted.may_lose_isr;
}

static void fence(struct world *w, int32_t id)
{
    w->nodes[id].is_active = false;
    realign(w);
}

static void unfence(struct world *w, int32_t id)
{
    if (w->nodes[id].is_alive) {
        w->nodes[id].is_active = true;
        realign(w);
    }
}

static void forced_election(struct world *w)
{
    const struct stele_partition_state *state = state_now(w);
    const struct stele_partition_view view = view_now(w);
    struct stele_log_answer answers[NODES];
    int32_t count = 0, leader_id = STELE_NO_NODE;
    for (int32_t id = 1; id <= NODES; id++) {
        const struct node *node = &w->nodes[id];
        if (node->is_alive) {
            answers[count++] =
                (struct stele_log_answer){.node_id = id,
                                          .last_epoch = node->end > 0 ? node->log[node->end - 1] >> 16 : -1,
                                          .end_offset = node->end,
                                          .high_watermark = node->high_watermark};
        }
    }
    struct stele_partition_outcome outcome;
    if (stele_forced_pick(state, &view, answers, count, &leader_id) == STELE_OK &&
        stele_partition_elect(state, STELE_ELECT_UNCLEAN, leader_id, &view, &outcome) == STELE_OK) {
        outcome_take(w, &outcome);
    }
}

/* A node's life. */

static void kill_node(struct world *w, int32_t id, int32_t how)
{
    struct node *node = &w->nodes[id];
    node->is_alive = false;
    if (how >= 1) { /* power */
        node->end = node->synced + below(w, node->end - node->synced + 1);
        node->has_lost = true;
    }
    if (how >= 2) { /* disk */
        node->end = 0;
    }
    node->synced = (int32_t)stele_min_i64(node->synced, node->end);
    node->high_watermark = (int32_t)stele_min_i64(node->high_watermark, below(w, node->end + 1));
    node->has_pending = false;
    w->counts[DID_LOST] += how > 0;
}

static void metadata_apply(struct world *w, int32_t id, int32_t version)
{
    struct node *node = &w->nodes[id];
    const struct stele_partition_state *state = &w->versions[version].state;
    node->seen = version;
    if (state->partition_epoch <= node->known.partition_epoch) {
        return;
    }
    const bool is_new_leader = state->leader_id == id && state->leader_epoch > node->known.leader_epoch;
    node->known = *state;
    node->has_pending = false;
    if (is_new_leader) {
        node->epoch_start = node->end;
        for (int32_t other = 1; other <= NODES; other++) {
            node->ends[other] = -1;
            node->fetch_epochs[other] = -1;
        }
    }
}

/* Comes back and is registered, in one step. */
static void restart(struct world *w, int32_t id)
{
    struct node *node = &w->nodes[id];
    struct stele_partition_change wanted = {.mode = STELE_ELECT_ONLINE};
    if (node->has_lost) {
        assert_true(stele_node_set_add(&wanted.lost_tail, id));
    }
    node->is_alive = true;
    node->is_active = node->is_offline = node->has_lost = false;
    node->node_epoch = w->next_epoch++;
    node->sent = node->admitted = 0;
    change(w, &wanted);
    if (wanted.lost_tail.count > 0) {
        copies_bound(w);
    }
    node->known = (struct stele_partition_state){.leader_id = STELE_NO_NODE, .leader_epoch = -1, .partition_epoch = -1};
    node->answered_min_isr = 0;
    node->answered_epoch = -1;
    /* A restarted leader leads only under a new leader epoch: it was removed from the ISR above. */
    metadata_apply(w, id, w->last);
}

static void directory_fails(struct world *w, int32_t id)
{
    struct stele_partition_change wanted = {.mode = STELE_ELECT_ONLINE};
    kill_node(w, id, 1);
    w->nodes[id].is_offline = true;
    assert_true(stele_node_set_add(&wanted.lost_tail, id));
    change(w, &wanted);
    copies_bound(w);
}

/* Data. */

static bool leads(const struct node *node, int32_t id)
{
    return node->is_alive && node->known.leader_id == id;
}

static void append(struct world *w, int32_t id)
{
    struct node *node = &w->nodes[id];
    if (leads(node, id) && node->end < LOG_MAX) {
        node->log[node->end++] = (node->known.leader_epoch << 16) + w->next_value++;
        w->counts[DID_APPEND]++;
    }
}

static void high_watermark_move(struct world *w, int32_t id)
{
    struct node *node = &w->nodes[id];
    const struct stele_partition_state *known = &node->known;
    int32_t min_isr = stele_partition_min_isr(w->versions[node->seen].min_isr, known->replicas.count);
    if (w->versions[node->seen].state.partition_epoch < node->answered_epoch) {
        min_isr = (int32_t)stele_max_i64(min_isr, node->answered_min_isr);
    }
    int32_t point = node->end;
    for (int32_t other = 1; other <= NODES; other++) {
        const bool counts =
            stele_node_set_has(&known->isr, other) || (node->has_pending && stele_node_set_has(&node->pending, other));
        if (other != id && counts) {
            point = (int32_t)stele_min_i64(point, node->ends[other]);
        }
    }
    if (known->isr.count < min_isr || point <= node->high_watermark) {
        return;
    }
    node->high_watermark = point;
    for (int32_t i = 0; i < point; i++) {
        require(w, w->is_tainted || i >= w->committed_end || w->committed[i] == node->log[i], "D10");
        w->committed[i] = node->log[i];
    }
    w->counts[DID_COMMIT] += point > w->committed_end;
    if (point > w->committed_end) { /* by a leader that does not know yet who lost memory, or of another minimum */
        w->copies = (int32_t)stele_min_i64(min_isr, w->versions[w->last].min_isr);
        copies_bound(w);
    }
    w->committed_end = (int32_t)stele_max_i64(w->committed_end, point);
}

static void fetch(struct world *w, int32_t id, int32_t leader_id)
{
    struct node *follower = &w->nodes[id], *leader = &w->nodes[leader_id];
    if (id == leader_id || !follower->is_alive || !leads(leader, leader_id) ||
        follower->known.leader_epoch != leader->known.leader_epoch ||
        !stele_node_set_has(&leader->known.replicas, id)) {
        return;
    }
    int32_t common = 0;
    while (common < follower->end && common < leader->end && follower->log[common] == leader->log[common]) {
        common++;
    }
    follower->end = common;
    follower->synced = (int32_t)stele_min_i64(follower->synced, common);
    follower->high_watermark = (int32_t)stele_min_i64(follower->high_watermark, common);
    leader->ends[id] = common;
    leader->fetch_epochs[id] = follower->node_epoch;
    high_watermark_move(w, leader_id);
    const int32_t end = common + below(w, leader->end - common + 1);
    memcpy(follower->log + common, leader->log + common, (size_t)(end - common) * sizeof leader->log[0]);
    follower->end = end;
    follower->high_watermark = (int32_t)stele_min_i64(end, leader->high_watermark);
    if (chance(w, 3)) {
        follower->synced = end;
    }
}

/* ISR changes over a bad network. */

static void send(struct world *w, const struct message *message)
{
    struct message *slot = &w->messages[below(w, MESSAGES_MAX)];
    *slot = *message; /* what was there is lost */
    slot->is_used = true;
}

static void propose(struct world *w, int32_t id)
{
    struct node *node = &w->nodes[id];
    const struct stele_partition_state *known = &node->known;
    if (!leads(node, id) || node->has_pending) {
        return;
    }
    const int32_t other = known->replicas.ids[below(w, known->replicas.count)];
    if (other == id) {
        return;
    }
    struct stele_node_set isr = known->isr;
    node->pending = isr;
    if (stele_node_set_has(&isr, other)) {
        stele_node_set_remove(&isr, other);
    } else {
        if (node->ends[other] < node->high_watermark || node->ends[other] < node->epoch_start ||
            node->fetch_epochs[other] < 0) {
            return;
        }
        assert_true(stele_node_set_add(&isr, other));
        assert_true(stele_node_set_add(&node->pending, other));
    }
    node->has_pending = true;
    node->item = w->next_item++;
    struct message message = {.node_id = id,
                              .item = node->item,
                              .node_epoch = node->node_epoch,
                              .leader_epoch = known->leader_epoch,
                              .partition_epoch = known->partition_epoch};
    for (int32_t i = 0; i < isr.count; i++) {
        message.isr[message.isr_count++] = (struct stele_isr_candidate){
            .node_id = isr.ids[i], .node_epoch = isr.ids[i] == id ? node->node_epoch : node->fetch_epochs[isr.ids[i]]};
    }
    const int32_t copies = 1 + below(w, 3);
    for (int32_t i = 0; i < copies; i++) {
        message.number = ++node->sent;
        send(w, &message);
    }
}

static void request_handle(struct world *w, const struct message *request)
{
    struct message answer = *request;
    const struct stele_partition_state *state = state_now(w);
    const struct stele_partition_view view = view_now(w);
    const struct stele_alter_partition alter = {.sender_id = request->node_id,
                                                .leader_epoch = request->leader_epoch,
                                                .partition_epoch = request->partition_epoch,
                                                .isr = request->isr,
                                                .isr_count = request->isr_count};
    const int32_t size = state->isr.count;
    struct stele_partition_outcome outcome;
    answer.is_answer = true;
    struct node *sender = &w->nodes[request->node_id];
    if (sender->node_epoch != request->node_epoch || request->number <= sender->admitted) {
        return; /* stele_registry_admit */
    }
    sender->admitted = request->number;
    answer.err = stele_alter_partition(state, &alter, &view, &outcome);
    if (answer.err == STELE_OK || answer.err == STELE_NEW_LEADER_ELECTED) {
        outcome_take(w, &outcome);
        w->counts[DID_EXPAND] += outcome.next.isr.count > size;
        w->counts[DID_SHRINK] += outcome.next.isr.count < size;
    }
    w->counts[DID_STALE] += answer.err == STELE_INVALID_UPDATE_VERSION;
    w->counts[DID_INELIGIBLE] += answer.err == STELE_INELIGIBLE_REPLICA;
    stele_alter_partition_answer(state_now(w), w->versions[w->last].min_isr, &answer.answer);
    send(w, &answer);
}

static void answer_handle(struct world *w, const struct message *answer)
{
    struct node *node = &w->nodes[answer->node_id];
    const struct stele_partition_answer *altered = &answer->answer;
    if (!leads(node, answer->node_id) || node->node_epoch != answer->node_epoch || !node->has_pending ||
        node->item != answer->item) {
        return;
    }
    if (answer->err == STELE_INELIGIBLE_REPLICA) {
        /* Final only as the answer to the copy that was sent last: no other one can be worked on after it. */
        node->has_pending &= answer->number != node->sent;
    } else if (answer->err == STELE_OK && altered->leader_epoch == node->known.leader_epoch &&
               altered->partition_epoch >= node->known.partition_epoch) {
        node->known.isr = altered->isr;
        node->known.partition_epoch = altered->partition_epoch;
        node->answered_min_isr = altered->min_isr;
        node->answered_epoch = altered->partition_epoch;
        node->has_pending = false;
        high_watermark_move(w, answer->node_id);
    }
}

static void deliver(struct world *w)
{
    struct message *slot = &w->messages[below(w, MESSAGES_MAX)];
    if (!slot->is_used) {
        return;
    }
    const struct message message = *slot;
    slot->is_used = chance(w, 3); /* and once more later */
    if (message.is_answer) {
        answer_handle(w, &message);
    } else {
        request_handle(w, &message);
    }
}

static void metadata_flows(struct world *w, int32_t id)
{
    struct node *node = &w->nodes[id];
    if (node->is_alive && node->seen < w->last) {
        metadata_apply(w, id, node->seen + 1 + below(w, w->last - node->seen));
    }
}

/* Runs. */

static void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    stele_prng_init(&w->prng, seed, 0);
    w->next_epoch = 1;
    w->steps_per_fault = 5 + stele_prng_below(&w->prng, 40);
    for (int32_t id = 1; id <= NODES; id++) {
        w->nodes[id] = (struct node){.is_alive = true, .is_active = true, .node_epoch = w->next_epoch++};
        w->nodes[id].known = (struct stele_partition_state){.leader_epoch = -1, .partition_epoch = -1};
    }
    struct stele_node_set replicas = {.count = 0};
    const int32_t factor = 1 + below(w, 4);
    while (replicas.count < factor) {
        assert_true(stele_node_set_add(&replicas, 1 + below(w, NODES)));
    }
    w->versions[0].min_isr = 1 + below(w, 3);
    const struct stele_partition_view view = view_now(w);
    assert_ok(stele_partition_create(&replicas, &view, &w->versions[0].state));
    for (int32_t id = 1; id <= NODES; id++) {
        metadata_apply(w, id, 0);
    }
}

static void fault(struct world *w, int32_t id)
{
    const int32_t which = below(w, 16);
    if (which < 4) {
        fence(w, id);
    } else if (which < 9) {
        kill_node(w, id, which == 4 ? 2 : which == 5);
        if (chance(w, 2)) { /* and is back before anybody noticed */
            restart(w, id);
            unfence(w, id);
        }
    } else if (which == 9) {
        directory_fails(w, id);
    } else if (which < 13) {
        reassign(w);
    } else if (which == 13) {
        min_isr_change(w);
    } else if (which == 14) {
        const struct stele_partition_change wanted = {.mode = STELE_ELECT_PREFERRED};
        change(w, &wanted);
    } else if (chance(w, 8)) {
        forced_election(w);
    }
}

static void step(struct world *w)
{
    const int32_t id = 1 + below(w, NODES), which = below(w, 32);
    const int32_t leader_id = w->nodes[id].known.leader_id > 0 ? w->nodes[id].known.leader_id : id;
    if (chance(w, w->steps_per_fault)) {
        fault(w, id);
    } else if (which < 6) {
        append(w, leader_id);
    } else if (which < 16) {
        fetch(w, id, leader_id);
    } else if (which < 20) {
        propose(w, leader_id);
    } else if (which < 25) {
        deliver(w);
    } else if (which < 28) {
        metadata_flows(w, id);
    } else if (which < 31) {
        if (!w->nodes[id].is_alive) {
            restart(w, id);
        }
        unfence(w, id);
    } else {
        w->nodes[id].synced = w->nodes[id].end;
    }
    check(w);
}

/* The faults stop: everybody is back, metadata flows, followers fetch, the leader asks. */
static void settle(struct world *w)
{
    for (int32_t id = 1; id <= NODES; id++) {
        if (!w->nodes[id].is_alive) {
            restart(w, id);
        }
        unfence(w, id);
    }
    forced_election(w); /* where nobody may lead cleanly */
    for (int32_t round = 0; round < 400 && w->violation == NULL; round++) {
        for (int32_t id = 1; id <= NODES; id++) {
            if (w->nodes[id].seen < w->last) {
                metadata_apply(w, id, w->last);
            }
        }
        const int32_t leader_id = state_now(w)->leader_id;
        require(w, leader_id != STELE_NO_NODE, "L3");
        for (int32_t id = 1; id <= NODES && leader_id != STELE_NO_NODE; id++) {
            fetch(w, id, leader_id);
        }
        if (leader_id != STELE_NO_NODE && state_now(w)->isr.count < state_now(w)->replicas.count) {
            w->nodes[leader_id].has_pending = false; /* what was lost on the way is of an older partition epoch */
            memset(w->messages, 0, sizeof w->messages);
            propose(w, leader_id);
            for (int32_t i = 0; i < 4 * MESSAGES_MAX; i++) {
                deliver(w);
            }
        }
        check(w);
    }
    const struct stele_partition_state *state = state_now(w);
    require(w, state->isr.count == state->replicas.count, "L2");
    require(w, state->adding.count + state->removing.count == 0, "L7");
}

static const char *run(struct world *w, uint64_t seed)
{
    world_init(w, seed);
    for (int32_t i = 0; i < STEPS && w->violation == NULL; i++) {
        step(w);
    }
    if (w->violation == NULL) {
        settle(w);
    }
    return w->violation;
}

/* No seed breaks an invariant, all settle, and everything that the world can do was done. */
static void test_holds(void **state)
{
    (void)state;
    struct world *w = test_malloc(sizeof *w);
    int64_t counts[STELE_ARRAY_LEN(w->counts)] = {0};
    stele_mutation = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const char *violation = run(w, seed);
        if (violation != NULL) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, violation);
        }
        for (size_t i = 0; i < STELE_ARRAY_LEN(counts); i++) {
            counts[i] += w->counts[i];
        }
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(counts); i++) {
        print_message("%s%lld", i == 0 ? "did: " : " ", (long long)counts[i]);
        assert_true(counts[i] > 0);
    }
    print_message("\n");
    test_free(w);
}

/* With a guard off, some seed breaks an invariant. */
static void test_mutation(void **state)
{
    struct world *w = test_malloc(sizeof *w);
    const char *violation = NULL;
    uint64_t seed = 0;
    stele_mutation = *(const int *)*state;
    for (; seed < SEEDS_MUTATED && violation == NULL; seed++) {
        violation = run(w, seed);
    }
    print_message("mutation %d: %s after %llu seeds\n", stele_mutation, violation ? violation : "not seen",
                  (unsigned long long)seed);
    stele_mutation = 0;
    assert_non_null(violation);
    test_free(w);
}

static int run_many(uint64_t first, uint64_t count)
{
    struct world *w = malloc(sizeof *w);
    int failures = 0;
    for (uint64_t seed = first; w != NULL && seed < first + count; seed++) {
        const char *violation = run(w, seed);
        if (violation != NULL) {
            printf("seed %llu: %s\n", (unsigned long long)seed, violation);
            failures++;
        }
    }
    free(w);
    return failures > 0;
}

int main(int argc, char **argv)
{
    static const int mutations[] = {9, 10, 25, 26};
    if (argc == 3) {
        return run_many(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
    }
    struct CMUnitTest tests[1 + STELE_ARRAY_LEN(mutations)] = {cmocka_unit_test(test_holds)};
    for (size_t i = 0; i < STELE_ARRAY_LEN(mutations); i++) {
        tests[1 + i] = (struct CMUnitTest){
            .name = "test_mutation", .test_func = test_mutation, .initial_state = (void *)(uintptr_t)&mutations[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
