/* Fetch sessions, both sides. */
#include "base/test/support.h"
#include "replication/fetch_session.h"

enum { PARTITIONS = 6 };

struct server {
    struct stele_fetch_session session;
    struct stele_list watchers[PARTITIONS];
    struct stele_fetch_session_entry entries[PARTITIONS];
};

static void server_init(struct server *server)
{
    *server = (struct server){.session = {.id = 0}};
    stele_fetch_session_init(&server->session);
    for (int i = 0; i < PARTITIONS; i++) {
        stele_list_init(&server->watchers[i]);
    }
}

static void begin_full(struct server *server, int32_t new_id)
{
    enum stele_fetch_session_kind kind;
    struct stele_fetch_session_entry *entry;
    while ((entry = stele_fetch_session_first(&server->session)) != NULL) {
        stele_fetch_session_drop(entry);
    }
    assert_ok(stele_fetch_session_begin(&server->session, 0, STELE_SESSION_EPOCH_FIRST, new_id, &kind));
    assert_int_equal(kind, STELE_SESSION_FULL);
    const struct stele_fetch_line line = {.leader_epoch = 1};
    for (int i = 0; i < PARTITIONS; i++) {
        server->entries[i] = (struct stele_fetch_session_entry){.session = NULL};
        stele_fetch_session_put(&server->session, &server->watchers[i], &server->entries[i], &line);
    }
}

/* Answers one round; `records` and `errors` are bits of partitions. Returns the bits that are in the answer. */
static unsigned answer_round(struct server *server, unsigned records, unsigned errors, int64_t watermark)
{
    unsigned in_answer = 0;
    stele_fetch_session_round_begin(&server->session);
    struct stele_fetch_session_entry *entry;
    while ((entry = stele_fetch_session_round_next(&server->session)) != NULL) {
        int i = (int)(entry - server->entries);
        const struct stele_fetch_answer answer = {.err = errors >> i & 1 ? STELE_NOT_LEADER_OR_FOLLOWER : STELE_OK,
                                                  .diverging = {-1, -1},
                                                  .high_watermark = watermark};
        if (stele_fetch_session_settle(entry, &answer, records >> i & 1)) {
            in_answer |= 1U << i;
        }
    }
    stele_fetch_session_round_end(&server->session);
    return in_answer;
}

static int ready_count(const struct server *server)
{
    int count = 0;
    for (struct stele_list *link = server->session.ready.next; link != &server->session.ready; link = link->next) {
        count++;
    }
    return count;
}

