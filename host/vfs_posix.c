/* Every path of the process may lead to one file, so the list of locks is the process's and not a vfs's. */
#include "host/vfs_posix.h"

#include "base/sort.h"
#include "host/map_guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct posix_vfs {
    struct stele_vfs vfs;
    struct stele_mem *mem;
};

struct posix_file {
    struct stele_file file;
    int fd;
    dev_t device; /* of a lock */
    ino_t inode;
    struct posix_file *next_lock;
    bool is_lock;
};

/* Record locks do not exclude inside one process; this does. */
static pthread_mutex_t locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct posix_file *locks;

static struct posix_vfs *vfs_of(struct stele_vfs *vfs)
{
    return (struct posix_vfs *)(void *)vfs;
}

static int fd_of(const struct stele_file *file)
{
    return ((const struct posix_file *)(const void *)file)->fd;
}

static enum stele_err err_of(int number)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return STELE_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return STELE_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return STELE_NO_SPACE;
    case ENOMEM:
        return STELE_NO_MEMORY;
    default:
        return STELE_IO;
    }
}

static enum stele_err result(int status)
{
    return status == 0 ? STELE_OK : err_of(errno);
}

static enum stele_err new_file(struct posix_vfs *vfs, int fd, struct posix_file **out_file)
{
    struct posix_file *file = stele_mem_alloc(vfs->mem, STELE_MEM_HOST, sizeof(*file));
    if (file == NULL) {
        close(fd);
        return STELE_NO_MEMORY;
    }
    file->file.vfs = &vfs->vfs;
    file->fd = fd;
    *out_file = file;
    return STELE_OK;
}

static int open_retried(const char *path, int mode)
{
    int fd;
    do
        fd = open(path, mode | O_CLOEXEC, 0644);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int sync_retried(int fd)
{
    int status;
    do
        status = fsync(fd);
    while (status != 0 && errno == EINTR);
    return status;
}

static enum stele_err posix_open(struct stele_vfs *vfs, const char *path, unsigned flags, struct stele_file **out_file)
{
    int mode = (flags & STELE_OPEN_WRITE) != 0 ? O_RDWR : O_RDONLY;
    struct posix_file *file = NULL;
    if ((flags & STELE_OPEN_CREATE) != 0)
        mode |= O_CREAT;
    if ((flags & STELE_OPEN_TRUNCATE) != 0)
        mode |= O_TRUNC;
    if ((flags & STELE_OPEN_EXCLUSIVE) != 0)
        mode |= O_EXCL;
    int fd = open_retried(path, mode);
    if (fd < 0)
        return err_of(errno);
    enum stele_err err = new_file(vfs_of(vfs), fd, &file);
    if (err == STELE_OK)
        *out_file = &file->file;
    return err;
}

static void posix_close(struct stele_file *handle)
{
    struct posix_file *file = (struct posix_file *)(void *)handle;
    struct posix_vfs *vfs = vfs_of(handle->vfs);
    if (file->is_lock) {
        pthread_mutex_lock(&locks_mutex);
        struct posix_file **at = &locks;
        while (*at != file)
            at = &(*at)->next_lock;
        *at = file->next_lock;
        /* Under the mutex: who takes the lock next must not lose it to this close. */
        close(file->fd);
        pthread_mutex_unlock(&locks_mutex);
    } else {
        close(file->fd);
    }
    stele_mem_free(vfs->mem, file);
}

static enum stele_err posix_pread(struct stele_file *file, void *out_bytes, size_t bytes, int64_t pos,
                                  size_t *out_count)
{
    ssize_t count;
    do
        count = pread(fd_of(file), out_bytes, bytes, pos);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return err_of(errno);
    *out_count = (size_t)count;
    return STELE_OK;
}

static enum stele_err posix_pwritev(struct stele_file *file, const struct iovec *iov, int iov_count, int64_t pos,
                                    size_t *out_count)
{
    ssize_t count;
    do
        count = pwritev(fd_of(file), iov, iov_count > IOV_MAX ? IOV_MAX : iov_count, pos);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return err_of(errno);
    if (count == 0)
        return STELE_IO;
    *out_count = (size_t)count;
    return STELE_OK;
}

static enum stele_err posix_sync(struct stele_file *file)
{
    return result(sync_retried(fd_of(file)));
}

static void posix_sync_range(struct stele_file *file, int64_t pos, int64_t bytes)
{
    (void)!sync_file_range(fd_of(file), pos, bytes, SYNC_FILE_RANGE_WRITE);
}

static enum stele_err posix_truncate(struct stele_file *file, int64_t bytes)
{
    int status;
    do
        status = ftruncate(fd_of(file), bytes);
    while (status != 0 && errno == EINTR);
    return result(status);
}

static enum stele_err posix_allocate(struct stele_file *file, int64_t bytes)
{
    int number;
    do
        number = posix_fallocate(fd_of(file), 0, bytes);
    while (number == EINTR);
    return number == 0 ? STELE_OK : err_of(number);
}

static enum stele_err posix_size(struct stele_file *file, int64_t *out_bytes)
{
    struct stat stat;
    if (fstat(fd_of(file), &stat) != 0)
        return err_of(errno);
    *out_bytes = stat.st_size;
    return STELE_OK;
}

/* One read that may not wait, at both ends of the range, tells what lies in the page cache. */
static enum stele_residency posix_resident(struct stele_file *file, int64_t pos, int64_t bytes)
{
    const int64_t probes[3] = {pos, pos + bytes / 2, pos + bytes - 1};
    for (int i = 0; i < 3; i++) {
        uint8_t byte;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        ssize_t count = preadv2(fd_of(file), &iov, 1, probes[i], RWF_NOWAIT);
        if (count < 0)
            return errno == EAGAIN ? STELE_RESIDENT_NO : STELE_RESIDENT_UNKNOWN;
    }
    return STELE_RESIDENT_YES;
}

static enum stele_err posix_map(struct stele_file *file, size_t bytes, const uint8_t **out_bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd_of(file), 0);
    if (map == MAP_FAILED)
        return err_of(errno);
    if (!stele_map_guard_add(map, bytes)) {
        (void)munmap(map, bytes);
        return STELE_NO_MEMORY;
    }
    *out_bytes = map;
    return STELE_OK;
}

