/* Connections over real sockets: file ranges that are not whole, several sockets for one net, limits, addresses, moves
 * to another loop, names that are looked up. */
#include "base/test/support.h"
#include "host/conn_limits.h"
#include "host/loop.h"
#include "host/tcp.h"
#include "host/vfs_posix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS_MAX = 2000, BYTES_MAX = 1 << 20, FILE_BYTES = 300000 };

/* What the kernel says of a file when it is told so; in place of the library's, also for the code under test. */
static int sendfile_errno, sendfile_calls_left;

ssize_t sendfile(int to, int from, off_t *pos, size_t count)
{
    if (sendfile_errno == 0 || sendfile_calls_left-- > 0)
        return syscall(SYS_sendfile, to, from, pos, stele_min_size(count, 100000));
    errno = sendfile_errno;
    return -1;
}

/* The node's end of a connection. */
struct end {
    struct stele_conn *conn;
    int door; /* by which it came */
    uint8_t room[256];
    bool is_closed;
    enum stele_err why;
};

struct range {
    struct stele_send_file send;
    int refs;
};

static struct {
    struct stele_test_mem mem;
    struct stele_vfs *vfs;
    struct stele_loop *loop;
    struct stele_tcp *tcp;
    struct stele_conn_limits *limits;
    char dir[64];
    int fds[2];
    int32_t ports[2];
    int doors[2];
    struct end ends[16];
    int end_count, refused[4];
    const struct stele_conn_handler *next_handler; /* of who comes next; NULL: the plain one */
    struct end *next_end;
} world;

static void end_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct end *end = arg;
    *out_at = end->room;
    *out_bytes = sizeof(end->room);
}

static void end_received(void *arg, size_t count)
{
    (void)arg;
    (void)count;
}

static void end_sent(void *arg, size_t queued_bytes)
{
    (void)arg;
    (void)queued_bytes;
}

static void end_closed(void *arg, enum stele_err why)
{
    struct end *end = arg;
    assert_false(end->is_closed);
    end->is_closed = true;
    end->why = why;
}

static const struct stele_conn_handler handler = {
    .space = end_space, .received = end_received, .sent = end_sent, .closed = end_closed};

static enum stele_err accepted(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                               void **out_arg)
{
    assert_true(world.end_count < (int)STELE_ARRAY_LEN(world.ends));
    struct end *end = &world.ends[world.end_count++];
    *end = (struct end){.conn = conn, .door = *(const int *)arg};
    *out_handler = world.next_handler != NULL ? world.next_handler : &handler;
    *out_arg = world.next_handler != NULL ? world.next_end : end;
    return STELE_OK;
}

static void refused(void *arg, const char *peer, enum stele_conn_refusal why)
{
    (void)arg;
    assert_int_equal(strncmp(peer, "127.0.0.1:", 10), 0);
    world.refused[why]++;
}

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    stele_test_mem_init(&world.mem);
    (void)snprintf(world.dir, sizeof(world.dir), "/tmp/stele-tcp-XXXXXX");
    assert_non_null(mkdtemp(world.dir));
    world.vfs = stele_vfs_posix_new(&world.mem.mem);
    struct stele_loop_options options = {.mem = &world.mem.mem, .vfs = world.vfs};
    world.loop = stele_loop_new(&options);
    world.tcp = stele_tcp_new(world.loop);
    world.limits = stele_conn_limits_new(&world.mem.mem);
    for (int i = 0; i < 2; i++) {
        struct stele_error error;
        world.doors[i] = i;
        assert_ok(stele_tcp_bind("127.0.0.1:0", &world.fds[i], &world.ports[i], &error));
        assert_true(world.ports[i] > 0);
        assert_ok(stele_tcp_listen(world.fds[i]));
        struct stele_tcp_accept accept = {.fd = world.fds[i],
                                          .accepted = accepted,
                                          .refused = refused,
                                          .arg = &world.doors[i],
                                          .limits = world.limits,
                                          .may_pass = i == 1};
        assert_ok(stele_tcp_serve(world.tcp, &accept));
    }
    return 0;
}

