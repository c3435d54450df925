/* The follower machine. Invariants and states: follower.h. */
#include "replication/follower.h"

#include "base/check.h"
#include "replication/guard.h"

void stele_follower_init(struct stele_follower *follower, int32_t node_id,
                         const struct stele_follower_settings *settings)
{
    *follower = (struct stele_follower){
        .node_id = node_id,
        .settings = *settings,
        .state = STELE_FOLLOWER_IDLE,
        .leader_id = STELE_NO_NODE,
        .leader_epoch = STELE_EPOCH_NONE,
        .partition_epoch = -1,
        .delayed_until_ms = INT64_MIN,
        .reported_synced_offset = STELE_OFFSET_NONE,
        .damaged_offset = STELE_OFFSET_NONE,
    };
}

void stele_follower_check(const struct stele_follower *follower)
{
    STELE_ASSERT((follower->state == STELE_FOLLOWER_IDLE) == (follower->leader_id == STELE_NO_NODE));
    STELE_ASSERT(follower->leader_id != follower->node_id);
    STELE_ASSERT(follower->backoff_ms >= 0 && follower->backoff_ms <= follower->settings.fetch_backoff_ms);
}

static void delay(struct stele_follower *follower, int64_t now_ms)
{
    STELE_REACHED(follower, STELE_FOLLOWER_REACHED_BACKOFF);
    int64_t next_ms = follower->backoff_ms == 0 ? STELE_FOLLOWER_BACKOFF_FIRST_MS : 2 * (int64_t)follower->backoff_ms;
    follower->backoff_ms = (int32_t)stele_min_i64(next_ms, follower->settings.fetch_backoff_ms);
    follower->delayed_until_ms = now_ms + follower->backoff_ms;
}

static void end_delay(struct stele_follower *follower)
{
    follower->backoff_ms = 0;
    follower->delayed_until_ms = INT64_MIN;
}

/* Answers to questions of before must not count after this. */
static void begin_generation(struct stele_follower *follower)
{
    follower->generation++;
    follower->has_agreed = false;
    follower->reported_synced_offset = STELE_OFFSET_NONE;
}

static void follow(struct stele_follower *follower, const struct stele_follower_event *event,
                   struct stele_follower_update *update)
{
    const struct stele_partition_state *state = event->state;
    STELE_ASSERT(state->leader_id != follower->node_id);
    if (state->leader_epoch < follower->leader_epoch ||
        (state->leader_epoch == follower->leader_epoch && state->partition_epoch < follower->partition_epoch)) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_OLD_METADATA);
        return;
    }
    follower->partition_epoch = state->partition_epoch;
    if (state->leader_epoch == follower->leader_epoch) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_SAME_EPOCH); /* the fetcher goes on (2.10.2) */
        return;
    }
    if (!STELE_GUARD(2) && follower->state == STELE_FOLLOWER_FETCHING && state->leader_id != STELE_NO_NODE) {
        return;
    }
    follower->leader_epoch = state->leader_epoch;
    follower->leader_id = state->leader_id;
    begin_generation(follower);
    end_delay(follower);
    if (state->leader_id == STELE_NO_NODE) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_NO_LEADER);
        follower->state = STELE_FOLLOWER_IDLE;
        update->stops = true;
        return;
    }
    STELE_REACHED(follower, STELE_FOLLOWER_REACHED_NEW_LEADER);
    follower->state = STELE_FOLLOWER_FETCHING;
    bool has_epochs = event->log.last_epoch >= 0;
    if (!(STELE_GUARD(15) && has_epochs) && event->log.high_watermark < event->log.end_offset) {
        /* A log whose epochs are not known can't be compared; what is committed of it is certain (2.9.3). */
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_NO_INDEX);
        update->has_cut = true;
        update->cut_offset = event->log.high_watermark;
    }
}

/* What retention took already is no loss: a cut may go below the start of a log. */
static bool loses_committed(const struct stele_log_view *log, int64_t cut_offset)
{
    return stele_max_i64(cut_offset, log->start_offset) < log->high_watermark;
}

