#include "host/clock.h"

#include "base/check.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

int64_t stele_clock_mono_us(void)
{
    struct timespec now;
    STELE_ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t stele_clock_wall_ms(void)
{
    struct timespec now;
    STELE_ASSERT(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t stele_clock_entropy(void)
{
    uint64_t seed = 0;
    ssize_t got = -1;
    while (got < 0) {
        got = getrandom(&seed, sizeof(seed), 0);
        STELE_ASSERT(got == (ssize_t)sizeof(seed) || errno == EINTR);
    }
    return seed;
}
