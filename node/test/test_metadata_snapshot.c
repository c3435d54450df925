/* Snapshots of the metadata: what they hold, what is made of damaged ones, and that the log becomes short. */
#include "node/metadata_log.h"
#include "node/test/topic_life.h"

#include <stdio.h>
#include <string.h>

#define DIR "m"

struct fixture {
    struct stele_test_env env;
    struct sim_disk *disk;
    struct stele_image image;
};

static void apply(struct stele_image *image, const struct stele_metadata_record *record, int64_t time_ms)
{
    assert_ok(stele_image_apply(image, record, time_ms));
}

/* What a cluster adds: members, one of them changed and one removed again, voters, a level, lost ranges. */
static void fill_cluster(struct stele_image *image)
{
    static const struct stele_listener_address listeners[] = {{"CLIENT", "a", 1}, {"PEER", "::1", 2}};
    static const struct stele_node_directory_id directories[] = {{{{1}}, 0}, {{{2}}, 0}};
    static const struct stele_voter voters[] = {{1, {{1}}, "a", 2}, {3, {{3}}, "c", 4}};
    struct stele_metadata_record record;
    for (int32_t id = 3; id >= 0; id--) {
        record = (struct stele_metadata_record){.kind = STELE_METADATA_NODE,
                                                .u.node = {.node_id = id,
                                                           .incarnation_id = {{9}},
                                                           .node_epoch = 40 + id,
                                                           .boot_id = {{8}},
                                                           .rack = "r",
                                                           .listeners = listeners,
                                                           .listener_count = 2,
                                                           .directories = directories,
                                                           .directory_count = 2,
                                                           .offline_directories = directories + 1,
                                                           .offline_directory_count = id == 2,
                                                           .level_min = 1,
                                                           .level_max = 2,
                                                           .is_fenced = true,
                                                           .software_version = "0",
                                                           .served_epoch = 30 + id}};
        apply(image, &record, 810);
    }
    record.u.node.node_epoch = 50;
    record.u.node.is_fenced = false;
    record.u.node.is_shutting_down = true;
    apply(image, &record, 820);
    record = (struct stele_metadata_record){.kind = STELE_METADATA_NODE_REMOVED, .u.node_removed = {.node_id = 2}};
    apply(image, &record, 830);
    record = (struct stele_metadata_record){.kind = STELE_METADATA_LEADER_CHANGE, .u.leader_change = {.leader_id = 1}};
    apply(image, &record, 840);
    record =
        (struct stele_metadata_record){.kind = STELE_METADATA_VOTERS, .u.voters = {.voters = voters, .voter_count = 2}};
    apply(image, &record, 850);
    record.u.voters.voter_count = 1;
    apply(image, &record, 860);
    record = (struct stele_metadata_record){.kind = STELE_METADATA_LEVEL_CHANGE, .u.level = {.level = 2}};
    apply(image, &record, 870);
    record = (struct stele_metadata_record){
        .kind = STELE_METADATA_LOST_RANGE,
        .u.lost_range = {.topic_id = {{7}}, .partition = 1, .leader_epoch = 4, .first_offset = 10, .end_offset = 20}};
    apply(image, &record, 880);
}

