/* A copy of a log beside it, until it takes its place. */
#include "base/check.h"
#include "storage/log_struct.h"

/* The largest epoch that both know ends at the smaller of its two ends; behind it they may differ. */
int64_t stele_log_common_end(const struct stele_log *log, const struct stele_log *copy)
{
    int64_t copy_end = copy->log_end_offset, log_end = log->log_end_offset;
    int32_t epoch = stele_epoch_cache_latest(&copy->epochs);
    if (copy_end == copy->segments[0]->base_offset)
        return copy_end >= log->log_start_offset && copy_end <= log_end ? copy_end : -1;
    for (int i = 0; epoch >= 0 && i <= copy->epochs.count; i++) {
        int32_t of_log, of_copy;
        int64_t end_of_log, end_of_copy;
        stele_epoch_cache_end_offset(&log->epochs, epoch, log_end, &of_log, &end_of_log);
        if (of_log < 0)
            return -1;
        stele_epoch_cache_end_offset(&copy->epochs, of_log, copy_end, &of_copy, &end_of_copy);
        if (of_copy == of_log)
            return stele_min_i64(end_of_log, end_of_copy);
        epoch = of_copy;
    }
    return -1;
}

enum stele_err stele_log_close_copy(struct stele_log *copy, int64_t start_offset, const uint8_t *producers,
                                    size_t count)
{
    int64_t end_offset = copy->log_end_offset;
    stele_log__touch(copy);
    stele_log_set_high_watermark(copy, end_offset);
    enum stele_err err = stele_log_set_start_offset(copy, start_offset);
    if (err == STELE_OK)
        err = stele_producers_load(copy->producers, producers, count, end_offset, INT64_MIN);
    return err == STELE_OK ? stele_log_close(copy) : err;
}

enum stele_err stele_log_succeed(struct stele_log *copy, struct stele_log *log)
{
    int32_t epoch = stele_epoch_cache_latest(&log->epochs);
    STELE_ASSERT(copy->log_end_offset == log->log_end_offset);
    /* KAFKA-15608: an epoch in which nothing was appended is in no batch. */
    enum stele_err err = STELE_OK;
    if (epoch > stele_epoch_cache_latest(&copy->epochs))
        err = stele_epoch_cache_assign(&copy->epochs, epoch, log->epochs.entries[log->epochs.count - 1].start_offset);
    if (err != STELE_OK)
        return err;
    /* Of each producer memory knows more batches than a snapshot: what is sent again is known by them. */
    struct stele_producers *producers = copy->producers;
    stele_log__touch(copy);
    copy->producers = log->producers;
    log->producers = producers;
    copy->cut_count = log->cut_count + 1; /* a lookup under way begins anew */
    stele_log_set_high_watermark(copy, log->high_watermark);
    err = stele_log_set_start_offset(copy, stele_min_i64(log->log_start_offset, copy->high_watermark));
    STELE_ASSERT(err == STELE_OK);
    return STELE_OK;
}
