/* Every fault of the simulated disk strikes as it was told to, where it was told to, and only there: syncs, full and
 * broken disks, single calls, time, a machine that stops, damage at rest. */
#include "cluster-tests/test/disk_support.h"

#include <string.h>

/* --- syncs that fail --- */

/* A failed sync tells once: the next one says OK and changes nothing. The cache shows the new bytes, also to the next
 * process, until it is evicted or the power goes; then those pages are the old ones. Writing them anew helps. */
static void test_failed_sync_drops_pages(void **state)
{
    (void)state;
    char page[PAGE];
    int old = 0, new = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        disk_renew(seed);
        disk_make_durable("/f", 'o', 4 * PAGE);
        struct stele_file *file = disk_fail_sync("/f", seed % 2 == 0);
        assert_ok(vfs->ops->sync(file));
        assert_int_equal(sim_disk_stats(disk)->sync_failures, 1);
        if (seed % 3 == 0)
            sim_disk_crash(disk, SIM_DISK_KILL);
        for (int at = 0; at < 4; at++) {
            assert_int_equal(disk_content("/f", at * PAGE, page), PAGE);
            assert_true(is_all(page, PAGE, 'n'));
        }
        bool is_durable = sim_disk_is_durable(disk, "/f", 0, 4 * PAGE);
        assert_int_equal(is_durable, sim_disk_stats(disk)->pages_lost_by_sync == 0);
        if (seed % 5 == 0) {
            disk_close(file);
            file = disk_open("/f");
            disk_fill(file, 'n', 0, 4 * PAGE);
            assert_ok(vfs->ops->sync(file));
            assert_true(sim_disk_is_durable(disk, "/f", 0, 4 * PAGE));
        } else if (seed % 2 == 0) {
            sim_disk_evict(disk);
        } else {
            sim_disk_crash(disk, SIM_DISK_ORDERED);
        }
        disk_close(file);
        for (int at = 0; at < 4; at++) {
            assert_int_equal(disk_content("/f", at * PAGE, page), PAGE);
            assert_true(is_all(page, PAGE, 'n') || (seed % 5 != 0 && is_all(page, PAGE, 'o')));
            old += page[0] == 'o';
            new += page[0] == 'n' && seed % 5 != 0;
        }
    }
    assert_true(old > SEEDS && new > SEEDS / 4);
}

/* The rates that concern syncs: one that fails, one that lies, a write-back that fails and is told of by the next sync,
 * and a cache that drops what a failed sync lost at the next read. */
static void test_rates_of_syncs(void **state)
{
    (void)state;
    char page[PAGE];
    int told = 0, lied = 0, late = 0, dropped = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        disk_renew(seed);
        disk_make_durable("/f", 'o', PAGE);
        struct stele_file *file = disk_open("/f");
        disk_fill(file, 'n', 0, PAGE);
        sim_disk_set_rates(disk, &(struct sim_disk_rates){.sync_error = 500000});
        told += vfs->ops->sync(file) == STELE_IO;
        disk_fill(file, 'm', 0, PAGE);
        sim_disk_set_rates(disk, &(struct sim_disk_rates){.sync_lie = 500000});
        assert_ok(vfs->ops->sync(file));
        lied += !sim_disk_is_durable(disk, "/f", 0, PAGE);
        disk_fill(file, 'w', 0, PAGE);
        sim_disk_set_rates(disk, &(struct sim_disk_rates){.write_back_error = 500000});
        vfs->ops->sync_range(file, 0, PAGE);
        bool is_due = sim_disk_stats(disk)->write_back_errors > 0;
        sim_disk_crash(disk, SIM_DISK_KILL);
        disk_close(file);
        file = disk_open("/f");
        assert_int_equal(vfs->ops->sync(file), is_due ? STELE_IO : STELE_OK);
        assert_ok(vfs->ops->sync(file));
        late += is_due && !sim_disk_is_durable(disk, "/f", 0, PAGE);
        sim_disk_set_rates(disk, &(struct sim_disk_rates){.evict = 1000000});
        assert_int_equal(disk_content("/f", 0, page), PAGE);
        dropped += page[0] != 'w';
        assert_true(sim_disk_is_durable(disk, "/f", 0, PAGE));
        disk_close(file);
        sim_disk_heal(disk);
    }
    assert_in_range(told, SEEDS / 16, SEEDS / 4 - SEEDS / 16);
    assert_in_range(lied, SEEDS / 32, SEEDS / 4 - SEEDS / 16);
    assert_in_range(late, SEEDS / 32, SEEDS / 4 - SEEDS / 16);
    assert_int_equal(dropped, late);
}

