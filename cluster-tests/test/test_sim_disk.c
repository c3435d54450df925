/* The simulated disk does what it says: what a crash may take and what it may not, and every audit, each with a case
 * that shows it and one that does not. What is drawn is asked of many seeds: each outcome happens, and no other. */
#include "cluster-tests/test/disk_support.h"

#include <string.h>

/* --- crashes --- */

/* A killed process loses its files and locks and no byte. */
static void test_kill_keeps_all(void **state)
{
    (void)state;
    struct stele_file *file = disk_open("/a"), *lock = NULL, *again = NULL;
    char got[3];
    assert_ok(stele_file_write(file, "abc", 3, 0));
    assert_ok(vfs->ops->lock(vfs, "/lock", &lock));
    assert_int_equal(vfs->ops->lock(vfs, "/lock", &again), STELE_LOCKED);
    sim_disk_crash(disk, SIM_DISK_KILL);
    assert_int_equal(stele_file_read(file, got, 3, 0), STELE_IO);
    vfs->ops->close(file);
    vfs->ops->close(lock);
    file = disk_open("a");
    assert_ok(stele_file_read(file, got, 3, 0));
    assert_memory_equal(got, "abc", 3);
    assert_false(sim_disk_is_durable(disk, "/a", 0, 3));
    vfs->ops->close(file);
    assert_ok(vfs->ops->lock(vfs, "/lock", &lock));
    vfs->ops->close(lock);
    assert_int_equal(sim_disk_stats(disk)->kills, 1);
    assert_int_equal(sim_disk_stats(disk)->crashes, 0);
}

enum { OLD_PAGES = 6, ALL_PAGES = 10 };

/* How pages came out of losses of power. */
struct fates {
    int old, new, torn_by_sector, torn_at_byte, zero, garbage;
    int reordered; /* a page was kept though an earlier one was not */
    int all_new, all_old;
    int shorter, unfilled;
};

/* What became of a page that held `old` durably and then `new` without a sync. */
static bool judge_page(const char *page, char old, char new, struct fates *fates)
{
    int changes = 0, changes_in_sector = 0;
    if (is_all(page, PAGE, new) || is_all(page, PAGE, old)) {
        fates->new += page[0] == new;
        fates->old += page[0] == old;
        return page[0] == new;
    }
    for (int i = 0; i < PAGE; i++) {
        assert_true(page[i] == old || page[i] == new);
        bool is_change = i > 0 && page[i] != page[i - 1];
        changes += is_change;
        changes_in_sector += is_change && i % SECTOR != 0;
    }
    assert_true(changes_in_sector == 0 || changes == 1); /* sectors, or one split anywhere */
    fates->torn_by_sector += changes > 1;
    fates->torn_at_byte += changes_in_sector;
    return true;
}

/* A page behind the durable end: new bytes, zeros, or with garbage anything. */
static void judge_fresh(const char *page, int64_t count, struct fates *fates)
{
    if (is_all(page, count, 'n'))
        fates->new ++;
    else if (is_all(page, count, 0))
        fates->zero++;
    else if (!is_all(page, count, page[0]) && memchr(page, 'n', (size_t)count) == NULL)
        fates->garbage++;
}

static void lose_pages(uint64_t seed, enum sim_disk_crash_mode mode, struct fates *fates)
{
    char page[PAGE];
    bool is_kept = true;
    int kept = 0;
    disk_renew(seed);
    disk_make_durable("/f", 'o', OLD_PAGES * PAGE);
    disk_make_durable("/safe", 's', 2 * PAGE + 100);
    struct stele_file *file = disk_open("/f");
    disk_fill(file, 'n', PAGE, ALL_PAGES * PAGE); /* the first page stays as it was synced */
    sim_disk_crash(disk, mode);
    disk_close(file);
    assert_int_equal(disk_content("/f", 0, page), PAGE);
    assert_true(is_all(page, PAGE, 'o'));
    for (int at = 1; at < OLD_PAGES; at++) {
        assert_int_equal(disk_content("/f", at * PAGE, page), PAGE);
        bool is_new = judge_page(page, 'o', 'n', fates);
        fates->reordered += is_new && !is_kept;
        is_kept = is_new;
        kept += is_new;
    }
    fates->all_new += kept == OLD_PAGES - 1;
    fates->all_old += kept == 0;
    int64_t size = disk_size_of("/f");
    assert_in_range(size, OLD_PAGES * PAGE, ALL_PAGES * PAGE);
    fates->shorter += size < ALL_PAGES * PAGE;
    for (int64_t pos = OLD_PAGES * PAGE; pos < size; pos += PAGE)
        judge_fresh(page, disk_content("/f", pos, page), fates);
    for (int at = 0; at < 3; at++) {
        int64_t count = disk_content("/safe", at * PAGE, page);
        assert_int_equal(count, at < 2 ? PAGE : 100);
        assert_true(is_all(page, count, 's'));
    }
    fates->unfilled += sim_disk_stats(disk)->sizes_unfilled > 0;
}