/* An image with some of everything. `topics` of it. */
static void fill(struct stele_image *image, uint8_t topics)
{
    static const int32_t ids[] = {1, 2, 3};
    struct stele_metadata_record record = {.kind = STELE_METADATA_FORMAT,
                                           .u.format = {.format = "stele", .level = 1, .cluster_id = "c"}};
    apply(image, &record, 1);
    for (uint8_t i = 1; i <= topics; i++) {
        char name[8] = "t";
        struct stele_uuid id = {.bytes = {[3] = i}};
        (void)snprintf(name, sizeof(name), "t%d", i);
        record =
            (struct stele_metadata_record){.kind = STELE_METADATA_TOPIC, .u.topic = {.name = name, .topic_id = id}};
        apply(image, &record, 2);
        for (int32_t p = 0; p < 3; p++) {
            record = (struct stele_metadata_record){.kind = STELE_METADATA_PARTITION,
                                                    .u.partition = {.topic_id = id,
                                                                    .partition = p,
                                                                    .leader_id = 1 + p,
                                                                    .leader_epoch = i,
                                                                    .partition_epoch = 9,
                                                                    .replicas = ids,
                                                                    .replica_count = 3,
                                                                    .isr = ids,
                                                                    .isr_count = (size_t)p,
                                                                    .elr = ids + 2,
                                                                    .elr_count = p < 2,
                                                                    .last_known_elr = ids + 1,
                                                                    .last_known_elr_count = 1,
                                                                    .adding = ids + 2,
                                                                    .adding_count = 1,
                                                                    .removing = ids,
                                                                    .removing_count = 1,
                                                                    .offline = ids,
                                                                    .offline_count = 1,
                                                                    .is_recovering = p == 1,
                                                                    .is_unsynced = p == 2}};
            apply(image, &record, 2);
        }
        record = (struct stele_metadata_record){
            .kind = STELE_METADATA_SETTING,
            .u.setting = {.scope = STELE_SUBJECT_TOPIC, .subject = name, .name = "retention.ms", .value = "5"}};
        apply(image, &record, 100 + i);
        record.u.setting.value = i % 2 == 0 ? NULL : "6";
        apply(image, &record, 300 + i);
        record.u.setting.scope = i % 2 == 0 ? STELE_SUBJECT_CLUSTER : STELE_SUBJECT_NODE;
        record.u.setting.subject = i % 2 == 0 ? "" : "1";
        record.u.setting.value = name;
        apply(image, &record, 600 + i);
        if (i % 3 == 0) {
            record = (struct stele_metadata_record){.kind = STELE_METADATA_TOPIC_REMOVED,
                                                    .u.topic_removed = {.topic_id = id, .name = name}};
            apply(image, &record, 700);
        }
    }
    record = (struct stele_metadata_record){.kind = STELE_METADATA_PRODUCER_IDS,
                                            .u.producer_ids = {.next_producer_id = 7000}};
    apply(image, &record, 800);
    fill_cluster(image);
}

static const struct stele_metadata_point at_20 = {.end_offset = 20, .epoch = 1};

static int set_up(void **state)
{
    static struct fixture f;
    f.disk = sim_disk_new(1);
    stele_test_env_init(&f.env, sim_disk_vfs(f.disk));
    assert_ok(sim_disk_vfs(f.disk)->ops->mkdir(sim_disk_vfs(f.disk), DIR));
    assert_ok(sim_disk_vfs(f.disk)->ops->sync_dir(sim_disk_vfs(f.disk), "."));
    stele_image_init(&f.image, &f.env.mem.mem);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    stele_image_deinit(&f->image);
    assert_int_equal(sim_disk_in_use(f->disk), 0);
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->env.mem);
    return 0;
}

/* The same image makes the same bytes. */
static void assert_same(struct fixture *f, const struct stele_image *a, const struct stele_image *b)
{
    const struct stele_metadata_point at = {.end_offset = 1, .epoch = 1};
    struct stele_metadata_snapshot left, right;
    assert_ok(stele_metadata_snapshot_make(&f->env.env, a, &at, &left));
    assert_ok(stele_metadata_snapshot_make(&f->env.env, b, &at, &right));
    assert_int_equal(left.count, right.count);
    for (int i = 0; i < left.count; i++) {
        assert_int_equal(left.batches[i]->count, right.batches[i]->count);
        assert_memory_equal(left.batches[i]->bytes, right.batches[i]->bytes, left.batches[i]->count);
    }
    stele_metadata_snapshot_free(&left);
    stele_metadata_snapshot_free(&right);
}

static void write_at(struct fixture *f, int64_t end_offset, int64_t keep_offset)
{
    const struct stele_metadata_point at = {.end_offset = end_offset, .epoch = 1};
    struct stele_metadata_snapshot snapshot;
    assert_ok(stele_metadata_snapshot_make(&f->env.env, &f->image, &at, &snapshot));
    assert_ok(stele_metadata_snapshot_write(&snapshot, f->env.env.vfs, DIR, keep_offset));
    stele_metadata_snapshot_free(&snapshot);
}

/* An empty log that begins at `start`. */
static struct stele_log *open_log(struct fixture *f, int64_t start)
{
    struct stele_log_open open = {.env = &f->env.env, .dir = DIR, .name = DIR, .was_clean = true};
    struct stele_recovery_report report;
    struct stele_log *log = NULL;
    open.log_start_offset = start;
    open.recovery_point = start;
    open.high_watermark = start;
    stele_metadata_log_config(&open.config);
    assert_ok(stele_log_open(&open, &log, &report, NULL));
    return log;
}