/* A hint to write back makes some pages durable and promises none. */
static void test_write_back_is_a_hint(void **state)
{
    (void)state;
    int all = 0, some = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        disk_renew(seed);
        disk_make_durable("/f", 'o', 2 * PAGE);
        struct stele_file *file = disk_open("/f");
        disk_fill(file, 'n', 0, 2 * PAGE);
        vfs->ops->sync_range(file, 0, 2 * PAGE);
        bool first = sim_disk_is_durable(disk, "/f", 0, PAGE), second = sim_disk_is_durable(disk, "/f", PAGE, 2 * PAGE);
        all += first && second;
        some += first != second;
        disk_close(file);
    }
    assert_true(all > 0 && all < SEEDS / 4 && some > 0);
}

/* --- full and broken disks --- */

/* Content over the quota is written in part and then refused, also an allocation; growing by truncate takes no room;
 * what is deleted gives room, and without the quota all is well again. */
static void test_full_disk(void **state)
{
    (void)state;
    char bytes[1000] = {0};
    int64_t free_bytes = -1;
    size_t count = 0;
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct stele_file *file = disk_open("/f"), *other = disk_open("/other");
    assert_ok(stele_file_write(other, bytes, 300, 0));
    sim_disk_set_quota(disk, 1000);
    assert_ok(vfs->ops->free_bytes(vfs, "/", &free_bytes));
    assert_int_equal(free_bytes, 700);
    assert_ok(vfs->ops->pwritev(file, &iov, 1, 0, &count));
    assert_int_equal(count, 700);
    assert_int_equal(vfs->ops->pwritev(file, &iov, 1, 700, &count), STELE_NO_SPACE);
    assert_ok(stele_file_write(file, bytes, 700, 0)); /* bytes that are there take no room */
    assert_int_equal(vfs->ops->allocate(file, 701), STELE_NO_SPACE);
    assert_ok(vfs->ops->truncate(file, 5000));
    assert_int_equal(sim_disk_used_bytes(disk), 1000);
    assert_int_equal(sim_disk_stats(disk)->no_space, 2);
    disk_close(other);
    assert_ok(vfs->ops->unlink(vfs, "/other"));
    disk_sync_dir("/");
    assert_ok(stele_file_write(file, bytes, 300, 700));
    assert_int_equal(vfs->ops->pwritev(file, &iov, 1, 5000, &count), STELE_NO_SPACE);
    sim_disk_set_quota(disk, -1);
    assert_ok(stele_file_write(file, bytes, sizeof(bytes), 5000));
    assert_ok(vfs->ops->sync(file));
    assert_int_equal(disk_size_of("/f"), 6000);
    disk_close(file);
}

/* With delayed allocation the write succeeds and the sync tells; a sync with nothing to write out does not. */
static void test_full_disk_at_sync(void **state)
{
    (void)state;
    disk_make_durable("/clean", 'c', 100);
    struct stele_file *clean = disk_open("/clean");
    disk_close(disk_fail_sync("/f", true));
    sim_disk_set_quota_at_sync(disk, true);
    sim_disk_set_quota(disk, 100);
    assert_ok(vfs->ops->sync(clean));
    disk_close(clean);
}

struct break_case {
    enum sim_disk_op op;
    enum stele_err err;
    const char *pattern;
    bool is_hit; /* the path of call_all */
};

