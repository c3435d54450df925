#include "storage/resync.h"

enum { PIECE_BYTES = 1 << 18 };

/* A mark that cannot be made leaves nothing to try: such a file system needs to be mounted anew, and then its cache is
 * gone. */
enum stele_err stele_resync_mark(struct stele_vfs *vfs, const char *dir)
{
    char path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    enum stele_err err = stele_path_join(path, dir, STELE_SYNC_FAILED_FILE);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file);
    if (err == STELE_OK)
        vfs->ops->close(file);
    return err;
}

enum stele_err stele_resync_is_due(struct stele_vfs *vfs, const char *dir, bool *out_is_due)
{
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    enum stele_err err = stele_path_join(path, dir, STELE_SYNC_FAILED_FILE);
    if (err == STELE_OK)
        err = vfs->ops->stat(vfs, path, &stat);
    if (err != STELE_OK && err != STELE_NOT_FOUND)
        return err;
    *out_is_due = err == STELE_OK;
    return STELE_OK;
}

enum stele_err stele_sync_marked(struct stele_file *file, const char *dir)
{
    enum stele_err err = file->vfs->ops->sync(file);
    if (err != STELE_OK) {
        enum stele_err ignored = stele_resync_mark(file->vfs, dir);
        (void)ignored; /* the failure of the sync is what counts */
    }
    return err;
}

static enum stele_err write_over(struct stele_file *file, uint8_t *piece)
{
    for (int64_t pos = 0;;) {
        size_t count = 0;
        enum stele_err err = file->vfs->ops->pread(file, piece, PIECE_BYTES, pos, &count);
        if (err == STELE_OK && count > 0)
            err = stele_file_write(file, piece, count, pos);
        if (err != STELE_OK || count == 0)
            return err;
        pos += (int64_t)count;
    }
}

enum stele_err stele_resync_file(struct stele_env *env, const char *dir, const char *name)
{
    char path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = env->vfs->ops->open(env->vfs, path, STELE_OPEN_WRITE, &file);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    uint8_t *piece = stele_mem_raw(env->mem, STELE_MEM_LOG, PIECE_BYTES);
    err = piece == NULL ? STELE_NO_MEMORY : write_over(file, piece);
    stele_mem_free(env->mem, piece);
    if (err == STELE_OK)
        err = file->vfs->ops->sync(file); /* the mark is there */
    env->vfs->ops->close(file);
    return err;
}

enum stele_err stele_resync_done(struct stele_env *env, const char *dir)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, dir, STELE_SYNC_FAILED_FILE);
    if (err == STELE_OK)
        err = env->vfs->ops->unlink(env->vfs, path);
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}
