/* The image of the metadata log: what records make of it, in order. */
#include "node/metadata_image.h"

#include "base/test/support.h"

#include <stdio.h>

struct world {
    struct stele_test_mem mem;
    struct stele_image image;
};

static int set_up(void **state)
{
    static struct world world;
    const struct stele_metadata_record format = {.kind = STELE_METADATA_FORMAT,
                                                 .u.format = {.format = "stele", .level = 1, .cluster_id = "c"}};
    stele_test_mem_init(&world.mem);
    stele_image_init(&world.image, &world.mem.mem);
    assert_ok(stele_image_apply(&world.image, &format, 1));
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    stele_image_deinit(&world->image);
    stele_test_mem_check_empty(&world->mem);
    return 0;
}

static struct stele_uuid id_of(uint8_t number)
{
    return (struct stele_uuid){.bytes = {[15] = number}};
}

static enum stele_err topic(struct world *world, uint8_t number, const char *name)
{
    struct stele_metadata_record record = {.kind = STELE_METADATA_TOPIC,
                                           .u.topic = {.name = name, .topic_id = id_of(number)}};
    return stele_image_apply(&world->image, &record, 2);
}

static enum stele_err removed(struct world *world, uint8_t number, const char *name)
{
    struct stele_metadata_record record = {.kind = STELE_METADATA_TOPIC_REMOVED,
                                           .u.topic_removed = {.name = name, .topic_id = id_of(number)}};
    return stele_image_apply(&world->image, &record, 3);
}

static enum stele_err setting(struct world *world, enum stele_subject_kind kind, const char *subject, const char *name,
                              const char *value)
{
    static int64_t time_ms = 100;
    struct stele_metadata_record record = {
        .kind = STELE_METADATA_SETTING,
        .u.setting = {.scope = (int32_t)kind, .subject = subject, .name = name, .value = value}};
    return stele_image_apply(&world->image, &record, time_ms++);
}

static const char *value_of(struct world *world, enum stele_subject_kind kind, const char *subject, const char *name)
{
    const struct stele_image_change *change =
        stele_image_setting(stele_image_settings_of(&world->image, kind, subject), name);
    return change != NULL ? change->value : NULL;
}

/* Settings of the three kinds of subject stand beside each other; the last change holds; NULL takes it away. */
static void test_settings(void **state)
{
    struct world *world = *state;
    assert_ok(topic(world, 1, "t"));
    assert_ok(setting(world, STELE_SUBJECT_CLUSTER, "", "x", "1"));
    assert_ok(setting(world, STELE_SUBJECT_NODE, "7", "x", "2"));
    assert_ok(setting(world, STELE_SUBJECT_TOPIC, "t", "x", "3"));
    assert_ok(setting(world, STELE_SUBJECT_TOPIC, "t", "y", "4"));
    assert_string_equal(value_of(world, STELE_SUBJECT_CLUSTER, "", "x"), "1");
    assert_string_equal(value_of(world, STELE_SUBJECT_NODE, "7", "x"), "2");
    assert_null(value_of(world, STELE_SUBJECT_NODE, "8", "x"));
    assert_string_equal(value_of(world, STELE_SUBJECT_TOPIC, "t", "x"), "3");
    assert_ok(setting(world, STELE_SUBJECT_TOPIC, "t", "x", "5"));
    assert_string_equal(value_of(world, STELE_SUBJECT_TOPIC, "t", "x"), "5");
    assert_ok(setting(world, STELE_SUBJECT_CLUSTER, "", "x", NULL));
    assert_null(value_of(world, STELE_SUBJECT_CLUSTER, "", "x"));
    assert_int_equal(stele_image_settings_of(&world->image, STELE_SUBJECT_TOPIC, "t")->count, 2);
    assert_int_equal(world->image.past_count, 3);
    assert_int_equal(setting(world, STELE_SUBJECT_TOPIC, "u", "x", "5"), STELE_CORRUPT);
    assert_int_equal(setting(world, (enum stele_subject_kind)3, "", "x", "5"), STELE_CORRUPT);
}

