/* Moves between log directories on the simulated disk: /m holds the metadata, a partition goes from /a to /b. */
#include "base/buf.h"
#include "proto/metadata_record.h"
#include "storage/log_dirs.h"
#include "storage/moved_file.h"
#include "storage/test/disk_files.h"

#include <stdio.h>
#include <string.h>

#define TOPIC_ID "xv8AAQIDBAUGBwgJCgsMDQ"
#define HEX "0123456789abcdef0123456789abcdef"

enum { FIRST, FROM, TO, DIRS };

struct fixture {
    struct sim_disk *disk;
    struct stele_test_env env;
    struct stele_error error;
};

static const char *const paths[DIRS] = {"/m", "/a", "/b"};

static struct stele_uuid topic_id(void)
{
    struct stele_uuid uuid;
    assert_ok(stele_uuid_parse(TOPIC_ID, strlen(TOPIC_ID), &uuid));
    return uuid;
}

static enum stele_err open_on(struct fixture *f, struct sim_disk *disk, struct stele_log_dirs **out_dirs)
{
    struct stele_log_dirs_options options = {.env = &f->env.env, .paths = paths, .count = DIRS, .node_id = -1};
    f->env.env.vfs = sim_disk_vfs(disk);
    f->error.text[0] = 0;
    return stele_log_dirs_open(&options, out_dirs, &f->error);
}

static void put_format(struct fixture *f)
{
    struct stele_batch_options options = {
        .codec_level = STELE_CODEC_LEVEL_DEFAULT, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    struct stele_metadata_record format = {.kind = STELE_METADATA_FORMAT,
                                           .u.format = {.format = "stele", .level = 1, .cluster_id = "c"}};
    struct stele_batch_builder *builder = stele_batch_builder_new(&f->env.mem.mem, &options);
    struct stele_arena arena;
    struct stele_buf *batch = NULL;
    uint8_t *value = NULL;
    size_t count = 0;
    stele_arena_init(&arena, &f->env.mem.mem, STELE_MEM_LOG, 0);
    assert_ok(stele_metadata_record_encode(&arena, &format, &value, &count));
    struct stele_record_in record = {.timestamp = 1, .value = value, .value_bytes = (int32_t)count};
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    disk_make_dir(f->disk, "/m/__cluster_metadata-0");
    disk_put(f->disk, "/m/__cluster_metadata-0/00000000000000000000.log", batch->bytes, batch->count);
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);
    stele_arena_deinit(&arena);
}

static void put_partition(struct fixture *f, const char *dir, const char *content)
{
    char path[200];
    disk_make_dir(f->disk, dir);
    (void)snprintf(path, sizeof(path), "%s/" STELE_PARTITION_METADATA_FILE, dir);
    disk_put_text(f->disk, path, "version: 0\ntopic_id: " TOPIC_ID);
    (void)snprintf(path, sizeof(path), "%s/content", dir);
    disk_put_text(f->disk, path, content);
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    struct stele_log_dirs *dirs = NULL;
    f->disk = sim_disk_new(1);
    stele_test_env_init(&f->env, sim_disk_vfs(f->disk));
    sim_disk_allow_unsynced_rename(f->disk, "*/" STELE_PARTITION_METADATA_FILE);
    assert_ok(open_on(f, f->disk, &dirs));
    put_format(f);
    assert_ok(stele_log_dirs_format(dirs, "MkU3OEVBNTcwNTJENDM2Qg", 7));
    stele_log_dirs_close(dirs);
    put_partition(f, "/a/t-0", "old");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(sim_disk_violation_text(f->disk), "");
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->env.mem);
    test_free(f);
    return 0;
}

static struct stele_log_dirs_move the_move(void)
{
    return (struct stele_log_dirs_move){.topic = "t", .topic_id = topic_id(), .from = FROM, .to = TO, .mark = HEX};
}

/* A copy that is whole. */
static void put_copy(struct fixture *f)
{
    put_partition(f, "/b/t-0." HEX "-future", "new");
}

