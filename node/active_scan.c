#include "node/active_scan.h"

#include "node/active_partitions.h"
#include "node/node_struct.h"

enum { ELECTIONS_MAX = 1000, VISITS_MAX = 10000 };

static struct stele_shard *shard_of(const struct stele_active_scan *scan)
{
    return scan->active->control->shard;
}

static int64_t now_ms(const struct stele_active_scan *scan)
{
    return stele_env_mono_ms(shard_of(scan)->env);
}

static int64_t interval_ms(const struct stele_active_scan *scan)
{
    return stele_settings_int(scan->active->control->node->settings, "leader.imbalance.check.interval.seconds") * 1000;
}

static int64_t count_partitions(const struct stele_image *image)
{
    int64_t count = 0;
    for (const struct stele_image_topic *topic = image->by_name; topic != NULL; topic = topic->by_name.next)
        count += topic->partition_count;
    return count;
}

/* Errors: NO_MEMORY. */
static enum stele_err look_at(struct stele_active_scan *scan, const struct stele_image_topic *topic, int32_t number)
{
    const struct stele_image_partition *partition = stele_image_partition_of(topic, number);
    struct stele_partition_outcome outcome;
    struct stele_partition_view view;
    if (partition == NULL)
        return STELE_OK;
    stele_active_view(scan->active, topic, &partition->state, NULL, NULL, &view);
    if (!stele_partition_wants_preferred(&partition->state, &view) ||
        stele_partition_elect(&partition->state, STELE_ELECT_PREFERRED, STELE_NO_NODE, &view, &outcome) != STELE_OK)
        return STELE_OK;
    enum stele_err err = stele_active_add_partition(&scan->turn, &topic->topic_id, number, &outcome.next);
    if (err == STELE_OK)
        stele_election_scan_elected(&scan->scan);
    return err;
}

/* A pass. What it could not write it meets again in the next round. */
static void begin(struct stele_active_turn *turn)
{
    struct stele_active_scan *scan = STELE_CONTAINER_OF(turn, struct stele_active_scan, turn);
    const struct stele_image *image = &scan->active->control->mlog.image;
    const struct stele_image_topic *topic = image->by_name;
    int64_t count = count_partitions(image), first = 0, position;
    enum stele_err err = STELE_OK;
    scan->scan.interval_ms = interval_ms(scan);
    stele_election_scan_begin(&scan->scan);
    while ((position = stele_election_scan_next(&scan->scan, count, now_ms(scan))) >= 0) {
        for (; position - first >= topic->partition_count; topic = topic->by_name.next)
            first += topic->partition_count;
        if (err == STELE_OK)
            err = look_at(scan, topic, (int32_t)(position - first));
    }
    stele_active_write(turn);
}

static void arm(struct stele_active_scan *scan)
{
    stele_shard_arm(shard_of(scan), &scan->timer, scan->scan.deadline_ms);
}

static void done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_active_scan *scan = STELE_CONTAINER_OF(turn, struct stele_active_scan, turn);
    (void)err;
    scan->is_in_turn = false;
    if (scan->is_on)
        arm(scan);
}

static void fired(struct stele_timer *timer)
{
    struct stele_active_scan *scan = STELE_CONTAINER_OF(timer, struct stele_active_scan, timer);
    if (!scan->is_on || scan->is_in_turn)
        return;
    if (!stele_settings_bool(scan->active->control->node->settings, "auto.leader.rebalance.enable")) {
        scan->scan.deadline_ms = now_ms(scan) + interval_ms(scan);
        arm(scan);
        return;
    }
    scan->is_in_turn = true;
    stele_active_take(scan->active, &scan->turn);
}

void stele_active_scan_look(struct stele_active_scan *scan)
{
    if (scan->active->is_active == scan->is_on)
        return;
    scan->is_on = scan->active->is_active;
    stele_timer_cancel(shard_of(scan)->wheel, &scan->timer);
    if (!scan->is_on)
        return;
    stele_election_scan_init(&scan->scan, interval_ms(scan), ELECTIONS_MAX, VISITS_MAX, now_ms(scan));
    if (!scan->is_in_turn)
        arm(scan);
}

void stele_active_scan_init(struct stele_active_scan *scan, struct stele_active *active)
{
    *scan = (struct stele_active_scan){.active = active, .turn = {.begin = begin, .done = done}};
    stele_timer_init(&scan->timer, fired);
}

void stele_active_scan_end(struct stele_active_scan *scan)
{
    stele_timer_cancel(shard_of(scan)->wheel, &scan->timer);
    stele_active_drop(&scan->turn);
    scan->is_on = scan->is_in_turn = false;
}
