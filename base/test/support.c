#include "base/test/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *test_resize(void *ctx, void *ptr, size_t bytes)
{
    struct stele_test_mem *test = ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    if (test->fail_at > 0 && --test->fail_at == 0) {
        test->has_failed = true;
        if (test->is_lasting)
            test->fail_at = 1;
        return NULL;
    }
    return realloc(ptr, bytes);
}

void stele_test_mem_init(struct stele_test_mem *test)
{
    memset(test, 0, sizeof(*test));
    stele_mem_init(&test->mem, (struct stele_mem_source){.resize = test_resize, .ctx = test}, 0);
}

void stele_test_mem_fail(struct stele_test_mem *test, int64_t at, bool is_lasting)
{
    test->fail_at = at;
    test->is_lasting = is_lasting;
    test->has_failed = false;
}

void stele_test_mem_check_empty(struct stele_test_mem *test)
{
    for (int tag = 0; tag < STELE_MEM_TAG_COUNT; tag++) {
        if (test->mem.tag_blocks[tag] != 0)
            print_error("memory still held: %s, %lld blocks, %lld bytes\n", stele_mem_tag_name((enum stele_mem_tag)tag),
                        (long long)test->mem.tag_blocks[tag], (long long)test->mem.tag_bytes[tag]);
    }
    assert_true(stele_mem_is_empty(&test->mem));
}

static struct stele_test_env *test_of(struct stele_env *env)
{
    return STELE_CONTAINER_OF(env, struct stele_test_env, env);
}

static int64_t test_mono_us(struct stele_env *env)
{
    return test_of(env)->mono_us;
}

static int64_t test_wall_ms(struct stele_env *env)
{
    return test_of(env)->wall_ms;
}

static uint64_t test_random(struct stele_env *env)
{
    return stele_prng_u64(&test_of(env)->prng);
}

static void test_post(struct stele_env *env, struct stele_task *task)
{
    struct stele_test_env *test = test_of(env);
    task->next = NULL;
    if (test->last == NULL)
        test->first = task;
    else
        test->last->next = task;
    test->last = task;
}

static void job_done(struct stele_task *task)
{
    struct stele_job *job = STELE_CONTAINER_OF(task, struct stele_job, task);
    job->done(job);
}

static void test_job(struct stele_env *env, struct stele_job *job)
{
    job->env = env;
    job->task.run = job_done;
    job->work(job);
    test_post(env, &job->task);
}

static void test_trace(struct stele_env *env, const struct stele_trace_event *event)
{
    char text[512];
    test_of(env)->traces[event->kind]++;
    (void)stele_trace_text(event, text, sizeof(text));
}

static const struct stele_env_ops test_ops = {
    .mono_us = test_mono_us,
    .wall_ms = test_wall_ms,
    .random = test_random,
    .job = test_job,
    .post = test_post,
    .trace = test_trace,
};

void stele_test_env_init(struct stele_test_env *test, struct stele_vfs *vfs)
{
    memset(test, 0, sizeof(*test));
    stele_test_mem_init(&test->mem);
    stele_prng_init(&test->prng, 1, 0);
    test->wall_ms = 1700000000000;
    test->env = (struct stele_env){.ops = &test_ops, .mem = &test->mem.mem, .vfs = vfs, .metrics = &test->metrics};
}

void stele_test_env_run(struct stele_test_env *test)
{
    while (test->first != NULL) {
        struct stele_task *task = test->first;
        test->first = task->next;
        if (test->first == NULL)
            test->last = NULL;
        task->run(task);
    }
}

size_t stele_test_hex(const char *hex, uint8_t *out_bytes, size_t capacity)
{
    size_t count = strlen(hex) / 2;
    assert_true(count <= capacity);
    for (size_t i = 0; i < count; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out_bytes[i] = (uint8_t)byte;
    }
    return count;
}

int64_t stele_test_stride(int64_t stride)
{
    const char *times = getenv("STELE_TEST_STRIDE");
    int64_t number = times == NULL ? 1 : strtoll(times, NULL, 10);
    return stride * (number < 1 ? 1 : number);
}