static int teardown(void **state)
{
    char path[128];
    (void)state;
    stele_tcp_free(world.tcp);
    stele_conn_limits_free(world.limits);
    for (int i = 0; i < 2; i++)
        close(world.fds[i]);
    stele_loop_free(world.loop);
    stele_vfs_posix_free(world.vfs);
    stele_test_mem_check_empty(&world.mem);
    (void)snprintf(path, sizeof(path), "%s/file", world.dir);
    (void)unlink(path);
    return rmdir(world.dir);
}

static void turn(void)
{
    stele_loop_run_once(world.loop, 5);
}

/* A client's socket. */
static int dial(int door)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)world.ports[door])};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&to, sizeof(to)), 0);
    return fd;
}

static struct end *dial_end(int *out_fd)
{
    int before = world.end_count;
    *out_fd = dial(0);
    for (int i = 0; i < ROUNDS_MAX && world.end_count == before; i++)
        turn();
    assert_int_equal(world.end_count, before + 1);
    return &world.ends[before];
}

/* All that comes until the other side closes; false when it never does. */
static bool drain(int fd, uint8_t *out_bytes, size_t *out_count)
{
    *out_count = 0;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        turn();
        ssize_t got = recv(fd, out_bytes + *out_count, BYTES_MAX - *out_count, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return true;
        if (got > 0)
            *out_count += (size_t)got;
    }
    return false;
}

static void range_ref(struct stele_send_file *send)
{
    STELE_CONTAINER_OF(send, struct range, send)->refs++;
}

static void range_unref(struct stele_send_file *send)
{
    STELE_CONTAINER_OF(send, struct range, send)->refs--;
}

