/* Crashes and damage at rest of the simulated disk, its life, and the question what is durable. */
#include "base/check.h"
#include "cluster-tests/sim/sim_disk_struct.h"

#include <stdlib.h>
#include <string.h>

void sim_disk_seed(struct sim_disk *disk, uint64_t seed)
{
    stele_prng_init(&disk->calls_prng, seed, SIM_STREAM_CALLS);
    stele_prng_init(&disk->crash_prng, seed, SIM_STREAM_CRASH);
    stele_prng_init(&disk->rot_prng, seed, SIM_STREAM_ROT);
}

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *disk = sim_alloc(sizeof(*disk));
    disk->vfs.ops = &sim_disk_ops;
    disk->quota_bytes = -1;
    disk->struck_op = SIM_DISK_OP_COUNT;
    stele_list_init(&disk->files);
    stele_list_init(&disk->maps);
    sim_names_init(&disk->names, 0);
    sim_disk_seed(disk, seed);
    return disk;
}

struct sim_disk *sim_disk_copy(struct sim_disk *disk)
{
    struct sim_disk *copy = sim_alloc(sizeof(*copy));
    *copy = *disk;
    copy->open_files = copy->open_maps = 0;
    stele_list_init(&copy->files);
    stele_list_init(&copy->maps);
    copy->rule_count = copy->renames_allowed_count = copy->reads_allowed_count = 0;
    for (int i = 0; i < disk->rule_count; i++)
        sim_disk_break(copy, disk->rules[i].pattern, disk->rules[i].ops, disk->rules[i].err, disk->rules[i].delay_us);
    for (int i = 0; i < disk->renames_allowed_count; i++)
        sim_disk_allow_unsynced_rename(copy, disk->renames_allowed[i]);
    for (int i = 0; i < disk->reads_allowed_count; i++)
        sim_disk_allow_unwritten_read(copy, disk->reads_allowed[i]);
    sim_names_copy(&disk->names, &copy->names);
    return copy;
}

void sim_disk_free(struct sim_disk *disk)
{
    if (disk == NULL)
        return;
    sim_names_deinit(&disk->names);
    sim_disk_heal(disk);
    for (int i = 0; i < disk->renames_allowed_count; i++)
        free(disk->renames_allowed[i]);
    for (int i = 0; i < disk->reads_allowed_count; i++)
        free(disk->reads_allowed[i]);
    free(disk);
}

int64_t sim_disk_in_use(const struct sim_disk *disk)
{
    return disk->open_files + disk->open_maps;
}

void sim_disk_abandon(struct sim_disk *disk)
{
    const struct stele_vfs_ops *ops = disk->vfs.ops;
    while (!stele_list_is_empty(&disk->maps))
        ops->unmap(&disk->vfs, STELE_CONTAINER_OF(disk->maps.next, struct sim_map, link)->bytes, 0);
    while (!stele_list_is_empty(&disk->files))
        ops->close(&STELE_CONTAINER_OF(disk->files.next, struct sim_file, link)->file);
}

struct stele_vfs *sim_disk_vfs(struct sim_disk *disk)
{
    return &disk->vfs;
}

void sim_disk_set_hooks(struct sim_disk *disk, const struct sim_disk_hooks *hooks)
{
    disk->hooks = *hooks;
}

/* How this crash goes: all kept and none kept are as likely as any share between. */
static struct sim_loss draw_loss(struct sim_disk *disk, bool is_ordered)
{
    struct stele_prng *prng = &disk->crash_prng;
    struct sim_loss loss = {.prng = prng, .stats = &disk->stats, .is_ordered = is_ordered};
    uint64_t draw = stele_prng_below(prng, 4);
    loss.keep = draw == 0 ? 0 : draw == 1 ? 256 : stele_prng_below(prng, 257);
    loss.tear = stele_prng_below(prng, 3) == 0 ? 0 : stele_prng_below(prng, 257);
    loss.has_garbage = !is_ordered && stele_prng_chance(prng, 1, 3);
    return loss;
}

