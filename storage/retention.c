#include "storage/retention.h"

#include <stdbool.h>

/* The walk over the segments from the oldest on. */
struct walk {
    const struct stele_retention_in *in;
    int at;
    int64_t bytes_after;   /* of the segments behind it */
    bool is_behind_stayer; /* an older one stays */
};

static struct walk walk_begin(const struct stele_retention_in *in)
{
    struct walk walk = {.in = in};
    for (int i = 1; i < in->count; i++)
        walk.bytes_after += in->segments[i].bytes;
    return walk;
}

static void walk_on(struct walk *walk, const struct stele_retention_verdict *verdict)
{
    walk->is_behind_stayer = walk->is_behind_stayer || verdict->keeper != STELE_KEPT_BY_NOTHING;
    walk->at++;
    if (walk->at < walk->in->count)
        walk->bytes_after -= walk->in->segments[walk->at].bytes;
}

/* The limits on their own, whatever keeps the segment otherwise. */
static void measure(const struct walk *walk, struct stele_retention_verdict *verdict)
{
    const struct stele_retention_in *in = walk->in;
    const struct stele_retention_segment *seg = &in->segments[walk->at];
    const struct stele_log_config *config = in->config;
    verdict->due_ms = INT64_MAX;
    verdict->due_bytes = INT64_MAX;
    if (config->retention_ms >= 0 &&
        __builtin_add_overflow(seg->largest_timestamp, config->retention_ms, &verdict->due_ms))
        verdict->due_ms = INT64_MAX;
    if (config->retention_bytes >= 0)
        verdict->due_bytes = stele_max_i64(config->retention_bytes - walk->bytes_after, 0);
}

/* Start offset, then size, then time (facts 6). The first two breached by no segment are so by none behind it, so that
 * asking each segment for all three is the same as three walks. */
static enum stele_reason reason_to_go(const struct walk *walk, const struct stele_retention_verdict *verdict)
{
    const struct stele_retention_in *in = walk->in;
    const struct stele_log_config *config = in->config;
    int64_t oldest;
    if (walk->at + 1 < in->count && in->segments[walk->at + 1].base_offset <= in->log_start_offset)
        return STELE_REASON_LOG_START;
    if (!config->cleanup_delete)
        return STELE_REASON_COUNT;
    if (verdict->due_bytes == 0)
        return STELE_REASON_RETENTION_SIZE;
    if (config->retention_ms >= 0 && !__builtin_sub_overflow(in->wall_ms, config->retention_ms, &oldest) &&
        in->segments[walk->at].largest_timestamp < oldest)
        return STELE_REASON_RETENTION_TIME;
    return STELE_REASON_COUNT;
}

static struct stele_retention_verdict judge(const struct walk *walk)
{
    const struct stele_retention_in *in = walk->in;
    bool is_last = walk->at == in->count - 1;
    int64_t upper = is_last ? in->log_end_offset : in->segments[walk->at + 1].base_offset;
    struct stele_retention_verdict verdict;
    measure(walk, &verdict);
    verdict.reason = reason_to_go(walk, &verdict);
    if (is_last && in->segments[walk->at].bytes == 0)
        verdict.keeper = STELE_KEPT_BY_EMPTINESS;
    else if (in->high_watermark < upper)
        verdict.keeper = STELE_KEPT_BY_WATERMARK;
    else if (verdict.reason == STELE_REASON_COUNT)
        verdict.keeper = in->config->cleanup_delete ? STELE_KEPT_BY_LIMITS : STELE_KEPT_BY_POLICY;
    else
        verdict.keeper = walk->is_behind_stayer ? STELE_KEPT_BY_OLDER : STELE_KEPT_BY_NOTHING;
    return verdict;
}

void stele_retention_judge(const struct stele_retention_in *in, struct stele_retention_verdict *verdicts)
{
    for (struct walk walk = walk_begin(in); walk.at < in->count; walk_on(&walk, &verdicts[walk.at]))
        verdicts[walk.at] = judge(&walk);
}

int stele_retention_decide(const struct stele_retention_in *in, enum stele_reason *reasons)
{
    for (struct walk walk = walk_begin(in); walk.at < in->count;) {
        struct stele_retention_verdict verdict = judge(&walk);
        if (verdict.keeper != STELE_KEPT_BY_NOTHING)
            return walk.at;
        reasons[walk.at] = verdict.reason;
        walk_on(&walk, &verdict);
    }
    return in->count;
}
