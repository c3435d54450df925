/* The four codecs of a record batch (facts 1.4): gzip member, xerial-framed snappy, LZ4 frame with independent 64 KiB
 * blocks, zstd frames. The numbers are those of the batch's attributes. */
#ifndef STELE_PROTO_COMPRESS_H
#define STELE_PROTO_COMPRESS_H

#include "base/buf.h"
#include "base/err.h"

enum stele_codec {
    STELE_CODEC_NONE = 0,
    STELE_CODEC_GZIP = 1,
    STELE_CODEC_SNAPPY = 2,
    STELE_CODEC_LZ4 = 3,
    STELE_CODEC_ZSTD = 4,
    STELE_CODEC_COUNT
};

/* Kafka's defaults: gzip -1, lz4 9 (the fast compressor), zstd 3. */
enum { STELE_CODEC_LEVEL_DEFAULT = INT32_MIN };

/** "none", "gzip", "snappy", "lz4", "zstd"; "unknown" otherwise. */
const char *stele_codec_name(enum stele_codec codec);
/** The codec of a name as Kafka's compression.type spells it ("uncompressed" too); STELE_CODEC_COUNT for none. */
enum stele_codec stele_codec_from_name(const char *name);

/** Appends the compressed form of `bytes` to memory that starts `prefix_bytes` into a new buffer (room for a batch
 * header). The buffer's count is prefix_bytes + the compressed size. Levels outside the codec's range mean its nearest.
 * Errors: NO_MEMORY, TOO_LARGE (more than INT32_MAX bytes in or out). */
STELE_MUST_CHECK enum stele_err stele_compress(struct stele_mem *mem, enum stele_codec codec, int level,
                                               const void *bytes, size_t count, size_t prefix_bytes,
                                               struct stele_buf **out_buf);

/** Unpacks into fresh memory of tag CODEC; the caller frees. The output never takes more than bytes_max, whatever a
 * stream states; beside it there is only the codec's own state (gzip 48 KiB, zstd 160 KiB, the others none).
 *
 * Accepted: gzip members one after another; snappy as xerial frames it, also with its header repeated, and one raw
 * block; one LZ4 frame of independent blocks, without a dictionary (block checksums are verified; a content size or
 * checksum is skipped, as Kafka's reader does); zstd frames one after another.
 * Errors: TOO_LARGE (more than bytes_max), CORRUPT (the stream does not decode or has bytes left over), NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_unpack(struct stele_mem *mem, enum stele_codec codec, const void *bytes,
                                             size_t count, size_t bytes_max, uint8_t **out_bytes, size_t *out_count);

#endif
