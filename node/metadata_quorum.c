/* Carries out what the machine of the metadata quorum decides, in the order that replication/quorum.h gives: persist,
 * log, send, answer. */
#include "base/address.h"
#include "base/check.h"
#include "node/metadata_log.h"
#include "node/node_struct.h"
#include "node/settings.h"

#include <string.h>

static void persist_work(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, persist_job);
    mlog->persist_err = stele_election_file_write(job->env->vfs, stele_log_dir(mlog->log), &mlog->persist_file);
}

static void carry_log(struct stele_metadata_log *mlog);

static void persist_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, persist_job);
    if (mlog->persist_err == STELE_OK) {
        carry_log(mlog);
        stele_metadata_log__pump(mlog);
    } else {
        mlog->failed(mlog, mlog->persist_err);
    }
    if (mlog->idle != NULL)
        mlog->idle(mlog);
}

static void persist(struct stele_metadata_log *mlog)
{
    const struct stele_election_state *state = &mlog->update.persist;
    mlog->persist_file = (struct stele_election_file){.epoch = state->epoch,
                                                      .leader_id = state->leader_id,
                                                      .voted_id = state->voted.node_id,
                                                      .voted_directory_id = state->voted.directory_id};
    mlog->persist_job = (struct stele_job){.work = persist_work, .done = persist_done, .lane = mlog};
    mlog->shard->env->ops->job(mlog->shard->env, &mlog->persist_job);
}

struct voters_record {
    struct stele_voter named[STELE_VOTERS_MAX];
    char hosts[STELE_VOTERS_MAX][STELE_HOST_BYTES];
    struct stele_metadata_record record;
};

static void name_voters(struct stele_metadata_log *mlog, const struct stele_voters *voters, struct voters_record *out)
{
    for (int32_t i = 0; i < voters->count; i++) {
        const struct stele_replica_key *key = &voters->keys[i];
        char address[STELE_ADDRESS_BYTES];
        out->named[i] =
            (struct stele_voter){.node_id = key->node_id, .directory_id = key->directory_id, .host = out->hosts[i]};
        memset(out->hosts[i], 0, sizeof(out->hosts[i]));
        if (mlog->address_of == NULL || !mlog->address_of(mlog, key->node_id, address))
            continue;
        if (stele_address_split(address, out->hosts[i], &out->named[i].port) != STELE_OK)
            out->named[i].host = "";
    }
    out->record = (struct stele_metadata_record){
        .kind = STELE_METADATA_VOTERS, .u.voters = {.voters = out->named, .voter_count = (size_t)voters->count}};
}

/* Where a topic has no value of its own these hold for all nodes alike: of a partition they must mean the same to its
 * leader and to the controller. So the configuration of the node that makes the cluster becomes the cluster's. A node
 * that is alone goes by its own. */
static int add_shared_settings(const struct stele_metadata_log *mlog, struct stele_metadata_record *records)
{
    const struct stele_node *node = mlog->shard->node;
    int count = 0;
    if (node->control.peers.shard == NULL)
        return 0;
    for (int i = 0; stele_node_shared_setting(i) != NULL; i++) {
        const char *name = stele_node_shared_setting(i);
        if (stele_settings_is_set(node->options.settings, name))
            records[count++] = (struct stele_metadata_record){
                .kind = STELE_METADATA_SETTING,
                .u.setting = {.scope = STELE_SUBJECT_CLUSTER,
                              .subject = "",
                              .name = name,
                              .value = stele_settings_text(node->options.settings, name)}};
    }
    return count;
}

/* A level never goes back, and who does not know it cannot read on: whoever has others beside it lets a person raise it
 * (node/handle_update_level.c looks whether all know it). */
static bool raises_level(const struct stele_metadata_log *mlog)
{
    const struct stele_image *image = &mlog->image;
    return image->level < STELE_METADATA_LEVEL && image->cluster_id != NULL && image->members == NULL &&
           stele_quorum_voters(&mlog->quorum)->count == 1;
}