static struct sim_node *dirty_node(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct sim_node, dirty);
}

static void lose_power(struct sim_disk *disk, bool is_ordered)
{
    struct sim_names *names = &disk->names;
    struct sim_loss loss = draw_loss(disk, is_ordered);
    int64_t kept = -1;
    if (is_ordered)
        kept = stele_prng_range(loss.prng, names->sequence_synced, names->sequence);
    while (!stele_list_is_empty(&names->dirty)) {
        struct sim_node *node = dirty_node(names->dirty.next);
        bool is_kept = is_ordered ? node->truncate_sequence < kept : stele_prng_chance(loss.prng, 1, 2);
        sim_image_lose(&node->image, &loss, is_kept);
        if (stele_prng_chance(loss.prng, 1, 2))
            node->mtime_ms = node->durable_mtime_ms;
        node->durable_mtime_ms = node->mtime_ms;
        node->is_unsynced = false;
        node->has_pending_error = false;
        sim_node_charge(names, node, node->image.bytes);
        sim_node_note(names, node);
        STELE_ASSERT(stele_list_is_empty(&node->dirty));
    }
    sim_names_lose(names, &loss, kept);
    names->sequence_synced = names->sequence;
}

/* Calls `each` for every file with a live name, in the order of their paths within each directory. */
static void each_file(struct sim_names *names, void (*each)(void *arg, struct sim_node *node), void *arg)
{
    struct sim_node *work = names->root;
    work->next = NULL;
    while (work != NULL) {
        struct sim_node *node = work;
        work = node->next;
        if (!node->is_dir) {
            each(arg, node);
            continue;
        }
        for (int64_t i = node->entries[SIM_LIVE].count - 1; i >= 0; i--) {
            struct sim_node *child = node->entries[SIM_LIVE].items[i].node;
            child->next = work;
            work = child;
        }
    }
}

static void forget_run(void *arg, struct sim_node *node)
{
    (void)arg;
    node->is_locked = false;
    sim_image_forget_unwritten(&node->image);
}

void sim_disk_crash(struct sim_disk *disk, enum sim_disk_crash_mode mode)
{
    disk->run++;
    disk->is_stopped = false;
    disk->fault_in = 0;
    if (mode == SIM_DISK_KILL) {
        disk->stats.kills++;
    } else {
        disk->stats.crashes++;
        lose_power(disk, mode == SIM_DISK_ORDERED);
    }
    each_file(&disk->names, forget_run, NULL);
}

void sim_disk_evict(struct sim_disk *disk)
{
    for (struct stele_list *link = disk->names.dirty.next; link != &disk->names.dirty; link = link->next)
        disk->stats.pages_evicted += sim_image_evict(&dirty_node(link)->image);
}

/* The image of the file at `path`; NULL when there is none. */
static struct sim_image *image_at(struct sim_disk *disk, const char *path)
{
    struct sim_place place;
    enum stele_err err = sim_names_find(&disk->names, SIM_LIVE, path, &place);
    return err != STELE_OK || place.node == NULL || place.node->is_dir ? NULL : &place.node->image;
}

enum stele_err sim_disk_flip(struct sim_disk *disk, const char *path, int64_t pos, uint8_t mask)
{
    struct sim_image *image = image_at(disk, path);
    if (image == NULL || pos < 0 || pos >= image->bytes)
        return STELE_NOT_FOUND;
    sim_image_flip(image, pos, mask);
    return STELE_OK;
}

enum stele_err sim_disk_spoil(struct sim_disk *disk, const char *path, int64_t pos, int64_t end)
{
    struct sim_image *image = image_at(disk, path);
    if (image == NULL)
        return STELE_NOT_FOUND;
    image->bad.from = pos - pos % SIM_SECTOR_BYTES;
    image->bad.to = (end + SIM_SECTOR_BYTES - 1) / SIM_SECTOR_BYTES * SIM_SECTOR_BYTES;
    return STELE_OK;
}

