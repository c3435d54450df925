/* Invariants
 *  1. Handlers are called from events only, never from inside a call, and never after close.
 *  2. Bytes of one end arrive in the order of their sending, all of them, or a beginning of them and then the end.
 *  3. A link lives until both ends are dead; it is freed by an event of its own, since a caller may still look at it.
 */
#include "cluster-tests/sim/sim_net_struct.h"

#include "base/check.h"
#include "cluster-tests/sim/sim_image.h"
#include "proto/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 32, TELL_US_MAX = 20000, RETRANSMIT_US_MAX = 3000000 };

static struct stele_conn *peer_of(struct stele_conn *conn)
{
    return conn == &conn->link->ends[0] ? &conn->link->ends[1] : &conn->link->ends[0];
}

int64_t sim_net_latency(struct sim_world *world)
{
    const struct sim_net_rates *rates = &world->net->rates;
    return 1 + rates->latency_us_min + sim_draw_log(sim_stream(world, SIM_STREAM_LATENCY), rates->latency_us_max);
}

static int side_of(const struct stele_conn *conn)
{
    return conn == &conn->link->ends[0] ? 0 : 1;
}

int64_t sim_conn_latency(const struct stele_conn *conn)
{
    const struct sim_link *link = conn->link;
    int side = side_of(conn);
    return sim_net_latency(link->world) + link->world->net->delay_us[link->hosts[side]][link->hosts[1 - side]];
}

bool sim_conn_is_blocked(const struct stele_conn *conn)
{
    const struct sim_link *link = conn->link;
    int side = side_of(conn);
    return sim_net_is_blocked(link->world, link->hosts[side], link->hosts[1 - side]);
}

/* The end of an end. */

static void release(struct stele_piece *piece)
{
    if (piece->buf != NULL)
        stele_buf_unref(piece->buf);
    else
        piece->file->unref(piece->file);
}

static void drop_queue(struct stele_conn *conn, bool gives_back)
{
    for (; conn->count > 0; conn->count--, conn->head++) {
        if (gives_back)
            release(&conn->pieces[conn->head]);
    }
    conn->head = 0;
    conn->queued_bytes = 0;
}

static void bury_links(struct sim_event *event)
{
    struct sim_net_world *net = STELE_CONTAINER_OF(event, struct sim_net_world, bury);
    while (!stele_list_is_empty(&net->graves)) {
        struct sim_link *link = STELE_CONTAINER_OF(net->graves.next, struct sim_link, link);
        stele_list_remove(&link->link);
        for (int i = 0; i < 2; i++) {
            sim_event_cancel(link->world, &link->ends[i].pump);
            sim_event_cancel(link->world, &link->ends[i].arrive);
            sim_event_cancel(link->world, &link->ends[i].end);
            sim_event_cancel(link->world, &link->ends[i].moved);
            free(link->ends[i].pieces);
            free(link->ends[i].pipe);
        }
        sim_event_cancel(link->world, &link->open);
        free(link);
    }
}

static void die(struct stele_conn *conn, bool gives_back)
{
    struct sim_link *link = conn->link;
    struct sim_world *world = link->world;
    if (conn->state == SIM_END_DEAD)
        return;
    conn->state = SIM_END_DEAD;
    conn->is_ended = true;
    drop_queue(conn, gives_back);
    stele_list_remove(&conn->in_net);
    sim_event_cancel(world, &conn->pump);
    sim_event_cancel(world, &conn->end);
    sim_event_cancel(world, &conn->moved);
    sim_event_cancel(world, &peer_of(conn)->arrive);
    struct stele_conn *peer = peer_of(conn);
    if (peer->state == SIM_END_DEAD && !link->is_buried) {
        link->is_buried = true;
        stele_list_remove(&link->link);
        stele_list_push(&world->net->graves, &link->link);
        sim_event_after(world, &world->net->bury, 0);
    } else if (peer->state != SIM_END_DEAD && (!link->is_silent || conn->arrives_still)) {
        if (conn->pipe_count > 0)
            sim_world_reach(world, SIM_POINT_LATE_BYTES);
        sim_event_hurry(world, &conn->arrive, sim_conn_latency(conn));
    }
}