static enum stele_err load(struct fixture *f, int64_t start, struct stele_image *image, int64_t *out_end,
                           struct stele_error *error)
{
    struct stele_log *log = open_log(f, start);
    struct stele_metadata_point at = {.end_offset = *out_end};
    error->text[0] = 0;
    enum stele_err err = stele_metadata_snapshot_load(&f->env.env, log, image, &at, error);
    stele_log_free(log);
    *out_end = at.end_offset;
    return err;
}

/* An image comes back from its snapshot whole, history and times included, also one of many batches. */
static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct stele_image image;
    struct stele_error error;
    int64_t end = -1;
    fill(&f->image, 200);
    for (int i = 0; i < 40; i++) { /* values that need batches of their own */
        static char value[60000];
        memset(value, 'x', sizeof(value) - 1);
        struct stele_metadata_record record = {
            .kind = STELE_METADATA_SETTING,
            .u.setting = {.scope = STELE_SUBJECT_CLUSTER, .subject = "", .name = "n", .value = value}};
        apply(&f->image, &record, 1000 + i);
    }
    write_at(f, 77, 0);
    stele_image_init(&image, &f->env.mem.mem);
    assert_ok(load(f, 50, &image, &end, &error));
    assert_int_equal(end, 77);
    assert_same(f, &f->image, &image);
    assert_int_equal(image.past_count, f->image.past_count);
    assert_int_equal(stele_image_topic_count(&image), stele_image_topic_count(&f->image));
    assert_int_equal(image.next_producer_id, 7000);
    assert_true(stele_image_topic_named(&image, "t1")->partitions[2].state.is_unsynced);
    assert_false(stele_image_topic_named(&image, "t1")->partitions[1].state.is_unsynced);
    assert_int_equal(stele_image_member_of(&image, 3)->served_epoch, 33);
    stele_image_deinit(&image);
}

/* An image takes the place of another, whatever either was, and goes on from there; the one that it was is empty. */
static void test_replace(void **state)
{
    struct fixture *f = *state;
    for (uint8_t before = 0; before < 6; before++) {
        struct stele_image image, from;
        stele_image_init(&image, &f->env.mem.mem);
        stele_image_init(&from, &f->env.mem.mem);
        fill(&image, before);
        stele_image_touch_all(&image);
        if (before != 1)
            fill(&from, (uint8_t)(5 - before));
        stele_image_replace(&image, &from);
        assert_null(from.by_name);
        fill(&from, 5);
        if (before == 1)
            fill(&image, 5);
        for (uint8_t i = 0; i < 2; i++) { /* what was left of the lists is linked */
            struct stele_metadata_record record = {
                .kind = STELE_METADATA_SETTING,
                .u.setting = {
                    .scope = STELE_SUBJECT_CLUSTER, .subject = "", .name = "n", .value = i == 0 ? "1" : NULL}};
            apply(&image, &record, 2000 + i);
            apply(&from, &record, 2000 + i);
        }
        if (before < 2)
            assert_same(f, &image, &from);
        stele_image_deinit(&image);
        stele_image_deinit(&from);
    }
}

/* Of damaged bytes anywhere, or of a file that was cut anywhere, the older snapshot takes the place where the log
 * reaches it; where it does not the start is refused, and says which file is to be restored. */
static void test_damage(void **state)
{
    struct fixture *f = *state;
    struct stele_image image;
    struct stele_error error;
    struct stele_stat stat;
    static const char newest[] = DIR "/00000000000000000020-0000000001.checkpoint";
    struct stele_vfs *vfs = f->env.env.vfs;
    fill(&f->image, 4);
    write_at(f, 10, 0);
    write_at(f, 20, 10);
    assert_ok(vfs->ops->stat(vfs, newest, &stat));
    for (int64_t pos = 0; pos < stat.bytes; pos++) {
        for (int is_cut = 0; is_cut < 2; is_cut++) {
            struct sim_disk *disk = f->disk;
            struct stele_file *file = NULL;
            int64_t end = -1;
            f->disk = sim_disk_copy(disk);
            f->env.env.vfs = sim_disk_vfs(f->disk);
            vfs = f->env.env.vfs;
            if (is_cut) {
                assert_ok(vfs->ops->open(vfs, newest, STELE_OPEN_WRITE, &file));
                assert_ok(vfs->ops->truncate(file, pos));
                vfs->ops->close(file);
            } else {
                assert_ok(sim_disk_flip(f->disk, newest, pos, (uint8_t)(1 << (pos % 8))));
            }
            stele_image_init(&image, &f->env.mem.mem);
            enum stele_err err = load(f, 10, &image, &end, &error);
            assert_int_equal(err, STELE_OK);
            bool is_unseen = end == 20; /* base offset and epoch of a batch are outside its checksum */
            assert_true(is_unseen ? !is_cut : end == 10);
            if (!is_unseen) {
                assert_same(f, &f->image, &image);
                stele_image_deinit(&image);
                stele_image_init(&image, &f->env.mem.mem);
                sim_disk_crash(f->disk, SIM_DISK_KILL);
                assert_ok(vfs->ops->unlink(vfs, DIR "/00000000000000000010.log"));
                assert_int_equal(load(f, 15, &image, &end, &error), STELE_CORRUPT);
                assert_non_null(strstr(error.text, "00000000000000000020-0000000001.checkpoint"));
            }
            stele_image_deinit(&image);
            sim_disk_free(f->disk);
            f->disk = disk;
            f->env.env.vfs = vfs = sim_disk_vfs(disk);
        }
    }
}