/* Of what was not synced each page is lost, kept or torn, by sectors or at any byte, in any order; sizes come without
 * data and data without sizes. What was synced is there. Garbage is for the adversarial disk alone. */
static void test_power_loss_takes_pages(void **state)
{
    (void)state;
    static const enum sim_disk_crash_mode modes[] = {SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL};
    for (size_t i = 0; i < STELE_ARRAY_LEN(modes); i++) {
        struct fates fates = {.old = 0};
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            lose_pages(seed, modes[i], &fates);
        assert_true(fates.old > SEEDS && fates.new > SEEDS);
        assert_true(fates.torn_by_sector > SEEDS / 20 && fates.torn_at_byte > SEEDS / 20);
        assert_true(fates.reordered > SEEDS / 10);
        assert_true(fates.all_new > SEEDS / 20 && fates.all_old > SEEDS / 20);
        assert_true(fates.zero > 0 && fates.shorter > SEEDS / 10 && fates.unfilled > SEEDS / 20);
        assert_true((fates.garbage > 0) == (modes[i] == SIM_DISK_ADVERSARIAL));
        assert_int_equal(sim_disk_stats(disk)->crashes, 1);
    }
}

/* The same seed loses the same, another seed something else. */
static void test_crash_follows_the_seed(void **state)
{
    (void)state;
    static char first[ALL_PAGES][PAGE], again[ALL_PAGES][PAGE];
    int different = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fates fates = {.old = 0};
        for (int round = 0; round < 3; round++) {
            lose_pages(seed + (round == 2), SIM_DISK_ADVERSARIAL, &fates);
            char(*into)[PAGE] = round == 0 ? first : again;
            memset(into, 0, sizeof(first));
            for (int at = 0; at < ALL_PAGES; at++)
                (void)disk_content("/f", at * PAGE, into[at]);
            if (round == 1)
                assert_memory_equal(first, again, sizeof(first));
        }
        different += memcmp(first, again, sizeof(first)) != 0;
    }
    assert_true(different > 10);
}

/* --- names --- */

struct name_case {
    const char *name;
    void (*change)(void);
    const char *path; /* there when the change is kept, or gone */
    bool is_there_when_kept;
};

static void create_new(void)
{
    disk_close(disk_open("/dir/new"));
}

static void unlink_old(void)
{
    assert_ok(vfs->ops->unlink(vfs, "/dir/old"));
}

static void rename_old(void)
{
    assert_ok(vfs->ops->rename(vfs, "/dir/old", "/dir/other"));
}

static void move_old(void)
{
    assert_ok(vfs->ops->rename(vfs, "/dir/old", "/there/old"));
}

static void make_dir(void)
{
    assert_ok(vfs->ops->mkdir(vfs, "/dir/sub"));
}

static void remove_dir(void)
{
    assert_ok(vfs->ops->rmdir(vfs, "/dir/empty"));
}

static const struct name_case name_cases[] = {
    {"create", create_new, "/dir/new", true},   {"unlink", unlink_old, "/dir/old", false},
    {"rename", rename_old, "/dir/other", true}, {"renamed away", rename_old, "/dir/old", false},
    {"move", move_old, "/there/old", true},     {"mkdir", make_dir, "/dir/sub", true},
    {"rmdir", remove_dir, "/dir/empty", false},
};