/* The history is in the order of the changes, bounded, and never loses a change that holds. */
static void test_history(void **state)
{
    struct world *world = *state;
    char value[16];
    int64_t last_ms = 0;
    int count = 0, of_cluster = 0;
    assert_ok(setting(world, STELE_SUBJECT_CLUSTER, "", "kept", "v"));
    for (int i = 0; i < STELE_IMAGE_PAST_MAX + 500; i++) {
        (void)snprintf(value, sizeof(value), "%d", i);
        assert_ok(setting(world, i % 2 == 0 ? STELE_SUBJECT_CLUSTER : STELE_SUBJECT_NODE, i % 2 == 0 ? "" : "1", "x",
                          i % 10 == 9 ? NULL : value));
    }
    for (struct stele_list *at = world->image.changes.next; at != &world->image.changes; at = at->next, count++) {
        const struct stele_image_change *change = STELE_CONTAINER_OF(at, struct stele_image_change, all);
        assert_true(change->time_ms > last_ms);
        last_ms = change->time_ms;
    }
    for (struct stele_list *at = world->image.cluster.history.next; at != &world->image.cluster.history; at = at->next)
        of_cluster++;
    assert_int_equal(world->image.past_count, STELE_IMAGE_PAST_MAX);
    assert_int_equal(count, STELE_IMAGE_PAST_MAX + 2); /* kept and the cluster's x hold, the node's x was taken away */
    assert_true(of_cluster > STELE_IMAGE_PAST_MAX / 3 && of_cluster < count);
    assert_string_equal(value_of(world, STELE_SUBJECT_CLUSTER, "", "kept"), "v");
    assert_string_equal(value_of(world, STELE_SUBJECT_CLUSTER, "", "x"), "1498");
    assert_null(value_of(world, STELE_SUBJECT_NODE, "1", "x"));
}

static enum stele_err member(struct world *world, int32_t node_id, int64_t node_epoch, bool is_fenced)
{
    static const struct stele_listener_address listeners[] = {{"PEER", "h", 7}};
    struct stele_metadata_record record = {.kind = STELE_METADATA_NODE,
                                           .u.node = {.node_id = node_id,
                                                      .node_epoch = node_epoch,
                                                      .rack = "",
                                                      .listeners = listeners,
                                                      .listener_count = 1,
                                                      .is_fenced = is_fenced,
                                                      .software_version = ""}};
    return stele_image_apply(&world->image, &record, 5);
}

/* Members are by rising id; a record replaces what was known; an earlier life of a node, a stranger's removal and too
 * many of anything are refused. */
static void test_members(void **state)
{
    struct world *world = *state;
    assert_ok(member(world, 2, 20, true));
    assert_ok(member(world, 1, 10, true));
    assert_ok(member(world, 3, 30, false));
    assert_ok(member(world, 2, 21, false));
    assert_int_equal(member(world, 2, 20, true), STELE_CORRUPT);
    assert_int_equal(member(world, -1, 20, true), STELE_CORRUPT);
    int32_t id = 1;
    for (const struct stele_image_member *at = world->image.members; at != NULL; at = at->next)
        assert_int_equal(at->node_id, id++);
    assert_int_equal(id, 4);
    assert_false(stele_image_member_of(&world->image, 2)->is_fenced);
    assert_true(stele_image_member_of(&world->image, 1)->is_fenced);
    assert_string_equal(stele_image_member_of(&world->image, 3)->listeners[0].host, "h");
    struct stele_metadata_record record = {.kind = STELE_METADATA_NODE_REMOVED, .u.node_removed = {.node_id = 2}};
    assert_ok(stele_image_apply(&world->image, &record, 6));
    assert_null(stele_image_member_of(&world->image, 2));
    assert_int_equal(stele_image_apply(&world->image, &record, 6), STELE_CORRUPT);
    record = (struct stele_metadata_record){.kind = STELE_METADATA_VOTERS};
    assert_int_equal(stele_image_apply(&world->image, &record, 6), STELE_CORRUPT);
}

/* A partition keeps the state of its last record; a replica that is in a set twice is refused. */
static void test_partition_state(void **state)
{
    static const int32_t ids[] = {3, 1, 2, 3};
    struct world *world = *state;
    assert_ok(topic(world, 1, "t"));
    struct stele_metadata_record record = {.kind = STELE_METADATA_PARTITION,
                                           .u.partition = {.topic_id = id_of(1),
                                                           .leader_id = 1,
                                                           .leader_epoch = 4,
                                                           .partition_epoch = 5,
                                                           .replicas = ids,
                                                           .replica_count = 3,
                                                           .isr = ids + 1,
                                                           .isr_count = 1,
                                                           .elr = ids,
                                                           .elr_count = 1,
                                                           .is_recovering = true}};
    assert_ok(stele_image_apply(&world->image, &record, 5));
    const struct stele_partition_state *held = &stele_image_topic_named(&world->image, "t")->partitions[0].state;
    assert_int_equal(held->replicas.ids[0], 3);
    assert_int_equal(held->replicas.count, 3);
    assert_true(stele_node_set_has(&held->isr, 1));
    assert_true(stele_node_set_has(&held->elr, 3));
    assert_true(held->is_recovering);
    assert_int_equal(held->partition_epoch, 5);
    record.u.partition.replica_count = 4;
    assert_int_equal(stele_image_apply(&world->image, &record, 5), STELE_CORRUPT);
}

