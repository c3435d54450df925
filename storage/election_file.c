#include "storage/election_file.h"

#include "base/crc32c.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 512 };

enum stele_err stele_election_file_write(struct stele_vfs *vfs, const char *dir, const struct stele_election_file *file)
{
    char line[128], text[TEXT_BYTES_MAX], id[STELE_UUID_TEXT_BYTES] = "-";
    if (!stele_uuid_is_zero(&file->voted_directory_id))
        stele_uuid_text(&file->voted_directory_id, id);
    int count =
        snprintf(line, sizeof(line), "%d %d %d %s", (int)file->epoch, (int)file->leader_id, (int)file->voted_id, id);
    int all = snprintf(text, sizeof(text), "0\n%s\n%08x\n", line, (unsigned)stele_crc32c(0, line, (size_t)count));
    return stele_vfs_replace(vfs, dir, STELE_ELECTION_FILE, text, (size_t)all);
}

static bool read_number(struct stele_text_scan *line, int64_t least, int32_t *out_number)
{
    const char *word;
    size_t bytes;
    int64_t value;
    if (!stele_text_word(line, &word, &bytes) || !stele_text_number(word, bytes, &value) || value < least ||
        value > INT32_MAX)
        return false;
    *out_number = (int32_t)value;
    return true;
}

static bool read_state(const char *text, size_t count, struct stele_election_file *file)
{
    struct stele_text_scan line = {.at = text, .end = text + count};
    const char *word;
    size_t bytes;
    if (!read_number(&line, 0, &file->epoch) || !read_number(&line, -1, &file->leader_id) ||
        !read_number(&line, -1, &file->voted_id) || !stele_text_word(&line, &word, &bytes))
        return false;
    if (bytes == 1 && word[0] == '-')
        return true;
    return stele_uuid_parse(word, bytes, &file->voted_directory_id) == STELE_OK;
}

enum stele_err stele_election_file_parse(const char *text, size_t count, struct stele_election_file *out_file)
{
    struct stele_text_scan scan = {.at = text, .end = text + count};
    struct stele_election_file file = {.epoch = 0};
    const char *version, *state, *sum;
    size_t version_bytes, state_bytes, sum_bytes;
    char expected[16];
    if (!stele_text_line(&scan, &version, &version_bytes) || version_bytes != 1 || version[0] != '0' ||
        !stele_text_line(&scan, &state, &state_bytes) || !stele_text_line(&scan, &sum, &sum_bytes))
        return STELE_CORRUPT;
    (void)snprintf(expected, sizeof(expected), "%08x", (unsigned)stele_crc32c(0, state, state_bytes));
    if (sum_bytes != 8 || memcmp(sum, expected, 8) != 0 || !read_state(state, state_bytes, &file))
        return STELE_CORRUPT;
    *out_file = file;
    return STELE_OK;
}

enum stele_err stele_election_file_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                        struct stele_election_file *out_file, struct stele_error *error)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_ELECTION_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, mem, STELE_MEM_METADATA, path, TEXT_BYTES_MAX, &bytes, &count);
    if (err == STELE_OK)
        err = stele_election_file_parse((const char *)bytes, count, out_file);
    stele_mem_free(mem, bytes);
    if (err == STELE_CORRUPT || err == STELE_TOO_LARGE)
        return stele_error_set(error, STELE_CORRUPT,
                               "%.200s is damaged, so this node does not know how it voted: with other voters there, "
                               "remove this log directory and readmit the node; alone, remove the file",
                               path);
    return err == STELE_OK || err == STELE_NOT_FOUND
               ? err
               : stele_error_set(error, err, "%.200s: %s", path, stele_err_text(err));
}
