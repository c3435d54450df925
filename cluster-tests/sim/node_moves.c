/* Where a replica is that moved between the disks of the node: what a start would make of the lines in the first one
 * (storage/moved_file.h), on a copy of the disk. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "storage/checkpoint.h"
#include "storage/moved_file.h"

#include <stdio.h>
#include <string.h>

enum { DIRS = 2 };

struct search {
    struct run *run;
    struct stele_vfs *vfs;
    const struct stele_moved *moved;
    char root[2];
    char live[DIRS][64], future[DIRS][64]; /* names; "": none */
};

static enum stele_err see_name(void *arg, const char *name)
{
    struct search *search = arg;
    char topic[STELE_TOPIC_NAME_MAX + 1], path[STELE_PATH_BYTES];
    int at = search->root[0] - 'a';
    int32_t partition;
    enum stele_dir_kind kind;
    struct stele_uuid id;
    if (stele_partition_dir_parse(name, topic, &partition, &kind) != STELE_OK ||
        partition != search->moved->partition || (kind != STELE_DIR_LIVE && kind != STELE_DIR_FUTURE))
        return STELE_OK;
    enum stele_err err = stele_path_join(path, search->root, name);
    STELE_ASSERT(err == STELE_OK);
    if (stele_partition_metadata_read(search->vfs, &search->run->mem, path, &id) == STELE_OK &&
        stele_uuid_equal(&id, &search->moved->topic_id))
        (void)snprintf(kind == STELE_DIR_LIVE ? search->live[at] : search->future[at], sizeof(search->live[at]), "%s",
                       name);
    return STELE_OK;
}

static bool is_said(const struct search *search, const char *root)
{
    struct stele_meta_properties properties;
    struct stele_error error;
    struct stele_uuid id;
    return stele_meta_properties_read(search->vfs, &search->run->mem, root, &properties, &error) == STELE_OK &&
           stele_uuid_parse(properties.directory_id, strlen(properties.directory_id), &id) == STELE_OK &&
           stele_uuid_equal(&id, &search->moved->directory_id);
}

static void rename_in(const struct search *search, char dir, const char *from, const char *to)
{
    char root[2] = {dir, 0}, old[STELE_PATH_BYTES], new[STELE_PATH_BYTES];
    (void)snprintf(old, sizeof(old), "%c/%s", dir, from);
    (void)snprintf(new, sizeof(new), "%c/%s", dir, to);
    enum stele_err err = search->vfs->ops->rename(search->vfs, old, new);
    if (err == STELE_OK)
        err = search->vfs->ops->sync_dir(search->vfs, root);
    STELE_ASSERT(err == STELE_OK);
}

static void settle(struct search *search)
{
    int there = -1;
    char name[64];
    for (int i = 0; i < search->run->dir_count; i++) {
        search->root[0] = (char)('a' + i);
        if (is_said(search, search->root))
            there = i;
        (void)search->vfs->ops->list(search->vfs, search->root, see_name, search);
    }
    if (there < 0)
        return;
    if (search->live[there][0] == 0 && search->future[there][0] != 0) {
        size_t bytes = strcspn(search->future[there], ".");
        memcpy(search->live[there], search->future[there], bytes);
        search->live[there][bytes] = 0;
        rename_in(search, (char)('a' + there), search->future[there], search->live[there]);
    }
    for (int i = 0; i < search->run->dir_count; i++) {
        (void)snprintf(name, sizeof(name), "%.40s-left", search->live[i]);
        if (i != there && search->live[i][0] != 0)
            rename_in(search, (char)('a' + i), search->live[i], name);
    }
}

void moves_settle(struct run *run, struct sim_disk *copy)
{
    struct stele_moved_list list;
    stele_moved_list_init(&list, &run->mem);
    if (run->dir_count <= DIRS && stele_moved_list_read(&list, sim_disk_vfs(copy), "a") == STELE_OK) {
        for (int i = 0; i < list.count; i++) {
            struct search search = {.run = run, .vfs = sim_disk_vfs(copy), .moved = &list.items[i]};
            settle(&search);
        }
    }
    stele_moved_list_deinit(&list);
}