/* The world ended it. */
static void run_end(struct sim_event *event)
{
    struct stele_conn *conn = STELE_CONTAINER_OF(event, struct stele_conn, end);
    enum sim_end_state state = conn->state;
    if (state == SIM_END_MOVING) {
        conn->is_lost = true;
        return;
    }
    sim_world_log(conn->link->world, "%s: connection %d is gone: %s", conn->net->env->name, conn->link->number,
                  stele_err_text(conn->why));
    die(conn, true);
    if (state == SIM_END_OPEN)
        conn->handler->closed(conn->arg, conn->why);
    else if (state == SIM_END_CONNECTING)
        conn->handler->opened(conn->arg, STELE_UNREACHABLE);
}

void sim_conn_lose(struct stele_conn *conn, int64_t after_us)
{
    if (conn->state == SIM_END_DEAD || conn->net == NULL)
        return;
    conn->why = STELE_IO;
    sim_event_hurry(conn->link->world, &conn->end, after_us);
}

void sim_link_reset(struct sim_link *link)
{
    link->is_silent = true; /* what is under way is lost */
    for (int i = 0; i < 2; i++)
        sim_conn_lose(&link->ends[i], 1 + sim_draw_log(sim_stream(link->world, SIM_STREAM_RESET), TELL_US_MAX));
}

/* Sending */

static size_t pipe_room(const struct stele_conn *conn)
{
    return conn->pipe_bytes - conn->pipe_count;
}

static void pipe_put(struct stele_conn *conn, const uint8_t *bytes, size_t count)
{
    size_t at = (conn->pipe_head + conn->pipe_count) % conn->pipe_bytes;
    size_t first = stele_min_size(count, conn->pipe_bytes - at);
    memcpy(conn->pipe + at, bytes, first);
    memcpy(conn->pipe, bytes + first, count - first);
    conn->pipe_count += count;
}

static void pipe_take(struct stele_conn *conn, uint8_t *out_bytes, size_t count)
{
    size_t first = stele_min_size(count, conn->pipe_bytes - conn->pipe_head);
    memcpy(out_bytes, conn->pipe + conn->pipe_head, first);
    memcpy(out_bytes + first, conn->pipe, count - first);
    conn->pipe_head = (conn->pipe_head + count) % conn->pipe_bytes;
    conn->pipe_count -= count;
    if (conn->pipe_count == 0) /* few of its pages are ever touched */
        conn->pipe_head = 0;
}

/* A part of the first piece; false when its file cannot be read. */
static bool pump_piece(struct stele_conn *conn, size_t count)
{
    struct stele_piece *piece = &conn->pieces[conn->head];
    count = stele_min_size(count, piece->bytes);
    if (piece->buf != NULL) {
        pipe_put(conn, piece->at, count);
        piece->at += count;
    } else {
        uint8_t bytes[4096];
        struct stele_file *file = piece->file->file;
        sim_world_reach(conn->link->world, SIM_POINT_FILE_PIECE);
        if (piece->file->is_revoked)
            return false;
        count = stele_min_size(count, sizeof(bytes));
        enum stele_err err = file->vfs->ops->pread(file, bytes, count, piece->pos, &count);
        piece->file->is_bad = piece->file->is_bad || err == STELE_IO;
        if (err != STELE_OK || count == 0)
            return false;
        pipe_put(conn, bytes, count);
    }
    piece->pos += (int64_t)count;
    piece->bytes -= count;
    conn->queued_bytes -= count;
    sim_world_mix(conn->link->world, count);
    if (piece->bytes > 0)
        return true;
    release(piece);
    conn->count--;
    conn->head = conn->count == 0 ? 0 : conn->head + 1;
    return true;
}

static size_t draw_chunk(struct sim_world *world, size_t most)
{
    size_t limit = world->net->rates.chunk_bytes_max;
    if (limit == 0 || most <= 1 || sim_chance(sim_stream(world, SIM_STREAM_CHUNKS), 1, 4))
        return most;
    return stele_min_size(most, 1 + stele_prng_below(sim_stream(world, SIM_STREAM_CHUNKS), limit));
}

