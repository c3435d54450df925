/* The page cache of files, for scripts that measure reads from the disk:
 *   bench_cache drop FILE...      writes back and drops what is cached of the files
 *   bench_cache resident FILE...  prints how many bytes of them are cached, and how many there are */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sum {
    int64_t cached, all;
};

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void drop(int fd, const char *path)
{
    /* Pages that are dirty or being written stay: first the sync. */
    require(fdatasync(fd) == 0, path);
    errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    require(errno == 0, path);
}

static void count(int fd, const char *path, struct sum *sum)
{
    struct stat stat;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    require(fstat(fd, &stat) == 0, path);
    if (stat.st_size == 0)
        return;
    size_t bytes = (size_t)stat.st_size, pages = (bytes + page - 1) / page, cached = 0;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *is_cached = malloc(pages);
    require(map != MAP_FAILED && is_cached != NULL && mincore(map, bytes, is_cached) == 0, path);
    for (size_t i = 0; i < pages; i++)
        cached += is_cached[i] & 1;
    sum->cached += (int64_t)(cached * page);
    sum->all += (int64_t)(pages * page);
    free(is_cached);
    (void)munmap(map, bytes);
}

int main(int argc, char **argv)
{
    bool drops = argc > 1 && strcmp(argv[1], "drop") == 0;
    struct sum sum = {0};
    if (argc < 3 || (!drops && strcmp(argv[1], "resident") != 0)) {
        fprintf(stderr, "usage: %s drop|resident FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        require(fd >= 0, argv[i]);
        if (drops)
            drop(fd, argv[i]);
        else
            count(fd, argv[i], &sum);
        close(fd);
    }
    if (!drops)
        printf("%lld %lld\n", (long long)sum.cached, (long long)sum.all);
    return 0;
}
