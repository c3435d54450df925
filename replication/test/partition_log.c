/* Model logs: records by offset, an epoch index (facts 3.1, 3.2), and what a crash leaves of them. */
#include "partition_world.h"

bool pw_record_equal(const struct pw_record *a, const struct pw_record *b)
{
    return a->epoch == b->epoch && a->producer == b->producer && a->seq == b->seq;
}

struct stele_log_view pw_log_view(const struct pw_log *log)
{
    return (struct stele_log_view){
        .start_offset = log->start,
        .end_offset = log->end,
        .synced_offset = log->synced,
        .high_watermark = log->hw,
        .last_epoch = log->epoch_count > 0 ? log->epochs[log->epoch_count - 1].epoch : -1,
    };
}

void pw_log_assign(struct pw_log *log, int32_t epoch, int64_t offset)
{
    int count = log->epoch_count;
    if (count > 0 && log->epochs[count - 1].epoch == epoch && log->epochs[count - 1].start_offset <= offset) {
        return;
    }
    while (count > 0 && (log->epochs[count - 1].epoch >= epoch || log->epochs[count - 1].start_offset >= offset)) {
        count--;
    }
    log->epochs[count] = (struct pw_epoch){epoch, offset};
    log->epoch_count = count + 1;
}

void pw_log_append(struct pw_world *world, struct pw_log *log, const struct pw_record *records, int64_t base, int count)
{
    if (base != log->end) {
        pw_fail(world, "D26: an append at %lld of a log that ends at %lld", (long long)base, (long long)log->end);
    }
    if (log->end + count > PW_LOG_MAX) {
        pw_fail(world, "the model log is full");
    }
    for (int i = 0; i < count; i++) {
        log->records[log->end + i] = records[i];
        pw_log_assign(log, records[i].epoch, log->end + i);
    }
    log->end += count;
    if (log->end > world->highest_end) {
        world->highest_end = log->end;
    }
}

void pw_log_cut(struct pw_log *log, int64_t offset)
{
    while (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].start_offset >= offset) {
        log->epoch_count--;
    }
    if (offset >= log->end) {
        return;
    }
    if (offset < log->start) {
        pw_log_restart(log, offset);
        return;
    }
    log->end = offset;
    log->synced = stele_min_i64(log->synced, offset);
    log->hw = stele_min_i64(log->hw, offset);
    log->checkpoint_hw = stele_min_i64(log->checkpoint_hw, offset);
}

void pw_log_restart(struct pw_log *log, int64_t offset)
{
    log->start = log->end = log->synced = log->hw = log->checkpoint_hw = offset;
    log->epoch_count = 0;
}

void pw_log_raise_start(struct pw_log *log, int64_t offset)
{
    if (offset <= log->start) {
        return;
    }
    log->start = offset;
    int first = 0; /* the entry that holds `offset` */
    while (first + 1 < log->epoch_count && log->epochs[first + 1].start_offset <= offset) {
        first++;
    }
    for (int i = first; i < log->epoch_count; i++) {
        log->epochs[i - first] = log->epochs[i];
    }
    log->epoch_count -= first;
    if (log->epoch_count > 0 && log->epochs[0].start_offset < offset) {
        log->epochs[0].start_offset = offset;
    }
}

struct stele_epoch_end pw_log_epoch_end(const struct pw_log *log, int32_t epoch)
{
    const struct stele_epoch_end unknown = {-1, -1};
    int count = log->epoch_count;
    if (epoch < 0 || count == 0 || epoch > log->epochs[count - 1].epoch) {
        return unknown;
    }
    if (epoch == log->epochs[count - 1].epoch) {
        return (struct stele_epoch_end){epoch, log->end};
    }
    if (epoch < log->epochs[0].epoch) {
        return (struct stele_epoch_end){epoch, log->epochs[0].start_offset};
    }
    int i = count - 1;
    while (log->epochs[i].epoch > epoch) {
        i--;
    }
    return (struct stele_epoch_end){log->epochs[i].epoch, log->epochs[i + 1].start_offset};
}

/* What is there after a process or a machine died: of what was not synced some batches, and an index that has lost its
 * entries without records, or not. */
void pw_log_recover(struct pw_world *world, struct pw_log *log, bool has_lost_power)
{
    if (has_lost_power) {
        int64_t kept = pw_draw(world, log->synced, log->end);
        if (pw_chance(world, 400)) {
            kept = log->synced;
        }
        if (kept < log->end) {
            kept = kept > log->start ? stele_max_i64(log->records[kept].batch_base, log->start) : log->start;
        }
        log->end = stele_max_i64(kept, log->synced);
        log->synced = log->end; /* recovery wrote what it found anew */
    }
    while (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].start_offset > log->end) {
        log->epoch_count--;
    }
    if (pw_chance(world, 500)) {
        while (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].start_offset >= log->end) {
            log->epoch_count--;
        }
    }
    log->hw = stele_max_i64(stele_min_i64(log->checkpoint_hw, log->end), log->start);
}
