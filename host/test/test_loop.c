/* The loop's mailbox: what is posted runs once, in the order of each poster, and wakes who waits for it. */
#include "base/test/support.h"
#include "host/loop.h"

#include <event2/event.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

enum { POSTERS = 3, POSTS = 20000, WAIT_MS = 10000 };

struct post {
    struct stele_task task;
    int poster, number;
};

struct polled {
    struct pollfd fds[4];
    nfds_t count;
};

static struct {
    struct stele_test_mem mem;
    struct stele_loop *loop;
    struct stele_env *env;
    struct post posts[POSTERS + 1][POSTS];
    int next[POSTERS + 1], total, own_count;
} world;

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    stele_test_mem_init(&world.mem);
    world.loop = stele_loop_new(&(struct stele_loop_options){.mem = &world.mem.mem});
    world.env = stele_loop_env(world.loop);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stele_loop_free(world.loop);
    stele_test_mem_check_empty(&world.mem);
    return 0;
}

static void post(int poster, int number, void (*run)(struct stele_task *task))
{
    struct post *one = &world.posts[poster][number];
    *one = (struct post){.task.run = run, .poster = poster, .number = number};
    world.env->ops->post(world.env, &one->task);
}

static void count(struct stele_task *task)
{
    struct post *one = STELE_CONTAINER_OF(task, struct post, task);
    assert_int_equal(one->number, world.next[one->poster]++);
    world.total++;
}

/* Posts one of the loop's own thread behind it. */
static void count_and_post(struct stele_task *task)
{
    count(task);
    if (world.own_count < POSTS && world.total % 2 == 0)
        post(POSTERS, world.own_count++, count);
    if (world.next[0] + world.next[1] + world.next[2] == POSTERS * POSTS)
        stele_loop_stop(world.loop);
}

/* Every third one is in no hurry; the last one is. */
static void *post_all(void *arg)
{
    for (int i = 0; i < POSTS; i++) {
        struct post *one = &world.posts[*(int *)arg][i];
        *one = (struct post){.task.run = count_and_post, .poster = *(int *)arg, .number = i};
        if (i % 3 == 0 && i + 1 < POSTS)
            stele_env_post_idly(world.env, &one->task);
        else
            world.env->ops->post(world.env, &one->task);
    }
    return NULL;
}

/* Threads post while the loop now waits and now runs what the loop itself posts: nothing is lost, or run twice, or out
 * of order, and the last one wakes it. */
static void test_threads(void **state)
{
    pthread_t threads[POSTERS];
    int numbers[POSTERS];
    (void)state;
    for (int i = 0; i < POSTERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &numbers[i]), 0);
    }
    stele_loop_run(world.loop);
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(world.next[i], POSTS);
}

/* Whatever of the loop's descriptors has news. */
static int add_descriptor(const struct event_base *base, const struct event *event, void *polled)
{
    struct polled *all = polled;
    (void)base;
    assert_true(all->count < STELE_ARRAY_LEN(all->fds));
    if (event_get_fd(event) >= 0)
        all->fds[all->count++] = (struct pollfd){.fd = (int)event_get_fd(event), .events = POLLIN};
    return 0;
}

static void chain(struct stele_task *task)
{
    struct post *one = STELE_CONTAINER_OF(task, struct post, task);
    count(task);
    if (one->number + 1 < 100)
        post(0, one->number + 1, chain);
}

/* A task that posts itself on and on does not keep an iteration from its end, nor does what is left wait for anything
 * else: neither for the next iteration's wait, nor for whoever waits elsewhere for the loop's descriptors. */
static void test_own(void **state)
{
    struct polled polled = {.count = 0};
    (void)state;
    post(0, 0, chain);
    stele_loop_run_once(world.loop, WAIT_MS);
    assert_in_range(world.total, 1, 50);
    (void)event_base_foreach_event(stele_loop_base(world.loop), add_descriptor, &polled);
    while (world.total < 100) {
        assert_int_equal(poll(polled.fds, polled.count, WAIT_MS), 1);
        stele_loop_run_once(world.loop, WAIT_MS);
    }
    assert_int_equal(poll(polled.fds, polled.count, 0), 0);
    post(1, 0, count); /* between two iterations */
    assert_int_equal(poll(polled.fds, polled.count, WAIT_MS), 1);
    stele_loop_run_once(world.loop, WAIT_MS);
    assert_int_equal(world.total, 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
