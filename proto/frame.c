#include "proto/frame.h"

#include "base/cursor.h"

#include <string.h>

enum { MESSAGE_LENGTH_BYTES = 4 }; /* the second field, counted in frame_bytes */

enum stele_err stele_frame_header_read(const uint8_t bytes[STELE_FRAME_HEADER_BYTES], uint32_t frame_bytes_max,
                                       struct stele_frame_header *out_header)
{
    struct stele_frame_header header = {.frame_bytes = stele_get_u32(bytes), .message_bytes = stele_get_u32(bytes + 4)};
    if (header.frame_bytes > frame_bytes_max)
        return STELE_TOO_LARGE;
    if (header.frame_bytes < MESSAGE_LENGTH_BYTES || header.message_bytes > header.frame_bytes - MESSAGE_LENGTH_BYTES)
        return STELE_MALFORMED;
    if (header.message_bytes > STELE_FRAME_MESSAGE_BYTES_MAX)
        return STELE_TOO_LARGE;
    *out_header = header;
    return STELE_OK;
}

void stele_frame_header_write(const struct stele_frame_header *header, uint8_t out_bytes[STELE_FRAME_HEADER_BYTES])
{
    stele_put_u32(out_bytes, header->frame_bytes);
    stele_put_u32(out_bytes + 4, header->message_bytes);
}

static bool starts_with(const uint8_t *bytes, size_t count, const char *text)
{
    size_t length = strlen(text);
    return count >= length && memcmp(bytes, text, length) == 0;
}

static bool is_http(const uint8_t *bytes, size_t count)
{
    static const char *const methods[] = {"GET ",     "POST ",  "PUT ",     "HEAD ", "DELETE ",
                                          "OPTIONS ", "PATCH ", "CONNECT ", "PRI * "};
    for (size_t i = 0; i < STELE_ARRAY_LEN(methods); i++) {
        size_t seen = stele_min_size(count, strlen(methods[i]));
        if (seen >= 4 && memcmp(bytes, methods[i], seen) == 0)
            return true;
    }
    return false;
}

/* A record of type handshake, version 3.x. */
static bool is_tls(const uint8_t *bytes, size_t count)
{
    return count >= 3 && bytes[0] == 0x16 && bytes[1] == 3 && bytes[2] <= 4;
}

/* i32 size | i16 api key | i16 api version | i32 correlation id: in ours the second field is a message length, which
 * in Kafka's would be `key << 16 | version`: far more than the size of any first request. */
static bool is_kafka(const uint8_t *bytes, size_t count)
{
    enum { KEY_MAX = 100, VERSION_MAX = 20, FIRST_REQUEST_BYTES_MAX = 64 << 10 };
    if (count < STELE_FRAME_HEADER_BYTES)
        return false;
    int32_t size = stele_get_i32(bytes);
    int16_t key = stele_get_i16(bytes + 4), version = stele_get_i16(bytes + 6);
    return size >= 8 && size <= FIRST_REQUEST_BYTES_MAX && key >= 0 && key <= KEY_MAX && version >= 0 &&
           version <= VERSION_MAX && stele_get_u32(bytes + 4) > (uint32_t)size - MESSAGE_LENGTH_BYTES;
}

const char *stele_frame_guess(const uint8_t *bytes, size_t count)
{
    if (is_http(bytes, count))
        return "an HTTP request";
    if (is_tls(bytes, count))
        return "a TLS hello";
    if (is_kafka(bytes, count))
        return "a Kafka request";
    if (starts_with(bytes, count, "SSH-"))
        return "an SSH hello";
    return NULL;
}
