/* How far a disk is with its cluster is read back as it was written, and never guessed. */
#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"
#include "node/formation_file.h"

#include <string.h>

static struct stele_formation_file sample(enum stele_form_stage stage, int32_t voters)
{
    struct stele_formation_file file = {.stage = stage, .node_id = 2, .directory_id = {.bytes = {1, 2, 3}}};
    assert_int_equal(stele_peer_list_parse("a:1,b:2,[::1]:3", &file.peers, NULL), STELE_OK);
    if (stage != STELE_FORM_EMPTY)
        file.cluster_id = (struct stele_uuid){.bytes = {9}};
    for (int32_t i = 0; i < voters; i++)
        file.voters.keys[file.voters.count++] =
            (struct stele_replica_key){.node_id = i + 1, .directory_id = {.bytes = {(uint8_t)(10 + i)}}};
    return file;
}

/* A list of peers is taken as it stands but for blanks; what is no address, or is there twice, is named. */
static void test_list(void **state)
{
    static const struct {
        const char *text, *normal; /* NULL: refused */
    } cases[] = {{"", ""},
                 {" ", ""},
                 {"a:1", "a:1"},
                 {" a:1 , b:2", "a:1,b:2"},
                 {"[::1]:5,127.0.0.1:5", "[::1]:5,127.0.0.1:5"},
                 {"a:1,a:1", NULL},
                 {"a:1,", NULL},
                 {",", NULL},
                 {"a", NULL},
                 {"a:0", NULL},
                 {":1", NULL},
                 {"0.0.0.0:1", NULL},
                 {"a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10,a:11,a:12,a:13,a:14,a:15,a:16,a:17", NULL}};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_peer_list list;
        struct stele_error error = {.text = ""};
        char text[STELE_PEERS_TEXT_BYTES];
        enum stele_err err = stele_peer_list_parse(cases[i].text, &list, &error);
        assert_int_equal(err, cases[i].normal != NULL ? STELE_OK : STELE_INVALID_CONFIG);
        if (err != STELE_OK) {
            assert_int_equal(strncmp(error.text, "peers: ", 7), 0);
            continue;
        }
        stele_peer_list_text(&list, text);
        assert_string_equal(text, cases[i].normal);
    }
}

/* Every stage is read as it was written, and no byte of the file can change without being noticed. */
static void test_file(void **state)
{
    static const struct {
        enum stele_form_stage stage;
        int32_t voters;
    } cases[] = {{STELE_FORM_EMPTY, 0}, {STELE_FORM_FORMING, 3}, {STELE_FORM_FORMED, 3}, {STELE_FORM_FORMED, 0}};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_test_mem memory;
        struct stele_formation_file file = sample(cases[i].stage, cases[i].voters), back;
        struct stele_error error;
        uint8_t *bytes = NULL;
        size_t count = 0;
        stele_test_mem_init(&memory);
        struct sim_disk *disk = sim_disk_new(1);
        struct stele_vfs *vfs = sim_disk_vfs(disk);
        assert_int_equal(stele_formation_file_read(vfs, &memory.mem, "/", &back, &error), STELE_NOT_FOUND);
        assert_int_equal(stele_formation_file_write(vfs, "/", &file), STELE_OK);
        assert_int_equal(stele_formation_file_read(vfs, &memory.mem, "/", &back, &error), STELE_OK);
        assert_int_equal(back.stage, file.stage);
        assert_int_equal(back.node_id, 2);
        assert_true(stele_uuid_equal(&back.directory_id, &file.directory_id));
        assert_true(stele_uuid_equal(&back.cluster_id, &file.cluster_id));
        assert_true(stele_voters_equal(&back.voters, &file.voters));
        assert_int_equal(back.peers.count, 3);
        assert_string_equal(back.peers.addresses[2], "[::1]:3");
        assert_int_equal(
            stele_vfs_read_whole(vfs, &memory.mem, STELE_MEM_METADATA, "/" STELE_FORMATION_FILE, 8192, &bytes, &count),
            STELE_OK);
        for (size_t at = 0; at < count; at++) {
            bytes[at] ^= 1;
            assert_int_equal(stele_formation_file_parse((const char *)bytes, count, &back), STELE_CORRUPT);
            bytes[at] ^= 1;
            if (at + 1 < count)
                assert_int_equal(stele_formation_file_parse((const char *)bytes, at, &back), STELE_CORRUPT);
        }
        stele_mem_free(&memory.mem, bytes);
        stele_test_mem_check_empty(&memory);
        sim_disk_free(disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