static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static struct stele_file *make_file(void)
{
    char path[128];
    struct stele_file *file = NULL;
    static uint8_t bytes[FILE_BYTES];
    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = byte_at(i);
    (void)snprintf(path, sizeof(path), "%s/file", world.dir);
    assert_ok(world.vfs->ops->open(world.vfs, path, STELE_OPEN_READ | STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    assert_ok(stele_file_write(file, bytes, FILE_BYTES, 0));
    return file;
}

/* What is sent: a head of 3 bytes, a range, a tail of 3 bytes. */
static void send_range(struct end *end, struct range *range, int64_t pos, size_t bytes)
{
    struct stele_buf *head = stele_buf_new(&world.mem.mem, STELE_MEM_REQUEST, 3);
    memcpy(head->bytes, "abc", 3);
    struct stele_piece pieces[] = {
        {.buf = head, .at = head->bytes, .bytes = 3},
        {.file = &range->send, .pos = pos, .bytes = bytes},
        {.buf = head, .at = head->bytes, .bytes = 3},
    };
    assert_ok(stele_tcp_net(world.tcp)->ops->send(end->conn, pieces, 3));
    stele_buf_unref(head);
}

/* A range that lies wholly in its file arrives; one that the file no longer has ends its connection there, told as an
 * error or, when its owner gave the connection up, told to nobody; one that was revoked is not even begun. Every
 * reference comes back, and other connections go on. */
static void test_ranges(void **state)
{
    static const struct {
        int64_t file_bytes, pos;
        size_t bytes, arrives; /* of the range */
        bool is_revoked, is_given_up, is_whole;
        enum stele_err why;
    } rows[] = {
        {FILE_BYTES, 0, FILE_BYTES, FILE_BYTES, false, false, true, STELE_OK},
        {FILE_BYTES, 1000, 1, 1, false, true, true, STELE_OK},
        {100000, 0, FILE_BYTES, 100000, false, false, false, STELE_IO},
        {100000, 99999, 2, 1, false, true, false, STELE_OK},
        {100000, 100000, 1, 0, false, false, false, STELE_IO},
        {0, 5, 10, 0, false, false, false, STELE_IO},
        {FILE_BYTES, 0, FILE_BYTES, 0, true, false, false, STELE_CANCELLED},
        {FILE_BYTES, 0, 10, 0, true, true, false, STELE_OK},
    };
    static uint8_t got[BYTES_MAX];
    int other = -1;
    (void)state;
    struct end *beside = dial_end(&other);
    struct stele_file *file = make_file();
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct range range = {
            .send = {.file = file, .is_revoked = rows[i].is_revoked, .ref = range_ref, .unref = range_unref}};
        int fd = -1;
        size_t count = 0;
        struct end *end = dial_end(&fd);
        assert_ok(world.vfs->ops->truncate(file, rows[i].file_bytes));
        send_range(end, &range, rows[i].pos, rows[i].bytes);
        if (rows[i].is_given_up)
            stele_tcp_net(world.tcp)->ops->close(end->conn, true);
        if (rows[i].is_whole && !rows[i].is_given_up) {
            for (int round = 0; round < ROUNDS_MAX && count < rows[i].bytes + 6; round++) {
                turn();
                ssize_t part = recv(fd, got + count, BYTES_MAX - count, MSG_DONTWAIT);
                count += part > 0 ? (size_t)part : 0;
            }
            assert_false(end->is_closed);
            stele_tcp_net(world.tcp)->ops->close(end->conn, false);
        } else {
            assert_true(drain(fd, got, &count));
            assert_int_equal(end->is_closed, !rows[i].is_given_up);
            assert_int_equal(end->why, rows[i].why);
        }
        assert_int_equal(count, 3 + rows[i].arrives + (rows[i].is_whole ? 3 : 0));
        assert_memory_equal(got, "abc", 3);
        for (size_t k = 0; k < rows[i].arrives; k++)
            assert_int_equal(got[3 + k], byte_at((size_t)rows[i].pos + k));
        assert_int_equal(range.refs, 0);
        close(fd);
        assert_ok(world.vfs->ops->truncate(file, 0));
        world.vfs->ops->close(file);
        file = make_file();
    }
    assert_false(beside->is_closed);
    close(other);
    world.vfs->ops->close(file);
}

/* A disk that errs under a range ends its connection there and marks the range, so that its owner looks at the disk;
 * what fails otherwise, as the socket may, marks nothing. */
static void test_unreadable_ranges(void **state)
{
    static const struct {
        int number, calls;
        bool is_bad;
    } rows[] = {{EIO, 0, true}, {EIO, 2, true}, {EPIPE, 1, false}, {ECONNRESET, 0, false}, {ENOMEM, 0, false}};
    static uint8_t got[BYTES_MAX];
    (void)state;
    struct stele_file *file = make_file();
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct range range = {.send = {.file = file, .ref = range_ref, .unref = range_unref}};
        int fd = -1;
        size_t count = 0;
        struct end *end = dial_end(&fd);
        send_range(end, &range, 0, FILE_BYTES);
        sendfile_errno = rows[i].number;
        sendfile_calls_left = rows[i].calls;
        assert_true(drain(fd, got, &count));
        sendfile_errno = 0;
        assert_true(end->is_closed);
        assert_int_equal(end->why, STELE_IO);
        assert_int_equal(count, 3 + rows[i].calls * 100000);
        assert_int_equal(range.send.is_bad, rows[i].is_bad);
        assert_int_equal(range.refs, 0);
        close(fd);
    }
    world.vfs->ops->close(file);
}

/* One net serves two sockets and knows by which a connection came; the one that may pass does so beyond the limit of
 * all, and who is refused is closed without a word. */
static void test_doors(void **state)
{
    uint8_t bytes[8];
    size_t count = 0;
    int fds[6];
    (void)state;
    stele_conn_limits_set_max(world.limits, 3);
    for (int i = 0; i < 3; i++)
        fds[i] = dial(i == 1);
    for (int i = 0; i < ROUNDS_MAX && world.end_count < 3; i++)
        turn();
    assert_int_equal(world.end_count, 3);
    assert_int_equal(world.ends[0].door + world.ends[1].door + world.ends[2].door, 1);
    fds[3] = dial(0);
    assert_true(drain(fds[3], bytes, &count));
    assert_int_equal(count, 0);
    assert_int_equal(world.refused[STELE_CONN_OVER_MAX], 1);
    fds[4] = dial(1);
    for (int i = 0; i < ROUNDS_MAX && world.end_count < 4; i++)
        turn();
    assert_int_equal(world.ends[3].door, 1);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    for (int i = 0; i < ROUNDS_MAX && stele_tcp_count(world.tcp) > 1; i++)
        turn();
    fds[5] = dial(0); /* there is room again */
    for (int i = 0; i < ROUNDS_MAX && world.end_count < 5; i++)
        turn();
    assert_int_equal(world.end_count, 5);
    stele_tcp_unserve(world.tcp);
    for (int i = 3; i < 6; i++)
        close(fds[i]);
}

