#include "storage/retention.h"

/* A segment may go only when the high watermark has passed it; an empty last one never goes. */
static int candidates(const struct stele_retention_in *in)
{
    int count = 0;
    for (int i = 0; i < in->count; i++) {
        bool is_last = i == in->count - 1;
        int64_t upper = is_last ? in->log_end_offset : in->segments[i + 1].base_offset;
        if (in->high_watermark < upper || (is_last && in->segments[i].bytes == 0))
            break;
        count++;
    }
    return count;
}

/* Facts 6: start offset, then size, then time; each walks from the oldest and stops at the first that stays. */
int stele_retention_decide(const struct stele_retention_in *in, enum stele_reason *reasons)
{
    const struct stele_log_config *config = in->config;
    int limit = candidates(in), gone = 0;
    int64_t total = 0;
    while (gone < limit && gone + 1 < in->count && in->segments[gone + 1].base_offset <= in->log_start_offset)
        reasons[gone++] = STELE_REASON_LOG_START;
    if (!config->cleanup_delete)
        return gone;
    for (int i = gone; i < in->count; i++)
        total += in->segments[i].bytes;
    if (config->retention_bytes >= 0) {
        int64_t surplus = total - config->retention_bytes;
        while (gone < limit && surplus - in->segments[gone].bytes >= 0) {
            surplus -= in->segments[gone].bytes;
            reasons[gone++] = STELE_REASON_RETENTION_SIZE;
        }
    }
    int64_t oldest;
    if (config->retention_ms >= 0 && !__builtin_sub_overflow(in->wall_ms, config->retention_ms, &oldest)) {
        while (gone < limit && in->segments[gone].largest_timestamp < oldest)
            reasons[gone++] = STELE_REASON_RETENTION_TIME;
    }
    return gone;
}