static void run_pump(struct sim_event *event)
{
    struct stele_conn *conn = STELE_CONTAINER_OF(event, struct stele_conn, pump);
    struct sim_link *link = conn->link;
    struct sim_world *world = link->world;
    size_t before = conn->queued_bytes;
    while (conn->count > 0 && pipe_room(conn) > 0) {
        if (!pump_piece(conn, draw_chunk(world, pipe_room(conn)))) {
            enum sim_end_state state = conn->state;
            die(conn, true);
            if (state == SIM_END_OPEN)
                conn->handler->closed(conn->arg, STELE_IO);
            return;
        }
    }
    if (conn->count > 0)
        sim_world_reach(world, SIM_POINT_SEND_FULL);
    if (!link->is_silent)
        sim_event_hurry(world, &conn->arrive, sim_conn_latency(conn));
    else if (!link->is_machine_off && peer_of(conn)->state == SIM_END_DEAD)
        sim_conn_lose(conn, 1 + sim_draw_log(sim_stream(world, SIM_STREAM_RESET), RETRANSMIT_US_MAX));
    if (conn->count == 0 && conn->state == SIM_END_CLOSING)
        die(conn, true);
    else if (conn->queued_bytes < before && conn->state == SIM_END_OPEN)
        conn->handler->sent(conn->arg, conn->queued_bytes);
}

/* A message begins with the piece that has its head; further pieces may come with other calls. */
static void tell_tap(struct stele_conn *conn, const struct stele_piece *pieces, int count)
{
    struct sim_world *world = conn->link->world;
    struct stele_frame_header header;
    const struct sim_net_tap *tap = &world->net->tap;
    for (int i = 0; i < count && tap->sent != NULL; i++) {
        if (conn->frame_left == 0) {
            STELE_ASSERT(pieces[i].buf != NULL);
            STELE_ASSERT(stele_frame_header_read(pieces[i].at, UINT32_MAX, &header) == STELE_OK);
            conn->frame_left = (uint64_t)header.frame_bytes + 4;
            int side = conn == &conn->link->ends[1];
            struct sim_net_sent sent = {.env = conn->net->env,
                                        .from = conn->link->hosts[side],
                                        .to = conn->link->hosts[1 - side],
                                        .connection = conn->link->number,
                                        .is_answer = conn == &conn->link->ends[1],
                                        .idle_us = world->now_us - conn->taken_us,
                                        .bytes = header.message_bytes,
                                        .rest_bytes = header.frame_bytes - 4 - header.message_bytes,
                                        .message = pieces[i].at + STELE_FRAME_HEADER_BYTES,
                                        .rest = i + 1 < count ? &pieces[i + 1] : NULL};
            tap->sent(tap->arg, &sent);
        }
        STELE_ASSERT(pieces[i].bytes <= conn->frame_left);
        conn->frame_left -= pieces[i].bytes;
    }
}

static enum stele_err net_send(struct stele_conn *conn, const struct stele_piece *pieces, int count)
{
    STELE_ASSERT(conn->state != SIM_END_CLOSING);
    if (conn->state == SIM_END_DEAD)
        return STELE_CLOSED;
    tell_tap(conn, pieces, count);
    conn->pieces = sim_grow(conn->pieces, &conn->capacity, conn->head + conn->count + count, sizeof(*conn->pieces));
    for (int i = 0; i < count; i++) {
        if (pieces[i].bytes == 0)
            continue;
        if (pieces[i].buf != NULL)
            (void)stele_buf_ref(pieces[i].buf);
        else
            pieces[i].file->ref(pieces[i].file);
        conn->pieces[conn->head + conn->count++] = pieces[i];
        conn->queued_bytes += pieces[i].bytes;
    }
    if (conn->state == SIM_END_OPEN)
        sim_event_hurry(conn->link->world, &conn->pump, 1);
    return STELE_OK;
}

/* Receiving: the event belongs to the pipe of the end that sent, and runs on its peer's loop. */

static void hand_over(struct stele_conn *from, struct stele_conn *to)
{
    struct sim_world *world = from->link->world;
    size_t left = draw_chunk(world, from->pipe_count);
    for (int round = 0; round < ROUNDS_MAX && left > 0 && to->state == SIM_END_OPEN; round++) {
        uint8_t *at = NULL;
        size_t bytes = 0;
        to->handler->space(to->arg, &at, &bytes);
        if (to->state != SIM_END_OPEN)
            return;
        if (bytes == 0) {
            to->is_reading_paused = true;
            sim_world_reach(world, SIM_POINT_READ_PAUSED);
            return;
        }
        bytes = stele_min_size(bytes, left);
        pipe_take(from, at, bytes);
        left -= bytes;
        sim_world_mix(world, bytes);
        to->taken_us = world->now_us;
        to->handler->received(to->arg, bytes);
    }
}