static void make_names(uint64_t seed)
{
    disk_renew(seed);
    assert_ok(vfs->ops->mkdir(vfs, "/dir"));
    assert_ok(vfs->ops->mkdir(vfs, "/there"));
    assert_ok(vfs->ops->mkdir(vfs, "/dir/empty"));
    disk_make_durable("/dir/old", 'o', 10);
    disk_sync_dir("/dir");
}

/* A change of names without a sync of its directory is lost or kept, with it kept; a kill loses none. */
static void test_power_loss_takes_names(void **state)
{
    const struct name_case *c = *state;
    static const enum sim_disk_crash_mode modes[] = {SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL};
    for (size_t i = 0; i < STELE_ARRAY_LEN(modes); i++) {
        int kept = 0;
        for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
            make_names(seed);
            c->change();
            sim_disk_crash(disk, modes[i]);
            kept += disk_has(c->path) == c->is_there_when_kept;
            make_names(seed);
            c->change();
            disk_sync_dir("/dir");
            disk_sync_dir("/there");
            sim_disk_crash(disk, modes[i]);
            assert_int_equal(disk_has(c->path), c->is_there_when_kept);
        }
        assert_in_range(kept, SEEDS / 40, SEEDS / 4 - SEEDS / 40);
    }
    make_names(1);
    c->change();
    sim_disk_crash(disk, SIM_DISK_KILL);
    assert_int_equal(disk_has(c->path), c->is_there_when_kept);
}

/* A rename lost or kept never leaves two names or none, and what it replaced comes back whole. */
static void test_rename_is_one_step(void **state)
{
    (void)state;
    char page[PAGE];
    int kept = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        disk_renew(seed);
        disk_make_durable("/to", 'o', 100);
        disk_make_durable("/from", 'n', 100);
        assert_ok(vfs->ops->rename(vfs, "/from", "/to"));
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        assert_int_equal(disk_content("/to", 0, page), 100);
        assert_true(is_all(page, 100, disk_has("/from") ? 'o' : 'n'));
        kept += !disk_has("/from");
    }
    assert_in_range(kept, SEEDS / 40, SEEDS / 4 - SEEDS / 40);
}

/* Creates four files; the bits of those that a crash left. `synced`: after the second one another file is synced. */
static unsigned names_left(uint64_t seed, enum sim_disk_crash_mode mode, bool is_synced)
{
    static const char *const paths[] = {"/a", "/b", "/c", "/d"};
    unsigned left = 0;
    disk_renew(seed);
    for (size_t i = 0; i < STELE_ARRAY_LEN(paths); i++) {
        struct stele_file *file = disk_open(paths[i]);
        if (is_synced && i == 1)
            assert_ok(vfs->ops->sync(file));
        disk_close(file);
    }
    sim_disk_crash(disk, mode);
    for (size_t i = 0; i < STELE_ARRAY_LEN(paths); i++)
        left |= disk_has(paths[i]) ? 1u << i : 0;
    return left;
}

/* The ordered file system loses the newest names first, and a sync of any file keeps all before it; the adversarial one
 * loses any. */
static void test_order_of_lost_names(void **state)
{
    (void)state;
    int any_order = 0;
    unsigned seen = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned left = names_left(seed, SIM_DISK_ORDERED, false);
        assert_int_equal(left & (left + 1), 0); /* 0, 1, 11, 111, 1111 */
        seen |= 1u << left;
        left = names_left(seed, SIM_DISK_ORDERED, true);
        assert_int_equal(left & 3, 3);
        left = names_left(seed, SIM_DISK_ADVERSARIAL, true);
        any_order += (left & (left + 1)) != 0;
    }
    assert_int_equal(seen, 1u << 0 | 1u << 1 | 1u << 3 | 1u << 7 | 1u << 15);
    assert_true(any_order > SEEDS / 10);
}

/* A truncation without a sync is lost, with all bytes, or kept; with a sync it is kept. Bytes written after it never
 * bring back those before. */
