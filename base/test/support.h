/* What every unit test shares: cmocka with its prerequisites, memory that counts and can fail the n-th call, a plain
 * env. */
#ifndef STELE_BASE_TEST_SUPPORT_H
#define STELE_BASE_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/env.h"
#include "base/prng.h"

/** Memory whose n-th call from now fails (1 = the next one); 0: none. `is_lasting`: all later ones too. */
struct stele_test_mem {
    struct stele_mem mem;
    int64_t fail_at;
    bool is_lasting, has_failed;
};

void stele_test_mem_init(struct stele_test_mem *test);
void stele_test_mem_fail(struct stele_test_mem *test, int64_t at, bool is_lasting);
/** Fails the running test when a block is still held, and names the tags. */
void stele_test_mem_check_empty(struct stele_test_mem *test);

/** An env on this memory and a vfs (may be NULL): clocks are the fields, jobs run at once and their `done` at
 * stele_test_env_run. */
struct stele_test_env {
    struct stele_env env;
    struct stele_test_mem mem;
    struct stele_metrics metrics;
    int64_t mono_us, wall_ms;
    struct stele_prng prng;
    struct stele_task *first, *last; /* posted and not yet run */
    int64_t traces[STELE_TRACE_KIND_COUNT];
};

void stele_test_env_init(struct stele_test_env *test, struct stele_vfs *vfs);
/** Runs what is posted, until nothing is. */
void stele_test_env_run(struct stele_test_env *test);

/** How far a loop that lets one call after another fail goes from one to the next: `stride`, or as many times that as
 * STELE_TEST_STRIDE says, where a run is slow (valgrind). */
int64_t stele_test_stride(int64_t stride);

#define assert_ok(expression) assert_int_equal((expression), STELE_OK)

/** "00 ff..." without blanks into bytes; returns how many. */
size_t stele_test_hex(const char *hex, uint8_t *out_bytes, size_t capacity);

#endif
