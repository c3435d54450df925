/* Which log directory a partition is in, while more than one may have a directory of its name: `stele-moved-partitions`
 * in the first log directory, without which no node starts. A line of it decides a move (storage/log_dirs_move.c):
 *
 *   0
 *   <topic id> <partition> <directory id>
 *   ...
 *   <CRC-32C of the lines before it but the first, 8 hex digits> */
#ifndef STELE_STORAGE_MOVED_FILE_H
#define STELE_STORAGE_MOVED_FILE_H

#include "base/env.h"
#include "base/uuid.h"

#define STELE_MOVED_FILE "stele-moved-partitions"

struct stele_moved {
    struct stele_uuid topic_id;
    int32_t partition;
    struct stele_uuid directory_id;
};

struct stele_moved_list {
    struct stele_mem *mem;
    struct stele_moved *items;
    int count, capacity;
};

void stele_moved_list_init(struct stele_moved_list *list, struct stele_mem *mem);
void stele_moved_list_deinit(struct stele_moved_list *list);
/** NULL: the file says nothing of it. */
const struct stele_moved *stele_moved_find(const struct stele_moved_list *list, const struct stele_uuid *topic_id,
                                           int32_t partition);
/** Says where it is, in place of what was said before. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_moved_set(struct stele_moved_list *list, const struct stele_moved *moved);
void stele_moved_forget(struct stele_moved_list *list, const struct stele_uuid *topic_id, int32_t partition);

/** Into an empty list. Errors: CORRUPT, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_moved_list_parse(struct stele_moved_list *list, const char *text, size_t count);
/** A missing file is an empty list. Errors: CORRUPT, IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_moved_list_read(struct stele_moved_list *list, struct stele_vfs *vfs,
                                                      const char *dir);
/** Replaces the file, durably. After a failure it says what it said before, unless `*out_is_in_doubt`: then nobody
 * knows. Errors: IO, NO_SPACE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_moved_list_write(const struct stele_moved_list *list, struct stele_vfs *vfs,
                                                       const char *dir, bool *out_is_in_doubt);

#endif
