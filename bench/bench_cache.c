/* The page cache of files, for scripts that measure reads from the disk:
 *   bench_cache drop FILE...      writes back and drops what is cached of the files
 *   bench_cache resident FILE...  prints how many bytes of them are cached, and how many there are
 *   bench_cache read MBS FILE...  drops them and reads them, again and again at MBS megabytes a second, until it is
 * ended
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 1000000 };

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

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void read_paced(int fd, char *bytes, double mb_a_second, double *inout_due_s)
{
    for (int64_t pos = 0; pread(fd, bytes, READ_BYTES, pos) > 0; pos += READ_BYTES) {
        *inout_due_s += READ_BYTES / 1e6 / mb_a_second;
        double wait_s = *inout_due_s - now_s();
        struct timespec wait = {.tv_sec = (time_t)wait_s, .tv_nsec = (long)((wait_s - (double)(time_t)wait_s) * 1e9)};
        if (wait_s > 0)
            (void)nanosleep(&wait, NULL);
    }
}

static void read_again_and_again(double mb_a_second, int count, char **paths)
{
    char *bytes = malloc(READ_BYTES);
    double due_s = now_s();
    require(bytes != NULL, "memory");
    for (int i = 0;; i = (i + 1) % count) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        require(fd >= 0, paths[i]);
        drop(fd, paths[i]);
        read_paced(fd, bytes, mb_a_second, &due_s);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    bool drops = argc > 1 && strcmp(argv[1], "drop") == 0;
    struct sum sum = {0};
    if (argc > 3 && strcmp(argv[1], "read") == 0 && strtod(argv[2], NULL) > 0)
        read_again_and_again(strtod(argv[2], NULL), argc - 3, argv + 3);
    if (argc < 3 || (!drops && strcmp(argv[1], "resident") != 0)) {
        fprintf(stderr, "usage: %s drop|resident FILE... | read MBS FILE...\n", argv[0]);
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