/* Whatever call fails, or ends the machine, the older snapshot is there, or the new one; a part is no snapshot. */
static void test_every_call(void **state)
{
    struct fixture *f = *state;
    struct stele_metadata_snapshot snapshot;
    struct stele_error error;
    struct stele_stat stat;
    static const char part[] = DIR "/00000000000000000020-0000000001.checkpoint.part";
    fill(&f->image, 4);
    write_at(f, 10, 0);
    assert_ok(stele_metadata_snapshot_make(&f->env.env, &f->image, &at_20, &snapshot));
    for (int mode = 0; mode < 4; mode++) {
        bool has_struck = true;
        int64_t at = 1;
        for (; has_struck; at++) {
            struct sim_disk *disk = f->disk;
            struct stele_image image;
            int64_t end = -1;
            f->disk = sim_disk_copy(disk);
            f->env.env.vfs = sim_disk_vfs(f->disk);
            sim_disk_arm(f->disk, at, &(struct sim_disk_fault){.err = STELE_IO, .is_crash = mode > 0});
            enum stele_err err = stele_metadata_snapshot_write(&snapshot, f->env.env.vfs, DIR, 10);
            has_struck = sim_disk_has_struck(f->disk);
            assert_true(has_struck || err == STELE_OK);
            if (mode > 0)
                sim_disk_crash(f->disk, (enum sim_disk_crash_mode)(mode - 1));
            sim_disk_heal(f->disk);
            stele_image_init(&image, &f->env.mem.mem);
            assert_ok(load(f, 10, &image, &end, &error));
            assert_true(end == 20 || (end == 10 && err != STELE_OK));
            assert_same(f, &f->image, &image);
            assert_int_equal(f->env.env.vfs->ops->stat(f->env.env.vfs, part, &stat), STELE_NOT_FOUND);
            stele_image_deinit(&image);
            sim_disk_free(f->disk);
            f->disk = disk;
            f->env.env.vfs = sim_disk_vfs(disk);
        }
        assert_true(at > 5);
    }
    stele_metadata_snapshot_free(&snapshot);
}

/* Whichever allocation fails, making and loading say so. */
static void test_memory(void **state)
{
    struct fixture *f = *state;
    struct stele_metadata_snapshot snapshot;
    struct stele_error error;
    struct stele_image image;
    struct stele_metadata_point end;
    int64_t at = 1;
    fill(&f->image, 4);
    enum stele_err err = STELE_NO_MEMORY;
    for (; err == STELE_NO_MEMORY; at++) {
        stele_test_mem_fail(&f->env.mem, at, false);
        err = stele_metadata_snapshot_make(&f->env.env, &f->image, &at_20, &snapshot);
    }
    assert_ok(err);
    assert_true(at > 3);
    stele_test_mem_fail(&f->env.mem, 0, false);
    assert_ok(stele_metadata_snapshot_write(&snapshot, f->env.env.vfs, DIR, 0));
    stele_metadata_snapshot_free(&snapshot);
    struct stele_log *log = open_log(f, 10);
    err = STELE_NO_MEMORY;
    for (at = 1; err == STELE_NO_MEMORY; at++) {
        stele_image_init(&image, &f->env.mem.mem);
        stele_test_mem_fail(&f->env.mem, at, false);
        err = stele_metadata_snapshot_load(&f->env.env, log, &image, &end, &error);
        stele_test_mem_fail(&f->env.mem, 0, false);
        if (err == STELE_OK)
            assert_same(f, &f->image, &image);
        stele_image_deinit(&image);
    }
    stele_log_free(log);
    assert_ok(err);
    assert_true(at > 20);
}