static void posix_unmap(struct stele_vfs *vfs, const uint8_t *bytes, size_t count)
{
    (void)vfs;
    stele_map_guard_remove(bytes);
    (void)munmap((void *)(uintptr_t)bytes, count);
}

static int posix_descriptor(struct stele_file *file)
{
    return fd_of(file);
}

static enum stele_err posix_stat(struct stele_vfs *vfs, const char *path, struct stele_stat *out_stat)
{
    struct stat stat_;
    (void)vfs;
    if (stat(path, &stat_) != 0)
        return err_of(errno);
    *out_stat = (struct stele_stat){.bytes = stat_.st_size,
                                    .mtime_ms = (int64_t)stat_.st_mtim.tv_sec * 1000 + stat_.st_mtim.tv_nsec / 1000000,
                                    .is_dir = S_ISDIR(stat_.st_mode)};
    return STELE_OK;
}

static enum stele_err posix_rename(struct stele_vfs *vfs, const char *from, const char *to)
{
    (void)vfs;
    return result(rename(from, to));
}

static enum stele_err posix_unlink(struct stele_vfs *vfs, const char *path)
{
    (void)vfs;
    return result(unlink(path));
}

static enum stele_err posix_mkdir(struct stele_vfs *vfs, const char *path)
{
    (void)vfs;
    return result(mkdir(path, 0755));
}

static enum stele_err posix_rmdir(struct stele_vfs *vfs, const char *path)
{
    (void)vfs;
    return result(rmdir(path));
}

static enum stele_err posix_sync_dir(struct stele_vfs *vfs, const char *path)
{
    (void)vfs;
    int fd = open_retried(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return err_of(errno);
    enum stele_err err = result(sync_retried(fd));
    close(fd);
    return err;
}

/* The names of a directory one after another, each with its zero. */
struct name_list {
    struct stele_mem *mem;
    char *text;
    size_t count, capacity;
    size_t names;
};

static enum stele_err add_name(struct name_list *list, const char *name)
{
    size_t bytes = strlen(name) + 1;
    if (list->capacity - list->count < bytes) {
        size_t capacity = 2 * list->capacity + 1024;
        char *text = stele_mem_resize(list->mem, STELE_MEM_HOST, list->text, capacity);
        if (text == NULL)
            return STELE_NO_MEMORY;
        list->text = text;
        list->capacity = capacity;
    }
    memcpy(list->text + list->count, name, bytes);
    list->count += bytes;
    list->names++;
    return STELE_OK;
}

static enum stele_err read_names(DIR *dir, struct name_list *list)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL)
            return errno == 0 ? STELE_OK : err_of(errno);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        enum stele_err err = add_name(list, entry->d_name);
        if (err != STELE_OK)
            return err;
    }
}