static const struct break_case break_cases[] = {
    {SIM_DISK_READ, STELE_IO, "/dir/f", true},
    {SIM_DISK_READ, STELE_IO, "/dir/*", true},
    {SIM_DISK_READ, STELE_IO, "*", true},
    {SIM_DISK_READ, STELE_IO, "/dir/g", false},
    {SIM_DISK_READ, STELE_IO, "/dir/f*x", false},
    {SIM_DISK_READ, STELE_IO, "", false},
    {SIM_DISK_WRITE, STELE_IO, "*f", true},
    {SIM_DISK_WRITE, STELE_NO_SPACE, "*f", true},
    {SIM_DISK_SYNC, STELE_IO, "/dir/f", true},
    {SIM_DISK_OPEN, STELE_IO, "/dir/open", true},
    {SIM_DISK_STAT, STELE_IO, "/dir/f", true},
    {SIM_DISK_TRUNCATE, STELE_IO, "/dir/f", true},
    {SIM_DISK_ALLOCATE, STELE_NO_SPACE, "*", true},
    {SIM_DISK_SIZE, STELE_IO, "/*/f", true},
    {SIM_DISK_MAP, STELE_IO, "/dir/f", true},
    {SIM_DISK_SET_MTIME, STELE_IO, "/dir/f", true},
    {SIM_DISK_RENAME, STELE_IO, "/dir/f", true},
    {SIM_DISK_UNLINK, STELE_IO, "/dir/unlink", true},
    {SIM_DISK_SYNC_DIR, STELE_IO, "/dir", true},
    {SIM_DISK_SYNC_DIR, STELE_IO, "/dir/*", false},
    {SIM_DISK_LIST, STELE_IO, "/dir", true},
    {SIM_DISK_FREE_BYTES, STELE_IO, "/dir", true},
    {SIM_DISK_MKDIR, STELE_NO_SPACE, "/dir/sub", true},
    {SIM_DISK_RMDIR, STELE_IO, "/dir/empty", true},
    {SIM_DISK_LOCK, STELE_IO, "/dir/lock", true},
};

static enum stele_err see_name(void *arg, const char *name)
{
    (void)name;
    ++*(int *)arg;
    return STELE_OK;
}

static void make_all(uint64_t seed)
{
    disk_renew(seed);
    assert_ok(vfs->ops->mkdir(vfs, "/dir"));
    assert_ok(vfs->ops->mkdir(vfs, "/dir/empty"));
    disk_make_durable("/dir/f", 'f', 10);
    disk_make_durable("/dir/open", 'f', 10);
    disk_make_durable("/dir/unlink", 'f', 10);
    disk_sync_dir("/dir");
}

/* One call of every kind; what each said. */
static void call_all(enum stele_err out_err[SIM_DISK_OP_COUNT])
{
    const struct stele_vfs_ops *ops = vfs->ops;
    struct stele_file *file = NULL, *opened = NULL, *lock = NULL;
    struct stele_stat stat;
    const uint8_t *map = NULL;
    char byte = 'x';
    int64_t number = 0;
    int names = 0;
    out_err[SIM_DISK_OPEN] = ops->open(vfs, "/dir/open", STELE_OPEN_WRITE, &opened);
    assert_ok(ops->open(vfs, "/dir/f", STELE_OPEN_WRITE, &file));
    out_err[SIM_DISK_WRITE] = stele_file_write(file, &byte, 1, 0);
    out_err[SIM_DISK_ALLOCATE] = ops->allocate(file, 10);
    out_err[SIM_DISK_TRUNCATE] = ops->truncate(file, 10);
    out_err[SIM_DISK_SYNC] = ops->sync(file);
    out_err[SIM_DISK_READ] = stele_file_read(file, &byte, 1, 0);
    out_err[SIM_DISK_SIZE] = ops->size(file, &number);
    out_err[SIM_DISK_MAP] = ops->map(file, 10, &map);
    out_err[SIM_DISK_STAT] = ops->stat(vfs, "/dir/f", &stat);
    out_err[SIM_DISK_SET_MTIME] = ops->set_mtime(vfs, "/dir/f", 5);
    out_err[SIM_DISK_RENAME] = ops->rename(vfs, "/dir/f", "/dir/to");
    out_err[SIM_DISK_UNLINK] = ops->unlink(vfs, "/dir/unlink");
    out_err[SIM_DISK_MKDIR] = ops->mkdir(vfs, "/dir/sub");
    out_err[SIM_DISK_RMDIR] = ops->rmdir(vfs, "/dir/empty");
    out_err[SIM_DISK_LIST] = ops->list(vfs, "/dir", see_name, &names);
    out_err[SIM_DISK_FREE_BYTES] = ops->free_bytes(vfs, "/dir", &number);
    out_err[SIM_DISK_LOCK] = ops->lock(vfs, "/dir/lock", &lock);
    out_err[SIM_DISK_SYNC_DIR] = ops->sync_dir(vfs, "/dir");
    if (map != NULL)
        ops->unmap(vfs, map, 10);
    if (lock != NULL)
        disk_close(lock);
    if (opened != NULL)
        disk_close(opened);
    disk_close(file);
}

