/* Invariants
 *  1. buffer[0, count) are the bytes [at, at + count) of the file, and at + count <= end.
 *  2. pos is the start of a batch, or of what stands where one should. */
#include "storage/scan.h"

#include "base/check.h"
#include "base/crc32c.h"

#include <string.h>

void stele_scan_init(struct stele_scan *scan, struct stele_mem *mem)
{
    *scan = (struct stele_scan){.mem = mem};
}

void stele_scan_deinit(struct stele_scan *scan)
{
    stele_mem_free(scan->mem, scan->buffer);
    scan->buffer = NULL;
}

enum stele_err stele_scan_start(struct stele_scan *scan, struct stele_file *file, int64_t pos, int64_t end)
{
    STELE_ASSERT(pos >= 0);
    size_t want = (size_t)stele_min_i64(stele_max_i64(end - pos, STELE_BATCH_HEADER_BYTES), STELE_SCAN_BUFFER_BYTES);
    if (want > scan->capacity) {
        uint8_t *buffer = stele_mem_raw(scan->mem, STELE_MEM_LOG, want);
        if (buffer == NULL)
            return STELE_NO_MEMORY;
        stele_mem_free(scan->mem, scan->buffer);
        scan->buffer = buffer;
        scan->capacity = want;
    }
    scan->file = file;
    scan->pos = pos;
    scan->end = end;
    scan->at = pos;
    scan->count = 0;
    scan->bad_bytes = 0;
    return STELE_OK;
}

/* Brings [pos, pos + need) into the buffer, and as much after it as fits. END: the file is shorter than it should be.
 */
static enum stele_err fill(struct stele_scan *scan, int64_t pos, size_t need)
{
    STELE_ASSERT(need <= scan->capacity && pos + (int64_t)need <= scan->end && pos >= scan->at);
    if (pos + (int64_t)need <= scan->at + (int64_t)scan->count)
        return STELE_OK;
    size_t kept = 0;
    if (pos < scan->at + (int64_t)scan->count) {
        kept = (size_t)(scan->at + (int64_t)scan->count - pos);
        memmove(scan->buffer, scan->buffer + scan->count - kept, kept);
    }
    scan->at = pos;
    scan->count = kept;
    size_t full = (size_t)stele_min_i64((int64_t)scan->capacity, scan->end - pos);
    while (scan->count < full) {
        size_t count = 0;
        enum stele_err err = scan->file->vfs->ops->pread(scan->file, scan->buffer + scan->count, full - scan->count,
                                                         scan->at + (int64_t)scan->count, &count);
        if (err != STELE_OK)
            return err;
        if (count == 0)
            return scan->count >= need ? STELE_OK : STELE_END;
        scan->count += count;
    }
    return STELE_OK;
}

/* The checksum of a batch that is larger than the buffer, piece by piece. */
static enum stele_err crc_in_pieces(struct stele_scan *scan, int64_t bytes, uint32_t *out_crc)
{
    int64_t pos = scan->pos + STELE_BATCH_POS_ATTRIBUTES, last = scan->pos + bytes;
    uint32_t crc = 0;
    while (pos < last) {
        size_t piece = (size_t)stele_min_i64(last - pos, (int64_t)scan->capacity);
        enum stele_err err = fill(scan, pos, piece);
        if (err != STELE_OK)
            return err;
        crc = stele_crc32c(crc, scan->buffer + (pos - scan->at), piece);
        pos += (int64_t)piece;
    }
    *out_crc = crc;
    return STELE_OK;
}

static bool header_makes_sense(const struct stele_scan *scan, const struct stele_batch_header *header, int64_t bytes)
{
    return bytes >= STELE_BATCH_HEADER_BYTES && bytes <= scan->end - scan->pos && header->magic == STELE_BATCH_MAGIC &&
           header->base_offset >= 0 && header->last_offset_delta >= 0 && header->record_count >= 0 &&
           header->base_offset <= INT64_MAX - header->last_offset_delta - 1 &&
           (header->attributes & STELE_BATCH_CODEC_MASK) <= STELE_CODEC_ZSTD;
}

static enum stele_err check_large(struct stele_scan *scan, const struct stele_batch_header *header, int64_t bytes)
{
    uint32_t crc = 0;
    enum stele_err err = crc_in_pieces(scan, bytes, &crc);
    if (err == STELE_OK && crc != header->crc)
        err = STELE_CORRUPT;
    return err;
}

static enum stele_err check_batch(struct stele_scan *scan, struct stele_scanned *out)
{
    int64_t left = scan->end - scan->pos;
    if (left < STELE_BATCH_HEADER_BYTES)
        return STELE_CORRUPT;
    enum stele_err err = fill(scan, scan->pos, STELE_BATCH_HEADER_BYTES);
    if (err != STELE_OK)
        return err;
    const uint8_t *at = scan->buffer + (scan->pos - scan->at);
    int64_t bytes = stele_batch_size(at);
    struct stele_batch_header header;
    if (stele_batch_header_read(at, STELE_BATCH_HEADER_BYTES, &header) != STELE_OK ||
        !header_makes_sense(scan, &header, bytes))
        return STELE_CORRUPT;
    scan->bad_bytes = bytes;
    *out = (struct stele_scanned){.header = header, .pos = scan->pos, .bytes = bytes};
    if (bytes > (int64_t)scan->capacity)
        return check_large(scan, &header, bytes);
    err = fill(scan, scan->pos, (size_t)bytes);
    if (err != STELE_OK)
        return err;
    out->batch = scan->buffer + (scan->pos - scan->at);
    return stele_batch_check(out->batch, (size_t)bytes, &header) == STELE_OK ? STELE_OK : STELE_CORRUPT;
}