static void test_power_loss_takes_truncations(void **state)
{
    (void)state;
    static const enum sim_disk_crash_mode modes[] = {SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL};
    char page[PAGE];
    for (size_t i = 0; i < STELE_ARRAY_LEN(modes); i++) {
        int kept = 0;
        for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
            disk_renew(seed);
            disk_make_durable("/f", 'o', 3 * PAGE);
            struct stele_file *file = disk_open("/f");
            bool is_synced = seed % 4 == 0;
            assert_ok(vfs->ops->truncate(file, 1000));
            if (is_synced)
                assert_ok(vfs->ops->sync(file));
            sim_disk_crash(disk, modes[i]);
            disk_close(file);
            int64_t count = disk_content("/f", 0, page);
            bool is_kept = disk_size_of("/f") == 1000;
            assert_true(is_kept ? count == 1000 : !is_synced && disk_size_of("/f") == 3 * PAGE);
            assert_true(is_all(page, 1000, 'o'));
            for (int64_t k = 1000; k < count; k++)
                assert_true(page[k] == 'o' || page[k] == 0); /* the page's zeroed end may have gone out before */
            for (int64_t at = PAGE; at < disk_size_of("/f"); at += PAGE)
                assert_true(disk_content("/f", at, page) == PAGE && is_all(page, PAGE, 'o'));
            kept += is_kept && !is_synced;
        }
        assert_in_range(kept, SEEDS / 20, SEEDS / 2 - SEEDS / 20);
    }
    disk_make_durable("/g", 'o', 3 * PAGE);
    struct stele_file *file = disk_open("/g");
    assert_ok(vfs->ops->truncate(file, 10));
    assert_ok(vfs->ops->truncate(file, 2 * PAGE));
    disk_close(file);
    assert_int_equal(disk_content("/g", 0, page), PAGE);
    assert_true(is_all(page, 10, 'o') && is_all(page + 10, PAGE - 10, 0));
}

/* --- audits --- */

static int violations_told;

static void count_violation(void *arg, const char *text)
{
    (void)arg;
    assert_true(strlen(text) > 0);
    violations_told++;
}

static void audit(void)
{
    violations_told = 0;
    sim_disk_set_hooks(disk, &(struct sim_disk_hooks){.violation = count_violation});
}

static void assert_violations(int64_t renames, int64_t reads)
{
    const struct sim_disk_stats *stats = sim_disk_stats(disk);
    assert_int_equal(stats->renames_unsynced, renames);
    assert_int_equal(stats->reads_unwritten, reads);
    assert_int_equal(sim_disk_violations(disk), renames + reads);
    assert_int_equal(violations_told, renames + reads);
    assert_int_equal(sim_disk_violation_text(disk)[0] != 0, renames + reads > 0);
}

/* An acknowledged byte: durable only with its file and its name synced, and not any more once it changes, is cut, moved
 * or lost by a failed sync. */
static void test_audit_of_durability(void **state)
{
    (void)state;
    struct stele_file *file = disk_open("/f");
    disk_fill(file, 'o', 0, 2 * PAGE);
    assert_false(sim_disk_is_durable(disk, "/f", 0, 1));
    assert_ok(vfs->ops->sync(file));
    assert_false(sim_disk_is_durable(disk, "/f", 0, 1)); /* its name */
    disk_sync_dir("/");
    assert_true(sim_disk_is_durable(disk, "/f", 0, 2 * PAGE));
    assert_false(sim_disk_is_durable(disk, "/f", 0, 2 * PAGE + 1));
    assert_false(sim_disk_is_durable(disk, "/none", 0, 0));
    disk_fill(file, 'n', PAGE + 10, PAGE + 20);
    assert_true(sim_disk_is_durable(disk, "/f", 0, PAGE + 10));
    assert_true(sim_disk_is_durable(disk, "/f", PAGE + 20, 2 * PAGE));
    assert_false(sim_disk_is_durable(disk, "/f", 0, PAGE + 11));
    assert_ok(vfs->ops->sync(file));
    assert_ok(vfs->ops->truncate(file, PAGE));
    disk_fill(file, 'n', PAGE, PAGE + 5);
    assert_true(sim_disk_is_durable(disk, "/f", 0, PAGE));
    assert_false(sim_disk_is_durable(disk, "/f", PAGE, PAGE + 1));
    assert_ok(vfs->ops->sync(file));
    assert_true(sim_disk_is_durable(disk, "/f", 0, PAGE + 5));
    assert_ok(vfs->ops->rename(vfs, "/f", "/g"));
    assert_false(sim_disk_is_durable(disk, "/g", 0, 1));
    disk_sync_dir("/");
    assert_true(sim_disk_is_durable(disk, "/g", 0, 1));
    assert_ok(vfs->ops->mkdir(vfs, "/dir"));
    assert_false(sim_disk_is_durable(disk, "/dir", 0, 0));
    disk_close(file);
}

