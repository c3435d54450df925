#include "node/formation_file.h"

#include "base/crc32c.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum {
    VOTERS_TEXT_BYTES = STELE_VOTERS_MAX * STELE_UUID_TEXT_BYTES + 1,
    BODY_BYTES = STELE_PEERS_TEXT_BYTES + VOTERS_TEXT_BYTES + 128,
    TEXT_BYTES_MAX = BODY_BYTES + 16
};

static const char *const stages[] = {
    [STELE_FORM_EMPTY] = "EMPTY", [STELE_FORM_FORMING] = "FORMING", [STELE_FORM_FORMED] = "FORMED"};

enum stele_err stele_formation_file_write(struct stele_vfs *vfs, const char *dir,
                                          const struct stele_formation_file *file)
{
    char body[BODY_BYTES], text[TEXT_BYTES_MAX], peers[STELE_PEERS_TEXT_BYTES], voters[VOTERS_TEXT_BYTES] = "-";
    char directory[STELE_UUID_TEXT_BYTES], cluster[STELE_UUID_TEXT_BYTES] = "-";
    size_t at = 0;
    stele_uuid_text(&file->directory_id, directory);
    if (!stele_uuid_is_zero(&file->cluster_id))
        stele_uuid_text(&file->cluster_id, cluster);
    stele_peer_list_text(&file->peers, peers);
    for (int32_t i = 0; i < file->voters.count; i++) {
        char id[STELE_UUID_TEXT_BYTES];
        stele_uuid_text(&file->voters.keys[i].directory_id, id);
        at += (size_t)snprintf(voters + at, sizeof(voters) - at, "%s%s", i > 0 ? " " : "", id);
    }
    int count = snprintf(body, sizeof(body), "%s %d %s %s\n%s\n%s\n", stages[file->stage], (int)file->node_id,
                         directory, cluster, peers, voters);
    int all = snprintf(text, sizeof(text), "0\n%s%08x\n", body, (unsigned)stele_crc32c(0, body, (size_t)count));
    return stele_vfs_replace(vfs, dir, STELE_FORMATION_FILE, text, (size_t)all);
}

static bool is_word(const char *word, size_t bytes, const char *text)
{
    return bytes == strlen(text) && memcmp(word, text, bytes) == 0;
}

static bool read_head(struct stele_text_scan line, struct stele_formation_file *file)
{
    const char *stage, *id, *directory, *cluster;
    size_t stage_bytes, id_bytes, directory_bytes, cluster_bytes;
    int64_t node_id;
    if (!stele_text_word(&line, &stage, &stage_bytes) || !stele_text_word(&line, &id, &id_bytes) ||
        !stele_text_word(&line, &directory, &directory_bytes) || !stele_text_word(&line, &cluster, &cluster_bytes) ||
        !stele_text_number(id, id_bytes, &node_id) || node_id < 0 || node_id > INT32_MAX ||
        stele_uuid_parse(directory, directory_bytes, &file->directory_id) != STELE_OK)
        return false;
    file->node_id = (int32_t)node_id;
    size_t at = 0;
    while (at < STELE_ARRAY_LEN(stages) && !is_word(stage, stage_bytes, stages[at]))
        at++;
    if (at == STELE_ARRAY_LEN(stages))
        return false;
    file->stage = (enum stele_form_stage)at;
    if (file->stage == STELE_FORM_EMPTY)
        return is_word(cluster, cluster_bytes, "-");
    return stele_uuid_parse(cluster, cluster_bytes, &file->cluster_id) == STELE_OK;
}

static bool read_voters(struct stele_text_scan line, struct stele_formation_file *file)
{
    const char *word;
    size_t bytes;
    while (stele_text_word(&line, &word, &bytes)) {
        if (file->voters.count == 0 && is_word(word, bytes, "-"))
            return file->stage != STELE_FORM_FORMING;
        if (file->voters.count == file->peers.count)
            return false;
        struct stele_replica_key *key = &file->voters.keys[file->voters.count++];
        key->node_id = file->voters.count;
        if (stele_uuid_parse(word, bytes, &key->directory_id) != STELE_OK)
            return false;
    }
    return file->voters.count == file->peers.count && file->stage != STELE_FORM_EMPTY;
}

enum stele_err stele_formation_file_parse(const char *text, size_t count, struct stele_formation_file *out_file)
{
    struct stele_text_scan scan = {.at = text, .end = text + count};
    struct stele_formation_file file = {.stage = STELE_FORM_EMPTY};
    const char *version, *head, *peers, *voters, *sum;
    size_t version_bytes, head_bytes, peers_bytes, voters_bytes, sum_bytes;
    char expected[16], list[STELE_PEERS_TEXT_BYTES];
    if (!stele_text_line(&scan, &version, &version_bytes) || !is_word(version, version_bytes, "0") ||
        !stele_text_line(&scan, &head, &head_bytes) || !stele_text_line(&scan, &peers, &peers_bytes) ||
        !stele_text_line(&scan, &voters, &voters_bytes))
        return STELE_CORRUPT;
    size_t body_bytes = (size_t)(scan.at - head);
    if (!stele_text_line(&scan, &sum, &sum_bytes) || peers_bytes >= sizeof(list))
        return STELE_CORRUPT;
    (void)snprintf(expected, sizeof(expected), "%08x", (unsigned)stele_crc32c(0, head, body_bytes));
    memcpy(list, peers, peers_bytes);
    list[peers_bytes] = 0;
    if (!is_word(sum, sum_bytes, expected) ||
        !read_head((struct stele_text_scan){.at = head, .end = head + head_bytes}, &file) ||
        stele_peer_list_parse(list, &file.peers, NULL) != STELE_OK || file.peers.count == 0 ||
        !read_voters((struct stele_text_scan){.at = voters, .end = voters + voters_bytes}, &file))
        return STELE_CORRUPT;
    *out_file = file;
    return STELE_OK;
}

enum stele_err stele_formation_file_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                         struct stele_formation_file *out_file, struct stele_error *error)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_FORMATION_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, mem, STELE_MEM_METADATA, path, TEXT_BYTES_MAX, &bytes, &count);
    if (err == STELE_OK)
        err = stele_formation_file_parse((const char *)bytes, count, out_file);
    stele_mem_free(mem, bytes);
    if (err == STELE_CORRUPT || err == STELE_TOO_LARGE)
        return stele_error_set(error, STELE_CORRUPT,
                               "%.200s is damaged, so this node does not know which cluster it is of: remove this log "
                               "directory and readmit the node",
                               path);
    return err == STELE_OK || err == STELE_NOT_FOUND
               ? err
               : stele_error_set(error, err, "%.200s: %s", path, stele_err_text(err));
}