/* Where the partition is found, in one place at most; -1: nowhere. */
static int place_of(const struct stele_log_dirs *dirs)
{
    int place = -1;
    for (int i = 0; i < stele_log_dirs_found_count(dirs); i++) {
        const struct stele_found_log *found = stele_log_dirs_found(dirs, i);
        if (strcmp(found->topic, "t") != 0)
            continue;
        assert_int_equal(place, -1);
        place = found->dir;
    }
    return place;
}

static bool has_line(struct fixture *f, struct sim_disk *disk)
{
    struct stele_moved_list list;
    stele_moved_list_init(&list, &f->env.mem.mem);
    assert_ok(stele_moved_list_read(&list, sim_disk_vfs(disk), "/m"));
    bool has = list.count > 0;
    stele_moved_list_deinit(&list);
    return has;
}

/* A start: where the partition is, with the content that belongs there. */
static int start(struct fixture *f, struct sim_disk *disk)
{
    struct stele_log_dirs *dirs = NULL;
    assert_ok(open_on(f, disk, &dirs));
    int place = place_of(dirs);
    if (place == FROM)
        disk_assert_text(disk, "/a/t-0/content", "old");
    else if (place == TO)
        disk_assert_text(disk, "/b/t-0/content", "new");
    stele_log_dirs_close(dirs);
    return place;
}

/* The old directory is there again: what lies in it is left behind, and there is no more to say of it. */
static void comes_back(struct fixture *f)
{
    sim_disk_heal(f->disk);
    assert_true(disk_has(f->disk, "/a/t-0"));
    assert_int_equal(start(f, f->disk), TO);
    assert_false(disk_has(f->disk, "/a/t-0"));
    assert_false(has_line(f, f->disk));
}

/* The whole of it. */
static enum stele_err swap(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move, bool *out_is_moved)
{
    enum stele_err err = stele_log_dirs_swap(dirs, move, out_is_moved);
    return err == STELE_OK ? stele_log_dirs_leave(dirs, move) : err;
}

/* A move from begin to end: the copy's directory is durable and found, the swap leaves one directory and no line. */
static void test_whole(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    char path[STELE_PATH_BYTES], content[STELE_PATH_BYTES];
    bool is_moved = false;
    disk_put_text(f->disk, "/b/" STELE_RECOVERY_POINT_FILE, "0\n2\nt 0 90\nu 0 5\n");
    assert_ok(open_on(f, f->disk, &dirs));
    move.mark[0] = 0;
    assert_ok(stele_log_dirs_begin_move(dirs, &move, path));
    assert_int_equal(strlen(move.mark), 32);
    disk_assert_text(f->disk, "/b/" STELE_RECOVERY_POINT_FILE, "0\n1\nu 0 5\n"); /* of an earlier stay there */
    stele_log_dirs_close(dirs);
    sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
    assert_ok(open_on(f, f->disk, &dirs));
    assert_int_equal(stele_log_dirs_future_count(dirs), 1);
    const struct stele_found_future *future = stele_log_dirs_future(dirs, 0);
    assert_string_equal(future->mark, move.mark);
    assert_string_equal(future->log.topic, "t");
    assert_true(future->log.dir == TO && future->log.partition == 0 &&
                stele_uuid_equal(&future->log.topic_id, &move.topic_id));
    assert_int_equal(place_of(dirs), FROM);
    assert_ok(stele_path_join(content, path, "content"));
    disk_put_text(f->disk, content, "new");
    put_partition(f, "/a/t-0.c6ff000102030405060708090a0b0c0d-delete", "an earlier stay");
    assert_true(disk_has(f->disk, "/a/t-0.c6ff000102030405060708090a0b0c0d-delete/content"));
    assert_ok(swap(dirs, &move, &is_moved));
    assert_true(is_moved);
    assert_false(has_line(f, f->disk));
    assert_false(disk_has(f->disk, "/a/t-0"));
    (void)snprintf(path, sizeof(path), "/a/t-0.%s-delete/content", move.mark);
    disk_assert_text(f->disk, path, "old");
    assert_ok(stele_log_dirs_delete_moved(&f->env.env, "/a", &move));
    assert_false(disk_has(f->disk, path));
    disk_assert_text(f->disk, "/a/t-0.c6ff000102030405060708090a0b0c0d-delete/content", "an earlier stay");
    stele_log_dirs_close(dirs);
    sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
    assert_int_equal(start(f, f->disk), TO);
}

