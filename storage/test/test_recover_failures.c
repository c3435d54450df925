/* Opening a log with each call to the disk and to memory failing in turn, whatever recovery has to do. A failed open
 * leaves nothing in memory, says where it failed, and the next one makes of the files what an undisturbed one makes:
 * recovery may stop anywhere, once by a kill, once by a loss of power. */
#include "storage/test/log_world.h"

#include <string.h>

enum { FLUSHED = 15, END = 24, SEEDS = 4 };

/* What a start finds: `prepare` gets a log of [0, 24) in four segments that was closed cleanly, all files synced. */
struct scene {
    const char *name;
    void (*prepare)(struct log_world *w);
    int64_t start, end; /* what is to come of it */
    int damaged;
};

struct opening {
    struct log_world w;
    const char *scene, *fault;
    int64_t at;
    uint64_t seed; /* of what a loss of power takes */
};

#define CHECK(o, condition)                                                                                            \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("%s, %s at %lld (%s): %s", (o)->scene, (o)->fault, (long long)(o)->at,                            \
                     sim_disk_op_name(sim_disk_struck_op((o)->w.disk)), #condition);                                   \
    } while (0)

static void fill(struct log_world *w)
{
    world_open(w);
    world_append(w, 4, 0);
    world_append_txn(w, 7, 0);
    world_append_abort(w, 7);
    world_append(w, 5, 1);
    world_append_txn(w, 7, 1);
    world_append(w, FLUSHED - 12, 1);
    world_append_txn(w, 9, 0);
    world_append_abort(w, 7);
    world_append(w, END - FLUSHED - 2, 1);
    assert_int_equal(stele_log_end_offset(w->log), END);
    assert_int_equal(stele_log_segment_count(w->log), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(world_base(w, i), 7 * i);
}

/* A crash: what was flushed is FLUSHED, what is known to be committed `mark`. */
static void crash_at(struct log_world *w, int64_t point, int64_t mark)
{
    w->open.was_clean = false;
    w->open.recovery_point = point;
    w->open.high_watermark = mark;
}

static void empty(struct log_world *w)
{
    for (int i = 0; i < 4; i++) {
        world_delete(w, world_file(7 * i, ".log"));
    }
    world_delete(w, world_path("leader-epoch-checkpoint"));
    world_delete(w, world_path(STELE_HISTORY_FILE));
    w->open.recovery_point = w->open.log_start_offset = w->open.high_watermark = 0;
}

static void clean(struct log_world *w)
{
    (void)w;
}

static void crashed(struct log_world *w)
{
    crash_at(w, FLUSHED, END);
}

static void crashed_from_the_start(struct log_world *w)
{
    crash_at(w, 0, 0);
}

static void torn_tail(struct log_world *w)
{
    crash_at(w, FLUSHED, FLUSHED);
    world_resize(w, world_file(21, ".log"), world_size(w, world_file(21, ".log")) - 20);
}

static void torn_middle(struct log_world *w)
{
    crash_at(w, 5, 5);
    world_flip(w, world_file(7, ".log"), 300);
}

static void damaged_middle(struct log_world *w)
{
    crash_at(w, 0, END);
    world_flip(w, world_file(7, ".log"), 300);
}

static void damaged_end(struct log_world *w)
{
    crash_at(w, FLUSHED, END);
    world_flip(w, world_file(21, ".log"), 20);
}

static void lost_indexes(struct log_world *w)
{
    world_delete(w, world_file(0, ".index"));
    world_delete(w, world_file(7, ".timeindex"));
    world_flip(w, world_file(0, ".txnindex"), 0);
}

static void wrong_index_at_the_end(struct log_world *w)
{
    world_resize(w, world_file(21, ".index"), 0);
    world_flip(w, world_file(21, ".timeindex"), 5);
}

static void leftovers(struct log_world *w)
{
    crash_at(w, FLUSHED, END);
    world_write(w, world_file(77, ".log.deleted"), "x", 1, 0);
    world_write(w, world_file(77, ".index"), "x", 1, 0);
    world_write(w, world_file(0, ".log.cleaned"), "x", 1, 0);
    world_write(w, world_file(3, ".log.swap"), "x", 1, 0);
    world_write(w, world_file(99, ".snapshot"), "x", 1, 0);
    world_write(w, world_file(0, ".txnindex.deleted"), "x", 1, 0);
    world_delete(w, world_file(0, ".txnindex"));
}

static void complete_swap(struct log_world *w)
{
    crash_at(w, FLUSHED, END);
    world_copy(w, world_file(0, ".log"), world_file(0, ".log.swap"), 0);
    world_copy(w, world_file(7, ".log"), world_file(0, ".log.swap"), world_size(w, world_file(0, ".log")));
    world_copy(w, world_file(0, ".txnindex"), world_file(0, ".txnindex.swap"), 0);
    world_write(w, world_file(0, ".index.swap"), "", 0, 0);
    world_write(w, world_file(0, ".timeindex.swap"), "", 0, 0);
}

static void bad_state(struct log_world *w)
{
    world_flip(w, world_file(END, ".snapshot"), 4);
    world_flip(w, world_file(21, ".snapshot"), 4);
    world_resize(w, world_path("leader-epoch-checkpoint"), 3);
}

static void below_its_start(struct log_world *w)
{
    crash_at(w, 0, 40);
    w->open.log_start_offset = 40;
}

static void half_deleted(struct log_world *w)
{
    struct stele_history_event event = {
        .kind = STELE_HISTORY_DELETE, .offset = 0, .bytes = 1, .reason = STELE_REASON_RETENTION_SIZE};
    assert_ok(stele_history_append(&w->test.env, WORLD_DIR, &event));
    event.offset = 7;
    assert_ok(stele_history_append(&w->test.env, WORLD_DIR, &event));
    assert_ok(world_vfs(w)->ops->rename(world_vfs(w), world_file(7, ".log").text, world_file(7, ".log.deleted").text));
    crash_at(w, FLUSHED, END);
}

static const struct scene scenes[] = {
    {"an empty directory", empty, 0, 0, 0},
    {"a clean stop", clean, 0, END, 0},
    {"a crash", crashed, 0, END, 0},
    {"a crash before the first flush", crashed_from_the_start, 0, END, 0},
    {"a torn tail", torn_tail, 0, END - 1, 0},
    {"a torn middle", torn_middle, 0, 10, 0},
    {"damage in the middle", damaged_middle, 0, END, 1},
    {"damage at the end", damaged_end, 0, END, 1},
    {"lost indexes", lost_indexes, 0, END, 0},
    {"wrong indexes at the end", wrong_index_at_the_end, 0, END, 0},
    {"leftovers", leftovers, 0, END, 0},
    {"a complete swap", complete_swap, 0, END, 0},
    {"bad snapshots and epochs", bad_state, 0, END, 0},
    {"an end below the start", below_its_start, 40, 40, 0},
    {"a deletion from the front", half_deleted, 14, END, 0},
};

static void begin(struct opening *o, struct sim_disk *image, const struct stele_log_open *open)
{
    memset(o, 0, sizeof(*o));
    world_init(&o->w, sim_disk_copy(image));
    o->w.open = *open;
    o->w.open.env = &o->w.test.env;
}

/* As `done`, and a further start has nothing left to do. */
static void check_twice(struct opening *o, const struct world_standing *done, bool was_clean)
{
    struct world_standing now;
    for (int i = 0; i < 2; i++) {
        world_drop(&o->w);
        o->w.open.was_clean = was_clean && i == 0;
        world_open(&o->w);
        world_stand(&o->w, &now);
        CHECK(o, world_is_same(done, &now));
        world_leave(&o->w, &now);
        CHECK(o, world_has_only_known_names(&o->w));
    }
    CHECK(o, o->w.report.bytes_cut == 0 && o->w.report.segments_deleted == 0);
}

static bool run_round(struct sim_disk *image, const struct stele_log_open *open, const struct world_fault *fault,
                      struct opening *o, const struct world_standing *done)
{
    const char *scene = o->scene;
    uint64_t seed = o->seed;
    int64_t at = o->at;
    struct stele_log *log = NULL;
    begin(o, image, open);
    sim_disk_seed(o->w.disk, seed);
    o->scene = scene;
    o->at = at;
    o->seed = seed;
    o->fault = fault->name;
    o->w.report.segments_scanned = -77;
    world_arm(&o->w, fault, at);
    enum stele_err err = stele_log_open(&o->w.open, &log, &o->w.report, &o->w.error);
    world_disarm(&o->w);
    bool struck = world_has_struck(&o->w, fault);
    CHECK(o, err == STELE_OK || (struck && err == fault->err));
    if (err != STELE_OK) {
        CHECK(o, log == NULL && o->w.report.segments_scanned == -77);
        CHECK(o, strstr(o->w.error.text, WORLD_DIR) != NULL && o->w.error.err == err);
        CHECK(o, sim_disk_in_use(o->w.disk) == 0);
    }
    stele_log_free(log);
    sim_disk_crash(o->w.disk, fault->crash);
    /* The node took the marker away before the first attempt. */
    check_twice(o, done, false);
    world_deinit(&o->w);
    return struck;
}

static void run_scene(const struct scene *scene, int64_t inout_faults[2])
{
    struct opening o;
    struct world_standing done;
    world_init(&o.w, sim_disk_new(1));
    o.scene = scene->name;
    o.fault = "no fault";
    o.at = 0;
    assert_ok(world_vfs(&o.w)->ops->mkdir(world_vfs(&o.w), WORLD_DIR));
    fill(&o.w);
    world_stop(&o.w);
    scene->prepare(&o.w);
    world_sync(&o.w);
    struct sim_disk *image = sim_disk_copy(o.w.disk);
    struct stele_log_open open = o.w.open;
    world_open(&o.w);
    world_stand(&o.w, &done);
    CHECK(&o, done.start == scene->start && done.end == scene->end && done.damaged == scene->damaged);
    check_twice(&o, &done, open.was_clean);
    for (size_t k = 0; k < WORLD_FAULTS * SEEDS; k++) {
        const struct world_fault *fault = &world_faults[k % WORLD_FAULTS];
        struct opening round = {.scene = scene->name, .seed = k / WORLD_FAULTS};
        if (round.seed > 0 && fault->crash == SIM_DISK_KILL)
            continue; /* leaves nothing to chance */
        for (round.at = 1; run_round(image, &open, fault, &round, &done); round.at += stele_test_stride(1))
            inout_faults[fault->is_memory] += stele_test_stride(1);
    }
    sim_disk_free(image);
    world_leave(&o.w, &done);
    world_deinit(&o.w);
}

static void test_every_call_of_an_open_fails(void **state)
{
    (void)state;
    int64_t faults[2] = {0, 0};
    for (size_t i = 0; i < STELE_ARRAY_LEN(scenes); i++) {
        int64_t before[2] = {faults[0], faults[1]};
        run_scene(&scenes[i], faults);
        assert_true(faults[0] > before[0] + 20 && faults[1] > before[1] + 20);
    }
    print_message("%d failing calls, %d failing allocations\n", (int)faults[0], (int)faults[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_of_an_open_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
