/* A client and its connections: requests leave in order, answers come in the same order, so the first waiting call is
 * answered next.
 *
 * States of a link: idle (conn NULL) -> connecting -> hello sent -> ready -> idle (closed; calls that were sent fail
 * with CLOSED, the others wait). */
#include "client/client_internal.h"

#include "base/check.h"
#include "proto/frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    FRAME_BYTES_MAX = 1 << 30,
    ARENA_BYTES_MAX = 256 << 20,
    QUEUED_BYTES_MAX = 8 << 20, /* beyond it nothing more is handed to the net */
};

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

/* Doubled with every attempt, 20 % more or less by chance so that many clients do not come at once. */
static void back_off(struct stele_client *client, struct stele_backoff *backoff, const char *first, const char *most)
{
    int64_t wait_ms = stele_settings_int(client->settings, first);
    int64_t most_ms = stele_settings_int(client->settings, most);
    for (int32_t i = 0; i < backoff->attempts && wait_ms < most_ms; i++)
        wait_ms *= 2;
    wait_ms = stele_min_i64(wait_ms, most_ms);
    wait_ms = wait_ms * 4 / 5 + (int64_t)(client->env->ops->random(client->env) % (uint64_t)(wait_ms * 2 / 5 + 1));
    backoff->attempts++;
    backoff->at_ms = stele_client__now_ms(client) + wait_ms;
}

void stele_client__wait_before_retry(struct stele_client *client, struct stele_backoff *backoff)
{
    back_off(client, backoff, "retry.backoff.ms", "retry.backoff.max.ms");
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

/* Links */

static const struct stele_conn_handler link_handler;

static void drop_incoming(struct stele_link *link)
{
    stele_buf_unref(link->incoming);
    link->incoming = NULL;
    link->head_bytes = 0;
}

static void finish_call(struct stele_link *link, struct stele_call *call, enum stele_err err,
                        const struct stele_answer *answer)
{
    static const struct stele_answer none;
    stele_list_remove(&call->link);
    link->sent_count -= call->is_sent;
    stele_buf_unref(call->frame);
    stele_buf_unref(call->records);
    call->frame = call->records = NULL;
    call->done(call, err, answer != NULL ? answer : &none);
}

static struct stele_call *first_call(const struct stele_link *link)
{
    return stele_list_is_empty(&link->calls) ? NULL : STELE_CONTAINER_OF(link->calls.next, struct stele_call, link);
}

/* What was sent without waiting for an answer is done. */
static void finish_oneway(struct stele_link *link)
{
    struct stele_call *call = first_call(link);
    for (; call != NULL && call->is_sent && call->is_oneway; call = first_call(link))
        finish_call(link, call, STELE_OK, NULL);
}

/* The connection is gone: what was sent has an unknown fate, what was not waits for the next one. A call learns only
 * that, in a class that may be tried again; why is kept for the text of whoever gives up. */
static void link_down(struct stele_link *link, enum stele_err why)
{
    struct stele_client *client = link->client;
    enum stele_err err = why == STELE_REQUEST_TIMED_OUT ? why : STELE_CLOSED;
    if (why != STELE_CANCELLED)
        (void)snprintf(client->trouble, sizeof(client->trouble), "%s: %s", link->address, stele_err_text(why));
    link->conn = NULL;
    link->is_ready = false;
    link->queued_bytes = 0;
    back_off(client, &link->backoff, "reconnect.backoff.ms", "reconnect.backoff.max.ms");
    drop_incoming(link);
    if (link->hello.frame != NULL) {
        stele_list_remove(&link->hello.link);
        stele_buf_unref(link->hello.frame);
        link->hello.frame = NULL;
        link->sent_count -= link->hello.is_sent;
    }
    /* Those of now only: `done` may start others. */
    for (int32_t count = link->sent_count; count > 0; count--) {
        struct stele_call *call = first_call(link);
        STELE_ASSERT(call != NULL);
        STELE_ASSERT(call->is_sent);
        finish_call(link, call, err, NULL);
    }
}

static void drop_link(struct stele_link *link, enum stele_err why)
{
    if (link->conn != NULL)
        link->client->driver->net->ops->close(link->conn, false);
    link_down(link, why);
}

static enum stele_err send_call(struct stele_link *link, struct stele_call *call)
{
    struct stele_piece pieces[2] = {{.buf = call->frame, .at = call->frame->bytes, .bytes = call->frame->count}};
    int count = 1;
    if (call->records != NULL)
        pieces[count++] =
            (struct stele_piece){.buf = call->records, .at = call->records->bytes, .bytes = call->records->count};
    call->is_sent = true;
    link->sent_count++;
    link->client->has_queued = true;
    for (int i = 0; i < count; i++)
        link->queued_bytes += pieces[i].bytes;
    return link->client->driver->net->ops->send(link->conn, pieces, count);
}

static void send_waiting(struct stele_link *link)
{
    int64_t sent_max = stele_settings_int(link->client->settings, "max.in.flight.requests.per.connection");
    for (struct stele_list *at = link->calls.next; at != &link->calls && link->is_ready; at = at->next) {
        struct stele_call *call = STELE_CONTAINER_OF(at, struct stele_call, link);
        if (call->is_sent)
            continue;
        if (link->sent_count >= sent_max || link->queued_bytes > QUEUED_BYTES_MAX)
            return;
        enum stele_err err = send_call(link, call);
        if (err != STELE_OK) {
            drop_link(link, err);
            return;
        }
    }
}

static void hello_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_link *link = STELE_CONTAINER_OF(call, struct stele_link, hello);
    const struct stele_hello_response *hello = answer->response != NULL ? &answer->response->body.hello : NULL;
    STELE_ASSERT(err == STELE_OK); /* a link that goes down forgets its hello */
    if (hello->err == STELE_OK) {
        link->is_ready = true;
        link->backoff = (struct stele_backoff){0};
        link->client->trouble[0] = 0;
        send_waiting(link);
        return;
    }
    drop_link(link, hello->err);
    if (hello->message[0] != 0)
        (void)snprintf(link->client->trouble, sizeof(link->client->trouble), "%s: %s", link->address, hello->message);
}