struct round {
    struct fixture *f;
    enum sim_disk_crash_mode mode;
    int swapped, stayed;
};

static void swap_and_crash(void *arg, struct sim_disk *disk)
{
    struct round *round = arg;
    struct fixture *f = round->f;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    bool is_moved = false;
    enum stele_err err = open_on(f, disk, &dirs);
    if (err == STELE_OK) {
        err = swap(dirs, &move, &is_moved);
        if (sim_disk_is_stopped(disk)) /* nobody heard it */
            is_moved = false;
        stele_log_dirs_close(dirs);
    }
    sim_disk_crash(disk, round->mode);
    int place = start(f, disk);
    assert_true(place == TO || (place == FROM && !is_moved));
    round->swapped += place == TO;
    round->stayed += place == FROM;
    sim_disk_crash(disk, round->mode);
    assert_int_equal(start(f, disk), place);
    assert_false(has_line(f, disk));
    assert_false(place == TO && disk_has(disk, "/a/t-0"));
}

/* A crash at any call of a swap leaves the partition in one place, with what belongs there, and the next start agrees.
 */
static void test_crash_at_each_call(void **state)
{
    struct fixture *f = *state;
    put_copy(f);
    for (int mode = SIM_DISK_KILL; mode <= SIM_DISK_ADVERSARIAL; mode++) {
        struct sim_disk_fault fault = {.is_crash = true};
        struct round round = {.f = f, .mode = (enum sim_disk_crash_mode)mode};
        assert_true(sim_disk_each_call(f->disk, &fault, swap_and_crash, &round) > 10);
        assert_true(round.swapped > 3 && round.stayed > 3);
    }
}

static void decide_and_crash_in_start(void *arg, struct sim_disk *disk)
{
    struct round *round = arg;
    struct fixture *f = round->f;
    struct stele_log_dirs *dirs = NULL;
    if (open_on(f, disk, &dirs) == STELE_OK)
        stele_log_dirs_close(dirs);
    sim_disk_crash(disk, round->mode);
    assert_int_equal(start(f, disk), TO);
    assert_false(has_line(f, disk));
    assert_false(disk_has(disk, "/a/t-0"));
}

/* Says durably that the partition is in a directory. */
static void put_line(struct fixture *f, int dir)
{
    struct stele_moved_list list;
    struct stele_log_dirs *dirs = NULL;
    struct stele_moved moved = {.topic_id = topic_id()};
    bool is_in_doubt = false;
    assert_ok(open_on(f, f->disk, &dirs));
    assert_true(stele_log_dirs_id(dirs, dir, &moved.directory_id));
    stele_log_dirs_close(dirs);
    stele_moved_list_init(&list, &f->env.mem.mem);
    assert_ok(stele_moved_set(&list, &moved));
    assert_ok(stele_moved_list_write(&list, sim_disk_vfs(f->disk), "/m", &is_in_doubt));
    stele_moved_list_deinit(&list);
}

/* A start that goes on with a move may crash at any call too: what was decided stays. */
static void test_crash_in_start(void **state)
{
    struct fixture *f = *state;
    put_copy(f);
    put_line(f, TO);
    for (int mode = SIM_DISK_KILL; mode <= SIM_DISK_ADVERSARIAL; mode++) {
        struct sim_disk_fault fault = {.is_crash = true};
        struct round round = {.f = f, .mode = (enum sim_disk_crash_mode)mode};
        assert_true(sim_disk_each_call(f->disk, &fault, decide_and_crash_in_start, &round) > 10);
    }
}