/* Every interface is that of both families where there are two; what cannot be bound is named with what to do. */
static void test_bind(void **state)
{
    static const struct {
        const char *address;
        enum stele_err err;
        const char *says;
    } rows[] = {
        {"nothing", STELE_INVALID_ARGUMENT, "nothing is no address: write HOST:PORT"},
        {"::1:0", STELE_INVALID_ARGUMENT, "no address"},
        {"127.0.0.1:99999", STELE_INVALID_ARGUMENT, "no address"},
        {"203.0.113.1:0", STELE_UNREACHABLE, "cannot listen on 203.0.113.1:0"},
        /* a label that is too long for any name: nobody is asked */
        {"llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll:0", STELE_UNREACHABLE, "is not known"},
    };
    struct stele_error error;
    char text[64];
    int fd = -1, again = -1;
    int32_t port = 0, other = 0;
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        assert_int_equal(stele_tcp_bind(rows[i].address, &fd, &port, &error), rows[i].err);
        assert_non_null(strstr(error.text, rows[i].says));
    }
    assert_ok(stele_tcp_bind(":0", &fd, &port, &error));
    assert_ok(stele_tcp_listen(fd));
    (void)snprintf(text, sizeof(text), "127.0.0.1:%d", (int)port);
    assert_int_equal(stele_tcp_bind(text, &again, &other, &error), STELE_UNREACHABLE);
    assert_non_null(strstr(error.text, "in use"));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)(const void *)&to, sizeof(to)), 0);
    close(client);
    close(fd);
}

/* Frames of a byte that says how many follow, read as a session reads them: head, then rest; after `pause_after` of
 * them there is no room until it is resumed. */
struct reader {
    struct end end;
    uint8_t head, *rest, bytes[256];
    int pause_after, frames;
    size_t got, taken;
    bool is_in_rest;
};

static void reader_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct reader *reader = STELE_CONTAINER_OF(arg, struct reader, end);
    *out_at = reader->is_in_rest ? reader->bytes + reader->got : &reader->head;
    *out_bytes = reader->is_in_rest ? reader->head - reader->got : 1;
    if (!reader->is_in_rest && reader->pause_after == 0)
        *out_bytes = 0;
}

static void reader_received(void *arg, size_t count)
{
    struct reader *reader = STELE_CONTAINER_OF(arg, struct reader, end);
    if (!reader->is_in_rest) {
        assert_int_equal(count, 1);
        assert_int_equal(reader->head, 1 + reader->frames % 200);
        reader->is_in_rest = true;
        reader->got = 0;
        return;
    }
    for (size_t i = reader->got; i < reader->got + count; i++)
        assert_int_equal(reader->bytes[i], byte_at(reader->taken++));
    reader->got += count;
    if (reader->got < reader->head)
        return;
    reader->is_in_rest = false;
    reader->frames++;
    reader->pause_after--;
}

static const struct stele_conn_handler reader_handler = {
    .space = reader_space, .received = reader_received, .sent = end_sent, .closed = end_closed};

/* Many small frames that come at once are all handed over in order, however often the handler pauses in between, and
 * what was read beyond a pause goes with a connection that is closed, or that memory ran out for. */