/* What the audit calls durable survives any crash, over many histories. */
static void test_what_is_durable_survives(void **state)
{
    (void)state;
    int durable = 0, not = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct stele_prng prng;
        char before[PAGE], after[PAGE];
        stele_prng_init(&prng, seed, 77);
        disk_renew(seed);
        struct stele_file *file = disk_open("/f");
        for (int step = 0; step < 12; step++) {
            int64_t pos = stele_prng_range(&prng, 0, 3 * PAGE);
            switch (stele_prng_below(&prng, 6)) {
            case 0:
                assert_ok(vfs->ops->sync(file));
                break;
            case 1:
                disk_sync_dir("/");
                break;
            case 2:
                assert_ok(vfs->ops->truncate(file, pos));
                break;
            case 3:
                disk_close(disk_fail_sync("/f", false));
                break;
            default:
                disk_fill(file, (char)('a' + step), pos, pos + stele_prng_range(&prng, 1, PAGE));
                break;
            }
        }
        int64_t count = disk_content("/f", 0, before);
        bool is_durable = count > 0 && sim_disk_is_durable(disk, "/f", 0, count);
        sim_disk_crash(disk, seed % 2 == 0 ? SIM_DISK_ORDERED : SIM_DISK_ADVERSARIAL);
        disk_close(file);
        if (is_durable) {
            assert_true(disk_content("/f", 0, after) >= count);
            assert_memory_equal(before, after, (size_t)count);
        }
        durable += is_durable;
        not += !is_durable;
    }
    assert_true(durable > SEEDS / 20 && not > SEEDS / 20);
}

/* A rename of a file that was written, cut, or whose sync failed, is told of; of a synced one and of an allowed path
 * not.
 */
static void test_audit_of_renames(void **state)
{
    (void)state;
    audit();
    sim_disk_allow_unsynced_rename(disk, "*.deleted");
    disk_make_durable("/f", 'o', 2 * PAGE);
    assert_ok(vfs->ops->mkdir(vfs, "/dir"));
    assert_ok(vfs->ops->rename(vfs, "/f", "/g"));
    assert_ok(vfs->ops->rename(vfs, "/dir", "/dir2"));
    assert_violations(0, 0);
    struct stele_file *file = disk_open("/g");
    disk_fill(file, 'n', 0, 1);
    assert_ok(vfs->ops->rename(vfs, "/g", "/g.deleted"));
    assert_violations(0, 0);
    assert_ok(vfs->ops->rename(vfs, "/g.deleted", "/g"));
    assert_violations(1, 0);
    assert_ok(vfs->ops->sync(file));
    assert_ok(vfs->ops->rename(vfs, "/g", "/h"));
    assert_violations(1, 0);
    assert_ok(vfs->ops->truncate(file, 10));
    assert_ok(vfs->ops->rename(vfs, "/h", "/i"));
    assert_violations(2, 0);
    disk_close(file);
    disk_close(disk_fail_sync("/i", false));
    file = disk_open("/i");
    assert_ok(vfs->ops->sync(file)); /* OK, but the pages are not there */
    assert_true(sim_disk_stats(disk)->pages_lost_by_sync > 0);
    assert_ok(vfs->ops->rename(vfs, "/i", "/j"));
    assert_violations(3, 0);
    disk_close(file);
}

/* A read of bytes that a growth left, and nobody wrote, is told of; of written ones, of an allowed path, and of what a
 * crash left it is not. */
