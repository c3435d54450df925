/* The real world of libstele: a heap, a loop and sockets of its own, driven from stele_client_poll; no thread. */
#include "client/client_internal.h"
#include "host/clock.h"
#include "host/heap.h"
#include "host/loop.h"
#include "host/tcp.h"

#include <stdio.h>
#include <stdlib.h>

struct host_driver {
    struct stele_client_driver driver;
    struct stele_mem mem;
    struct stele_loop *loop;
    struct stele_tcp *tcp;
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
    free(driver);
}

static struct host_driver *new_driver(void)
{
    struct host_driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL)
        return NULL;
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