/* All that this log holds is behind what it shares with the leader: it begins where the leader does. Cut to where the
 * leader ends it would count as a replica of records that it never had. */
static void start_over(struct stele_follower *follower, const struct stele_follower_event *event,
                       struct stele_follower_update *update)
{
    STELE_REACHED(follower, STELE_FOLLOWER_REACHED_RESTART);
    begin_generation(follower);
    update->has_restart = true;
    update->restart_offset = event->answer.log_start_offset;
    update->lost_committed = loses_committed(&event->log, update->restart_offset);
}

/* Rule 3.3.3. The leader's (epoch, end) and what this log has of that epoch. */
static void cut(struct stele_follower *follower, const struct stele_follower_event *event,
                struct stele_follower_update *update)
{
    const struct stele_epoch_end *theirs = &event->answer.diverging;
    const struct stele_epoch_end *own = &event->own_end;
    int64_t cut_offset = stele_min_i64(theirs->end_offset, event->log.end_offset);
    if (stele_epoch_end_is_known(own)) {
        if (own->epoch != theirs->epoch) {
            STELE_REACHED(follower, STELE_FOLLOWER_REACHED_CUT_AGAIN);
            cut_offset = event->log.end_offset;
        }
        cut_offset = stele_min_i64(cut_offset, own->end_offset);
    }
    if (cut_offset >= event->log.end_offset) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_CUT_INDEX);
        if (!STELE_GUARD(14)) {
            return;
        }
    } else {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_CUT);
    }
    /* The leader deleted all that it could be compared with: what is below is as unknown as what is above, and a start
     * that is not on the disk when the power fails would bring it back. */
    bool shares_nothing = cut_offset < event->log.start_offset || cut_offset <= event->answer.log_start_offset;
    if (shares_nothing && event->answer.log_start_offset >= 0) {
        start_over(follower, event, update);
        return;
    }
    begin_generation(follower);
    update->has_cut = true;
    update->cut_offset = cut_offset;
    update->lost_committed = loses_committed(&event->log, cut_offset);
}

static void take_diverging(struct stele_follower *follower, const struct stele_follower_event *event,
                           struct stele_follower_update *update)
{
    const struct stele_epoch_end *theirs = &event->answer.diverging;
    bool is_lower = theirs->epoch < event->ticket.last_fetched_epoch;
    bool is_shorter =
        theirs->epoch == event->ticket.last_fetched_epoch && theirs->end_offset < event->ticket.fetch_offset;
    if (theirs->end_offset < 0 || theirs->epoch < 0 || (!is_lower && !is_shorter)) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_NONSENSE);
        delay(follower, event->now_ms);
        return;
    }
    end_delay(follower);
    cut(follower, event, update);
}

/* Rules 3.4. The leader's start and end are of the step that checked the leader epoch (KAFKA-2143), and the answer is
 * of this leader epoch: what they say holds. That the contents agree is for the next fetch to find (3.4.5). */
static void take_out_of_range(struct stele_follower *follower, const struct stele_follower_event *event,
                              struct stele_follower_update *update)
{
    const struct stele_fetch_answer *answer = &event->answer;
    if (answer->log_start_offset < 0 || answer->log_end_offset < answer->log_start_offset) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_NONSENSE);
        delay(follower, event->now_ms);
    } else if (answer->log_end_offset < event->log.start_offset) {
        start_over(follower, event, update);
    } else if (answer->log_end_offset < event->log.end_offset) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_TOO_LONG);
        begin_generation(follower);
        update->has_cut = true;
        update->cut_offset = answer->log_end_offset;
        update->lost_committed = loses_committed(&event->log, answer->log_end_offset);
    } else if (answer->log_start_offset > event->log.end_offset) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_RESTART);
        begin_generation(follower);
        update->has_restart = true;
        update->restart_offset = answer->log_start_offset;
    } else {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_IN_RANGE);
        delay(follower, event->now_ms);
    }
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return stele_max_i64(stele_min_i64(value, high), low);
}

/* The leader's log begins where this one ends, and they never agreed on a batch: the epoch of the last one fits any
 * that the leader deleted. See cut. */