static void run_arrive(struct sim_event *event)
{
    struct stele_conn *from = STELE_CONTAINER_OF(event, struct stele_conn, arrive), *to = peer_of(from);
    struct sim_world *world = from->link->world;
    bool is_silent = from->link->is_silent && (!from->arrives_still || from->pipe_count == 0);
    if (is_silent || to->state == SIM_END_DEAD || to->state == SIM_END_CONNECTING || to->state == SIM_END_MOVING ||
        sim_conn_is_blocked(from))
        return;
    if (from->stalled_us > world->now_us) {
        sim_event_at(world, event, from->stalled_us);
        return;
    }
    if (to->state == SIM_END_CLOSING) { /* it does not read any more */
        from->pipe_count = 0;
    } else if (from->pipe_count == 0 && from->is_ended) {
        die(to, true);
        to->handler->closed(to->arg, STELE_CLOSED);
        return;
    } else if (!to->is_reading_paused) {
        hand_over(from, to);
    }
    if (from->count > 0 && pipe_room(from) > 0)
        sim_event_hurry(world, &from->pump, sim_net_latency(world));
    if (to->state == SIM_END_OPEN && !to->is_reading_paused && (from->pipe_count > 0 || from->is_ended))
        sim_event_hurry(world, event, sim_net_latency(world));
}

static void net_resume(struct stele_conn *conn)
{
    if (!conn->is_reading_paused || conn->state != SIM_END_OPEN)
        return;
    conn->is_reading_paused = false;
    sim_event_hurry(conn->link->world, &peer_of(conn)->arrive, 1);
}

static void net_close(struct stele_conn *conn, bool flush)
{
    struct sim_world *world = conn->link->world;
    STELE_ASSERT(conn->state != SIM_END_CLOSING);
    if (conn->state == SIM_END_DEAD)
        return;
    sim_event_cancel(world, &peer_of(conn)->arrive);
    if (flush && conn->state == SIM_END_OPEN && conn->count > 0) {
        conn->state = SIM_END_CLOSING;
        sim_event_hurry(world, &peer_of(conn)->arrive, 1);
        sim_event_hurry(world, &conn->pump, 1);
        return;
    }
    die(conn, true);
}

/* On the loop that it came to. */
static void run_moved(struct sim_event *event)
{
    struct stele_conn *conn = STELE_CONTAINER_OF(event, struct stele_conn, moved);
    struct sim_world *world = conn->link->world;
    conn->state = SIM_END_OPEN;
    sim_world_reach(world, SIM_POINT_MOVED);
    if (conn->taker.taken(conn->taker.arg, conn, &conn->handler, &conn->arg) != STELE_OK)
        die(conn, true);
    else if (conn->is_lost)
        sim_event_hurry(world, &conn->end, 1);
    else if (conn->state == SIM_END_OPEN)
        sim_event_hurry(world, &peer_of(conn)->arrive, 1);
}

static void net_move(struct stele_conn *conn, struct stele_net *to, const struct stele_conn_taker *taker)
{
    struct sim_world *world = conn->link->world;
    struct stele_conn *peer = peer_of(conn);
    STELE_ASSERT(conn->state != SIM_END_CLOSING && conn->state != SIM_END_MOVING && conn->count == 0);
    if (conn->state == SIM_END_DEAD)
        return;
    sim_event_cancel(world, &conn->pump);
    sim_event_cancel(world, &peer->arrive);
    conn->state = SIM_END_MOVING;
    conn->net = STELE_CONTAINER_OF(to, struct sim_net, net);
    conn->is_reading_paused = conn->is_lost = false;
    conn->taker = *taker;
    conn->pump.env = conn->end.env = conn->moved.env = peer->arrive.env = conn->net->env;
    stele_list_remove(&conn->in_net);
    stele_list_push(&conn->net->conns, &conn->in_net);
    sim_event_after(world, &conn->moved, 1);
}

static const char *net_peer(struct stele_conn *conn)
{
    return conn->peer;
}

/* Connecting */

static struct sim_listener *find_listener(struct sim_world *world, const char *address)
{
    for (struct stele_list *at = world->net->listeners.next; at != &world->net->listeners; at = at->next) {
        struct sim_listener *listener = STELE_CONTAINER_OF(at, struct sim_listener, link);
        if (strcmp(listener->address, address) == 0)
            return listener;
    }
    return NULL;
}

