/* What a failed sync leaves behind, and how a start in the same boot gets out of it.
 *
 * When a sync fails the kernel may call the pages clean though the disk does not have them: the page cache shows the
 * new bytes, a second sync says OK without writing one, and later the pages are dropped and the old bytes come back. A
 * log whose sync failed therefore stops (FAILED); but the next start of the program in the same boot would read the
 * cache, find every checksum right, and have its next sync believed.
 *
 * So whoever fails to sync a file of a partition leaves a mark, an empty file in the partition's directory that Kafka
 * ignores. It needs no sync of its own: where the cache is gone, so is the doubt, and where the cache lives, so does
 * the mark. Recovery that finds it writes every file in doubt anew, from the cache to the disk, syncs, and takes the
 * mark away; then what it reads is what the disk has. What the cache dropped before is met as a torn tail or as damage.
 *
 * So a life that begins with such a mark may lack what its node acknowledged, though the machine ran on. The log
 * directory gets the same mark until the controller knows (log_dirs.h): the partition's may be gone by then. */
#ifndef STELE_STORAGE_RESYNC_H
#define STELE_STORAGE_RESYNC_H

#include "base/env.h"

#define STELE_SYNC_FAILED_FILE "stele-sync-failed"

/** Syncs `file`, one of the partition in `dir`; a failure leaves the mark. May run in a job. */
STELE_MUST_CHECK enum stele_err stele_sync_marked(struct stele_file *file, const char *dir);
/** Leaves the mark in `dir`. Errors: IO, NO_SPACE. */
STELE_MUST_CHECK enum stele_err stele_resync_mark(struct stele_vfs *vfs, const char *dir);
/** Whether it is there. Errors: IO. */
STELE_MUST_CHECK enum stele_err stele_resync_is_due(struct stele_vfs *vfs, const char *dir, bool *out_is_due);
/** Writes the bytes of DIR/NAME over themselves and syncs them. A missing file is fine. Errors: IO (also of a read:
 * what cannot be read cannot be saved), NO_SPACE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_resync_file(struct stele_env *env, const char *dir, const char *name);
/** Takes the mark away, after all that is in doubt was written anew. */
STELE_MUST_CHECK enum stele_err stele_resync_done(struct stele_env *env, const char *dir);

#endif