static void test_small_frames(void **state)
{
    static uint8_t sent[60000];
    static const int pauses[] = {1, 2, 7, 100, 100000};
    size_t count = 0, taken = 0;
    int frames = 0, fd = -1;
    (void)state;
    for (; count + 256 < sizeof(sent); frames++) {
        sent[count] = (uint8_t)(1 + frames % 200);
        for (uint8_t i = 0; i < sent[count]; i++)
            sent[count + 1 + i] = byte_at(taken++);
        count += 1 + (size_t)sent[count];
    }
    const struct stele_net_ops *ops = stele_tcp_net(world.tcp)->ops;
    for (size_t i = 0; i < STELE_ARRAY_LEN(pauses) + 2; i++) {
        bool is_whole = i < STELE_ARRAY_LEN(pauses), is_short = i == STELE_ARRAY_LEN(pauses);
        struct reader reader = {.pause_after = is_whole ? pauses[i] : 3};
        world.next_handler = &reader_handler;
        world.next_end = &reader.end;
        struct end *end = dial_end(&fd);
        assert_int_equal(send(fd, sent, count, 0), count);
        if (is_short)
            stele_test_mem_fail(&world.mem, 1, true);
        for (int k = 0; k < (is_whole ? ROUNDS_MAX : 10) && reader.frames < frames; k++) {
            turn();
            if (is_whole && reader.pause_after == 0) {
                reader.pause_after = pauses[i];
                ops->resume(end->conn);
            }
        }
        stele_test_mem_fail(&world.mem, 0, false);
        assert_int_equal(reader.end.is_closed, is_short);
        if (is_short)
            assert_int_equal(reader.end.why, STELE_NO_MEMORY);
        else
            ops->close(end->conn, false);
        assert_int_equal(reader.frames, is_whole ? frames : 3);
        close(fd);
    }
}

/* A connection that goes to another loop. */

struct mover {
    struct end end;
    struct stele_net *to;
    struct stele_conn_taker taker;
    size_t taken; /* by the first loop */
    bool is_gone;
};

static void mover_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct mover *mover = STELE_CONTAINER_OF(arg, struct mover, end);
    assert_false(mover->is_gone);
    *out_at = mover->end.room;
    *out_bytes = 10;
}

static void mover_received(void *arg, size_t count)
{
    struct mover *mover = STELE_CONTAINER_OF(arg, struct mover, end);
    assert_false(mover->is_gone);
    mover->taken += count;
    if (mover->taken < 100)
        return;
    mover->is_gone = true;
    stele_tcp_net(world.tcp)->ops->move(mover->end.conn, mover->to, &mover->taker);
}

static const struct stele_conn_handler mover_handler = {
    .space = mover_space, .received = mover_received, .sent = end_sent, .closed = end_closed};

/* Who has it then. */
struct settler {
    struct end end;
    uint8_t bytes[1000];
    size_t count;
    int taken;
    enum stele_err answer;
};

static void settler_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct settler *settler = STELE_CONTAINER_OF(arg, struct settler, end);
    *out_at = settler->bytes + settler->count;
    *out_bytes = stele_min_size(7, sizeof(settler->bytes) - settler->count);
}

static void settler_received(void *arg, size_t count)
{
    STELE_CONTAINER_OF(arg, struct settler, end)->count += count;
}

static const struct stele_conn_handler settler_handler = {
    .space = settler_space, .received = settler_received, .sent = end_sent, .closed = end_closed};

static enum stele_err settle(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                             void **out_arg)
{
    struct settler *settler = arg;
    settler->taken++;
    settler->end.conn = conn;
    *out_handler = &settler_handler;
    *out_arg = &settler->end;
    return settler->answer;
}

/* Moved from the middle of what it received, a connection goes on at the other loop with the byte behind, and sends
 * from there. One that is not taken, or for whose rest there is no memory, ends there, and one whose new loop goes
 * before it came is closed: the first loop has nothing of any of them. */