/* An epoch or id that is not the next one is refused by its name, and after the largest epoch comes 1 (7.1.2). */
static void test_session_takes_only_the_next_request(void **state)
{
    (void)state;
    struct server server;
    server_init(&server);
    enum stele_fetch_session_kind kind = STELE_SESSION_NONE;
    assert_int_equal(stele_fetch_session_begin(&server.session, 7, 1, 9, &kind), STELE_FETCH_SESSION_ID_NOT_FOUND);
    assert_ok(stele_fetch_session_begin(&server.session, 0, 0, 9, &kind));
    assert_int_equal(kind, STELE_SESSION_FULL);
    assert_int_equal(stele_fetch_session_begin(&server.session, 8, 1, 10, &kind), STELE_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(stele_fetch_session_begin(&server.session, 9, 2, 10, &kind), STELE_INVALID_FETCH_SESSION_EPOCH);
    assert_ok(stele_fetch_session_begin(&server.session, 9, 1, 10, &kind));
    assert_int_equal(kind, STELE_SESSION_INCREMENTAL);
    assert_int_equal(stele_fetch_session_begin(&server.session, 9, 1, 10, &kind), STELE_INVALID_FETCH_SESSION_EPOCH);
    server.session.next_epoch = INT32_MAX;
    assert_ok(stele_fetch_session_begin(&server.session, 9, INT32_MAX, 10, &kind));
    assert_ok(stele_fetch_session_begin(&server.session, 9, 1, 10, &kind));
    assert_ok(stele_fetch_session_begin(&server.session, 9, -1, 10, &kind));
    assert_int_equal(kind, STELE_SESSION_NONE);
    assert_int_equal(stele_fetch_session_begin(&server.session, 9, 2, 10, &kind), STELE_FETCH_SESSION_ID_NOT_FOUND);
}

/* A first answer has every partition; then only those with records, a moved watermark or an error; and idle ones are
 * not even looked at. */
static void test_session_answers_what_changed(void **state)
{
    (void)state;
    struct server server;
    server_init(&server);
    begin_full(&server, 1);
    assert_int_equal(answer_round(&server, 0, 0, 5), 0x3f);
    assert_int_equal(ready_count(&server), 0);
    assert_int_equal(answer_round(&server, 0, 0, 6), 0); /* nothing is ready: nothing is asked */

    stele_fetch_session_mark(&server.watchers[2]);
    stele_fetch_session_mark(&server.watchers[4]);
    stele_fetch_session_mark(&server.watchers[4]);
    assert_int_equal(ready_count(&server), 2);
    assert_int_equal(answer_round(&server, 1U << 4, 0, 5), 1U << 4); /* 2 was marked, and has nothing new */
    assert_int_equal(ready_count(&server), 1);                       /* 4 may have more */
    assert_int_equal(answer_round(&server, 0, 0, 5), 0);
    assert_int_equal(ready_count(&server), 0);

    stele_fetch_session_mark(&server.watchers[3]);
    assert_int_equal(answer_round(&server, 0, 1U << 3, 5), 1U << 3);
    assert_int_equal(ready_count(&server), 0); /* the error was told; it does not storm */
    const struct stele_fetch_line line = {.leader_epoch = 2, .fetch_offset = 8};
    stele_fetch_session_set(&server.entries[3], &line);
    assert_int_equal(answer_round(&server, 0, 0, 5),
                     1U << 3); /* its recovery is told though its watermark is as before */
    assert_int_equal(server.entries[3].line.fetch_offset, 8);
}

/* Those that had records go behind the others, those for which there was no room stay in front (7.1.5). */
static void test_session_is_fair(void **state)
{
    (void)state;
    struct server server;
    server_init(&server);
    begin_full(&server, 1);
    stele_fetch_session_round_begin(&server.session);
    const struct stele_fetch_answer answer = {.err = STELE_OK, .diverging = {-1, -1}, .high_watermark = 1};
    for (int i = 0; i < 2; i++) {
        struct stele_fetch_session_entry *entry = stele_fetch_session_round_next(&server.session);
        assert_ptr_equal(entry, &server.entries[i]);
        assert_true(stele_fetch_session_settle(entry, &answer, true));
    }
    stele_fetch_session_mark(&server.watchers[2]); /* in the round already */
    stele_fetch_session_round_end(&server.session);
    stele_fetch_session_round_begin(&server.session);
    const int order[] = {2, 3, 4, 5, 0, 1};
    for (int i = 0; i < PARTITIONS; i++) {
        struct stele_fetch_session_entry *entry = stele_fetch_session_round_next(&server.session);
        assert_ptr_equal(entry, &server.entries[order[i]]);
        if (i == 0) {
            stele_fetch_session_keep(entry);
        }
    }
    assert_null(stele_fetch_session_round_next(&server.session));
    stele_fetch_session_round_end(&server.session);
    assert_int_equal(ready_count(&server), 1);
}

/* Dropping an entry at any place leaves no trace in any list. */
static void test_session_drops_entries(void **state)
{
    (void)state;
    struct server server;
    server_init(&server);
    begin_full(&server, 1);
    assert_ptr_equal(stele_fetch_session_find(&server.session, &server.watchers[1]), &server.entries[1]);
    stele_fetch_session_round_begin(&server.session);
    stele_fetch_session_drop(&server.entries[1]);
    assert_null(stele_fetch_session_find(&server.session, &server.watchers[1]));
    assert_ptr_equal(stele_fetch_session_round_next(&server.session), &server.entries[0]);
    assert_ptr_equal(stele_fetch_session_round_next(&server.session), &server.entries[2]);
    stele_fetch_session_round_end(&server.session);
    stele_fetch_session_drop(&server.entries[0]);
    assert_int_equal(server.session.count, PARTITIONS - 2);
    begin_full(&server, 2);
    assert_int_equal(server.session.count, PARTITIONS);
    assert_int_equal(answer_round(&server, 0, 0, 1), 0x3f);
}

struct client {
    struct stele_fetcher fetcher;
    struct stele_fetcher_entry entries[PARTITIONS];
};

/* Sends a request: the bits of the partitions in it; those of `delayed` are left out. */
static unsigned send(struct client *client, unsigned delayed, struct stele_fetcher_request *out_request)
{
    unsigned sent = 0;
    *out_request = stele_fetcher_begin(&client->fetcher);
    struct stele_fetcher_entry *entry;
    while ((entry = stele_fetcher_next_due(&client->fetcher)) != NULL) {
        unsigned bit = 1U << (entry - client->entries);
        if (!(delayed & bit)) {
            stele_fetcher_sent(entry);
            sent |= bit;
        }
    }
    return sent;
}

static void client_init(struct client *client)
{
    *client = (struct client){.fetcher = {.id = 0}};
    stele_fetcher_init(&client->fetcher);
    for (int i = 0; i < PARTITIONS; i++) {
        stele_fetcher_add(&client->fetcher, &client->entries[i]);
    }
}

/* The first request is full, the next ones name what was touched, in epochs 0, 1, 2; several may be under way once the
 * session has its id. */
static void test_fetcher_sends_what_is_due(void **state)
{
    (void)state;
    struct client client;
    client_init(&client);
    struct stele_fetcher_request first, second, third;
    assert_int_equal(send(&client, 1U << 5, &first), 0x1f);
    assert_true(first.is_full);
    assert_int_equal(first.epoch, 0);
    stele_fetcher_touch(&client.entries[5]);
    assert_false(stele_fetcher_is_due(&client.fetcher)); /* the session has no id yet */
    assert_true(stele_fetcher_answered(&client.fetcher, &first, STELE_OK, 42));
    assert_true(stele_fetcher_is_due(&client.fetcher));
    assert_int_equal(send(&client, 0, &second), 1U << 5);
    assert_int_equal(second.id, 42);
    assert_int_equal(second.epoch, 1);
    stele_fetcher_touch(&client.entries[0]);
    stele_fetcher_touch(&client.entries[0]);
    assert_int_equal(send(&client, 0, &third), 1U << 0);
    assert_int_equal(third.epoch, 2);
    assert_true(stele_fetcher_answered(&client.fetcher, &second, STELE_OK, 42));
    assert_true(stele_fetcher_answered(&client.fetcher, &third, STELE_OK, 42));
    assert_false(stele_fetcher_is_due(&client.fetcher));
}

/* Any error, a lost answer, or an answer of another session breaks it: the next request is full. Late answers of the
 * broken one change nothing. */
static void test_fetcher_begins_anew_after_an_error(void **state)
{
    (void)state;
    static const struct {
        enum stele_err err;
        int32_t id, kept_id;
    } cases[] = {{STELE_FETCH_SESSION_ID_NOT_FOUND, 0, 0},
                 {STELE_INVALID_FETCH_SESSION_EPOCH, 0, 42},
                 {STELE_CLOSED, 0, 42},
                 {STELE_OK, 43, 42},
                 {STELE_OK, 0, 42}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct client client;
        client_init(&client);
        struct stele_fetcher_request first, second, late, full;
        assert_int_equal(send(&client, 0, &first), 0x3f);
        assert_true(stele_fetcher_answered(&client.fetcher, &first, STELE_OK, 42));
        (void)send(&client, 0, &second);
        (void)send(&client, 0, &late);
        assert_false(stele_fetcher_answered(&client.fetcher, &second, cases[i].err, cases[i].id));
        assert_true(stele_fetcher_is_due(&client.fetcher));
        assert_int_equal(send(&client, 0, &full), 0x3f);
        assert_true(full.is_full);
        assert_int_equal(full.id, cases[i].kept_id); /* named, so that the server can close it */
        assert_false(stele_fetcher_answered(&client.fetcher, &late, STELE_INVALID_FETCH_SESSION_EPOCH, 0));
        assert_true(stele_fetcher_answered(&client.fetcher, &full, STELE_OK, 44));
        assert_false(stele_fetcher_is_due(&client.fetcher));
    }
}

/* A partition that goes is named once, if the server knows it, and can be added again at once. */
static void test_fetcher_forgets(void **state)
{
    (void)state;
    struct client client;
    client_init(&client);
    struct stele_fetcher_request request;
    assert_int_equal(send(&client, 1U << 3, &request), 0x37);
    assert_true(stele_fetcher_answered(&client.fetcher, &request, STELE_OK, 42));
    assert_false(stele_fetcher_remove(&client.entries[3])); /* never sent */
    assert_true(stele_fetcher_remove(&client.entries[1]));
    assert_true(stele_fetcher_is_due(&client.fetcher));
    request = stele_fetcher_begin(&client.fetcher);
    assert_ptr_equal(stele_fetcher_next_forgotten(&client.fetcher), &client.entries[1]);
    assert_null(stele_fetcher_next_forgotten(&client.fetcher));
    stele_fetcher_add(&client.fetcher, &client.entries[1]);
    assert_ptr_equal(stele_fetcher_next_due(&client.fetcher), &client.entries[1]);
    assert_int_equal(client.fetcher.count, PARTITIONS - 1);
}

/* Both sides, and what each believes: the server's partitions, and the client's view of them. */
struct pair {
    struct server server;
    struct client client;
    struct stele_prng prng;
    int64_t watermark[PARTITIONS], start[PARTITIONS], end[PARTITIONS];
    bool is_sick[PARTITIONS];
    int64_t seen_watermark[PARTITIONS], seen_start[PARTITIONS], position[PARTITIONS];
    bool seen_sick[PARTITIONS];
    int32_t next_id;
};

static void change_something(struct pair *pair)
{
    int i = (int)stele_prng_below(&pair->prng, PARTITIONS);
    switch (stele_prng_below(&pair->prng, 4)) {
    case 0:
        pair->watermark[i]++;
        break;
    case 1:
        pair->start[i]++;
        break;
    case 2:
        pair->end[i]++;
        break;
    default:
        pair->is_sick[i] = !pair->is_sick[i];
        break;
    }
    stele_fetch_session_mark(&pair->server.watchers[i]);
}

/* The server takes the lines of a request and makes its answer; returns how many partitions are in it. */
static int serve(struct pair *pair, bool is_lost, int room)
{
    int answered = 0;
    stele_fetch_session_round_begin(&pair->server.session);
    struct stele_fetch_session_entry *entry;
    while ((entry = stele_fetch_session_round_next(&pair->server.session)) != NULL) {
        int i = (int)(entry - pair->server.entries);
        const struct stele_fetch_answer answer = {.err = pair->is_sick[i] ? STELE_NOT_LEADER_OR_FOLLOWER : STELE_OK,
                                                  .diverging = {-1, -1},
                                                  .high_watermark = pair->watermark[i],
                                                  .log_start_offset = pair->start[i]};
        bool has_records = !pair->is_sick[i] && entry->line.fetch_offset < pair->end[i];
        if (has_records && answered >= room) {
            stele_fetch_session_keep(entry);
            continue;
        }
        if (!stele_fetch_session_settle(entry, &answer, has_records)) {
            continue;
        }
        answered++;
        if (is_lost) {
            continue;
        }
        pair->seen_sick[i] = pair->is_sick[i];
        if (!pair->is_sick[i]) {
            pair->seen_watermark[i] = pair->watermark[i];
            pair->seen_start[i] = pair->start[i];
        }
        if (has_records) {
            pair->position[i] = entry->line.fetch_offset + 1;
            stele_fetcher_touch(&pair->client.entries[i]);
        }
    }
    stele_fetch_session_round_end(&pair->server.session);
    return answered;
}

static int exchange(struct pair *pair, bool is_lost)
{
    struct stele_fetch_session *session = &pair->server.session;
    struct stele_fetcher *fetcher = &pair->client.fetcher;
    struct stele_fetcher_request request = stele_fetcher_begin(fetcher);
    enum stele_fetch_session_kind kind = STELE_SESSION_NONE;
    struct stele_fetch_session_entry *old;
    while (request.epoch == STELE_SESSION_EPOCH_FIRST && (old = stele_fetch_session_first(session)) != NULL) {
        stele_fetch_session_drop(old);
    }
    enum stele_err err = stele_fetch_session_begin(session, request.id, request.epoch, ++pair->next_id, &kind);
    struct stele_fetcher_entry *due;
    while ((due = stele_fetcher_next_due(fetcher)) != NULL) {
        int i = (int)(due - pair->client.entries);
        const struct stele_fetch_line line = {.fetch_offset = pair->position[i]};
        stele_fetcher_sent(due);
        if (err != STELE_OK) {
            continue;
        }
        if (stele_fetch_session_find(session, &pair->server.watchers[i])) {
            stele_fetch_session_set(&pair->server.entries[i], &line);
        } else {
            pair->server.entries[i] = (struct stele_fetch_session_entry){.session = NULL};
            stele_fetch_session_put(session, &pair->server.watchers[i], &pair->server.entries[i], &line);
        }
    }
    int answered = err == STELE_OK ? serve(pair, is_lost, (int)stele_prng_range(&pair->prng, 1, 4)) : 0;
    (void)stele_fetcher_answered(fetcher, &request, is_lost ? STELE_CLOSED : err, session->id);
    return answered;
}

/* D32: whatever changes and whatever answer is lost, what the client was told in pieces is what full answers would have
 * said, and then nothing is said any more. */
static void test_pieces_make_the_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct pair pair = {.next_id = 0};
        server_init(&pair.server);
        stele_prng_init(&pair.prng, seed, 1);
        stele_fetcher_init(&pair.client.fetcher);
        for (int i = 0; i < PARTITIONS; i++) {
            stele_fetcher_add(&pair.client.fetcher, &pair.client.entries[i]);
        }
        for (int i = 0; i < 200; i++) {
            if (stele_prng_chance(&pair.prng, 2, 3)) {
                change_something(&pair);
            } else {
                (void)exchange(&pair, stele_prng_chance(&pair.prng, 1, 8));
            }
            if (i == 50) { /* a server that forgot: its session went with a connection */
                pair.server.session.id = 0;
            }
        }
        int rounds = 0;
        for (int idle = 0; idle < 3; rounds++) {
            assert_true(rounds < 1000);
            bool was_due = stele_fetcher_is_due(&pair.client.fetcher);
            idle = exchange(&pair, false) == 0 && !was_due ? idle + 1 : 0;
        }
        for (int i = 0; i < PARTITIONS; i++) {
            assert_int_equal(pair.seen_sick[i], pair.is_sick[i]);
            if (!pair.is_sick[i]) {
                assert_int_equal(pair.seen_watermark[i], pair.watermark[i]);
                assert_int_equal(pair.seen_start[i], pair.start[i]);
                assert_int_equal(pair.position[i], pair.end[i]);
            }
        }
        assert_int_equal(ready_count(&pair.server), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_takes_only_the_next_request),
        cmocka_unit_test(test_session_answers_what_changed),
        cmocka_unit_test(test_session_is_fair),
        cmocka_unit_test(test_session_drops_entries),
        cmocka_unit_test(test_fetcher_sends_what_is_due),
        cmocka_unit_test(test_fetcher_begins_anew_after_an_error),
        cmocka_unit_test(test_fetcher_forgets),
        cmocka_unit_test(test_pieces_make_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