/* That a replica's disk failed is forgotten with the node's next life, and when the node goes; not before, and not by a
 * record that tells of the node for the first time, as a snapshot's do. */
static void test_offline_replicas(void **state)
{
    static const int32_t ids[] = {3, 1, 2};
    struct world *world = *state;
    assert_ok(topic(world, 1, "t"));
    struct stele_metadata_record record = {.kind = STELE_METADATA_PARTITION,
                                           .u.partition = {.topic_id = id_of(1),
                                                           .leader_id = STELE_NO_NODE,
                                                           .replicas = ids,
                                                           .replica_count = 3,
                                                           .offline = ids,
                                                           .offline_count = 2}};
    assert_ok(stele_image_apply(&world->image, &record, 5));
    const struct stele_node_set *offline = &stele_image_topic_named(&world->image, "t")->partitions[0].state.offline;
    assert_int_equal(offline->count, 2);
    assert_ok(member(world, 3, 30, true));
    assert_ok(member(world, 1, 10, true));
    assert_ok(member(world, 3, 30, false));
    assert_int_equal(offline->count, 2);
    assert_ok(member(world, 3, 31, true));
    assert_true(stele_node_set_has(offline, 1));
    assert_int_equal(offline->count, 1);
    record = (struct stele_metadata_record){.kind = STELE_METADATA_NODE_REMOVED, .u.node_removed = {.node_id = 1}};
    assert_ok(stele_image_apply(&world->image, &record, 6));
    assert_int_equal(offline->count, 0);
}

/* No memory at any point of a member's or voters' record leaves the image as it can be freed. */
static void test_cluster_memory_failures(void **state)
{
    struct world *world = *state;
    static const struct stele_voter voters[] = {{1, {{1}}, "a", 2}, {3, {{3}}, "c", 4}};
    const struct stele_metadata_record record = {.kind = STELE_METADATA_VOTERS,
                                                 .u.voters = {.voters = voters, .voter_count = 2}};
    enum stele_err err = STELE_NO_MEMORY;
    for (int nth = 1; err == STELE_NO_MEMORY; nth++) {
        stele_test_mem_fail(&world->mem, nth, false);
        err = member(world, 1, 10, true);
        if (err == STELE_OK)
            err = stele_image_apply(&world->image, &record, 5);
    }
    stele_test_mem_fail(&world->mem, 0, false);
    assert_ok(err);
    assert_int_equal(world->image.voter_count, 2);
}

/* A removed topic is gone with its settings and their history; its id is known until it is forgotten, and the name can
 * be taken at once. */
static void test_removal(void **state)
{
    struct world *world = *state;
    const struct stele_uuid one = id_of(1);
    assert_ok(topic(world, 1, "t"));
    assert_ok(setting(world, STELE_SUBJECT_TOPIC, "t", "x", "1"));
    assert_ok(setting(world, STELE_SUBJECT_TOPIC, "t", "x", "2"));
    assert_ok(removed(world, 1, "t"));
    assert_null(stele_image_topic_named(&world->image, "t"));
    assert_null(stele_image_topic_of(&world->image, &one));
    assert_true(stele_list_is_empty(&world->image.changes));
    assert_int_equal(world->image.past_count, 0);
    assert_int_equal(topic(world, 1, "u"), STELE_CORRUPT); /* no id twice */
    assert_ok(topic(world, 2, "t"));
    assert_null(value_of(world, STELE_SUBJECT_TOPIC, "t", "x"));
    struct stele_image_removed *gone = stele_image_removed_of(&world->image, &one, NULL);
    assert_non_null(gone);
    assert_ptr_equal(stele_image_removed_of(&world->image, NULL, "t"), gone);
    assert_int_equal(removed(world, 1, "t"), STELE_CORRUPT);
    stele_image_forget_removed(&world->image, gone);
    assert_null(stele_image_removed_of(&world->image, &one, NULL));
    assert_ok(removed(world, 9, "of a snapshot"));
}