static bool cannot_compare(const struct stele_follower *follower, const struct stele_follower_event *event)
{
    return !follower->has_agreed && event->answer.log_start_offset == event->log.end_offset &&
           event->log.start_offset < event->log.end_offset;
}

/* Append, then the watermark, then the start (2.7.3). */
static void take_records(struct stele_follower *follower, const struct stele_follower_event *event,
                         struct stele_follower_update *update)
{
    const struct stele_fetched_records *records = &event->records;
    STELE_ASSERT(records->end_offset >= event->log.end_offset);
    int64_t start_offset = event->log.start_offset;
    if (cannot_compare(follower, event)) {
        end_delay(follower);
        start_over(follower, event, update);
        return;
    }
    follower->has_agreed = true;
    if (records->end_offset > event->log.end_offset) {
        update->append_end_offset = records->end_offset;
        if (records->base_offset < event->log.end_offset) {
            begin_generation(follower); /* the log has the batch around its start, and starts where it did */
            update->has_restart = true;
            update->restart_offset = records->base_offset;
            update->has_high_watermark = update->has_start = true;
            update->high_watermark = update->start_offset = start_offset;
        }
    }
    if (event->answer.high_watermark >= 0) {
        update->has_high_watermark = true;
        update->high_watermark = clamp(event->answer.high_watermark, start_offset, records->end_offset);
        if (update->high_watermark < event->log.high_watermark) {
            STELE_REACHED(follower, STELE_FOLLOWER_REACHED_WATERMARK_FELL);
        }
        int64_t their_start_offset = stele_min_i64(event->answer.log_start_offset, update->high_watermark);
        if (their_start_offset > start_offset) {
            STELE_REACHED(follower, STELE_FOLLOWER_REACHED_START_RAISED);
            update->has_start = true;
            update->start_offset = their_start_offset;
        }
    }
    update->wants_sync = follower->settings.is_flush_before_ack && event->log.synced_offset < records->end_offset;
    end_delay(follower);
    if (records->is_cut) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_PREFIX);
        if (records->end_offset == event->log.end_offset) {
            delay(follower, event->now_ms); /* nothing of it could be taken: ask again, but not at once */
        }
    }
}

static bool is_current(struct stele_follower *follower, const struct stele_follower_event *event)
{
    const struct stele_follower_ticket *ticket = &event->ticket;
    if (follower->state != STELE_FOLLOWER_FETCHING) {
        return false;
    }
    if (STELE_GUARD(7) &&
        (ticket->leader_epoch != follower->leader_epoch || ticket->generation != follower->generation)) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_STALE_EPOCH);
        return false;
    }
    if (STELE_GUARD(8) && ticket->fetch_offset != event->log.end_offset) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_STALE_OFFSET);
        return false;
    }
    return true;
}

static void take_answer(struct stele_follower *follower, const struct stele_follower_event *event,
                        struct stele_follower_update *update)
{
    if (!is_current(follower, event)) {
        return;
    }
    enum stele_err err = event->answer.err;
    if (err == STELE_OK) {
        const struct stele_epoch_end *diverging = &event->answer.diverging;
        if (diverging->epoch != STELE_EPOCH_NONE || diverging->end_offset != STELE_OFFSET_NONE) {
            take_diverging(follower, event, update);
        } else {
            take_records(follower, event, update);
        }
    } else if (err == STELE_OFFSET_OUT_OF_RANGE) {
        take_out_of_range(follower, event, update);
    } else if (err == STELE_FENCED_LEADER_EPOCH) {
        /* A newer epoch exists; the metadata that says so is on its way (2.9.8). */
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_FAILED);
        follower->state = STELE_FOLLOWER_FAILED;
        update->stops = true;
    } else {
        delay(follower, event->now_ms);
    }
}

static void synced(struct stele_follower *follower, const struct stele_follower_event *event,
                   struct stele_follower_update *update)
{
    if (!follower->settings.is_flush_before_ack || follower->state != STELE_FOLLOWER_FETCHING) {
        return;
    }
    update->wants_sync = event->log.synced_offset < event->log.end_offset;
    update->wants_report =
        event->log.synced_offset > follower->reported_synced_offset && event->now_ms >= follower->delayed_until_ms;
    if (update->wants_report) {
        STELE_REACHED(follower, STELE_FOLLOWER_REACHED_REPORT);
    }
}

