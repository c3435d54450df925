/* A frame of the native protocol: u32 frame bytes (all that follows) | u32 message bytes | message | raw record
 * batches. Integers are big-endian. */
#ifndef STELE_PROTO_FRAME_H
#define STELE_PROTO_FRAME_H

#include "base/err.h"

enum { STELE_FRAME_HEADER_BYTES = 8, STELE_FRAME_MESSAGE_BYTES_MAX = 16 << 20 };

struct stele_frame_header {
    uint32_t frame_bytes; /* message_bytes + 4 + record bytes */
    uint32_t message_bytes;
};

/** Decodes 8 bytes. Errors: MALFORMED (message does not fit the frame), TOO_LARGE (frame beyond frame_bytes_max or
 * message beyond STELE_FRAME_MESSAGE_BYTES_MAX). */
STELE_MUST_CHECK enum stele_err stele_frame_header_read(const uint8_t bytes[STELE_FRAME_HEADER_BYTES],
                                                        uint32_t frame_bytes_max,
                                                        struct stele_frame_header *out_header);
void stele_frame_header_write(const struct stele_frame_header *header, uint8_t out_bytes[STELE_FRAME_HEADER_BYTES]);

/** What the first bytes of a connection look like when they are no frame of ours: "an HTTP request", "a TLS hello",
 * "a Kafka request"; NULL when nothing is recognised. For the message of a refusal. */
const char *stele_frame_guess(const uint8_t *bytes, size_t count);

#endif
