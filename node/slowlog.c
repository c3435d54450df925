#include "node/slowlog.h"

bool stele_slowlog_wants(const struct stele_slowlog *slowlog, int64_t total_us)
{
    return total_us > slowlog->threshold_us || slowlog->slowest_count < STELE_SLOW_SLOWEST ||
           total_us > slowlog->slowest[slowlog->fastest].total_us;
}

static void find_fastest(struct stele_slowlog *slowlog)
{
    slowlog->fastest = 0;
    for (int i = 1; i < slowlog->slowest_count; i++) {
        if (slowlog->slowest[i].total_us < slowlog->slowest[slowlog->fastest].total_us)
            slowlog->fastest = i;
    }
}

void stele_slowlog_note(struct stele_slowlog *slowlog, const struct stele_slow_entry *entry)
{
    struct stele_slow_entry noted = *entry;
    noted.id = ++slowlog->last_id;
    if (noted.total_us > slowlog->threshold_us)
        slowlog->recent[slowlog->recent_total++ % STELE_SLOW_RECENT] = noted;
    if (slowlog->slowest_count < STELE_SLOW_SLOWEST)
        slowlog->slowest[slowlog->slowest_count++] = noted;
    else if (noted.total_us > slowlog->slowest[slowlog->fastest].total_us)
        slowlog->slowest[slowlog->fastest] = noted;
    else
        return;
    find_fastest(slowlog);
}

int stele_slowlog_read(const struct stele_slowlog *slowlog, struct stele_slow_entry *out_entries)
{
    int count = 0, recent = (int)stele_min_i64(slowlog->recent_total, STELE_SLOW_RECENT);
    for (; count < slowlog->slowest_count; count++)
        out_entries[count] = slowlog->slowest[count];
    for (int i = 0; i < recent; i++) {
        bool is_there = false;
        for (int k = 0; k < slowlog->slowest_count; k++)
            is_there = is_there || slowlog->slowest[k].id == slowlog->recent[i].id;
        if (!is_there)
            out_entries[count++] = slowlog->recent[i];
    }
    return count;
}