enum stele_err stele_scan_next(struct stele_scan *scan, struct stele_scanned *out)
{
    struct stele_scanned scanned;
    scan->bad_bytes = 0;
    if (scan->pos >= scan->end)
        return STELE_END;
    enum stele_err err = check_batch(scan, &scanned);
    if (err != STELE_OK)
        return err == STELE_END ? STELE_CORRUPT : err;
    scan->pos += scanned.bytes;
    scan->bad_bytes = 0;
    *out = scanned;
    return STELE_OK;
}

bool stele_scan_skip(struct stele_scan *scan)
{
    if (scan->bad_bytes == 0)
        return false;
    scan->pos += scan->bad_bytes;
    scan->bad_bytes = 0;
    return true;
}

/* The next place from scan->pos on where the byte of a batch's magic is right. END: none is left. */
static enum stele_err next_candidate(struct stele_scan *scan)
{
    while (scan->end - scan->pos >= STELE_BATCH_HEADER_BYTES) {
        enum stele_err err = fill(scan, scan->pos, STELE_BATCH_HEADER_BYTES);
        if (err != STELE_OK)
            return err;
        const uint8_t *from = scan->buffer + (scan->pos - scan->at) + STELE_BATCH_POS_MAGIC;
        size_t left = scan->count - (size_t)(from - scan->buffer);
        const uint8_t *found = memchr(from, STELE_BATCH_MAGIC, left);
        if (found == NULL) {
            scan->pos += (int64_t)left;
            continue;
        }
        scan->pos += found - from;
        if (scan->pos + STELE_BATCH_HEADER_BYTES <= scan->at + (int64_t)scan->count)
            return STELE_OK;
        if (scan->end - scan->pos < STELE_BATCH_HEADER_BYTES)
            return STELE_END;
        return fill(scan, scan->pos, STELE_BATCH_HEADER_BYTES);
    }
    return STELE_END;
}

/* Is the batch at scan->pos sound and of offset_min or later? */
static enum stele_err check_candidate(struct stele_scan *scan, int64_t offset_min, bool *out_is_sound)
{
    struct stele_scanned batch;
    struct stele_batch_header header;
    const uint8_t *at = scan->buffer + (scan->pos - scan->at);
    int64_t pos = scan->pos;
    *out_is_sound = false;
    if (stele_batch_header_read(at, STELE_BATCH_HEADER_BYTES, &header) != STELE_OK ||
        !header_makes_sense(scan, &header, stele_batch_size(at)) || header.base_offset < offset_min)
        return STELE_OK;
    enum stele_err err = check_batch(scan, &batch);
    *out_is_sound = err == STELE_OK;
    if (err != STELE_OK && err != STELE_CORRUPT && err != STELE_END)
        return err;
    return stele_scan_start(scan, scan->file, pos, scan->end); /* back to it */
}

/* Looks byte by byte from `pos` on for a place before `to`. END: none. */
static enum stele_err search(struct stele_scan *scan, int64_t pos, int64_t to, int64_t offset_min)
{
    bool is_sound = false;
    enum stele_err err = stele_scan_start(scan, scan->file, pos, scan->end);
    while (err == STELE_OK) {
        err = next_candidate(scan);
        if (err == STELE_OK && scan->pos >= to)
            return STELE_END;
        if (err == STELE_OK)
            err = check_candidate(scan, offset_min, &is_sound);
        if (err == STELE_OK && is_sound)
            return STELE_OK;
        scan->pos++;
    }
    return err;
}

/* Does a sound batch lie where the bad one's size leads, and is it the one that follows? A size that rotted may lead
 * over others. */
static enum stele_err look_behind(struct stele_scan *scan, int64_t behind, int64_t offset_min, bool *out_is_sound,
                                  bool *out_follows)
{
    struct stele_batch_header bad, header;
    int64_t pos = scan->pos;
    *out_is_sound = *out_follows = false;
    enum stele_err err = stele_scan_start(scan, scan->file, pos, scan->end);
    if (err == STELE_OK)
        err = fill(scan, pos, STELE_BATCH_HEADER_BYTES);
    bool is_read = err == STELE_OK &&
                   stele_batch_header_read(scan->buffer + (pos - scan->at), STELE_BATCH_HEADER_BYTES, &bad) == STELE_OK;
    if (err == STELE_OK)
        err = stele_scan_start(scan, scan->file, behind, scan->end);
    if (err == STELE_OK)
        err = fill(scan, behind, STELE_BATCH_HEADER_BYTES);
    if (err == STELE_OK)
        err = check_candidate(scan, offset_min, out_is_sound);
    if (err != STELE_OK || !*out_is_sound || !is_read)
        return err;
    err = fill(scan, behind, STELE_BATCH_HEADER_BYTES);
    if (err == STELE_OK &&
        stele_batch_header_read(scan->buffer + (behind - scan->at), STELE_BATCH_HEADER_BYTES, &header) == STELE_OK)
        *out_follows = header.base_offset == stele_batch_last_offset(&bad) + 1;
    return err;
}

enum stele_err stele_scan_resync(struct stele_scan *scan, int64_t offset_min)
{
    int64_t pos = scan->pos, behind = pos + scan->bad_bytes;
    bool is_sound = false, follows = false;
    enum stele_err err = STELE_OK;
    if (scan->bad_bytes > 0 && scan->end - behind >= STELE_BATCH_HEADER_BYTES)
        err = look_behind(scan, behind, offset_min, &is_sound, &follows);
    if (err != STELE_OK || follows)
        return err;
    err = search(scan, pos, is_sound ? behind : INT64_MAX, offset_min);
    return err == STELE_END && is_sound ? stele_scan_start(scan, scan->file, behind, scan->end) : err;
}
