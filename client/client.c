/* A client: its connections, producers and consumers, and the poll that drives them. */
#include "client/nodes.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *stele_version(void)
{
    return STELE_VERSION;
}

int64_t stele_client__now_ms(const struct stele_client *client)
{
    return stele_env_mono_ms(client->env);
}

bool stele_client__may_retry(enum stele_err err)
{
    enum stele_err_class class_ = stele_err_class(err);
    return class_ == STELE_CLASS_RETRIABLE || class_ == STELE_CLASS_FENCED;
}

void stele_client__wait_before_retry(struct stele_client *client, struct stele_backoff *backoff)
{
    stele_backoff_next(backoff, client->env, stele_settings_int(client->settings, "retry.backoff.ms"),
                       stele_settings_int(client->settings, "retry.backoff.max.ms"));
}

bool stele_client__retry(struct stele_client *client, struct stele_backoff *backoff, enum stele_err err)
{
    if (!stele_client__may_retry(err))
        return false;
    stele_client__wait_before_retry(client, backoff);
    return true;
}

/* The text is left as it is on success: a result is made for every record. */
struct stele_result stele_client__result(enum stele_err err, const char *text)
{
    struct stele_result result;
    result.code = (int)err;
    result.is_retriable = err != STELE_OK && stele_client__may_retry(err);
    result.text[0] = 0;
    if (err != STELE_OK)
        (void)snprintf(result.text, sizeof(result.text), "%s",
                       text == NULL || text[0] == 0 ? stele_err_text(err) : text);
    return result;
}

struct stele_result stele_client__failure(enum stele_err err, const char *format, ...)
{
    struct stele_result result = stele_client__result(err, "");
    va_list args;
    va_start(args, format);
    (void)vsnprintf(result.text, sizeof(result.text), format, args);
    va_end(args);
    return result;
}

/* The client */

/* "HOST:PORT[,HOST:PORT...]" with every part there. */
static bool is_address_list(const char *text)
{
    for (;;) {
        char address[STELE_ADDRESS_BYTES], host[STELE_HOST_BYTES];
        size_t bytes = strcspn(text, ",");
        int32_t port = 0;
        if (bytes >= sizeof(address))
            return false;
        memcpy(address, text, bytes);
        address[bytes] = 0;
        if (stele_address_split(address, host, &port) != STELE_OK || port == 0 || host[0] == 0 ||
            strpbrk(host, " \t") != NULL)
            return false;
        if (text[bytes] == 0)
            return true;
        text += bytes + 1;
    }
}

static struct stele_client_part *part_of(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_client_part, link);
}

static void tick_parts(struct stele_list *parts, int64_t now_ms)
{
    for (struct stele_list *at = parts->next; at != parts; at = at->next) {
        struct stele_client_part *part = part_of(at);
        part->tick(part, now_ms);
    }
}

static void tick(struct stele_client *client)
{
    int64_t now_ms = stele_client__now_ms(client);
    stele_client__tick_nodes(client, now_ms);
    tick_parts(&client->producers, now_ms);
    tick_parts(&client->consumers, now_ms);
}

static int64_t parts_deadline(struct stele_list *parts)
{
    int64_t deadline = INT64_MAX;
    for (struct stele_list *at = parts->next; at != parts; at = at->next) {
        struct stele_client_part *part = part_of(at);
        deadline = stele_min_i64(deadline, part->deadline(part));
    }
    return deadline;
}

int64_t stele_client__deadline(struct stele_client *client)
{
    int64_t deadline = stele_min_i64(parts_deadline(&client->producers), parts_deadline(&client->consumers));
    deadline = client->group.has_queued ? 0 : deadline;
    return stele_min_i64(deadline, stele_client__nodes_deadline(client));
}

int stele_client_poll(struct stele_client *client, int wait_ms)
{
    int64_t until = stele_client__now_ms(client) + wait_ms;
    STELE_ASSERT(!client->is_polling);
    client->is_polling = true;
    client->callbacks = 0;
    tick(client);
    client->group.has_queued = false; /* the driver hands over before it waits */
    int64_t deadline = stele_client__deadline(client);
    client->driver->wait(client->driver, client->callbacks > 0 ? 0 : stele_min_i64(until, deadline));
    client->group.has_queued = false; /* and again at the end */
    tick(client);
    client->is_polling = false;
    return client->callbacks;
}

/* What the settings say of connections. */
static void set_up_group(struct stele_client *client)
{
    const struct stele_settings *settings = client->settings;
    client->group.client_id = stele_settings_text(settings, "client.id");
    client->group.software_name = "libstele";
    client->group.cluster_id = "";
    client->group.request_timeout_ms = stele_settings_int(settings, "request.timeout.ms");
    client->group.set_up_timeout_ms = stele_settings_int(settings, "socket.connection.setup.timeout.ms");
    client->group.backoff_ms = stele_settings_int(settings, "reconnect.backoff.ms");
    client->group.backoff_max_ms = stele_settings_int(settings, "reconnect.backoff.max.ms");
    client->group.looks_at_apis = true;
    client->group.in_flight_max = (int32_t)stele_settings_int(settings, "max.in.flight.requests.per.connection");
}

enum stele_err stele_client__new(struct stele_client_driver *driver, const char *bootstrap,
                                 const struct stele_setting *settings, struct stele_client **out_client,
                                 struct stele_error *error)
{
    struct stele_mem *mem = driver->env->mem;
    if (!is_address_list(bootstrap))
        return stele_error_set(error, STELE_INVALID_ARGUMENT, "'%.200s' names no node: write HOST:PORT[,HOST:PORT...]",
                               bootstrap);
    struct stele_client *client = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(*client));
    if (client == NULL)
        return stele_error_set(error, STELE_NO_MEMORY, "out of memory");
    client->env = driver->env;
    client->driver = driver;
    stele_link_group_init(&client->group, driver->env, driver->net, STELE_MEM_CLIENT);
    stele_list_init(&client->producers);
    stele_list_init(&client->consumers);
    stele_client__nodes_init(client);
    client->bootstrap = stele_mem_string(mem, STELE_MEM_CLIENT, bootstrap);
    client->settings = stele_client__settings_new(mem);
    enum stele_err err = client->bootstrap == NULL || client->settings == NULL
                             ? stele_error_set(error, STELE_NO_MEMORY, "out of memory")
                             : stele_client__set_all(client->settings, settings, error);
    if (err != STELE_OK) {
        stele_mem_free(mem, client->bootstrap);
        stele_settings_free(client->settings);
        stele_mem_free(mem, client);
        return err;
    }
    set_up_group(client);
    *out_client = client;
    return STELE_OK;
}

void stele_client_free(struct stele_client *client)
{
    if (client == NULL)
        return;
    STELE_ASSERT(stele_list_is_empty(&client->producers));
    STELE_ASSERT(stele_list_is_empty(&client->consumers));
    struct stele_mem *mem = client->env->mem;
    struct stele_client_driver *driver = client->driver;
    stele_client__nodes_deinit(client);
    stele_link_group_deinit(&client->group);
    stele_settings_free(client->settings);
    stele_mem_free(mem, client->bootstrap);
    stele_mem_free(mem, client);
    driver->free(driver);
}