static void swap_and_fail(void *arg, struct sim_disk *disk)
{
    struct round *round = arg;
    struct fixture *f = round->f;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    bool is_moved = false;
    if (open_on(f, disk, &dirs) == STELE_OK) {
        enum stele_err err = swap(dirs, &move, &is_moved);
        bool is_first_lost = stele_log_dirs_is_offline(dirs, FIRST);
        assert_true(err == STELE_OK || sim_disk_has_struck(disk));
        assert_true(err != STELE_OK || (is_moved && !is_first_lost));
        stele_log_dirs_close(dirs);
        sim_disk_heal(disk);
        sim_disk_crash(disk, round->mode);
        int place = start(f, disk);
        if (!is_first_lost) /* otherwise the node ends, and either may be */
            assert_int_equal(place, is_moved ? TO : FROM);
        round->swapped += is_moved;
        round->stayed += !is_moved;
    }
    sim_disk_heal(disk);
    sim_disk_crash(disk, round->mode);
    int place = start(f, disk);
    assert_true(place == TO || place == FROM);
    assert_int_equal(start(f, disk), place);
    assert_false(has_line(f, disk));
}

/* Whatever call of a swap fails, once or from then on: what the caller is told is what the next start finds. */
static void test_fail_each_call(void **state)
{
    struct fixture *f = *state;
    static const enum stele_err errors[] = {STELE_IO, STELE_NO_SPACE};
    put_copy(f);
    for (size_t i = 0; i < 2 * STELE_ARRAY_LEN(errors); i++) {
        struct sim_disk_fault fault = {.err = errors[i / 2], .is_lasting = i % 2 == 1};
        struct round round = {.f = f, .mode = i % 2 == 0 ? SIM_DISK_KILL : SIM_DISK_ADVERSARIAL};
        assert_true(sim_disk_each_call(f->disk, &fault, swap_and_fail, &round) > 10);
        assert_true(round.swapped > 0 && round.stayed > 0);
    }
}

/* The old directory fails when it is left: the move holds, and what is there is left behind when it comes back. */
static void test_source_fails(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    bool is_moved = false;
    put_copy(f);
    assert_ok(open_on(f, f->disk, &dirs));
    sim_disk_break(f->disk, "/a*", SIM_DISK_BIT(SIM_DISK_RENAME), STELE_IO, 0);
    assert_int_equal(swap(dirs, &move, &is_moved), STELE_IO);
    assert_true(is_moved);
    assert_true(stele_log_dirs_is_offline(dirs, FROM));
    assert_false(stele_log_dirs_is_offline(dirs, TO));
    stele_log_dirs_close(dirs);
    assert_true(has_line(f, f->disk));
    sim_disk_break(f->disk, "/a*", 0, STELE_IO, 0); /* two starts without it */
    assert_int_equal(start(f, f->disk), TO);
    assert_int_equal(start(f, f->disk), TO);
    comes_back(f);
}

/* The new directory fails when the copy gets its name, also after it had it: the partition is where it was, and what
 * the directory holds when it comes back is not it. */
static void test_target_fails(void **state)
{
    struct fixture *f = *state;
    static const enum sim_disk_op ops[] = {SIM_DISK_RENAME, SIM_DISK_SYNC_DIR};
    put_copy(f);
    for (size_t i = 0; i < STELE_ARRAY_LEN(ops); i++) {
        struct stele_log_dirs *dirs = NULL;
        struct stele_log_dirs_move move = the_move();
        bool is_moved = true;
        assert_ok(open_on(f, f->disk, &dirs));
        sim_disk_break(f->disk, "/b*", SIM_DISK_BIT(ops[i]), STELE_IO, 0);
        assert_int_equal(swap(dirs, &move, &is_moved), STELE_IO);
        assert_false(is_moved);
        assert_true(stele_log_dirs_is_offline(dirs, TO));
        assert_false(stele_log_dirs_is_offline(dirs, FROM));
        stele_log_dirs_close(dirs);
        sim_disk_break(f->disk, "/b*", 0, STELE_IO, 0);
        assert_int_equal(start(f, f->disk), FROM);
        sim_disk_heal(f->disk);
        assert_int_equal(start(f, f->disk), FROM);
        assert_false(has_line(f, f->disk));
    }
}

