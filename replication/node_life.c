/* Invariants:
 *   1. `node_epoch` is one that the controller gave to this incarnation, or -1: in STARTING, and STOPPED out of it.
 *   2. At most one request is under way, and it was sent to the controller that is known.
 *   3. In RUNNING the last answer said "not fenced".
 *
 *   STARTING -> FENCED     registered
 *   FENCED   -> RUNNING    a heartbeat's answer
 *   RUNNING  -> FENCED     a heartbeat's answer: its session had ended
 *   any      -> STARTING   the controller does not know this life any more
 *   any      -> LEAVING    leave_begin; STARTING goes to STOPPED
 *   LEAVING  -> STOPPED    a heartbeat's answer, or leave_ms_max */
#include "replication/node_life.h"

#include "base/check.h"
#include "replication/guard.h"

void stele_node_life_init(struct stele_node_life *life, const struct stele_life_settings *settings, int64_t now_ms)
{
    *life = (struct stele_node_life){.settings = *settings,
                                     .state = STELE_LIFE_STARTING,
                                     .node_epoch = -1,
                                     .controller_id = STELE_NO_NODE,
                                     .metadata_offset = -1,
                                     .leave_deadline_ms = INT64_MAX,
                                     .leave_end_ms = INT64_MAX,
                                     .duplicate_since_ms = -1,
                                     .backoff_ms = STELE_LIFE_BACKOFF_MS,
                                     .send_ms = now_ms};
}

static void state_set(struct stele_node_life *life, enum stele_life_state state, struct stele_life_update *update)
{
    update->has_state |= life->state != state;
    life->state = state;
}

static void hurry(struct stele_node_life *life, int64_t now_ms, int64_t wait_ms)
{
    life->send_ms = stele_min_i64(life->send_ms, now_ms + wait_ms);
}

/* Doubles, with 2 % more or less, so that nodes that lost one controller do not come back in step. */
static void back_off(struct stele_node_life *life, const struct stele_life_event *event)
{
    const int64_t jitter_ms = life->backoff_ms / 50;
    const int64_t shift_ms = (int64_t)(event->random % (uint64_t)(2 * jitter_ms + 1)) - jitter_ms;
    life->send_ms = event->now_ms + life->backoff_ms + shift_ms;
    life->backoff_ms =
        stele_min_i64(2 * life->backoff_ms, stele_max_i64(life->settings.heartbeat_ms, STELE_LIFE_BACKOFF_MS));
}

static void stop(struct stele_node_life *life, struct stele_life_update *update)
{
    life->request_id = 0;
    life->send_ms = life->leave_deadline_ms = INT64_MAX;
    state_set(life, STELE_LIFE_STOPPED, update);
}

/* It is not known (any more): anew, as the same incarnation. */
static void start_over(struct stele_node_life *life, struct stele_life_update *update)
{
    life->node_epoch = -1;
    if (life->is_leaving) {
        stop(life, update); /* nothing is left that could move away */
        return;
    }
    state_set(life, STELE_LIFE_STARTING, update);
}

/* The controller is there: it may go on for a while. */
static void leave_on(struct stele_node_life *life, int64_t now_ms)
{
    const int64_t silence_ms = life->settings.leave_silence_ms_max;
    life->leave_deadline_ms =
        silence_ms > 0 ? stele_min_i64(life->leave_end_ms, now_ms + silence_ms) : life->leave_end_ms;
}

static void leave_begin(struct stele_node_life *life, int64_t now_ms, struct stele_life_update *update)
{
    if (life->is_leaving) {
        return;
    }
    life->is_leaving = true;
    if (life->state == STELE_LIFE_STARTING) {
        stop(life, update);
        return;
    }
    life->leave_end_ms = now_ms + life->settings.leave_ms_max;
    leave_on(life, now_ms);
    hurry(life, now_ms, 0);
    state_set(life, STELE_LIFE_LEAVING, update);
}

static bool is_refused_for_good(struct stele_node_life *life, const struct stele_life_event *event)
{
    if (event->err != STELE_DUPLICATE_BROKER_REGISTRATION) {
        life->duplicate_since_ms = event->err == STELE_OK ? -1 : life->duplicate_since_ms;
        return event->err == STELE_INCONSISTENT_CLUSTER_ID || event->err == STELE_INVALID_REGISTRATION ||
               event->err == STELE_UNSUPPORTED_VERSION;
    }
    if (life->duplicate_since_ms < 0) {
        life->duplicate_since_ms = event->now_ms;
    }
    return life->settings.duplicate_ms_max > 0 &&
           event->now_ms - life->duplicate_since_ms >= life->settings.duplicate_ms_max;
}

static void registration_answered(struct stele_node_life *life, const struct stele_life_event *event,
                                  struct stele_life_update *update)
{
    const bool is_ours = event->request_id == life->request_id &&
                         stele_uuid_equal(&event->incarnation_id, &life->settings.incarnation_id);
    if ((STELE_GUARD(1) && !is_ours) || life->state != STELE_LIFE_STARTING) {
        return;
    }
    life->request_id = 0;
    life->last_err = event->err;
    const bool is_final = is_refused_for_good(life, event);
    if (event->err == STELE_OK) {
        life->node_epoch = event->node_epoch;
        life->backoff_ms = STELE_LIFE_BACKOFF_MS;
        life->send_ms = event->now_ms + STELE_LIFE_SOON_MS;
        state_set(life, STELE_LIFE_FENCED, update);
        return;
    }
    if (is_final) {
        update->failure = event->err;
        stop(life, update);
        return;
    }
    back_off(life, event);
}