static void test_move(void **state)
{
    enum { WHOLE, REFUSED, NO_ROOM, ABANDONED, CASES };
    uint8_t sent[600], got[16];
    (void)state;
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = byte_at(i);
    for (int i = 0; i < CASES; i++) {
        struct stele_loop_options options = {.mem = &world.mem.mem, .vfs = world.vfs};
        struct stele_loop *loop = stele_loop_new(&options);
        struct stele_tcp *tcp = stele_tcp_new(loop);
        struct settler settler = {.answer = i == REFUSED ? STELE_CLOSED : STELE_OK};
        struct mover mover = {.to = stele_tcp_net(tcp), .taker = {.taken = settle, .arg = &settler}};
        size_t count = 0;
        int fd = -1;
        world.next_handler = &mover_handler;
        world.next_end = &mover.end;
        mover.end.conn = dial_end(&fd)->conn;
        assert_int_equal(send(fd, sent, 500, 0), 500);
        if (i == NO_ROOM)
            stele_test_mem_fail(&world.mem, 1, true);
        for (int k = 0; k < ROUNDS_MAX && stele_tcp_count(world.tcp) > 0; k++)
            turn();
        stele_test_mem_fail(&world.mem, 0, false);
        assert_int_equal(stele_tcp_count(world.tcp), 0);
        assert_int_equal(mover.taken, 100);
        assert_int_equal(send(fd, sent + 500, 100, 0), 100);
        for (int k = 0; k < ROUNDS_MAX && i != ABANDONED && settler.taken == 0; k++)
            stele_loop_run_once(loop, 5);
        if (i == WHOLE) {
            for (int k = 0; k < ROUNDS_MAX && settler.count < 500; k++)
                stele_loop_run_once(loop, 5);
            assert_int_equal(settler.count, 500);
            assert_memory_equal(settler.bytes, sent + 100, 500);
            struct stele_buf *buf = stele_buf_new(&world.mem.mem, STELE_MEM_REQUEST, 3);
            memcpy(buf->bytes, "abc", 3);
            struct stele_piece piece = {.buf = buf, .at = buf->bytes, .bytes = 3};
            assert_ok(stele_tcp_net(tcp)->ops->send(settler.end.conn, &piece, 1));
            stele_buf_unref(buf);
            stele_loop_run_once(loop, 5);
            assert_int_equal(recv(fd, got, sizeof(got), 0), 3);
            assert_memory_equal(got, "abc", 3);
        }
        assert_int_equal(settler.end.is_closed, i == NO_ROOM);
        assert_int_equal(settler.taken, i != ABANDONED);
        stele_tcp_free(tcp);
        stele_loop_free(loop);
        assert_true(drain(fd, got, &count));
        assert_int_equal(count, 0);
        close(fd);
    }
}

/* Names, as threads look them up. */

static struct {
    sem_t may_answer; /* of slow.test */
    atomic_int asked, answered;
} names;

static enum stele_err find_name(const char *address, struct stele_addresses *out_addresses)
{
    char none[32], some[32];
    struct stele_addresses first;
    names.asked++;
    if (strncmp(address, "slow.", 5) == 0)
        assert_int_equal(sem_wait(&names.may_answer), 0);
    (void)snprintf(some, sizeof(some), "127.0.0.1:%d", (int)world.ports[0]);
    (void)snprintf(none, sizeof(none), "127.0.0.1:%d", (int)world.ports[1]);
    enum stele_err err =
        strncmp(address, "no.", 3) == 0 ? STELE_UNREACHABLE : stele_addresses_read(some, out_addresses);
    if (strncmp(address, "second.", 7) == 0 && stele_addresses_read(none, &first) == STELE_OK) {
        out_addresses->at[1] = out_addresses->at[0];
        out_addresses->at[0] = first.at[0];
        out_addresses->count = 2;
    } else if (strncmp(address, "dead.", 5) == 0) {
        err = stele_addresses_read(none, out_addresses);
    }
    names.answered++;
    return err;
}

struct call {
    struct end end;
    int opened;
    enum stele_err err;
};

static void call_opened(void *arg, enum stele_err err)
{
    struct call *call = STELE_CONTAINER_OF(arg, struct call, end);
    call->opened++;
    call->err = err;
}

static const struct stele_conn_handler call_handler = {
    .opened = call_opened, .space = end_space, .received = end_received, .sent = end_sent, .closed = end_closed};

static void start_call(struct call *call, const char *address)
{
    struct stele_net *net = stele_tcp_net(world.tcp);
    *call = (struct call){.opened = 0};
    assert_ok(net->ops->connect(net, address, &call_handler, &call->end, &call->end.conn));
    assert_int_equal(call->opened, 0);
}

static void await_call(const struct call *call)
{
    for (int i = 0; i < ROUNDS_MAX && call->opened == 0; i++)
        turn();
    assert_int_equal(call->opened, 1);
}