/* Decided, and the new directory is not there: the old one is not the partition any more, and is not touched. */
static void test_target_missing(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    put_copy(f);
    put_line(f, TO);
    sim_disk_break(f->disk, "/b*", 0, STELE_IO, 0);
    assert_int_equal(start(f, f->disk), -1);
    disk_assert_text(f->disk, "/a/t-0/content", "old");
    sim_disk_heal(f->disk);
    assert_ok(open_on(f, f->disk, &dirs));
    assert_int_equal(place_of(dirs), TO);
    for (int i = 0; i < stele_log_dirs_found_count(dirs); i++)
        assert_int_equal(stele_log_dirs_found(dirs, i)->is_moved,
                         strcmp(stele_log_dirs_found(dirs, i)->topic, "t") == 0);
    assert_int_equal(stele_log_dirs_future_count(dirs), 0);
    stele_log_dirs_close(dirs);
    assert_false(disk_has(f->disk, "/a/t-0"));
}

/* Both have the name: the line tells which is the partition; without one nobody may guess. */
static void test_both(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    put_partition(f, "/b/t-0", "new");
    assert_int_equal(open_on(f, f->disk, &dirs), STELE_CORRUPT);
    assert_non_null(strstr(f->error.text, "t-0 is in /a and in /b"));
    struct stele_moved_list list;
    struct stele_moved moved = {.topic_id = topic_id()};
    bool is_in_doubt;
    char text[400];
    size_t count = disk_read(f->disk, "/b/" STELE_META_PROPERTIES_FILE, text, sizeof(text) - 1);
    text[count] = 0;
    const char *id = strstr(text, "directory.id=");
    assert_non_null(id);
    assert_ok(stele_uuid_parse(id + strlen("directory.id="), STELE_UUID_TEXT_BYTES - 1, &moved.directory_id));
    stele_moved_list_init(&list, &f->env.mem.mem);
    assert_ok(stele_moved_set(&list, &moved));
    assert_ok(stele_moved_list_write(&list, sim_disk_vfs(f->disk), "/m", &is_in_doubt));
    stele_moved_list_deinit(&list);
    assert_int_equal(start(f, f->disk), TO);
    assert_false(disk_has(f->disk, "/a/t-0"));
    assert_false(has_line(f, f->disk));
}

/* A partition that was made while a directory with an older one of its name was offline, and then moved: it is where it
 * was moved to when that directory comes back. */
static void test_move_beside_offline(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    char path[STELE_PATH_BYTES];
    bool is_moved = false;
    move.from = FIRST;
    sim_disk_break(f->disk, "/a*", 0, STELE_IO, 0);
    assert_ok(open_on(f, f->disk, &dirs));
    assert_ok(stele_log_dirs_create(dirs, FIRST, "t", 0, &move.topic_id, path));
    assert_ok(stele_log_dirs_begin_move(dirs, &move, path));
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/content");
    disk_put_text(f->disk, path, "new");
    assert_ok(swap(dirs, &move, &is_moved));
    assert_true(is_moved);
    stele_log_dirs_close(dirs);
    assert_int_equal(start(f, f->disk), TO);
    comes_back(f);
}

/* The place that a line names is empty: what lies elsewhere is older, so it is neither used nor deleted. A partition
 * that is made anew is where it is made. */
static void test_gone(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_uuid id = topic_id();
    char path[STELE_PATH_BYTES];
    put_line(f, TO);
    assert_int_equal(start(f, f->disk), -1);
    assert_true(has_line(f, f->disk));
    disk_assert_text(f->disk, "/a/t-0/content", "old");
    assert_ok(open_on(f, f->disk, &dirs));
    assert_ok(stele_log_dirs_create(dirs, FIRST, "t", 0, &id, path));
    stele_log_dirs_close(dirs);
    assert_ok(open_on(f, f->disk, &dirs));
    assert_int_equal(place_of(dirs), FIRST);
    stele_log_dirs_close(dirs);
    assert_false(has_line(f, f->disk));
    assert_false(disk_has(f->disk, "/a/t-0"));
}

