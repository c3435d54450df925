/* The file quorum-state beside the metadata log: what a node promised to the quorum and must not forget.
 *
 *     0                                              version of the file
 *     <epoch> <leader id> <voted id> <voted directory id or ->
 *     <crc32c of the second line, 8 hex digits>
 *
 * Kafka's file of that name holds the same as JSON. It is written whole or not at all (stele_vfs_replace); one that is
 * damaged is told, never taken for absent: a node without memory of its vote could vote twice. */
#ifndef STELE_STORAGE_ELECTION_FILE_H
#define STELE_STORAGE_ELECTION_FILE_H

#include "base/mem.h"
#include "base/uuid.h"
#include "base/vfs.h"

#define STELE_ELECTION_FILE "quorum-state"

struct stele_election_file {
    int32_t epoch;
    int32_t leader_id; /* -1: not known */
    int32_t voted_id;  /* -1: none in this epoch */
    struct stele_uuid voted_directory_id;
};

/** Durably. Errors: IO, NO_SPACE. */
STELE_MUST_CHECK enum stele_err stele_election_file_write(struct stele_vfs *vfs, const char *dir,
                                                          const struct stele_election_file *file);
/** Errors: NOT_FOUND (there is none), CORRUPT, IO, NO_MEMORY; said in `error`. */
STELE_MUST_CHECK enum stele_err stele_election_file_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                                         struct stele_election_file *out_file,
                                                         struct stele_error *error);
/** The same of text. Errors: CORRUPT. */
STELE_MUST_CHECK enum stele_err stele_election_file_parse(const char *text, size_t count,
                                                          struct stele_election_file *out_file);

#endif
