/* A damaged range of a log filled again with the batches of another replica, piece by piece, while the log is closed.
 * The pieces go where the range is: what is sound of the log is neither moved nor copied. Opened after it, suspect from
 * the range on, the log checks all of it and makes anew what is derived from its batches.
 *
 * A crash loses nothing: where a piece was written only damage was, and before the first one the history says durably
 * what is being repaired, so that a start takes what is bad there for damage as before.
 *
 * Order: history (what is being repaired) synced; of each piece, what lies at the end of the file and is no batch cut
 * off, bytes written and synced; history (it is repaired). */
#ifndef STELE_STORAGE_REPAIR_H
#define STELE_STORAGE_REPAIR_H

#include "storage/log.h"

struct stele_repair {
    struct stele_env *env;
    const char *dir; /* of the partition; the caller's */
    int64_t segment_bytes;

    /* What is left of the range; stele_repair_begin sets it, a piece that was written moves it. */
    int64_t first_offset, next_offset, last_offset;
    int64_t segment_base, pos;
    int64_t end_pos; /* what lies behind in the file begins there; INT64_MAX: the range ends with the file */
    /* The log's start is in the range: what lies before it nobody has any more, nor wants. It is missing from here on,
     * and the first piece begins with the batch around the start; -1: all of the range is wanted. */
    int64_t hole_offset;
    int32_t epoch_before, epoch_max; /* of the batches around it; -1: not known */
    int64_t noted_offset;            /* what history says is being repaired begins there; -1: it does not say it yet */
    int64_t repaired_bytes;
};

/** Takes a damaged range of an open log; `dir`, where it lies, must outlive the log. */
void stele_repair_begin(struct stele_repair *repair, struct stele_env *env, const char *dir,
                        const struct stele_log *log, const struct stele_damaged_range *range);
bool stele_repair_is_done(const struct stele_repair *repair);

/** How much is to be asked for at once: `bytes`, or more where a piece must hold all that is missing. */
int64_t stele_repair_wants(const struct stele_repair *repair, int64_t bytes);
/** How many of the bytes, batches that begin at repair->next_offset, may be taken: whole ones that check, follow each
 * other without a gap and in epochs that do not fall, and fit exactly where they belong. One that is cut off at the end
 * is left for the next piece. Where the range begins with a hole of unknown size (hole_offset) and ends before what is
 * sound, all must be there, to lie before that. Errors: CORRUPT_MESSAGE (the first one does not check),
 * OFFSET_OUT_OF_RANGE (it is not what is missing here, or does not fit). */
STELE_MUST_CHECK enum stele_err stele_repair_check(const struct stele_repair *repair, const uint8_t *bytes,
                                                   size_t count, size_t *out_bytes);
/** Writes what was checked (job; the log is closed). After an error nothing of it counts: it may be tried again.
 * Errors: IO, NO_SPACE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_repair_write(struct stele_repair *repair, const uint8_t *bytes, size_t count);

#endif