/* What a new leader writes first: who leads, and what the log must say before that. */
static enum stele_err lead(struct stele_metadata_log *mlog)
{
    const struct stele_voters *voters = stele_quorum_voters(&mlog->quorum);
    struct stele_quorum_replica all[STELE_VOTERS_MAX], granting[STELE_VOTERS_MAX];
    struct voters_record named;
    struct stele_metadata_record records[4 + STELE_SHARED_SETTINGS];
    size_t granting_count = 0;
    int count = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        all[i] = (struct stele_quorum_replica){.node_id = voters->keys[i].node_id,
                                               .directory_id = voters->keys[i].directory_id};
        if ((mlog->quorum.granted_mask & UINT32_C(1) << i) != 0)
            granting[granting_count++] = all[i];
    }
    if (stele_log_end_offset(mlog->log) == 0) {
        records[count++] = (struct stele_metadata_record){
            .kind = STELE_METADATA_FORMAT,
            .u.format = {.format = "stele", .level = STELE_METADATA_LEVEL, .cluster_id = mlog->new_cluster_id}};
        count += add_shared_settings(mlog, records + count);
    } else if (raises_level(mlog)) {
        records[count++] = (struct stele_metadata_record){.kind = STELE_METADATA_LEVEL_CHANGE,
                                                          .u.level = {.level = STELE_METADATA_LEVEL}};
    }
    records[count++] = (struct stele_metadata_record){.kind = STELE_METADATA_LEADER_CHANGE,
                                                      .u.leader_change = {.leader_id = mlog->quorum.self.node_id,
                                                                          .voters = all,
                                                                          .voter_count = (size_t)voters->count,
                                                                          .granting = granting,
                                                                          .granting_count = granting_count}};
    if (mlog->update.has_voters) {
        name_voters(mlog, voters, &named);
        records[count++] = named.record;
    }
    return stele_metadata_log__append(mlog, records, count);
}

static void tell(struct stele_metadata_log *mlog, const struct stele_quorum_event *event)
{
    STELE_ASSERT(mlog->own_count < (int)STELE_ARRAY_LEN(mlog->own));
    mlog->own[mlog->own_count++] = *event;
}

/* Of a change of the voters. What cannot be written leaves the machine in the middle of it: then another is to lead. */
static enum stele_err append_voters(struct stele_metadata_log *mlog)
{
    struct voters_record named;
    name_voters(mlog, &mlog->update.voters, &named);
    enum stele_err err = stele_metadata_log__append(mlog, &named.record, 1);
    if (err == STELE_NO_SPACE || err == STELE_NO_MEMORY) {
        tell(mlog, &(struct stele_quorum_event){.kind = STELE_QUORUM_RESIGN});
        return STELE_OK;
    }
    return err;
}

static enum stele_err change_log(struct stele_metadata_log *mlog)
{
    enum stele_err err = STELE_OK;
    switch (mlog->update.log) {
    case STELE_QUORUM_LOG_NONE:
        if (!mlog->update.has_voters)
            return STELE_OK;
        err = append_voters(mlog);
        break;
    case STELE_QUORUM_LOG_APPEND:
        err = stele_metadata_log__append_fetched(mlog, mlog->current);
        if (err == STELE_CORRUPT_MESSAGE || err == STELE_NO_MEMORY || err == STELE_NO_SPACE) {
            tell(mlog, &(struct stele_quorum_event){.kind = STELE_QUORUM_FETCH_UNUSABLE});
            return STELE_OK;
        }
        /* The machine waits for the end of all that came: the rest is fetched again. */
        if (err == STELE_OK && stele_log_end_offset(mlog->log) < mlog->current->event.u.answer.records_end)
            tell(mlog, &(struct stele_quorum_event){.kind = STELE_QUORUM_FETCH_UNUSABLE});
        break;
    case STELE_QUORUM_LOG_TRUNCATE:
        err = stele_metadata_log__truncate(mlog, mlog->update.truncate_to);
        if (err == STELE_OK)
            tell(mlog,
                 &(struct stele_quorum_event){.kind = STELE_QUORUM_TRUNCATED,
                                              .u.log_end = {.end_offset = stele_log_end_offset(mlog->log),
                                                            .last_epoch = (int32_t)stele_max_i64(
                                                                stele_epoch_cache_latest(stele_log_epochs(mlog->log)),
                                                                mlog->snapshot_at.epoch)}});
        break;
    case STELE_QUORUM_LOG_LEAD:
        err = lead(mlog);
        break;
    case STELE_QUORUM_LOG_SNAPSHOT_WRITE:
    case STELE_QUORUM_LOG_SNAPSHOT_INSTALL:
        err = stele_metadata_log__write_chunk(mlog);
        if (err == STELE_OK && mlog->update.log == STELE_QUORUM_LOG_SNAPSHOT_INSTALL)
            stele_metadata_log__install(mlog);
        /* Without the chunk the whole is damaged, which its end will show. */
        if (err != STELE_OK && err != STELE_IO)
            tell(mlog, &(struct stele_quorum_event){.kind = STELE_QUORUM_FETCH_UNUSABLE});
        return err == STELE_IO ? err : STELE_OK;
    }
    if (err == STELE_OK)
        stele_metadata_log__sync(mlog);
    return err;
}