/* Asserts that of call_all's calls only `op` failed, with `err` (OK: none did). */
static void assert_failed(const enum stele_err err[SIM_DISK_OP_COUNT], enum sim_disk_op op, enum stele_err want)
{
    for (int i = 0; i < SIM_DISK_OP_COUNT; i++) {
        if (err[i] != (i == (int)op ? want : STELE_OK))
            fail_msg("%s: %s", sim_disk_op_name((enum sim_disk_op)i), stele_err_name(err[i]));
    }
}

/* A broken path fails the calls that it was broken for and no others, until it is mended or all is healed. */
static void test_broken_path(void **state)
{
    (void)state;
    enum stele_err err[SIM_DISK_OP_COUNT];
    for (size_t i = 0; i < STELE_ARRAY_LEN(break_cases); i++) {
        const struct break_case *c = &break_cases[i];
        for (int round = 0; round < 3; round++) {
            make_all(1);
            sim_disk_break(disk, c->pattern, SIM_DISK_BIT(c->op), c->err, 0);
            if (round == 1)
                sim_disk_mend(disk, c->pattern);
            if (round == 2)
                sim_disk_heal(disk);
            call_all(err);
            bool is_hit = round == 0 && c->is_hit;
            assert_failed(err, c->op, is_hit ? c->err : STELE_OK);
            assert_int_equal(sim_disk_stats(disk)->faults, is_hit);
        }
    }
    make_all(1);
    sim_disk_break(disk, "/dir/unlink", 0, STELE_IO, 0); /* every call, every time */
    for (int i = 0; i < 5; i++)
        assert_int_equal(vfs->ops->unlink(vfs, "/dir/unlink"), STELE_IO);
}

/* The n-th call fails, once or from then on; a set of calls counts those alone. */
static void test_armed_fault(void **state)
{
    (void)state;
    for (int64_t at = 1;; at++) {
        enum stele_err err[SIM_DISK_OP_COUNT];
        make_all((uint64_t)at);
        int64_t before = sim_disk_calls(disk);
        /* The open of /dir/f must work: it is the second. */
        sim_disk_arm(disk, at == 2 ? 0 : at, &(struct sim_disk_fault){.err = STELE_IO});
        call_all(err);
        assert_int_equal(sim_disk_calls(disk) - before, SIM_DISK_OP_COUNT + 1);
        if (at != 2 && !sim_disk_has_struck(disk))
            break;
        assert_failed(err, sim_disk_struck_op(disk), at == 2 ? STELE_OK : STELE_IO);
    }
    make_all(1);
    struct stele_file *file = disk_open("/dir/f");
    char byte = 'x';
    sim_disk_arm(disk, 3,
                 &(struct sim_disk_fault){.ops = SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_READ),
                                          .err = STELE_IO,
                                          .is_lasting = true});
    for (int i = 0; i < 6; i++) {
        assert_ok(vfs->ops->sync(file));
        enum stele_err want = i < 2 ? STELE_OK : STELE_IO;
        assert_int_equal(i % 2 == 0 ? stele_file_read(file, &byte, 1, 0) : stele_file_write(file, &byte, 1, 0), want);
    }
    assert_int_equal(sim_disk_struck_op(disk), SIM_DISK_READ);
    sim_disk_heal(disk);
    assert_ok(stele_file_read(file, &byte, 1, 0));
    disk_close(file);
}

static int64_t rounds_seen;

static void copy_round(void *arg, struct sim_disk *copy)
{
    struct sim_disk *own = disk;
    enum stele_err err[SIM_DISK_OP_COUNT];
    (void)arg;
    disk = copy;
    vfs = sim_disk_vfs(copy);
    rounds_seen++;
    sim_disk_arm(copy, rounds_seen == 2 ? 0 : rounds_seen, &(struct sim_disk_fault){.err = STELE_IO});
    call_all(err);
    disk = own;
    vfs = sim_disk_vfs(own);
}