static int compare_names(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static enum stele_err tell_names(const struct name_list *list, enum stele_err (*each)(void *arg, const char *name),
                                 void *arg)
{
    const char **names = stele_mem_array(list->mem, STELE_MEM_HOST, list->names, sizeof(*names));
    enum stele_err err = STELE_OK;
    size_t at = 0;
    if (names == NULL)
        return STELE_NO_MEMORY;
    for (size_t i = 0; i < list->names; i++) {
        names[i] = list->text + at;
        at += strlen(names[i]) + 1;
    }
    stele_sort(names, list->names, sizeof(*names), compare_names);
    for (size_t i = 0; i < list->names && err == STELE_OK; i++)
        err = each(arg, names[i]);
    stele_mem_free(list->mem, names);
    return err;
}

/* All names are read before the first is told: `each` may change the directory. */
static enum stele_err posix_list(struct stele_vfs *vfs, const char *path,
                                 enum stele_err (*each)(void *arg, const char *name), void *arg)
{
    struct name_list list = {.mem = vfs_of(vfs)->mem};
    DIR *dir = opendir(path);
    if (dir == NULL)
        return err_of(errno);
    enum stele_err err = read_names(dir, &list);
    (void)closedir(dir);
    if (err == STELE_OK)
        err = tell_names(&list, each, arg);
    stele_mem_free(list.mem, list.text);
    return err;
}

static enum stele_err posix_set_mtime(struct stele_vfs *vfs, const char *path, int64_t mtime_ms)
{
    int64_t rest_ms = (mtime_ms % 1000 + 1000) % 1000; /* tv_nsec is never negative */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = (mtime_ms - rest_ms) / 1000, .tv_nsec = rest_ms * 1000000}};
    (void)vfs;
    return result(utimensat(AT_FDCWD, path, times, 0));
}

static enum stele_err posix_free_bytes(struct stele_vfs *vfs, const char *path, int64_t *out_bytes)
{
    struct statvfs stat;
    (void)vfs;
    if (statvfs(path, &stat) != 0)
        return err_of(errno);
    *out_bytes = (int64_t)(stat.f_bavail * stat.f_frsize);
    return STELE_OK;
}

/* Is the file locked by this process already? The mutex is held. */
static bool is_locked_here(const struct stat *stat)
{
    for (const struct posix_file *at = locks; at != NULL; at = at->next_lock) {
        if (at->device == stat->st_dev && at->inode == stat->st_ino)
            return true;
    }
    return false;
}

static enum stele_err take_lock(struct posix_vfs *vfs, int fd, struct posix_file **out_file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat stat_;
    if (fcntl(fd, F_SETLK, &lock) != 0 || fstat(fd, &stat_) != 0) {
        enum stele_err err = errno == EACCES || errno == EAGAIN ? STELE_LOCKED : err_of(errno);
        close(fd);
        return err;
    }
    enum stele_err err = new_file(vfs, fd, out_file);
    if (err != STELE_OK)
        return err;
    (*out_file)->is_lock = true;
    (*out_file)->device = stat_.st_dev;
    (*out_file)->inode = stat_.st_ino;
    (*out_file)->next_lock = locks;
    locks = *out_file;
    return STELE_OK;
}

static enum stele_err posix_lock(struct stele_vfs *handle, const char *path, struct stele_file **out_file)
{
    struct posix_vfs *vfs = vfs_of(handle);
    struct posix_file *file = NULL;
    struct stat found;
    enum stele_err err = STELE_LOCKED;
    pthread_mutex_lock(&locks_mutex);
    /* Closing any descriptor of a file drops this process's record locks on it, so ask before opening. */
    if (stat(path, &found) != 0 || !is_locked_here(&found)) {
        int fd = open_retried(path, O_RDWR | O_CREAT);
        err = fd < 0 ? err_of(errno) : take_lock(vfs, fd, &file);
    }
    pthread_mutex_unlock(&locks_mutex);
    if (err == STELE_OK)
        *out_file = &file->file;
    return err;
}

static const struct stele_vfs_ops posix_ops = {
    .open = posix_open,
    .close = posix_close,
    .pread = posix_pread,
    .pwritev = posix_pwritev,
    .sync = posix_sync,
    .sync_range = posix_sync_range,
    .truncate = posix_truncate,
    .allocate = posix_allocate,
    .size = posix_size,
    .resident = posix_resident,
    .map = posix_map,
    .unmap = posix_unmap,
    .descriptor = posix_descriptor,
    .stat = posix_stat,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .rmdir = posix_rmdir,
    .sync_dir = posix_sync_dir,
    .list = posix_list,
    .set_mtime = posix_set_mtime,
    .free_bytes = posix_free_bytes,
    .lock = posix_lock,
};

struct stele_vfs *stele_vfs_posix_new(struct stele_mem *mem)
{
    struct posix_vfs *vfs = stele_mem_alloc(mem, STELE_MEM_HOST, sizeof(*vfs));
    if (vfs == NULL)
        return NULL;
    vfs->vfs.ops = &posix_ops;
    vfs->mem = mem;
    return &vfs->vfs;
}

void stele_vfs_posix_free(struct stele_vfs *handle)
{
    if (handle == NULL)
        return;
    struct posix_vfs *vfs = vfs_of(handle);
    stele_mem_free(vfs->mem, vfs);
}
