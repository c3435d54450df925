/* The real world of libstele: a heap, a loop and sockets of its own, driven from stele_client_poll; no thread. */
#include "client/client_internal.h"
#include "host/clock.h"
#include "host/heap.h"
#include "host/loop.h"
#include "host/tcp.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SHORT_WAIT_MS = 10 };

struct waits {
    struct epoll_event *at;
    int count, room;
    bool is_short; /* of memory */
};

struct host_driver {
    struct stele_client_driver driver;
    struct stele_mem mem;
    struct stele_loop *loop;
    struct stele_tcp *tcp;
    int outer_fd;                   /* an epoll set of what the loop waits for; -1 until asked for */
    struct waits waits, last_waits; /* that are to be in it, and that were */
};

static void host_wait(struct stele_client_driver *handle, int64_t until_ms)
{
    struct host_driver *driver = STELE_CONTAINER_OF(handle, struct host_driver, driver);
    int64_t left = until_ms - stele_clock_mono_us() / 1000;
    stele_loop_flush(driver->loop); /* the client queues between two waits */
    stele_loop_run_once(driver->loop, left < 0 ? 0 : left);
}

static void host_free(struct stele_client_driver *handle)
{
    struct host_driver *driver = STELE_CONTAINER_OF(handle, struct host_driver, driver);
    stele_tcp_free(driver->tcp);
    stele_loop_free(driver->loop);
    if (driver->outer_fd >= 0)
        close(driver->outer_fd);
    free(driver->waits.at);
    free(driver->last_waits.at);
    free(driver);
}

static struct host_driver *new_driver(void)
{
    struct host_driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL)
        return NULL;
    driver->outer_fd = -1;
    stele_mem_init(&driver->mem, stele_heap_source(), 0);
    driver->driver.wait = host_wait;
    driver->driver.free = host_free;
    driver->loop = stele_loop_new(&(struct stele_loop_options){.mem = &driver->mem});
    driver->tcp = driver->loop == NULL ? NULL : stele_tcp_new(driver->loop);
    if (driver->tcp == NULL) {
        host_free(&driver->driver);
        return NULL;
    }
    driver->driver.env = stele_loop_env(driver->loop);
    driver->driver.net = stele_tcp_net(driver->tcp);
    return driver;
}

struct stele_client *stele_client_new(const char *bootstrap, const struct stele_setting *settings,
                                      struct stele_result *result)
{
    struct stele_error error = {.text = "out of memory"};
    struct stele_client *client = NULL;
    struct host_driver *driver = new_driver();
    enum stele_err err =
        driver == NULL ? STELE_NO_MEMORY : stele_client__new(&driver->driver, bootstrap, settings, &client, &error);
    if (err != STELE_OK && driver != NULL)
        host_free(&driver->driver);
    if (result != NULL) {
        *result = (struct stele_result){.code = (int)err, .is_retriable = stele_client__may_retry(err)};
        (void)snprintf(result->text, sizeof(result->text), "%s", err == STELE_OK ? "" : error.text);
    }
    return client;
}

/* The caller's own loop */

static void note_wait(struct waits *waits, int fd, short what)
{
    uint32_t events =
        ((what & EV_READ) != 0 ? (uint32_t)EPOLLIN : 0) | ((what & EV_WRITE) != 0 ? (uint32_t)EPOLLOUT : 0);
    for (int i = 0; i < waits->count; i++) {
        if (waits->at[i].data.fd == fd) {
            waits->at[i].events |= events;
            return;
        }
    }
    if (waits->count == waits->room) {
        int room = waits->room == 0 ? 8 : waits->room * 2;
        struct epoll_event *at = realloc(waits->at, (size_t)room * sizeof(*at));
        waits->is_short = at == NULL;
        if (at == NULL)
            return;
        waits->at = at;
        waits->room = room;
    }
    waits->at[waits->count++] = (struct epoll_event){.events = events, .data.fd = fd};
}

static int note_event(const struct event_base *base, const struct event *event, void *waits)
{
    (void)base;
    if (event_get_fd(event) >= 0)
        note_wait(waits, (int)event_get_fd(event), event_get_events(event));
    return 0;
}

static bool is_in(const struct waits *waits, int fd)
{
    for (int i = 0; i < waits->count; i++) {
        if (waits->at[i].data.fd == fd)
            return true;
    }
    return false;
}

/* The outer set waits for what the loop waits for. A socket that was closed has left it by itself, and another may have
 * its number since: each is set again. */
static void copy_waits(struct host_driver *driver)
{
    struct waits last = driver->waits, *now = &driver->waits;
    driver->waits = driver->last_waits;
    driver->last_waits = last;
    now->count = 0;
    now->is_short = false;
    (void)event_base_foreach_event(stele_loop_base(driver->loop), note_event, now);
    for (int i = 0; i < last.count; i++) {
        if (!is_in(now, last.at[i].data.fd))
            (void)epoll_ctl(driver->outer_fd, EPOLL_CTL_DEL, last.at[i].data.fd, NULL);
    }
    for (int i = 0; i < now->count; i++) {
        int fd = now->at[i].data.fd;
        if (epoll_ctl(driver->outer_fd, EPOLL_CTL_MOD, fd, &now->at[i]) != 0 &&
            epoll_ctl(driver->outer_fd, EPOLL_CTL_ADD, fd, &now->at[i]) != 0)
            now->is_short = true;
    }
}

int stele_client_fd(struct stele_client *client)
{
    struct host_driver *driver = STELE_CONTAINER_OF(client->driver, struct host_driver, driver);
    if (driver->outer_fd < 0)
        driver->outer_fd = epoll_create1(EPOLL_CLOEXEC);
    return driver->outer_fd;
}

int stele_client_wait_ms(struct stele_client *client)
{
    struct host_driver *driver = STELE_CONTAINER_OF(client->driver, struct host_driver, driver);
    int64_t deadline_ms = stele_client__deadline(client), left_ms = deadline_ms - stele_clock_mono_us() / 1000;
    if (stele_client_fd(client) >= 0)
        copy_waits(driver);
    if (driver->outer_fd < 0 || driver->waits.is_short) /* not all is waited for: look often */
        left_ms = stele_min_i64(left_ms, SHORT_WAIT_MS);
    else if (deadline_ms == INT64_MAX)
        return -1;
    /* The clock's milliseconds are cut off: one more makes sure that the time has come. */
    return left_ms <= 0 ? 0 : (int)stele_min_i64(left_ms + 1, 86400000);
}