static enum stele_err partition(struct world *world, uint8_t number, int32_t at)
{
    static const int32_t ids[] = {1, 2};
    struct stele_metadata_record record = {.kind = STELE_METADATA_PARTITION,
                                           .u.partition = {.topic_id = id_of(number),
                                                           .partition = at,
                                                           .leader_id = 1,
                                                           .replicas = ids,
                                                           .replica_count = 2,
                                                           .isr = ids,
                                                           .isr_count = 2}};
    return stele_image_apply(&world->image, &record, 4);
}

static void take_all(struct world *world, struct stele_image_topic *topic, const int32_t *numbers, size_t count)
{
    assert_ptr_equal(world->image.touched.next, &topic->touched);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(stele_image_take_touched(topic), numbers[i]);
    assert_int_equal(stele_image_take_touched(topic), -1);
    stele_list_remove(&topic->touched);
    topic->has_new_settings = false;
}

/* The tally of partitions follows each record: a leader lost, an exchange of replicas begun, a topic removed. */
static void test_tally(void **state)
{
    static const int32_t ids[] = {1, 2, 3};
    static const struct {
        int32_t number, leader_id;
        size_t adding, removing;
        int64_t known, leaderless, reassigning, imbalanced;
    } steps[] = {{0, 1, 0, 0, 1, 0, 0, 0}, {2, 2, 0, 0, 2, 0, 0, 1},  {0, -1, 0, 0, 2, 1, 0, 2},
                 {0, 1, 1, 0, 2, 0, 1, 1}, {2, -1, 0, 1, 2, 1, 2, 1}, {2, 1, 0, 0, 2, 0, 1, 0}};
    struct world *world = *state;
    assert_ok(topic(world, 1, "t"));
    for (size_t i = 0; i < STELE_ARRAY_LEN(steps); i++) {
        struct stele_metadata_record record = {.kind = STELE_METADATA_PARTITION,
                                               .u.partition = {.topic_id = id_of(1),
                                                               .partition = steps[i].number,
                                                               .leader_id = steps[i].leader_id,
                                                               .replicas = ids,
                                                               .replica_count = 3,
                                                               .adding = ids + 2,
                                                               .adding_count = steps[i].adding,
                                                               .removing = ids,
                                                               .removing_count = steps[i].removing}};
        assert_ok(stele_image_apply(&world->image, &record, 2));
        const struct stele_image_tally *tally = &world->image.tally;
        assert_int_equal(tally->known, steps[i].known);
        assert_int_equal(tally->leaderless, steps[i].leaderless);
        assert_int_equal(tally->reassigning, steps[i].reassigning);
        assert_int_equal(tally->imbalanced, steps[i].imbalanced);
    }
    assert_ok(removed(world, 1, "t"));
    assert_int_equal(world->image.tally.known, 0);
    assert_int_equal(world->image.tally.reassigning, 0);
}

/* Of an image that was looked at, what records touch is known: partitions once and in their order, also while there
 * come more, settings of a topic, and topics that go. Of one that is new nothing is kept, then everything is to be
 * seen. */