/* each_call gives every round a copy: the disk itself stays as it was. */
static void test_each_call_works_on_copies(void **state)
{
    (void)state;
    char page[PAGE];
    make_all(1);
    rounds_seen = 0;
    int64_t rounds = sim_disk_each_call(disk, &(struct sim_disk_fault){.err = STELE_IO}, copy_round, NULL);
    assert_int_equal(rounds, rounds_seen - 1);
    assert_true(disk_has("/dir/unlink") && disk_has("/dir/empty") && !disk_has("/dir/sub"));
    assert_int_equal(disk_content("/dir/f", 0, page), 10);
    assert_true(is_all(page, 10, 'f'));
}

/* A write that fails has written nothing or a beginning; both happen. */
static void test_failed_write_leaves_a_beginning(void **state)
{
    (void)state;
    char page[PAGE], bytes[600];
    int none = 0, part = 0;
    memset(bytes, 'n', sizeof(bytes));
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        disk_renew(seed);
        disk_make_durable("/f", 'o', 1000);
        struct stele_file *file = disk_open("/f");
        sim_disk_arm(disk, 1, &(struct sim_disk_fault){.err = STELE_IO});
        assert_int_equal(stele_file_write(file, bytes, sizeof(bytes), 100), STELE_IO);
        disk_close(file);
        assert_int_equal(disk_content("/f", 0, page), 1000);
        size_t count = strspn(page + 100, "n") ? (size_t)((char *)memchr(page + 100, 'o', 900) - page - 100) : 0;
        assert_true(is_all(page, 100, 'o') && count < 600);
        assert_true(is_all(page + 100 + count, (int64_t)(900 - count), 'o'));
        none += count == 0;
        part += count > 0;
    }
    assert_true(none > SEEDS / 20 && part > SEEDS / 20);
}

/* Reads and writes that fall short are legal; the loops over them lose nothing. */
static void test_short_reads_and_writes(void **state)
{
    (void)state;
    char bytes[3000], got[3000];
    size_t count = 0;
    struct iovec iov[2] = {{.iov_base = bytes, .iov_len = 1000}, {.iov_base = bytes + 1000, .iov_len = 2000}};
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i % 251);
    struct stele_file *file = disk_open("/f");
    sim_disk_set_rates(disk, &(struct sim_disk_rates){.short_read = 1000000, .short_write = 1000000});
    assert_ok(vfs->ops->pwritev(file, iov, 2, 0, &count));
    assert_in_range(count, 1, 2999);
    assert_ok(stele_file_writev(file, iov, 2, 0));
    assert_ok(vfs->ops->pread(file, got, sizeof(got), 0, &count));
    assert_in_range(count, 1, 2999);
    assert_ok(stele_file_read(file, got, sizeof(got), 0));
    assert_memory_equal(bytes, got, sizeof(got));
    assert_true(sim_disk_stats(disk)->short_reads > 1 && sim_disk_stats(disk)->short_writes > 1);
    sim_disk_heal(disk);
    int64_t before = sim_disk_stats(disk)->short_reads;
    assert_ok(vfs->ops->pread(file, got, sizeof(got), 0, &count));
    assert_int_equal(count, 3000);
    assert_int_equal(sim_disk_stats(disk)->short_reads, before);
    disk_close(file);
}

/* Errors at a rate strike reads, writes and syncs of both kinds, about as often as asked, and nothing else. */
static void test_errors_at_a_rate(void **state)
{
    (void)state;
    enum { CALLS = 2000 };
    struct sim_disk_rates rates = {.read_error = 100000, .write_error = 200000, .sync_error = 300000};
    int failed[4] = {0};
    char byte = 0;
    struct stele_file *file = disk_open("/f");
    disk_fill(file, 'x', 0, 1);
    sim_disk_set_rates(disk, &rates);
    for (int i = 0; i < CALLS; i++) {
        int64_t bytes = 0;
        failed[0] += stele_file_read(file, &byte, 1, 0) == STELE_IO;
        failed[1] += stele_file_write(file, &byte, 1, 0) == STELE_IO;
        failed[2] += vfs->ops->sync(file) == STELE_IO;
        failed[3] += vfs->ops->sync_dir(vfs, "/") == STELE_IO;
        assert_ok(vfs->ops->size(file, &bytes));
    }
    disk_close(file);
    assert_in_range(failed[0], CALLS / 20, CALLS / 5);
    assert_in_range(failed[1], CALLS / 10, CALLS / 3);
    assert_in_range(failed[2], CALLS / 5, CALLS / 2);
    assert_in_range(failed[3], CALLS / 5, CALLS / 2);
    assert_int_equal(sim_disk_stats(disk)->faults, failed[0] + failed[1] + failed[2] + failed[3]);
}

