#include "host/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { LINE_BYTES = 256 };

/* The number behind `key` in a file of lines "key number ...", times `unit`; -1 without it. */
static int64_t number_of(const char *path, const char *key, int64_t unit)
{
    char line[LINE_BYTES];
    int64_t number = -1;
    size_t bytes = strlen(key);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    while (number < 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, bytes) == 0 && (line[bytes] == ' ' || line[bytes] == '\t'))
            number = strtoll(line + bytes, NULL, 10) * unit;
    }
    fclose(file);
    return number;
}

static int64_t count_descriptors(void)
{
    int64_t count = -3; /* ".", ".." and the one of the listing */
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return -1;
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static int64_t microseconds(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000000 + time->tv_usec;
}

void stele_process_stats(struct stele_host_stats *out_stats)
{
    struct rusage usage;
    out_stats->resident_bytes = number_of("/proc/self/status", "VmRSS:", 1024);
    out_stats->anonymous_bytes = number_of("/proc/self/status", "RssAnon:", 1024);
    out_stats->peak_bytes = number_of("/proc/self/status", "VmHWM:", 1024);
    /* In a container with a control group of its own (v2, v1), else of the machine. */
    out_stats->page_cache_bytes = number_of("/sys/fs/cgroup/memory.stat", "file", 1);
    if (out_stats->page_cache_bytes < 0)
        out_stats->page_cache_bytes = number_of("/sys/fs/cgroup/memory/memory.stat", "cache", 1);
    if (out_stats->page_cache_bytes < 0)
        out_stats->page_cache_bytes = number_of("/proc/meminfo", "Cached:", 1024);
    out_stats->descriptors = count_descriptors();
    out_stats->cpu_us =
        getrusage(RUSAGE_SELF, &usage) == 0 ? microseconds(&usage.ru_utime) + microseconds(&usage.ru_stime) : -1;
}

/* Hex digits with dashes between them. */
struct stele_uuid stele_process_boot_id(void)
{
    struct stele_uuid id = {.bytes = {0}};
    const struct stele_uuid none = {.bytes = {0}};
    char text[64] = "";
    size_t digits = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file == NULL)
        return none;
    char *line = fgets(text, sizeof(text), file);
    fclose(file);
    for (const char *at = text; line != NULL && *at != 0 && digits < 2 * sizeof(id.bytes); at++) {
        bool is_digit = *at >= '0' && *at <= '9';
        if (!is_digit && (*at < 'a' || *at > 'f'))
            continue;
        uint8_t *byte = &id.bytes[digits++ / 2];
        *byte = (uint8_t)(*byte << 4 | (is_digit ? *at - '0' : *at - 'a' + 10));
    }
    return digits == 2 * sizeof(id.bytes) ? id : none;
}