/* Socket 0 serves; nothing listens at the port of socket 1. */
static void begin_names(void)
{
    struct stele_error error;
    stele_tcp_unserve(world.tcp);
    close(world.fds[1]);
    assert_ok(stele_tcp_bind("127.0.0.1:0", &world.fds[1], &world.ports[1], &error));
    struct stele_tcp_accept accept = {
        .fd = world.fds[0], .accepted = accepted, .refused = refused, .arg = &world.doors[0], .limits = world.limits};
    assert_ok(stele_tcp_serve(world.tcp, &accept));
    assert_ok(stele_tcp_look_up_aside(world.tcp, find_name));
    assert_int_equal(sem_init(&names.may_answer, 0, 0), 0);
    names.asked = 0;
    names.answered = 0;
}

/* A name's addresses are tried in order until one takes the connection; when none does, or there are none, the caller
 * is told once. An IP address asks nobody. */
static void test_names(void **state)
{
    static const struct {
        const char *address;
        enum stele_err err;
    } rows[] = {
        {"one.test:1", STELE_OK},
        {"second.test:1", STELE_OK},
        {"no.test:1", STELE_UNREACHABLE},
        {"dead.test:1", STELE_UNREACHABLE},
    };
    char address[32];
    struct call call;
    (void)state;
    begin_names();
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        start_call(&call, rows[i].address);
        await_call(&call);
        assert_int_equal(call.err, rows[i].err);
        if (rows[i].err == STELE_OK)
            stele_tcp_net(world.tcp)->ops->close(call.end.conn, false);
    }
    assert_int_equal(names.asked, STELE_ARRAY_LEN(rows));
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", (int)world.ports[0]);
    start_call(&call, address);
    await_call(&call);
    assert_ok(call.err);
    assert_int_equal(names.asked, STELE_ARRAY_LEN(rows));
    assert_int_equal(stele_tcp_net(world.tcp)->ops->connect(stele_tcp_net(world.tcp), "nothing", &call_handler,
                                                            &call.end, &call.end.conn),
                     STELE_INVALID_ARGUMENT);
}

/* A name server that does not answer holds up nobody else. Who gives up and comes again for the same name waits for the
 * same question; what was queued meanwhile leaves when the connection is up. */
static void test_slow_name(void **state)
{
    struct call slow, other;
    uint8_t byte = 'x';
    (void)state;
    begin_names();
    start_call(&slow, "slow.test:1");
    for (int i = 0; i < 3; i++) {
        start_call(&other, "one.test:1");
        await_call(&other);
        assert_ok(other.err);
    }
    assert_int_equal(slow.opened, 0);
    stele_tcp_net(world.tcp)->ops->close(slow.end.conn, false);
    turn();
    start_call(&slow, "slow.test:1");
    assert_int_equal(names.asked, 4);
    struct stele_buf *buf = stele_buf_new(&world.mem.mem, STELE_MEM_REQUEST, 1);
    memcpy(buf->bytes, &byte, 1);
    struct stele_piece piece = {.buf = buf, .at = buf->bytes, .bytes = 1};
    assert_ok(stele_tcp_net(world.tcp)->ops->send(slow.end.conn, &piece, 1));
    stele_buf_unref(buf);
    sem_post(&names.may_answer);
    await_call(&slow);
    assert_ok(slow.err);
    assert_int_equal(names.asked, 4);
    for (int i = 0; i < ROUNDS_MAX && world.end_count < 4; i++)
        turn();
    assert_int_equal(world.end_count, 4);
}

/* The net ends while one question is open and another was answered to nobody: no thread is waited for, nothing is told
 * any more, and the thread ends when its answer comes. */
static void test_end_amid_lookups(void **state)
{
    struct call slow, done;
    begin_names();
    start_call(&slow, "slow.test:1");
    start_call(&done, "one.test:1");
    while (names.answered < 1)
        sched_yield();
    assert_int_equal(teardown(state), 0);
    sem_post(&names.may_answer);
    while (names.answered < 2)
        sched_yield();
    assert_int_equal(slow.opened + done.opened, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreadable_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_doors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(test_move, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_name, setup, teardown),
        cmocka_unit_test_setup(test_end_amid_lookups, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