/* --- time --- */

static void add_time(void *arg, int64_t us)
{
    *(int64_t *)arg += us;
}

/* Calls take the time they are told to: each its own, one in some a stall, and a path that hangs; none fails by it. */
static void test_slow_and_hung_calls(void **state)
{
    (void)state;
    enum { CALLS = 1000 };
    int64_t spent = 0;
    char byte = 'x';
    struct sim_disk_hooks hooks = {.arg = &spent, .charge = add_time};
    sim_disk_set_hooks(disk, &hooks);
    struct stele_file *file = disk_open("/slow"), *other = disk_open("/other");
    assert_int_equal(spent, 0);
    sim_disk_set_rates(disk, &(struct sim_disk_rates){.call_us_min = 10, .call_us_max = 20});
    for (int i = 0; i < CALLS; i++)
        assert_ok(stele_file_write(file, &byte, 1, 0));
    assert_in_range(spent, CALLS * 11, CALLS * 19);
    spent = 0;
    sim_disk_set_rates(disk,
                       &(struct sim_disk_rates){.stall = 100000, .stall_us_min = 1000000, .stall_us_max = 5000000});
    for (int i = 0; i < CALLS; i++)
        assert_ok(stele_file_write(file, &byte, 1, 0));
    assert_in_range(spent, (int64_t)CALLS / 20 * 1000000, (int64_t)CALLS / 5 * 5000000);
    sim_disk_heal(disk);
    spent = 0;
    sim_disk_break(disk, "/slow", SIM_DISK_BIT(SIM_DISK_SYNC), STELE_OK, 30000000);
    assert_ok(vfs->ops->sync(other));
    assert_ok(stele_file_write(file, &byte, 1, 0));
    assert_int_equal(spent, 0);
    assert_ok(vfs->ops->sync(file));
    assert_int_equal(spent, 30000000);
    assert_true(sim_disk_is_durable(disk, "/slow", 0, 0) == false); /* its name was not synced */
    disk_sync_dir("/");
    assert_true(sim_disk_is_durable(disk, "/slow", 0, 1));
    disk_close(other);
    disk_close(file);
}

/* Times of change come from the owner's clock, and one that was not synced may be lost with the power. */
static int64_t clock_ms(void *arg)
{
    return *(int64_t *)arg;
}

static void test_mtime(void **state)
{
    (void)state;
    int kept = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        int64_t now_ms = 1000;
        struct stele_stat stat;
        disk_renew(seed);
        sim_disk_set_hooks(disk, &(struct sim_disk_hooks){.arg = &now_ms, .wall_ms = clock_ms});
        disk_make_durable("/f", 'o', 1);
        now_ms = 2000;
        struct stele_file *file = disk_open("/f");
        disk_fill(file, 'n', 0, 1);
        assert_ok(vfs->ops->stat(vfs, "/f", &stat));
        assert_int_equal(stat.mtime_ms, 2000);
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        disk_close(file);
        assert_ok(vfs->ops->stat(vfs, "/f", &stat));
        assert_true(stat.mtime_ms == 1000 || stat.mtime_ms == 2000);
        kept += stat.mtime_ms == 2000;
    }
    assert_in_range(kept, 5, 45);
}

/* --- the machine stops --- */