static enum stele_err encode(struct stele_client *client, struct stele_call *call, struct stele_request *request,
                             size_t records_bytes)
{
    call->correlation_id = client->next_correlation_id++;
    call->api = request->header.api;
    call->is_sent = false;
    request->header.version = 1;
    request->header.correlation_id = call->correlation_id;
    request->header.client_id = stele_settings_text(client->settings, "client.id");
    enum stele_err err = stele_request_encode(&client->arena, request, records_bytes, &call->frame);
    stele_arena_reset(&client->arena);
    return err;
}

static void say_hello(struct stele_link *link)
{
    static const struct stele_api_range apis[] = {
#define STELE_API(key, name, stem, version_min, version_max) {(key), (version_min), (version_max)},
#include "proto/api.def"
#undef STELE_API
    };
    struct stele_request request = {.header.api = STELE_API_HELLO,
                                    .body.hello = {.software_name = "libstele",
                                                   .software_version = STELE_VERSION,
                                                   .node_id = -1,
                                                   .cluster_id = "",
                                                   .apis = apis,
                                                   .api_count = STELE_ARRAY_LEN(apis)}};
    link->hello.done = hello_done;
    enum stele_err err = encode(link->client, &link->hello, &request, 0);
    if (err == STELE_OK) {
        /* In front: its answer is the first to come. */
        link->hello.link.next = link->calls.next;
        link->hello.link.prev = &link->calls;
        link->calls.next->prev = &link->hello.link;
        link->calls.next = &link->hello.link;
        link->hello.deadline_ms = link->set_up_ms;
        err = send_call(link, &link->hello);
    }
    if (err != STELE_OK)
        drop_link(link, err);
}

static void on_opened(void *arg, enum stele_err err)
{
    struct stele_link *link = arg;
    if (err == STELE_OK)
        say_hello(link);
    else
        link_down(link, err);
}

static void on_closed(void *arg, enum stele_err why)
{
    link_down(arg, why);
}

static void on_sent(void *arg, size_t queued_bytes)
{
    struct stele_link *link = arg;
    link->queued_bytes = queued_bytes;
    send_waiting(link);
}

static void on_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct stele_link *link = arg;
    if (link->incoming == NULL) {
        *out_at = link->head + link->head_bytes;
        *out_bytes = sizeof(link->head) - link->head_bytes;
        return;
    }
    *out_at = link->incoming->bytes + link->incoming->count;
    *out_bytes = link->incoming->capacity - link->incoming->count;
}

static void take_frame(struct stele_link *link)
{
    struct stele_client *client = link->client;
    struct stele_buf *frame = link->incoming;
    struct stele_response response;
    link->incoming = NULL;
    link->head_bytes = 0;
    enum stele_err err = stele_response_decode(&client->arena, frame->bytes, link->message_bytes, &response);
    finish_oneway(link);
    struct stele_call *call = first_call(link);
    if (err == STELE_OK && (call == NULL || !call->is_sent || call->correlation_id != response.header.correlation_id ||
                            call->api != response.header.api))
        err = STELE_MALFORMED;
    if (err == STELE_OK) {
        /* The handler may start calls, which use the arena: the answer keeps its own. */
        struct stele_arena kept = client->arena;
        struct stele_answer answer = {.response = &response,
                                      .frame = frame,
                                      .records = frame->bytes + link->message_bytes,
                                      .records_bytes = frame->count - link->message_bytes};
        stele_arena_init(&client->arena, client->env->mem, STELE_MEM_CLIENT, ARENA_BYTES_MAX);
        finish_call(link, call, STELE_OK, &answer);
        send_waiting(link);
        stele_arena_deinit(&kept);
    } else {
        stele_arena_reset(&client->arena);
        drop_link(link, err);
    }
    stele_buf_unref(frame);
}