static void finish_input(struct stele_metadata_log *mlog)
{
    struct stele_quorum_input *input = mlog->current;
    mlog->current = NULL;
    if (input != NULL && input->done != NULL)
        input->done(input, mlog->update.has_answer ? &mlog->update.answer : NULL);
}

/* Everything after the persisting. */
static void carry_log(struct stele_metadata_log *mlog)
{
    struct stele_quorum_update *update = &mlog->update;
    if (update->log == STELE_QUORUM_LOG_TRUNCATE && mlog->flush != NULL) {
        mlog->waits_for_flush = true;
        return;
    }
    mlog->waits_for_flush = false;
    enum stele_err err = update->fatal != STELE_OK ? update->fatal : change_log(mlog);
    if (err != STELE_OK) {
        mlog->failed(mlog, err);
        return;
    }
    if (update->is_leadership_lost)
        stele_metadata_log__refuse_changes(mlog);
    for (int32_t i = 0; i < update->send_count && mlog->send != NULL; i++)
        mlog->send(mlog, &update->sends[i]);
    bool has_role_changed = update->has_role_changed, has_moved = update->has_high_watermark_moved;
    bool has_change_done = update->has_change_done;
    enum stele_err change_err = update->change_err;
    if (update->deadline_ms == INT64_MAX)
        stele_timer_cancel(mlog->shard->wheel, &mlog->quorum_timer);
    else
        stele_shard_arm(mlog->shard, &mlog->quorum_timer, update->deadline_ms);
    mlog->is_carrying = false;
    finish_input(mlog);
    if (has_moved)
        stele_metadata_log__commit(mlog);
    if (has_change_done && mlog->voters_changed != NULL)
        mlog->voters_changed(mlog, change_err);
    if (has_role_changed && mlog->changed != NULL)
        mlog->changed(mlog);
}

/* The next event: of the log first, then what a sync says, then the timer, then the others in order. */
static bool next_event(struct stele_metadata_log *mlog, struct stele_quorum_event *out_event)
{
    mlog->current = NULL;
    if (mlog->own_count > 0) {
        *out_event = mlog->own[0];
        memmove(mlog->own, mlog->own + 1, (size_t)--mlog->own_count * sizeof(*mlog->own));
        return true;
    }
    if (mlog->synced_to >= 0) {
        *out_event = (struct stele_quorum_event){.kind = STELE_QUORUM_SYNCED,
                                                 .u.synced_offset =
                                                     stele_min_i64(mlog->synced_to, stele_log_end_offset(mlog->log))};
        mlog->synced_to = -1;
        return true;
    }
    if (mlog->is_timer_due) {
        *out_event = (struct stele_quorum_event){.kind = STELE_QUORUM_TIMER};
        mlog->is_timer_due = false;
        return true;
    }
    if (stele_list_is_empty(&mlog->inputs))
        return false;
    mlog->current = STELE_CONTAINER_OF(mlog->inputs.next, struct stele_quorum_input, link);
    stele_list_remove(&mlog->current->link);
    if (mlog->current->prepare != NULL)
        mlog->current->prepare(mlog, mlog->current);
    *out_event = mlog->current->event;
    return true;
}

/* Told once the machine rests, so that who is told may feed it. */
static void stir(struct stele_metadata_log *mlog)
{
    const struct stele_quorum *quorum = &mlog->quorum;
    bool is_current = stele_metadata_log_is_current(mlog); /* an answer that brings nothing may say so */
    if (mlog->stirred == NULL || !mlog->is_running || mlog->is_carrying ||
        (mlog->told.end_offset == quorum->appended_offset && mlog->told.high_watermark == quorum->high_watermark &&
         mlog->told.epoch == quorum->election.epoch && mlog->told.leader_id == quorum->election.leader_id &&
         mlog->told.role == quorum->role && mlog->told.has_heard_leader == quorum->has_heard_leader &&
         mlog->told.is_current == is_current))
        return;
    mlog->told.end_offset = quorum->appended_offset;
    mlog->told.high_watermark = quorum->high_watermark;
    mlog->told.epoch = quorum->election.epoch;
    mlog->told.leader_id = quorum->election.leader_id;
    mlog->told.role = quorum->role;
    mlog->told.has_heard_leader = quorum->has_heard_leader;
    mlog->told.is_current = is_current;
    mlog->stirred(mlog);
}