/* A damaged file of lines ends a start that would have to guess. */
static void test_damaged_lines(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    disk_put_text(f->disk, "/m/" STELE_MOVED_FILE, "0\n12345678\n");
    assert_int_equal(open_on(f, f->disk, &dirs), STELE_CORRUPT);
    assert_non_null(strstr(f->error.text, STELE_MOVED_FILE " is damaged"));
}

static void begin_and_fail(void *arg, struct sim_disk *disk)
{
    struct round *round = arg;
    struct fixture *f = round->f;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    char path[STELE_PATH_BYTES];
    if (open_on(f, disk, &dirs) != STELE_OK)
        return;
    bool had_struck = sim_disk_has_struck(disk);
    enum stele_err err = stele_log_dirs_begin_move(dirs, &move, path);
    assert_true(err == STELE_OK || sim_disk_has_struck(disk));
    if (!had_struck && err == STELE_NO_SPACE)
        assert_false(stele_log_dirs_is_offline(dirs, TO));
    stele_log_dirs_close(dirs);
    sim_disk_heal(disk);
    sim_disk_crash(disk, SIM_DISK_KILL);
    assert_ok(open_on(f, disk, &dirs));
    assert_int_equal(place_of(dirs), FROM);
    round->swapped += err == STELE_OK;
    round->stayed += err != STELE_OK && stele_log_dirs_future_count(dirs) == 0;
    if (err == STELE_OK) {
        assert_int_equal(stele_log_dirs_future_count(dirs), 1);
        assert_ok(stele_log_dirs_condemn_copy(dirs, &move));
        assert_ok(stele_log_dirs_condemn_copy(dirs, &move)); /* nothing to rename is fine */
        assert_ok(stele_log_dirs_delete_moved(&f->env.env, "/b", &move));
        stele_log_dirs_close(dirs);
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        assert_ok(open_on(f, disk, &dirs));
        assert_int_equal(stele_log_dirs_future_count(dirs), 0);
    }
    stele_log_dirs_close(dirs);
}

/* A copy that cannot be begun leaves nothing; one that is given up is gone. */
static void test_begin_and_end(void **state)
{
    struct fixture *f = *state;
    for (int is_full = 0; is_full < 2; is_full++) {
        struct sim_disk_fault fault = {.err = is_full ? STELE_NO_SPACE : STELE_IO};
        struct round round = {.f = f};
        assert_true(sim_disk_each_call(f->disk, &fault, begin_and_fail, &round) > 10);
        assert_true(round.swapped > 0 && round.stayed > 4);
    }
}

/* Names that do not fit are refused; memory that runs out changes nothing. */
static void test_refused(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_log_dirs_move move = the_move();
    char topic[STELE_TOPIC_NAME_MAX + 1], path[STELE_PATH_BYTES];
    bool is_moved = true;
    memset(topic, 'x', sizeof(topic) - 1);
    topic[sizeof(topic) - 1] = 0;
    put_copy(f);
    assert_ok(open_on(f, f->disk, &dirs));
    move.topic = topic;
    assert_int_equal(stele_log_dirs_begin_move(dirs, &move, path), STELE_TOO_LARGE);
    assert_false(stele_log_dirs_is_offline(dirs, TO));
    move = the_move();
    for (int64_t at = 1;; at++) {
        stele_test_mem_fail(&f->env.mem, at, false);
        enum stele_err err = swap(dirs, &move, &is_moved);
        stele_test_mem_fail(&f->env.mem, 0, false);
        if (err == STELE_OK)
            break;
        assert_int_equal(err, STELE_NO_MEMORY);
        assert_false(is_moved);
    }
    assert_true(is_moved);
    assert_int_equal(swap(dirs, &move, &is_moved), STELE_NOT_FOUND); /* there is no such copy any more */
    assert_false(is_moved);
    stele_log_dirs_close(dirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crash_at_each_call, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crash_in_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fail_each_call, setup, teardown),
        cmocka_unit_test_setup_teardown(test_source_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_target_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_target_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_both, setup, teardown),
        cmocka_unit_test_setup_teardown(test_move_beside_offline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begin_and_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