static void run_opened(struct sim_event *event)
{
    struct sim_link *link = STELE_CONTAINER_OF(event, struct sim_link, open);
    struct stele_conn *near = &link->ends[0];
    if (near->state != SIM_END_CONNECTING || link->is_silent)
        return;
    near->state = SIM_END_OPEN;
    sim_world_log(link->world, "%s: connection %d is up", near->net->env->name, link->number);
    sim_world_reach(link->world, SIM_POINT_CONNECTED);
    near->handler->opened(near->arg, STELE_OK);
    if (near->state == SIM_END_OPEN)
        sim_event_hurry(link->world, &link->ends[1].arrive, 1);
}

/* On the listener's loop, unless nobody listens any more. */
static void run_accept(struct sim_event *event)
{
    struct sim_link *link = STELE_CONTAINER_OF(event, struct sim_link, open);
    struct sim_world *world = link->world;
    struct stele_conn *near = &link->ends[0], *far = &link->ends[1];
    struct sim_listener *listener = find_listener(world, link->address);
    if (near->state != SIM_END_CONNECTING)
        return;
    if (listener == NULL) {
        sim_world_reach(world, SIM_POINT_REFUSED);
        sim_conn_lose(near, sim_net_latency(world));
        return;
    }
    far->net = &listener->nets[link->loop];
    far->state = SIM_END_OPEN;
    far->pump.env = far->end.env = near->arrive.env = far->net->env;
    if (listener->accept(listener->arg, link->loop, far, &far->handler, &far->arg) != STELE_OK) {
        far->state = SIM_END_DEAD;
        far->is_ended = true;
        sim_conn_lose(near, sim_net_latency(world));
        return;
    }
    stele_list_push(&far->net->conns, &far->in_net);
    sim_event_init(event, "opened", near->net->env, run_opened);
    sim_event_after(world, event, sim_net_latency(world));
}

/* On nobody's loop: the connection reaches the machine; its loop takes it in its time. */
static void run_reach(struct sim_event *event)
{
    struct sim_link *link = STELE_CONTAINER_OF(event, struct sim_link, open);
    struct sim_listener *listener = find_listener(link->world, link->address);
    if (sim_conn_is_blocked(&link->ends[0]) || sim_conn_is_blocked(&link->ends[1])) { /* it is tried again */
        sim_event_after(link->world, event,
                        1 + sim_draw_log(sim_stream(link->world, SIM_STREAM_CONNECT), RETRANSMIT_US_MAX));
        return;
    }
    if (listener != NULL)
        link->loop = (int)stele_prng_below(sim_stream(link->world, SIM_STREAM_CONNECT), (uint64_t)listener->net_count);
    sim_event_init(event, "accept", listener == NULL ? NULL : listener->nets[link->loop].env, run_accept);
    sim_event_after(link->world, event, 1);
}

static void end_init(struct sim_link *link, struct stele_conn *conn, size_t pipe_bytes)
{
    conn->link = link;
    conn->pipe_bytes = pipe_bytes;
    conn->pipe = malloc(pipe_bytes); /* read where it was written alone */
    STELE_ASSERT(conn->pipe != NULL);
    stele_list_init(&conn->in_net);
    sim_event_init(&conn->pump, "pump", NULL, run_pump);
    sim_event_init(&conn->arrive, "arrive", NULL, run_arrive);
    sim_event_init(&conn->end, "end", NULL, run_end);
    sim_event_init(&conn->moved, "moved", NULL, run_moved);
}

static enum stele_err net_connect(struct stele_net *base, const char *address, const struct stele_conn_handler *handler,
                                  void *arg, struct stele_conn **out_conn)
{
    struct sim_net *net = STELE_CONTAINER_OF(base, struct sim_net, net);
    struct sim_world *world = net->env->process->world;
    struct sim_net_rates *rates = &world->net->rates;
    struct stele_prng *prng = sim_stream(world, SIM_STREAM_CONNECT);
    struct sim_link *link = sim_alloc(sizeof(*link));
    link->world = world;
    link->number = ++world->net->link_count;
    (void)snprintf(link->address, sizeof(link->address), "%s", address);
    char host[32];
    (void)snprintf(host, sizeof(host), "%.*s", (int)stele_min_size(strcspn(address, ":"), sizeof(host) - 1), address);
    link->hosts[0] = net->host;
    link->hosts[1] = sim_net_host(world, host);
    size_t pipe_bytes = (size_t)stele_prng_range(prng, (int64_t)rates->pipe_bytes_min, (int64_t)rates->pipe_bytes_max);
    struct stele_conn *near = &link->ends[0], *far = &link->ends[1];
    end_init(link, near, pipe_bytes);
    end_init(link, far, pipe_bytes);
    near->net = net;
    near->handler = handler;
    near->arg = arg;
    near->pump.env = near->end.env = far->arrive.env = net->env;
    far->state = SIM_END_DEAD; /* until it is accepted */
    (void)snprintf(near->peer, sizeof(near->peer), "%s", address);
    (void)snprintf(far->peer, sizeof(far->peer), "%s:%d", net->env->name, link->number);
    stele_list_push(&net->conns, &near->in_net);
    stele_list_push(&world->net->links, &link->link);
    sim_event_init(&link->open, "reach", NULL, run_reach);
    uint64_t draw = stele_prng_below(prng, 1000);
    if (draw < rates->refused) {
        sim_world_reach(world, SIM_POINT_REFUSED);
        sim_conn_lose(near, sim_net_latency(world));
    } else if (draw < rates->refused + rates->blackholed) {
        sim_world_reach(world, SIM_POINT_BLACKHOLED);
        link->is_silent = true;
    } else {
        sim_event_after(world, &link->open, sim_conn_latency(near));
    }
    *out_conn = near;
    return STELE_OK;
}

