/* What flips.c needs: which field of which format a byte is in, and the list of flips that are not found. */
#ifndef STELE_CLUSTER_TESTS_KAFKA_FLIPS_H
#define STELE_CLUSTER_TESTS_KAFKA_FLIPS_H

#include "base/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flip_field {
    const char *name;
    bool is_checked; /* lies under a checksum */
    bool is_skipped; /* nothing to be learned: the rest of a file that nobody reads */
    bool is_inner;   /* of a batch that is neither one of the first two nor of the last two of its file */
};
/** The field of byte `pos` of a file, by its name and its sound content. */
struct flip_field flip_field_of(const char *name, const uint8_t *bytes, size_t count, size_t pos);

enum flip_result { FLIP_FOUND, FLIP_LEFTOVER, FLIP_SILENT };

struct flip_key {
    const char *path, *field;
    enum flip_result result;
};

struct flip_line { /* flips of one field of one file with one result */
    char path[128], field[32];
    enum flip_result result;
    uint16_t *bits; /* by position: bit i stands for masks[i] */
    size_t count;
};

struct flip_reason {
    char kind[48], field[32]; /* kind: the file's suffix or name */
    enum flip_result result;
    char *text;
};

struct flip_list {
    struct flip_line *lines;
    struct flip_reason *reasons;
    int line_count, reason_count;
    char *head; /* the comment before the first reason */
};

void flip_list_add(struct flip_list *list, const struct flip_key *key, int64_t pos, int mask);
/** FOUND when the list does not have it. */
enum flip_result flip_list_find(const struct flip_list *list, const char *path, int64_t pos, int mask);
/** False, with a message, when the file cannot be read or makes no sense. */
bool flip_list_read(struct flip_list *list, const char *path);
/** Writes the lines of `seen` under the comment and the reasons of `old`. */
bool flip_list_write(const struct flip_list *seen, const struct flip_list *old, const char *path);
/** Has every line its reason, and every reason a line? Tells those that have not. */
bool flip_list_has_reasons(const struct flip_list *list, const struct flip_list *reasons);
void flip_list_free(struct flip_list *list);

#endif