enum stele_err sim_disk_misplace(struct sim_disk *disk, const char *path, int64_t from, int64_t to)
{
    struct sim_image *image = image_at(disk, path);
    if (image == NULL || from < 0 || to < 0 || (stele_max_i64(from, to) + 1) * SIM_SECTOR_BYTES > image->bytes)
        return STELE_NOT_FOUND;
    uint8_t moved[SIM_SECTOR_BYTES], there[SIM_SECTOR_BYTES];
    (void)sim_image_read(image, moved, SIM_SECTOR_BYTES, from * SIM_SECTOR_BYTES);
    (void)sim_image_read(image, there, SIM_SECTOR_BYTES, to * SIM_SECTOR_BYTES);
    for (int64_t i = 0; i < SIM_SECTOR_BYTES; i++) {
        sim_image_flip(image, to * SIM_SECTOR_BYTES + i, (uint8_t)(moved[i] ^ there[i]));
        if (from != to)
            sim_image_flip(image, from * SIM_SECTOR_BYTES + i, moved[i]);
    }
    return STELE_OK;
}

struct rot_pick {
    struct sim_disk *disk;
    const char *pattern;
    struct sim_node *node;
    uint64_t seen;
};

/* Reservoir of one: every file is as likely. */
static void pick_file(void *arg, struct sim_node *node)
{
    struct rot_pick *pick = arg;
    char path[STELE_PATH_BYTES];
    sim_names_path(node, path);
    if (node->image.bytes == 0 || !sim_pattern_fits(pick->pattern, path))
        return;
    if (stele_prng_chance(&pick->disk->rot_prng, 1, ++pick->seen))
        pick->node = node;
}

enum stele_err sim_disk_rot(struct sim_disk *disk, const char *pattern, char out_path[STELE_PATH_BYTES],
                            int64_t *out_pos)
{
    struct stele_prng *prng = &disk->rot_prng;
    struct rot_pick pick = {.disk = disk, .pattern = pattern};
    each_file(&disk->names, pick_file, &pick);
    if (pick.node == NULL)
        return STELE_NOT_FOUND;
    struct sim_image *image = &pick.node->image;
    int64_t pos = stele_prng_range(prng, 0, image->bytes - 1);
    int64_t end = pos + 1;
    if (stele_prng_chance(prng, 1, 2)) {
        sim_image_flip(image, pos, (uint8_t)(1u << stele_prng_below(prng, 8)));
    } else {
        pos -= pos % SIM_SECTOR_BYTES;
        end = stele_min_i64(pos + SIM_SECTOR_BYTES, image->bytes);
        for (int64_t at = pos; at < end; at++)
            sim_image_flip(image, at, (uint8_t)stele_prng_range(prng, 1, 255));
    }
    disk->stats.rotten++;
    sim_names_path(pick.node, out_path);
    *out_pos = pos;
    return STELE_OK;
}

/* Is the link of node the same in both views, with no change under way? */
static bool is_name_durable(const struct sim_names *names, const struct sim_node *node)
{
    for (; node != names->root; node = node->parent[SIM_LIVE]) {
        if (node->parent[SIM_LIVE] == NULL || node->parent[SIM_LIVE] != node->parent[SIM_DURABLE] ||
            strcmp(node->name[SIM_LIVE]->text, node->name[SIM_DURABLE]->text) != 0)
            return false;
        for (const struct stele_list *link = names->changes.next; link != &names->changes; link = link->next) {
            const struct sim_change *change =
                STELE_CONTAINER_OF((struct stele_list *)(uintptr_t)link, struct sim_change, link);
            if (change->node == node)
                return false;
        }
    }
    return true;
}

bool sim_disk_is_durable(struct sim_disk *disk, const char *path, int64_t pos, int64_t end)
{
    struct sim_place place;
    if (sim_names_find(&disk->names, SIM_LIVE, path, &place) != STELE_OK || place.node == NULL)
        return false;
    if (!is_name_durable(&disk->names, place.node))
        return false;
    return pos >= end || (!place.node->is_dir && sim_image_is_durable(&place.node->image, pos, end));
}
