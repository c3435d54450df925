/* What a leader checks and rewrites before it appends a client's batch (facts: LogValidator, ProduceRequest; KIP-98,
 * KIP-32). Offsets and epochs are stamped later, at the append, so this needs no log and may run in a job. */
#ifndef STELE_STORAGE_VALIDATE_H
#define STELE_STORAGE_VALIDATE_H

#include "proto/record_batch.h"
#include "storage/log_config.h"

struct stele_validated {
    struct stele_batch_header header; /* of the batch to append; base_offset 0 */
    struct stele_buf *rebuilt; /* a new batch of one reference when codec or offsets forced one; otherwise NULL: append
                                  the given bytes */
    size_t bytes;              /* of the batch to append */
    int32_t bad_record;        /* on an error of one record: its index, also when stele_validate fails; otherwise -1 */
};

/** True when the batch must be unpacked and is larger than 16 KiB, so that validation belongs in a job. */
bool stele_validate_is_long(const uint8_t *batch, size_t count);

/** Validates exactly one batch of a client and rewrites attributes, timestamps and checksum in place where facts 1.8
 * say so. `now_ms` is wall time. `error` (may be NULL) gets a sentence that names the setting, limit and size where one
 * was broken. Bytes are changed only on OK. Errors: every one of facts 1.8: INVALID_RECORD, MESSAGE_TOO_LARGE,
 * CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR, INVALID_TIMESTAMP, UNSUPPORTED_FOR_MESSAGE_FORMAT, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_validate(struct stele_mem *mem, const struct stele_log_config *config,
                                               uint8_t *batch, size_t count, int64_t now_ms,
                                               struct stele_validated *out, struct stele_error *error);

#endif