static void heartbeat_answered(struct stele_node_life *life, const struct stele_life_event *event,
                               struct stele_life_update *update)
{
    if (event->request_id != life->request_id || life->node_epoch < 0) {
        return;
    }
    life->request_id = 0;
    life->last_err = event->err;
    if (event->err == STELE_STALE_BROKER_EPOCH || event->err == STELE_BROKER_ID_NOT_REGISTERED) {
        life->send_ms = event->now_ms + STELE_LIFE_SOON_MS;
        start_over(life, update);
        return;
    }
    if (event->err != STELE_OK) {
        const bool is_first_loss = event->err == STELE_CLOSED && life->backoff_ms == STELE_LIFE_BACKOFF_MS;
        back_off(life, event);
        if (is_first_loss) {
            hurry(life, event->now_ms, STELE_LIFE_SOON_MS); /* before the controller takes it for gone */
        }
        return;
    }
    if (life->is_leaving) {
        leave_on(life, event->now_ms);
    }
    life->backoff_ms = STELE_LIFE_BACKOFF_MS;
    /* What happened while the request was under way has made the next one due: earlier than this. */
    hurry(life, event->now_ms, life->is_leaving ? STELE_LIFE_LEAVING_MS : life->settings.heartbeat_ms);
    if (event->should_shut_down) {
        stop(life, update);
    } else if (!life->is_leaving) {
        state_set(life, event->is_fenced ? STELE_LIFE_FENCED : STELE_LIFE_RUNNING, update);
    }
}

static void controller_changed(struct stele_node_life *life, const struct stele_life_event *event)
{
    if (event->controller_id == life->controller_id) {
        return;
    }
    life->controller_id = event->controller_id;
    life->request_id = 0; /* its answer does not count any more */
    life->backoff_ms = STELE_LIFE_BACKOFF_MS;
    hurry(life, event->now_ms, 0);
}

static void metadata_applied(struct stele_node_life *life, const struct stele_life_event *event)
{
    const bool was_behind = life->metadata_offset < life->node_epoch;
    if (event->is_awaited && life->state == STELE_LIFE_RUNNING && event->metadata_offset > life->metadata_offset) {
        hurry(life, event->now_ms, STELE_LIFE_SOON_MS);
    }
    life->metadata_offset = stele_max_i64(life->metadata_offset, event->metadata_offset);
    if (life->state == STELE_LIFE_FENCED && was_behind && life->metadata_offset >= life->node_epoch) {
        hurry(life, event->now_ms, STELE_LIFE_SOON_MS); /* 4.3.4 */
    }
}

static void send(struct stele_node_life *life, struct stele_life_update *update)
{
    life->request_id = ++life->last_request_id;
    life->send_ms = INT64_MAX;
    update->request_id = life->request_id;
    update->sends_registration = life->state == STELE_LIFE_STARTING;
    update->sends_heartbeat = !update->sends_registration;
    update->heartbeat = (struct stele_heartbeat){.node_id = life->settings.node_id,
                                                 .node_epoch = life->node_epoch,
                                                 .metadata_offset = life->metadata_offset,
                                                 .wants_fence = !life->is_recovered && !life->is_leaving,
                                                 .wants_shutdown = life->is_leaving,
                                                 .offline_directories = life->offline_directories};
}

void stele_node_life_step(struct stele_node_life *life, const struct stele_life_event *event,
                          struct stele_life_update *out_update)
{
    *out_update = (struct stele_life_update){.failure = STELE_OK};
    if (life->state == STELE_LIFE_STOPPED) {
        return;
    }
    switch (event->kind) {
    case STELE_LIFE_EVENT_TIME:
        break;
    case STELE_LIFE_EVENT_CONTROLLER:
        controller_changed(life, event);
        break;
    case STELE_LIFE_EVENT_METADATA:
        metadata_applied(life, event);
        break;
    case STELE_LIFE_EVENT_RECOVERED:
        life->is_recovered = true;
        hurry(life, event->now_ms, STELE_LIFE_SOON_MS);
        break;
    case STELE_LIFE_EVENT_OFFLINE:
        if ((event->offline_directories & ~life->offline_directories) != 0) {
            life->offline_directories |= event->offline_directories;
            hurry(life, event->now_ms, 0);
        }
        break;
    case STELE_LIFE_EVENT_SHAKEN:
        if (life->state != STELE_LIFE_STARTING && life->request_id == 0) {
            hurry(life, event->now_ms, STELE_LIFE_SOON_MS);
        }
        break;
    case STELE_LIFE_EVENT_LEAVE:
        leave_begin(life, event->now_ms, out_update);
        break;
    case STELE_LIFE_EVENT_REGISTERED:
        registration_answered(life, event, out_update);
        break;
    case STELE_LIFE_EVENT_BEATEN:
        heartbeat_answered(life, event, out_update);
        break;
    }
    if (life->state != STELE_LIFE_STOPPED && event->now_ms >= life->leave_deadline_ms) {
        stop(life, out_update);
    }
    if (life->state != STELE_LIFE_STOPPED && life->request_id == 0 && life->controller_id != STELE_NO_NODE &&
        event->now_ms >= life->send_ms) {
        send(life, out_update);
    }
}

int64_t stele_node_life_deadline(const struct stele_node_life *life)
{
    const bool can_send = life->request_id == 0 && life->controller_id != STELE_NO_NODE;
    return stele_min_i64(life->leave_deadline_ms, can_send ? life->send_ms : INT64_MAX);
}
