/* What a node promised to the quorum is read back as it was written, and never guessed. */
#include "storage/election_file.h"
#include "storage/test/disk_files.h"

#include "base/crc32c.h"

#include <stdio.h>
#include <string.h>

static const struct stele_election_file samples[] = {
    {.epoch = 0, .leader_id = -1, .voted_id = -1},
    {.epoch = 7, .leader_id = 3, .voted_id = 1, .voted_directory_id = {{1, 2, 3}}},
    {.epoch = INT32_MAX, .leader_id = INT32_MAX, .voted_id = -1},
};

/* Every state comes back; without a file it is not found. */
static void test_round_trip(void **state)
{
    (void)state;
    struct stele_test_mem memory;
    struct stele_error error = {.text = ""};
    struct stele_election_file back;
    struct sim_disk *disk = sim_disk_new(1);
    stele_test_mem_init(&memory);
    assert_int_equal(stele_election_file_read(sim_disk_vfs(disk), &memory.mem, "/", &back, &error), STELE_NOT_FOUND);
    for (size_t i = 0; i < STELE_ARRAY_LEN(samples); i++) {
        assert_ok(stele_election_file_write(sim_disk_vfs(disk), "/", &samples[i]));
        assert_ok(stele_election_file_read(sim_disk_vfs(disk), &memory.mem, "/", &back, &error));
        assert_int_equal(back.epoch, samples[i].epoch);
        assert_int_equal(back.leader_id, samples[i].leader_id);
        assert_int_equal(back.voted_id, samples[i].voted_id);
        assert_true(stele_uuid_equal(&back.voted_directory_id, &samples[i].voted_directory_id));
    }
    stele_test_mem_check_empty(&memory);
    sim_disk_free(disk);
}

/* A flipped byte anywhere in it, a cut, and numbers out of range are damage. */
static void test_damage(void **state)
{
    (void)state;
    static const char good[] = "0\n7 3 1 -\n";
    static const char *const bad[] = {"",           "0\n",          "1\n7 3 1 -\n00000000\n", "0\n7 3 1\n00000000\n",
                                      "0\n7 3 1 -", "0\n7 3 1 -\n", "0\n7 3 1 -\n0000000\n",  "x"};
    struct stele_election_file back;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad); i++)
        assert_int_equal(stele_election_file_parse(bad[i], strlen(bad[i]), &back), STELE_CORRUPT);
    char text[64];
    int count = snprintf(text, sizeof(text), "%s%08x\n", good, (unsigned)stele_crc32c(0, "7 3 1 -", 7));
    assert_ok(stele_election_file_parse(text, (size_t)count, &back));
    for (int i = 0; i < count - 1; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ (1 << bit));
            assert_int_equal(stele_election_file_parse(text, (size_t)count, &back), STELE_CORRUPT);
            text[i] = (char)(text[i] ^ (1 << bit));
        }
    }
    count = snprintf(text, sizeof(text), "0\n-1 3 1 -\n%08x\n", (unsigned)stele_crc32c(0, "-1 3 1 -", 8));
    assert_int_equal(stele_election_file_parse(text, (size_t)count, &back), STELE_CORRUPT);
}

/* A damaged file is told with its path and a way out. */
static void test_told(void **state)
{
    (void)state;
    struct stele_test_mem memory;
    struct stele_error error = {.text = ""};
    struct stele_election_file back;
    struct sim_disk *disk = sim_disk_new(1);
    stele_test_mem_init(&memory);
    assert_ok(stele_vfs_replace(sim_disk_vfs(disk), "/", STELE_ELECTION_FILE, "0\n1 2 3 -\n", 10));
    assert_int_equal(stele_election_file_read(sim_disk_vfs(disk), &memory.mem, "/", &back, &error), STELE_CORRUPT);
    assert_non_null(strstr(error.text, STELE_ELECTION_FILE));
    assert_non_null(strstr(error.text, "readmit"));
    stele_test_mem_check_empty(&memory);
    sim_disk_free(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
