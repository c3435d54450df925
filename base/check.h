/* Assertions. They stay on in release builds: a broken invariant ends the process before it can
 * write a wrong byte. Bytes from disk or network never reach one; they return STELE_CORRUPT or
 * STELE_MALFORMED. */
#ifndef STELE_BASE_CHECK_H
#define STELE_BASE_CHECK_H

/** Prints the condition and its place to stderr, then aborts. Tests may replace it. */
void stele_assert_fail(const char *condition, const char *file, int line) __attribute__((noreturn));

#define STELE_ASSERT(condition)                                                                                        \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0))                                                                         \
            stele_assert_fail(#condition, __FILE__, __LINE__);                                                         \
    } while (0)

/* For checks that cost more than a few comparisons: on in debug, sanitizer and simulator builds. */
#ifdef STELE_DCHECKS
#define STELE_DCHECK(condition) STELE_ASSERT(condition)
#else
#define STELE_DCHECK(condition) ((void)sizeof(condition))
#endif

#endif