/* The call at which the machine stops fails and leaves no trace, and so do all after it, until the crash. */
static void test_stop_at_any_call(void **state)
{
    (void)state;
    for (int64_t at = 1; at <= SIM_DISK_OP_COUNT + 1; at++) {
        struct stele_file *file = NULL, *none = NULL;
        char bytes[PAGE];
        make_all((uint64_t)at);
        struct sim_disk *before = sim_disk_copy(disk);
        assert_ok(vfs->ops->open(vfs, "/dir/f", STELE_OPEN_WRITE, &file));
        sim_disk_arm(disk, 1, &(struct sim_disk_fault){.is_crash = true});
        memset(bytes, 'n', sizeof(bytes));
        assert_int_equal(stele_file_write(file, bytes, sizeof(bytes), 0), STELE_IO);
        assert_true(sim_disk_is_stopped(disk) && sim_disk_has_struck(disk));
        assert_int_equal(vfs->ops->truncate(file, 0), STELE_IO);
        assert_int_equal(vfs->ops->sync(file), STELE_IO);
        assert_int_equal(vfs->ops->unlink(vfs, "/dir/unlink"), STELE_IO);
        assert_int_equal(vfs->ops->rename(vfs, "/dir/f", "/dir/g"), STELE_IO);
        assert_int_equal(vfs->ops->mkdir(vfs, "/dir/sub"), STELE_IO);
        assert_int_equal(vfs->ops->open(vfs, "/dir/new", STELE_OPEN_WRITE | STELE_OPEN_CREATE, &none), STELE_IO);
        vfs->ops->sync_range(file, 0, PAGE);
        sim_disk_crash(disk, at % 2 == 0 ? SIM_DISK_KILL : SIM_DISK_ADVERSARIAL);
        disk_close(file);
        assert_false(sim_disk_is_stopped(disk));
        assert_int_equal(sim_disk_stats(disk)->pages_lost_by_sync, 0);
        assert_true(disk_has("/dir/f") && disk_has("/dir/unlink") && !disk_has("/dir/sub") && !disk_has("/dir/new"));
        /* A write may have gone out in part. */
        assert_true(disk_size_of("/dir/f") == 10 || sim_disk_used_bytes(disk) > sim_disk_used_bytes(before));
        sim_disk_free(before);
    }
}

/* --- damage at rest --- */

/* Rot damages one bit or up to a sector of a file of the pattern, live and on the platter alike, and nothing else;
 * every file and place gets its turn. */
static void test_rot(void **state)
{
    (void)state;
    int one_bit = 0, sector = 0, hit[3] = {0}, in_second_page = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char path[STELE_PATH_BYTES], page[PAGE];
        int64_t pos = -1, changed = 0, first = -1;
        disk_renew(seed);
        disk_make_durable("/a.log", 'a', 2 * PAGE);
        disk_make_durable("/b.log", 'a', 100);
        disk_make_durable("/c.index", 'a', 2 * PAGE);
        disk_close(disk_open("/empty.log"));
        assert_ok(sim_disk_rot(disk, "*.log", path, &pos));
        if (seed % 2 == 0)
            sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        static const char *const paths[] = {"/a.log", "/b.log", "/c.index"};
        for (int i = 0; i < 3; i++) {
            for (int64_t at = 0; at < disk_size_of(paths[i]); at += PAGE) {
                int64_t count = disk_content(paths[i], at, page);
                for (int64_t k = 0; k < count; k++) {
                    if (page[k] == 'a')
                        continue;
                    assert_string_equal(path, paths[i]);
                    first = first < 0 ? at + k : first;
                    assert_in_range(at + k, pos, pos + SECTOR - 1);
                    changed++;
                    hit[i] += changed == 1;
                }
            }
        }
        assert_int_equal(first, pos);
        assert_true(changed == 1 || (pos % SECTOR == 0 && changed == stele_min_i64(SECTOR, disk_size_of(path) - pos)));
        one_bit += changed == 1;
        sector += changed > 1;
        in_second_page += pos >= PAGE;
        assert_int_equal(sim_disk_stats(disk)->rotten, 1);
    }
    assert_true(one_bit > SEEDS / 4 && sector > SEEDS / 4 && in_second_page > SEEDS / 10);
    assert_true(hit[0] > SEEDS / 4 && hit[1] > SEEDS / 4 && hit[2] == 0);
}

/* There is no rot where there are no bytes, and a flip is exactly the one asked for. */
static void test_flip(void **state)
{
    (void)state;
    char path[STELE_PATH_BYTES], page[PAGE];
    int64_t pos = 0;
    assert_int_equal(sim_disk_rot(disk, "*", path, &pos), STELE_NOT_FOUND);
    disk_make_durable("/f", 'o', 100);
    assert_int_equal(sim_disk_rot(disk, "*.log", path, &pos), STELE_NOT_FOUND);
    assert_int_equal(sim_disk_flip(disk, "/g", 0, 1), STELE_NOT_FOUND);
    assert_int_equal(sim_disk_flip(disk, "/f", 100, 1), STELE_NOT_FOUND);
    assert_ok(sim_disk_flip(disk, "/f", 7, 0x81));
    assert_true(sim_disk_is_durable(disk, "/f", 0, 100));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(disk_content("/f", 0, page), 100);
        for (int i = 0; i < 100; i++)
            assert_int_equal((uint8_t)page[i], i == 7 ? 'o' ^ 0x81 : 'o');
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
    }
}