static void on_received(void *arg, size_t count)
{
    struct stele_link *link = arg;
    struct stele_frame_header header;
    if (link->incoming != NULL) {
        link->incoming->count += count;
        if (link->incoming->count == link->incoming->capacity)
            take_frame(link);
        return;
    }
    link->head_bytes += count;
    if (link->head_bytes < sizeof(link->head))
        return;
    enum stele_err err = stele_frame_header_read(link->head, FRAME_BYTES_MAX, &header);
    if (err == STELE_OK) {
        link->message_bytes = header.message_bytes;
        link->incoming = stele_buf_new(link->client->env->mem, STELE_MEM_CLIENT, header.frame_bytes - 4);
        err = link->incoming == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    if (err != STELE_OK)
        drop_link(link, err);
    else if (link->incoming->capacity == 0)
        take_frame(link);
}

static const struct stele_conn_handler link_handler = {
    .opened = on_opened, .space = on_space, .received = on_received, .sent = on_sent, .closed = on_closed};

/* The next address of the bootstrap list. */
static void next_address(struct stele_link *link, char *out_address, size_t bytes)
{
    const char *at = link->client->bootstrap;
    int count = 1, wanted;
    for (const char *comma = at; (comma = strchr(comma, ',')) != NULL; comma++)
        count++;
    wanted = link->address_at++ % count;
    for (; wanted > 0; wanted--)
        at = strchr(at, ',') + 1;
    (void)snprintf(out_address, bytes, "%.*s", (int)strcspn(at, ","), at);
}

static void connect_when_needed(struct stele_link *link, int64_t now_ms)
{
    struct stele_net *net = link->client->driver->net;
    if (link->conn != NULL || stele_list_is_empty(&link->calls) || now_ms < link->backoff.at_ms)
        return;
    link->set_up_ms = now_ms + stele_settings_int(link->client->settings, "socket.connection.setup.timeout.ms");
    next_address(link, link->address, sizeof(link->address));
    enum stele_err err = net->ops->connect(net, link->address, &link_handler, link, &link->conn);
    if (err != STELE_OK)
        link_down(link, err);
}

/* A sent call that is late closes the connection: its answer would be taken for the next one's. */
static void expire_calls(struct stele_link *link, int64_t now_ms)
{
    if (link->conn != NULL && !link->is_ready && now_ms >= link->set_up_ms)
        drop_link(link, STELE_REQUEST_TIMED_OUT);
    for (struct stele_list *at = link->calls.next; at != &link->calls; at = at->next) {
        struct stele_call *call = STELE_CONTAINER_OF(at, struct stele_call, link);
        if (call->deadline_ms > now_ms)
            continue;
        if (call->is_sent) {
            drop_link(link, STELE_REQUEST_TIMED_OUT);
        } else {
            finish_call(link, call, STELE_REQUEST_TIMED_OUT, NULL);
        }
        return;
    }
}

static int64_t link_deadline(const struct stele_link *link)
{
    int64_t deadline = INT64_MAX;
    bool is_front = true; /* a oneway call behind one that waits is done after that one, not sooner */
    for (const struct stele_list *at = link->calls.next; at != &link->calls; at = at->next) {
        const struct stele_call *call =
            (const struct stele_call *)(const void *)((const char *)at - offsetof(struct stele_call, link));
        is_front = is_front && call->is_sent && call->is_oneway;
        deadline = stele_min_i64(deadline, is_front ? 0 : call->deadline_ms);
    }
    if (link->conn == NULL && !stele_list_is_empty(&link->calls))
        deadline = stele_min_i64(deadline, link->backoff.at_ms);
    if (link->conn != NULL && !link->is_ready)
        deadline = stele_min_i64(deadline, link->set_up_ms);
    return deadline;
}

enum stele_err stele_link__call(struct stele_link *link, struct stele_call *call, struct stele_request *request,
                                struct stele_buf *records)
{
    struct stele_client *client = link->client;
    enum stele_err err = encode(client, call, request, records == NULL ? 0 : records->count);
    if (err != STELE_OK)
        return err;
    call->records = records == NULL ? NULL : stele_buf_ref(records);
    call->deadline_ms = stele_client__now_ms(client) + stele_settings_int(client->settings, "request.timeout.ms");
    stele_list_push(&link->calls, &call->link);
    connect_when_needed(link, stele_client__now_ms(client));
    send_waiting(link);
    return STELE_OK;
}

void stele_link__cancel(struct stele_link *link, struct stele_call *call)
{
    if (call->frame == NULL)
        return;
    bool was_sent = call->is_sent;
    stele_list_remove(&call->link);
    stele_buf_unref(call->frame);
    stele_buf_unref(call->records);
    call->frame = call->records = NULL;
    if (was_sent) {
        link->sent_count--;
        drop_link(link, STELE_CANCELLED);
    }
}

void stele_link__init(struct stele_link *link, struct stele_client *client)
{
    link->client = client;
    stele_list_init(&link->calls);
    stele_list_init(&link->hello.link);
}

void stele_link__close(struct stele_link *link)
{
    if (link->conn != NULL)
        drop_link(link, STELE_CANCELLED);
    STELE_ASSERT(stele_list_is_empty(&link->calls));
}

enum stele_err stele_client__call(struct stele_client *client, enum stele_purpose purpose, struct stele_call *call,
                                  struct stele_request *request, struct stele_buf *records)
{
    return stele_link__call(&client->links[purpose], call, request, records);
}

void stele_client__cancel(struct stele_client *client, enum stele_purpose purpose, struct stele_call *call)
{
    stele_link__cancel(&client->links[purpose], call);
}

/* The client */

/* "HOST:PORT[,HOST:PORT...]" with every part there. */
static bool is_address_list(const char *text)
{
    for (;;) {
        size_t bytes = strcspn(text, ","), host_bytes = bytes;
        while (host_bytes > 0 && text[host_bytes - 1] >= '0' && text[host_bytes - 1] <= '9')
            host_bytes--;
        if (host_bytes < 2 || text[host_bytes - 1] != ':' || host_bytes == bytes || bytes >= STELE_ADDRESS_BYTES)
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

static void tick_link(struct stele_link *link, int64_t now_ms)
{
    finish_oneway(link);
    expire_calls(link, now_ms);
    connect_when_needed(link, now_ms);
}

static void tick_parts(struct stele_list *parts, int64_t now_ms)
{
    for (struct stele_list *at = parts->next; at != parts; at = at->next) {
        struct stele_client_part *part = part_of(at);
        if (part->connection != NULL)
            tick_link(part->connection, now_ms);
        part->tick(part, now_ms);
    }
}

static void tick(struct stele_client *client)
{
    int64_t now_ms = stele_client__now_ms(client);
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        tick_link(&client->links[i], now_ms);
    tick_parts(&client->producers, now_ms);
    tick_parts(&client->consumers, now_ms);
}

static int64_t parts_deadline(struct stele_list *parts)
{
    int64_t deadline = INT64_MAX;
    for (struct stele_list *at = parts->next; at != parts; at = at->next) {
        struct stele_client_part *part = part_of(at);
        if (part->connection != NULL)
            deadline = stele_min_i64(deadline, link_deadline(part->connection));
        deadline = stele_min_i64(deadline, part->deadline(part));
    }
    return deadline;
}

int64_t stele_client__deadline(struct stele_client *client)
{
    int64_t deadline = stele_min_i64(parts_deadline(&client->producers), parts_deadline(&client->consumers));
    deadline = client->has_queued ? 0 : deadline;
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        deadline = stele_min_i64(deadline, link_deadline(&client->links[i]));
    return deadline;
}

int stele_client_poll(struct stele_client *client, int wait_ms)
{
    int64_t until = stele_client__now_ms(client) + wait_ms;
    STELE_ASSERT(!client->is_polling);
    client->is_polling = true;
    client->callbacks = 0;
    tick(client);
    client->has_queued = false; /* the driver hands over before it waits */
    int64_t deadline = stele_client__deadline(client);
    client->driver->wait(client->driver, client->callbacks > 0 ? 0 : stele_min_i64(until, deadline));
    client->has_queued = false; /* and again at the end */
    tick(client);
    client->is_polling = false;
    return client->callbacks;
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
    client->next_correlation_id = 1;
    stele_arena_init(&client->arena, mem, STELE_MEM_CLIENT, ARENA_BYTES_MAX);
    stele_list_init(&client->producers);
    stele_list_init(&client->consumers);
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        stele_link__init(&client->links[i], client);
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
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        stele_link__close(&client->links[i]);
    stele_arena_deinit(&client->arena);
    stele_settings_free(client->settings);
    stele_mem_free(mem, client->bootstrap);
    stele_mem_free(mem, client);
    driver->free(driver);
}