static const struct stele_net_ops net_ops = {.connect = net_connect,
                                             .send = net_send,
                                             .resume = net_resume,
                                             .close = net_close,
                                             .peer = net_peer,
                                             .move = net_move};

void sim_net_init(struct sim_net *net, struct sim_env *env)
{
    *net = (struct sim_net){
        .net.ops = &net_ops, .env = env, .host = sim_net_host(env->process->world, env->process->name)};
    stele_list_init(&net->conns);
}

void sim_net_listen(struct sim_listener *listener)
{
    stele_list_push(&listener->nets[0].env->process->world->net->listeners, &listener->link);
}

void sim_net_unlisten(struct sim_listener *listener)
{
    stele_list_remove(&listener->link);
}

/* The loop that the link's events of this end run on is gone with it. */
static void forget_loop(struct stele_conn *conn)
{
    struct sim_link *link = conn->link;
    if (link->open.env == conn->net->env)
        sim_event_cancel(link->world, &link->open);
    conn->pump.env = conn->end.env = conn->moved.env = NULL;
    peer_of(conn)->arrive.env = NULL;
}

void sim_net_part(struct sim_net *net, enum sim_parting parting)
{
    while (!stele_list_is_empty(&net->conns)) {
        struct stele_conn *conn = STELE_CONTAINER_OF(net->conns.next, struct stele_conn, in_net);
        if (parting == SIM_PARTING_SILENT) {
            conn->arrives_still =
                !conn->link->is_silent && sim_chance(sim_stream(conn->link->world, SIM_STREAM_SILENCE), 1, 2);
            conn->link->is_silent = conn->link->is_machine_off = true;
        }
        forget_loop(conn);
        die(conn, parting == SIM_PARTING_CLOSE);
    }
}

void sim_net_machine_back(struct sim_world *world, const char *address)
{
    for (struct stele_list *at = world->net->links.next; at != &world->net->links; at = at->next) {
        struct sim_link *link = STELE_CONTAINER_OF(at, struct sim_link, link);
        struct stele_conn *near = &link->ends[0];
        if (!link->is_machine_off || strcmp(link->address, address) != 0)
            continue;
        link->is_machine_off = false;
        if (near->pipe_count > 0)
            sim_conn_lose(near, 1 + sim_draw_log(sim_stream(world, SIM_STREAM_RESET), RETRANSMIT_US_MAX));
    }
}

void sim_net_set_tap(struct sim_world *world, const struct sim_net_tap *tap)
{
    world->net->tap = *tap;
}

void sim_net_world_init(struct sim_world *world)
{
    struct sim_net_world *net = sim_alloc(sizeof(*net));
    world->net = net;
    net->world = world;
    stele_list_init(&net->links);
    stele_list_init(&net->graves);
    stele_list_init(&net->listeners);
    sim_event_init(&net->bury, "bury", NULL, bury_links);
    sim_net_faults_init(world);
}

void sim_net_world_deinit(struct sim_world *world)
{
    sim_net_faults_stop(world);
    sim_event_cancel(world, &world->net->bury);
    bury_links(&world->net->bury);
    if (!stele_list_is_empty(&world->net->links))
        sim_world_fail(world, "a connection outlived its processes");
    free(world->net);
    world->net = NULL;
}