/* Sectors that cannot be read say so, at every try and after every crash, until they are written anew; the rest of the
 * file can be read. */
static void test_bad_sectors(void **state)
{
    (void)state;
    char bytes[PAGE];
    const uint8_t *map = NULL;
    disk_make_durable("/f", 'o', PAGE);
    assert_int_equal(sim_disk_spoil(disk, "/g", 0, 1), STELE_NOT_FOUND);
    assert_ok(sim_disk_spoil(disk, "/f", 700, 1100)); /* the second and third */
    for (int round = 0; round < 3; round++) {
        struct stele_file *file = disk_open("/f");
        assert_int_equal(stele_file_read(file, bytes, 1, 600), STELE_IO);
        assert_int_equal(stele_file_read(file, bytes, 1, 3 * SECTOR - 1), STELE_IO);
        assert_int_equal(stele_file_read(file, bytes, PAGE, 0), STELE_IO);
        assert_int_equal(vfs->ops->map(file, PAGE, &map), STELE_IO);
        assert_ok(stele_file_read(file, bytes, SECTOR, 0));
        assert_ok(stele_file_read(file, bytes, PAGE - 3 * SECTOR, 3 * SECTOR));
        assert_ok(vfs->ops->sync(file));
        disk_close(file);
        sim_disk_crash(disk, round == 0 ? SIM_DISK_KILL : SIM_DISK_ADVERSARIAL);
    }
    assert_int_equal(sim_disk_stats(disk)->bad_reads, 12);
    struct stele_file *file = disk_open("/f");
    disk_fill(file, 'n', SECTOR, 2 * SECTOR);
    assert_ok(stele_file_read(file, bytes, 2 * SECTOR, 0));
    assert_int_equal(stele_file_read(file, bytes, 1, 2 * SECTOR), STELE_IO);
    disk_fill(file, 'n', 2 * SECTOR, 3 * SECTOR);
    assert_ok(stele_file_read(file, bytes, PAGE, 0));
    assert_true(is_all(bytes + SECTOR, 2 * SECTOR, 'n') && is_all(bytes + 3 * SECTOR, PAGE - 3 * SECTOR, 'o'));
    disk_close(file);
}

/* A write that went astray: the wrong sector has the bytes, the right one never saw them. */
static void test_misplaced_write(void **state)
{
    (void)state;
    char bytes[PAGE];
    disk_make_durable("/f", 'o', PAGE);
    struct stele_file *file = disk_open("/f");
    disk_fill(file, 'n', 2 * SECTOR, 3 * SECTOR);
    assert_ok(vfs->ops->sync(file));
    disk_close(file);
    assert_int_equal(sim_disk_misplace(disk, "/f", 2, 8), STELE_NOT_FOUND);
    assert_int_equal(sim_disk_misplace(disk, "/g", 2, 3), STELE_NOT_FOUND);
    assert_ok(sim_disk_misplace(disk, "/f", 2, 5));
    sim_disk_crash(disk, SIM_DISK_ORDERED);
    assert_int_equal(disk_content("/f", 0, bytes), PAGE);
    for (int64_t i = 0; i < PAGE / SECTOR; i++)
        assert_true(is_all(bytes + i * SECTOR, SECTOR, i == 2 ? 0 : i == 5 ? 'n' : 'o'));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, disk_setup, disk_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_failed_sync_drops_pages),
        CASE(test_rates_of_syncs),
        CASE(test_write_back_is_a_hint),
        CASE(test_full_disk),
        CASE(test_full_disk_at_sync),
        CASE(test_broken_path),
        CASE(test_armed_fault),
        CASE(test_each_call_works_on_copies),
        CASE(test_failed_write_leaves_a_beginning),
        CASE(test_short_reads_and_writes),
        CASE(test_errors_at_a_rate),
        CASE(test_slow_and_hung_calls),
        CASE(test_mtime),
        CASE(test_stop_at_any_call),
        CASE(test_rot),
        CASE(test_flip),
        CASE(test_bad_sectors),
        CASE(test_misplaced_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