/* An install that a loss of power cut in the middle: the new segment is there, and some of the old ones. The log begins
 * at the snapshot. */
static void test_cut_install(void **state)
{
    struct fixture *f = *state;
    struct stele_vfs *vfs = f->env.env.vfs;
    static const char *const segments[] = {DIR "/00000000000000000005.log", DIR "/00000000000000000020.log"};
    struct stele_metadata_begin begin = {.history_count = 1, .history[0] = {.offset = -1, .voters.count = 3}};
    struct stele_log_open open = {
        .env = &f->env.env, .dir = DIR, .name = DIR, .recovery_point = 12, .log_start_offset = 5, .high_watermark = 12};
    struct stele_recovery_report report;
    struct stele_error error;
    struct stele_log *log = NULL;
    struct stele_image image;
    fill(&f->image, 2);
    write_at(f, 20, 0);
    for (size_t i = 0; i < STELE_ARRAY_LEN(segments); i++) {
        struct stele_file *file = NULL;
        assert_ok(vfs->ops->open(vfs, segments[i], STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
        vfs->ops->close(file);
    }
    stele_metadata_log_config(&open.config);
    assert_ok(stele_log_open(&open, &log, &report, &error));
    assert_int_equal(stele_log_end_offset(log), 20);
    assert_int_equal(stele_log_damaged_count(log), 1);
    stele_image_init(&image, &f->env.mem.mem);
    stele_metadata_tail_init(&begin.tail, &f->env.mem.mem);
    assert_ok(stele_metadata_log_replay(log, &f->env.env, &image, 2, &begin, &error));
    assert_int_equal(stele_log_start_offset(log), 20);
    assert_int_equal(stele_log_damaged_count(log), 0);
    assert_same(f, &f->image, &image);
    stele_metadata_tail_deinit(&begin.tail);
    stele_image_deinit(&image);
    stele_log_free(log);
}

struct counting {
    int snapshots, segments, others;
};

static enum stele_err count_file(void *arg, const char *name)
{
    struct counting *counting = arg;
    size_t bytes = strlen(name);
    counting->snapshots += strstr(name, ".checkpoint") != NULL && name[0] == '0';
    counting->segments += bytes > 4 && strcmp(name + bytes - 4, ".log") == 0;
    counting->others += strstr(name, ".deleted") != NULL || strstr(name, ".part") != NULL;
    return STELE_OK;
}

static struct counting count_files(struct node_world *world)
{
    struct counting counting = {0};
    struct stele_vfs *vfs = sim_disk_vfs(world->disk);
    assert_ok(vfs->ops->list(vfs, "a/__cluster_metadata-0", count_file, &counting));
    return counting;
}

/* A node that lives long keeps two snapshots and the log from the older one on, whether it is stopped, killed or loses
 * its power; with its newest snapshot damaged it starts all the same, without the log that it needs then it does not.
 */
static void test_node(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct topic_life life;
        char path[STELE_PATH_BYTES];
        int64_t pos;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        topic_life_init(&life, world);
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_set(world, "metadata.log.max.record.bytes.between.snapshots", "800");
        for (int round = 0; round < 4; round++) {
            life.is_broken = false;
            assert_true(topic_life_start(&life));
            for (int i = 0; i < 6; i++) {
                struct topic_book *t = topic_life_create(&life, "t", 5);
                topic_life_produce(&life, t, i % 5);
                topic_life_producer_id(&life);
                if (round * 6 + i < 23)
                    topic_life_delete(&life, t, i % 2 == 0);
            }
            node_world_pass(world, 100);
            struct counting counting = count_files(world);
            assert_int_equal(counting.snapshots, round == 0 ? counting.snapshots : 2);
            assert_in_range(counting.segments, 1, 3);
            assert_int_equal(counting.others, 0);
            if ((seed + (uint64_t)round) % 4 == 3)
                assert_int_equal(node_world_stop(world), STELE_OK);
            else
                node_world_crash(world, (enum sim_disk_crash_mode)((seed + (uint64_t)round) % 3));
            if (seed % 3 == 0 && round == 2) {
                struct counting kept = count_files(world);
                assert_int_equal(kept.snapshots, 2);
                assert_ok(sim_disk_rot(world->disk, "*.checkpoint", path, &pos));
            }
        }
        assert_true(world->traces[STELE_TRACE_METADATA_SNAPSHOT] > 5);
        topic_life_check(&life, true);
        node_world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_install, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
        cmocka_unit_test(test_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