static void test_touched(void **state)
{
    struct world *world = *state;
    struct stele_image *image = &world->image;
    const struct stele_uuid one = id_of(1);
    assert_true(image->is_new);
    assert_ok(topic(world, 1, "t"));
    for (int32_t i = 0; i < 3; i++)
        assert_ok(partition(world, 1, i));
    assert_true(stele_list_is_empty(&image->touched));
    struct stele_image_topic *t = stele_image_topic_of(image, &one);
    stele_image_touch_all(image);
    take_all(world, t, (const int32_t[]){0, 1, 2}, 3);
    assert_true(stele_list_is_empty(&image->touched));
    assert_ok(partition(world, 1, 2));
    assert_ok(partition(world, 1, 0));
    assert_ok(partition(world, 1, 2));
    for (int32_t i = 3; i < 40; i++)
        assert_ok(partition(world, 1, i));
    assert_int_equal(stele_image_take_touched(t), 2);
    stele_image_touch(image, t, 2);
    assert_int_equal(stele_image_take_touched(t), 0);
    for (int32_t i = 3; i < 40; i++)
        assert_int_equal(stele_image_take_touched(t), i);
    take_all(world, t, (const int32_t[]){2}, 1);
    int64_t settings = image->setting_records;
    assert_ok(setting(world, STELE_SUBJECT_TOPIC, "t", "x", "1"));
    assert_int_equal(image->setting_records, settings);
    assert_true(t->has_new_settings);
    take_all(world, t, NULL, 0);
    assert_ok(setting(world, STELE_SUBJECT_CLUSTER, "", "x", "1"));
    assert_int_equal(image->setting_records, settings + 1);
    assert_true(stele_list_is_empty(&image->touched));
    assert_ok(partition(world, 1, 1));
    assert_ok(removed(world, 1, "t"));
    assert_true(stele_list_is_empty(&image->touched));
    struct stele_image_removed *gone = STELE_CONTAINER_OF(image->gone.next, struct stele_image_removed, gone);
    assert_true(stele_uuid_equal(&gone->topic_id, &one));
    assert_int_equal(gone->partition_count, 40);
    stele_image_touch_all(image);
    assert_true(stele_list_is_empty(&image->gone));
}

/* The newest ids of removed topics are kept; who did not look for so long is to look at everything. */
static void test_many_removed(void **state)
{
    struct world *world = *state;
    struct stele_image *image = &world->image;
    for (int look = 0; look < 2; look++) {
        stele_image_touch_all(image);
        for (int i = 0; i <= STELE_IMAGE_REMOVED_MAX; i++) {
            struct stele_uuid id = {.bytes = {(uint8_t)(1 + look), (uint8_t)(i >> 8), (uint8_t)i, 1}};
            struct stele_metadata_record made = {.kind = STELE_METADATA_TOPIC,
                                                 .u.topic = {.name = "t", .topic_id = id}},
                                         gone = {.kind = STELE_METADATA_TOPIC_REMOVED,
                                                 .u.topic_removed = {.name = "t", .topic_id = id}};
            assert_ok(stele_image_apply(image, &made, 1));
            assert_ok(stele_image_apply(image, &gone, 1));
            if (look == 0)
                stele_list_remove(image->gone.next);
        }
        assert_int_equal(image->removed_count, STELE_IMAGE_REMOVED_MAX);
        assert_int_equal(image->is_new, look == 1);
    }
    assert_null(stele_image_removed_of(image, &(struct stele_uuid){.bytes = {2, 0, 0, 1}}, NULL));
    assert_non_null(stele_image_removed_of(image, &(struct stele_uuid){.bytes = {2, 0, 1, 1}}, NULL));
}

/* Blocks of producer ids only go up. */
static void test_producer_ids(void **state)
{
    struct world *world = *state;
    struct stele_metadata_record record = {.kind = STELE_METADATA_PRODUCER_IDS,
                                           .u.producer_ids = {.next_producer_id = 1000}};
    assert_ok(stele_image_apply(&world->image, &record, 1));
    assert_int_equal(world->image.next_producer_id, 1000);
    record.u.producer_ids.next_producer_id = 999;
    assert_int_equal(stele_image_apply(&world->image, &record, 1), STELE_CORRUPT);
}

/* Whichever allocation fails, the image says so and can be dropped. */
static void test_no_memory(void **state)
{
    struct world *world = *state;
    enum stele_err err = STELE_NO_MEMORY;
    for (int64_t nth = 1; err == STELE_NO_MEMORY; nth++) {
        (void)tear_down(state);
        (void)set_up(state);
        stele_test_mem_fail(&world->mem, nth, false);
        err = topic(world, 1, "t");
        if (err == STELE_OK)
            err = setting(world, STELE_SUBJECT_TOPIC, "t", "x", "1");
        if (err == STELE_OK)
            err = setting(world, STELE_SUBJECT_TOPIC, "t", "x", NULL);
        if (err == STELE_OK)
            err = setting(world, STELE_SUBJECT_NODE, "1", "x", "1");
        if (err == STELE_OK)
            err = setting(world, STELE_SUBJECT_CLUSTER, "", "x", "1");
        if (err == STELE_OK)
            err = removed(world, 1, "t");
        assert_true(nth > 20 || err == STELE_NO_MEMORY);
    }
    assert_ok(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_history, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_members, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_partition_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tally, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_offline_replicas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cluster_memory_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_removal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_producer_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_touched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
