/* Plain structs to protobuf messages and back: the only file that knows generated types. A message on the wire is one
 * `Request` or `Response` of stele.proto: the header fields and one of the bodies. */
#ifndef STELE_PROTO_CODEC_H
#define STELE_PROTO_CODEC_H

#include "base/arena.h"
#include "base/buf.h"
#include "proto/api.h"

/** The body is the struct of api.h that header.api names: for PRODUCE a struct stele_produce_request, and so on. */
struct stele_request {
    struct stele_request_header header;
    union {
#define STELE_API(key, name, stem, version_min, version_max) struct stele_##stem##_request stem;
#include "proto/api.def"
#undef STELE_API
    } body;
};

struct stele_response {
    struct stele_response_header header;
    union {
#define STELE_API(key, name, stem, version_min, version_max) struct stele_##stem##_response stem;
#include "proto/api.def"
#undef STELE_API
    } body;
};

/** Decodes into arena memory. `out->header` is set as far as it could be read also on failure, so that an error can be
 * answered. Errors: MALFORMED, UNSUPPORTED_VERSION (api or version not in api.def), NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_request_decode(struct stele_arena *arena, const uint8_t *bytes, size_t count,
                                                     struct stele_request *out);
STELE_MUST_CHECK enum stele_err stele_response_decode(struct stele_arena *arena, const uint8_t *bytes, size_t count,
                                                      struct stele_response *out);

/** A fresh buffer of a frame header and the message; records_bytes is what the caller will send after it and is counted
 * in the header. The arena is scratch. Errors: NO_MEMORY, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_request_encode(struct stele_arena *arena, const struct stele_request *request,
                                                     size_t records_bytes, struct stele_buf **out_frame);
STELE_MUST_CHECK enum stele_err stele_response_encode(struct stele_arena *arena, const struct stele_response *response,
                                                      size_t records_bytes, struct stele_buf **out_frame);

#endif