void stele_follower_step(struct stele_follower *follower, const struct stele_follower_event *event,
                         struct stele_follower_update *out_update)
{
    struct stele_follower_update *update = out_update;
    *update = (struct stele_follower_update){.append_end_offset = STELE_OFFSET_NONE};
    switch (event->kind) {
    case STELE_FOLLOWER_FOLLOW:
        follow(follower, event, update);
        break;
    case STELE_FOLLOWER_ANSWER:
        take_answer(follower, event, update);
        break;
    case STELE_FOLLOWER_LOST:
        if (follower->state == STELE_FOLLOWER_FETCHING && event->ticket.generation == follower->generation) {
            delay(follower, event->now_ms);
        }
        break;
    case STELE_FOLLOWER_SYNCED:
        synced(follower, event, update);
        break;
    case STELE_FOLLOWER_DAMAGE:
        follower->damaged_offset = event->damaged_offset >= 0 ? event->damaged_offset : STELE_OFFSET_NONE;
        break;
    case STELE_FOLLOWER_READERS:
        follower->is_read_from = event->is_read_from;
        break;
    case STELE_FOLLOWER_SETTINGS:
        follower->settings = event->settings;
        follower->backoff_ms = (int32_t)stele_min_i64(follower->backoff_ms, follower->settings.fetch_backoff_ms);
        synced(follower, event, update);
        break;
    }
    update->deadline_ms = follower->state == STELE_FOLLOWER_FETCHING ? follower->delayed_until_ms : INT64_MAX;
    stele_follower_check(follower);
}

bool stele_follower_fetch(struct stele_follower *follower, int64_t now_ms, const struct stele_log_view *log,
                          struct stele_follower_question *out_question)
{
    if (follower->state != STELE_FOLLOWER_FETCHING || now_ms < follower->delayed_until_ms) {
        return false;
    }
    follower->reported_synced_offset = log->synced_offset;
    out_question->ticket = (struct stele_follower_ticket){
        .leader_id = follower->leader_id,
        .leader_epoch = follower->leader_epoch,
        .generation = follower->generation,
        .fetch_offset = log->end_offset,
        .last_fetched_epoch = log->last_epoch,
    };
    out_question->line = (struct stele_fetch_line){
        .leader_epoch = follower->leader_epoch,
        .last_fetched_epoch = log->last_epoch,
        .fetch_offset = log->end_offset,
        .synced_offset = log->synced_offset,
        .log_start_offset = log->start_offset,
        .damaged_offset = follower->damaged_offset,
        .known_high_watermark = follower->is_read_from ? log->high_watermark : STELE_HIGH_WATERMARK_NO_WAKE,
    };
    return true;
}

struct stele_fetched_records stele_fetched_records_begin(const struct stele_follower_ticket *ticket)
{
    return (struct stele_fetched_records){
        .base_offset = STELE_OFFSET_NONE,
        .end_offset = ticket->fetch_offset,
        .last_epoch = ticket->last_fetched_epoch,
    };
}

bool stele_follower_takes(const struct stele_follower_ticket *ticket, const struct stele_log_view *log,
                          const struct stele_fetched_batch *batch, struct stele_fetched_records *records)
{
    bool is_first = records->base_offset == STELE_OFFSET_NONE;
    bool is_straddling = is_first && log->start_offset == log->end_offset && batch->base_offset >= 0 &&
                         batch->base_offset < log->end_offset && batch->end_offset > log->end_offset;
    if (records->is_cut || (batch->base_offset != records->end_offset && !is_straddling) ||
        batch->end_offset <= records->end_offset || batch->epoch < 0 || batch->epoch < records->last_epoch ||
        batch->epoch > ticket->leader_epoch) {
        records->is_cut = true;
        return false;
    }
    if (is_first) {
        records->base_offset = batch->base_offset;
    }
    records->end_offset = batch->end_offset;
    records->last_epoch = batch->epoch;
    return true;
}