void stele_metadata_log__pump(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    struct stele_quorum_event event;
    if (mlog->is_pumping)
        return;
    mlog->is_pumping = true;
    if (mlog->is_running && mlog->waits_for_flush && mlog->flush == NULL)
        carry_log(mlog);
    while (mlog->is_running && !mlog->is_carrying && next_event(mlog, &event)) {
        event.now_ms = stele_env_mono_ms(env);
        event.random = env->ops->random(env);
        mlog->is_carrying = true;
        stele_quorum_step(&mlog->quorum, &event, &mlog->update);
        if (mlog->update.has_persist)
            persist(mlog);
        else
            carry_log(mlog);
    }
    mlog->is_pumping = false;
    stele_metadata_log__next_change(mlog);
    stir(mlog);
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(timer, struct stele_metadata_log, quorum_timer);
    mlog->is_timer_due = true;
    stele_metadata_log__pump(mlog);
}

void stele_metadata_log__init_quorum(struct stele_metadata_log *mlog)
{
    stele_list_init(&mlog->inputs);
    stele_timer_init(&mlog->quorum_timer, timer_fired);
}

void stele_metadata_log_feed(struct stele_metadata_log *mlog, struct stele_quorum_input *input)
{
    stele_list_push(&mlog->inputs, &input->link);
    stele_metadata_log__pump(mlog);
}

void stele_metadata_log_run(struct stele_metadata_log *mlog, const struct stele_metadata_begin *begin,
                            struct stele_quorum_start *start)
{
    struct stele_env *env = mlog->shard->env;
    start->has_election = begin->has_election;
    start->election = (struct stele_election_state){
        .epoch = begin->election.epoch,
        .leader_id = begin->election.leader_id,
        .voted = {.node_id = begin->election.voted_id, .directory_id = begin->election.voted_directory_id}};
    start->end_offset = stele_log_end_offset(mlog->log);
    start->last_epoch =
        (int32_t)stele_max_i64(stele_epoch_cache_latest(stele_log_epochs(mlog->log)), mlog->snapshot_at.epoch);
    start->high_watermark = mlog->applied_offset;
    bool is_new = begin->history_count > 0 && begin->history[0].voters.count == 0;
    if (begin->history_count > 0) {
        start->history_count = begin->history_count - (is_new ? 1 : 0);
        memcpy(start->history, begin->history + (is_new ? 1 : 0),
               (size_t)start->history_count * sizeof(*start->history));
    } else if (start->history_count == 0) {
        start->history[0] = (struct stele_voters_at){.offset = -1, .voters = {.keys = {start->self}, .count = 1}};
        start->history_count = 1;
    }
    start->now_ms = stele_env_mono_ms(env);
    start->random = env->ops->random(env);
    mlog->is_running = true;
    mlog->is_carrying = true;
    stele_quorum_start(&mlog->quorum, start, &mlog->update);
    if (mlog->update.has_persist) {
        persist(mlog);
        return;
    }
    carry_log(mlog);
    stele_metadata_log__pump(mlog);
}

void stele_metadata_log_halt(struct stele_metadata_log *mlog)
{
    mlog->is_running = false;
    stele_timer_cancel(mlog->shard->wheel, &mlog->quorum_timer);
    stele_timer_cancel(mlog->shard->wheel, &mlog->apply_timer);
    stele_timer_cancel(mlog->shard->wheel, &mlog->sync_timer);
    while (!stele_list_is_empty(&mlog->inputs))
        stele_list_remove(mlog->inputs.next);
}

bool stele_metadata_log_is_current(const struct stele_metadata_log *mlog)
{
    const struct stele_quorum *quorum = &mlog->quorum;
    bool follows = mlog->is_running && quorum->role == STELE_QUORUM_FOLLOWER && quorum->has_heard_leader &&
                   quorum->fetch.leader_high_watermark >= 0 &&
                   mlog->applied_offset >= quorum->fetch.leader_high_watermark;
    return mlog->image.cluster_id != NULL && quorum->synced_offset >= mlog->applied_offset &&
           (follows || stele_metadata_log_is_active(mlog));
}

bool stele_metadata_log_is_active(const struct stele_metadata_log *mlog)
{
    return mlog->is_running && mlog->quorum.role == STELE_QUORUM_LEADER && mlog->quorum.is_epoch_committed &&
           mlog->applied_offset >= mlog->quorum.high_watermark;
}