static void test_audit_of_reads(void **state)
{
    (void)state;
    char page[PAGE];
    audit();
    sim_disk_allow_unwritten_read(disk, "*.log");
    struct stele_file *file = disk_open("/f"), *log = disk_open("/a.log");
    assert_ok(vfs->ops->allocate(log, 1000));
    assert_int_equal(disk_content("/a.log", 0, page), 1000);
    disk_fill(file, 'x', 0, 100);
    assert_ok(vfs->ops->truncate(file, 200));
    disk_fill(file, 'x', 300, 400); /* [100, 300) was never written */
    assert_ok(stele_file_read(file, page, 100, 0));
    assert_ok(stele_file_read(file, page, 100, 300));
    assert_violations(0, 0);
    assert_ok(stele_file_read(file, page, 101, 0));
    assert_violations(0, 1);
    assert_ok(stele_file_read(file, page, 1, 299));
    assert_violations(0, 2);
    disk_fill(file, 'y', 150, 250);
    assert_ok(stele_file_read(file, page, 100, 150));
    assert_violations(0, 2);
    assert_ok(stele_file_read(file, page, 2, 149));
    assert_ok(stele_file_read(file, page, 2, 249));
    assert_violations(0, 4);
    disk_fill(file, 'y', 100, 300);
    assert_ok(stele_file_read(file, page, 400, 0));
    assert_violations(0, 4);
    assert_ok(vfs->ops->truncate(file, 500));
    assert_ok(vfs->ops->truncate(file, 50));
    assert_int_equal(disk_content("/f", 0, page), 50);
    assert_violations(0, 4);
    assert_ok(vfs->ops->truncate(file, 60));
    disk_close(file);
    disk_close(log);
    sim_disk_crash(disk, SIM_DISK_KILL);
    assert_int_equal(disk_content("/f", 0, page), 60);
    assert_violations(0, 4);
}

/* --- copies --- */

/* A copy has the same content, durable and not, faults and random state, and goes its own way. */
static void test_copy(void **state)
{
    (void)state;
    char page[PAGE], other[PAGE];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        disk_renew(seed);
        disk_make_durable("/f", 'o', 2 * PAGE);
        struct stele_file *file = disk_open("/f");
        disk_fill(file, 'n', 0, 2 * PAGE);
        sim_disk_break(disk, "/broken", 0, STELE_IO, 0);
        struct sim_disk *copy = sim_disk_copy(disk), *own = disk;
        assert_int_equal(sim_disk_in_use(copy), 0);
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        disk_close(file);
        assert_int_equal(disk_content("/f", PAGE, page), PAGE);
        disk = copy;
        vfs = sim_disk_vfs(copy);
        assert_int_equal(disk_content("/f", PAGE, other), PAGE);
        assert_true(is_all(other, PAGE, 'n'));
        assert_int_equal(vfs->ops->open(vfs, "/broken", STELE_OPEN_READ, &file), STELE_IO);
        sim_disk_crash(copy, SIM_DISK_ADVERSARIAL);
        assert_int_equal(disk_content("/f", PAGE, other), PAGE);
        assert_memory_equal(page, other, PAGE);
        assert_ok(vfs->ops->unlink(vfs, "/f"));
        disk = own;
        vfs = sim_disk_vfs(own);
        assert_true(disk_has("/f"));
        sim_disk_free(copy);
    }
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, disk_setup, disk_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_kill_keeps_all),
        CASE(test_power_loss_takes_pages),
        CASE(test_crash_follows_the_seed),
        CASE(test_rename_is_one_step),
        CASE(test_order_of_lost_names),
        CASE(test_power_loss_takes_truncations),
        CASE(test_audit_of_durability),
        CASE(test_what_is_durable_survives),
        CASE(test_audit_of_renames),
        CASE(test_audit_of_reads),
        CASE(test_copy),
    };
    struct CMUnitTest names[STELE_ARRAY_LEN(name_cases)];
    for (size_t i = 0; i < STELE_ARRAY_LEN(name_cases); i++)
        names[i] = (struct CMUnitTest){.name = name_cases[i].name,
                                       .test_func = test_power_loss_takes_names,
                                       .setup_func = disk_setup,
                                       .teardown_func = disk_teardown,
                                       .initial_state = (void *)(uintptr_t)&name_cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL) + cmocka_run_group_tests(names, NULL, NULL);
}
