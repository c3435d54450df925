/* 16-byte ids (topics, clusters, directories) and their 22-character base64url text. */
#ifndef STELE_BASE_UUID_H
#define STELE_BASE_UUID_H

#include "base/err.h"

#include <stdbool.h>

struct stele_uuid {
    uint8_t bytes[16];
};

enum { STELE_UUID_TEXT_BYTES = 23 };

void stele_uuid_text(const struct stele_uuid *uuid, char out_text[STELE_UUID_TEXT_BYTES]);
/** Errors: MALFORMED. */
STELE_MUST_CHECK enum stele_err stele_uuid_parse(const char *text, size_t count, struct stele_uuid *out_uuid);
bool stele_uuid_is_zero(const struct stele_uuid *uuid);
bool stele_uuid_equal(const struct stele_uuid *a, const struct stele_uuid *b);
/** A random id (version 4) whose text does not start with '-', as Kafka makes them, from 128 random bits. */
struct stele_uuid stele_uuid_make(uint64_t high, uint64_t low, bool *out_usable);

#endif
