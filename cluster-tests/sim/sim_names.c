/* Invariants:
 *  1. A node has at most one link in each view; parent and name say which.
 *  2. Without pending changes the two views of every directory are equal.
 *  3. A change is applied to the live view when it is made, to the durable one when it is synced or kept by a crash. */
#include "cluster-tests/sim/sim_names.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 255 };

static struct sim_name *name_new(const char *text, size_t bytes)
{
    struct sim_name *name = sim_alloc(sizeof(*name) + bytes + 1);
    name->refs = 1;
    memcpy(name->text, text, bytes);
    return name;
}

struct sim_name *sim_name_ref(struct sim_name *name)
{
    if (name != NULL)
        name->refs++;
    return name;
}

void sim_name_unref(struct sim_name *name)
{
    if (name != NULL && --name->refs == 0)
        free(name);
}

static struct sim_node *node_new(bool is_dir, int64_t now_ms)
{
    struct sim_node *node = sim_alloc(sizeof(*node));
    node->refs = 1;
    node->is_dir = is_dir;
    node->mtime_ms = node->durable_mtime_ms = now_ms;
    stele_list_init(&node->dirty);
    return node;
}

struct sim_node *sim_node_ref(struct sim_node *node)
{
    if (node != NULL)
        node->refs++;
    return node;
}

void sim_node_charge(struct sim_names *names, struct sim_node *node, int64_t bytes)
{
    names->used_bytes += bytes - node->charged_bytes;
    node->charged_bytes = bytes;
}

/* Drops a node's entries; those that nobody else holds go to the work list. */
static void empty_dir(struct sim_node *node, struct sim_node **work)
{
    for (int view = 0; view < SIM_VIEW_COUNT; view++) {
        struct sim_entries *entries = &node->entries[view];
        for (int64_t i = 0; i < entries->count; i++) {
            struct sim_node *child = entries->items[i].node;
            child->parent[view] = NULL;
            child->name[view] = NULL;
            sim_name_unref(entries->items[i].name);
            if (--child->refs == 0) {
                child->next = *work;
                *work = child;
            }
        }
        free(entries->items);
    }
}

void sim_node_unref(struct sim_names *names, struct sim_node *node)
{
    struct sim_node *work = node;
    if (node == NULL || --node->refs > 0)
        return;
    node->next = NULL;
    while (work != NULL) {
        node = work;
        work = node->next;
        sim_node_charge(names, node, 0);
        stele_list_remove(&node->dirty);
        sim_image_deinit(&node->image);
        empty_dir(node, &work);
        free(node);
    }
}

void sim_node_note(struct sim_names *names, struct sim_node *node)
{
    stele_list_remove(&node->dirty);
    if (!sim_image_is_clean(&node->image))
        stele_list_push(&names->dirty, &node->dirty);
}

/* The index of the first entry whose name is not below (text, bytes); *out_is_there when it is that name. */
static int64_t entry_index(const struct sim_entries *entries, const char *text, size_t bytes, bool *out_is_there)
{
    int64_t low = 0, high = entries->count;
    *out_is_there = false;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const char *name = entries->items[middle].name->text;
        int order = strncmp(name, text, bytes);
        if (order == 0 && name[bytes] != 0)
            order = 1;
        if (order == 0)
            *out_is_there = true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct sim_node *entry_find(const struct sim_node *dir, enum sim_view view, const char *text, size_t bytes)
{
    bool is_there;
    int64_t index = entry_index(&dir->entries[view], text, bytes, &is_there);
    return is_there ? dir->entries[view].items[index].node : NULL;
}

/* Takes the node's link away. */
static void unlink_node(struct sim_names *names, enum sim_view view, struct sim_node *node)
{
    if (node->parent[view] == NULL)
        return;
    struct sim_entries *entries = &node->parent[view]->entries[view];
    struct sim_name *name = node->name[view];
    bool is_there;
    int64_t index = entry_index(entries, name->text, strlen(name->text), &is_there);
    STELE_ASSERT(is_there);
    STELE_ASSERT(entries->items[index].node == node);
    entries->count--;
    memmove(entries->items + index, entries->items + index + 1,
            (size_t)(entries->count - index) * sizeof(*entries->items));
    node->parent[view] = NULL;
    node->name[view] = NULL;
    sim_name_unref(name);
    sim_node_unref(names, node);
}

/* Links the node as `name`, replacing what is there and its own earlier link. */
static void link_node(struct sim_names *names, enum sim_view view, struct sim_node *dir, struct sim_name *name,
                      struct sim_node *node)
{
    struct sim_entries *entries = &dir->entries[view];
    size_t bytes = strlen(name->text);
    struct sim_node *old = entry_find(dir, view, name->text, bytes);
    bool is_there;
    if (old == node)
        return;
    sim_node_ref(node);
    if (old != NULL)
        unlink_node(names, view, old);
    unlink_node(names, view, node);
    int64_t index = entry_index(entries, name->text, bytes, &is_there);
    entries->items = sim_grow(entries->items, &entries->capacity, entries->count + 1, sizeof(*entries->items));
    memmove(entries->items + index + 1, entries->items + index,
            (size_t)(entries->count - index) * sizeof(*entries->items));
    entries->items[index] = (struct sim_entry){.name = sim_name_ref(name), .node = node};
    entries->count++;
    node->parent[view] = dir;
    node->name[view] = name;
}

void sim_names_init(struct sim_names *names, int64_t now_ms)
{
    memset(names, 0, sizeof(*names));
    stele_list_init(&names->changes);
    stele_list_init(&names->dirty);
    names->root = node_new(true, now_ms);
}

static void change_free(struct sim_names *names, struct sim_change *change)
{
    stele_list_remove(&change->link);
    sim_name_unref(change->from_name);
    sim_name_unref(change->to_name);
    sim_node_unref(names, change->node);
    sim_node_unref(names, change->from_dir);
    sim_node_unref(names, change->to_dir);
    free(change);
}

static struct sim_change *change_of(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct sim_change, link);
}

void sim_names_deinit(struct sim_names *names)
{
    while (!stele_list_is_empty(&names->changes))
        change_free(names, change_of(names->changes.next));
    sim_node_unref(names, names->root);
    names->root = NULL;
}

enum stele_err sim_names_find(struct sim_names *names, enum sim_view view, const char *path,
                              struct sim_place *out_place)
{
    struct sim_place place = {.node = names->root};
    for (const char *at = path; *at != 0;) {
        size_t bytes = strcspn(at, "/");
        const char *part = at;
        at += bytes + (at[bytes] == '/');
        if (bytes == 0 || (bytes == 1 && part[0] == '.'))
            continue;
        if (place.node == NULL || !place.node->is_dir)
            return STELE_NOT_FOUND;
        if (bytes > NAME_BYTES_MAX || (bytes == 2 && memcmp(part, "..", 2) == 0))
            return STELE_IO;
        place.dir = place.node;
        place.name = part;
        place.name_bytes = bytes;
        place.node = entry_find(place.dir, view, part, bytes);
    }
    *out_place = place;
    return STELE_OK;
}

static struct sim_change *change_new(struct sim_names *names, enum sim_change_kind kind, struct sim_node *node)
{
    struct sim_change *change = sim_alloc(sizeof(*change));
    change->kind = kind;
    change->node = sim_node_ref(node);
    change->sequence = names->sequence++;
    stele_list_init(&change->link);
    stele_list_push(&names->changes, &change->link);
    return change;
}

/* Where the change takes the node from is where it is linked live. */
static void change_from(struct sim_change *change)
{
    change->from_dir = sim_node_ref(change->node->parent[SIM_LIVE]);
    change->from_name = sim_name_ref(change->node->name[SIM_LIVE]);
}

struct sim_node *sim_names_make(struct sim_names *names, const struct sim_place *place, bool is_dir, int64_t now_ms)
{
    struct sim_node *node = node_new(is_dir, now_ms);
    struct sim_change *change = change_new(names, SIM_CHANGE_LINK, node);
    change->to_dir = sim_node_ref(place->dir);
    change->to_name = name_new(place->name, place->name_bytes);
    link_node(names, SIM_LIVE, place->dir, change->to_name, node);
    sim_node_unref(names, node);
    return node;
}

void sim_names_remove(struct sim_names *names, const struct sim_place *place)
{
    struct sim_change *change = change_new(names, SIM_CHANGE_UNLINK, place->node);
    change_from(change);
    unlink_node(names, SIM_LIVE, place->node);
}

static bool is_inside(const struct sim_node *node, enum sim_view view, const struct sim_node *dir)
{
    while (node != NULL && node != dir)
        node = node->parent[view];
    return node == dir;
}

enum stele_err sim_names_move(struct sim_names *names, const struct sim_place *from, const struct sim_place *to)
{
    if (from->node == NULL)
        return STELE_NOT_FOUND;
    if (from->dir == NULL || to->dir == NULL || is_inside(to->dir, SIM_LIVE, from->node))
        return STELE_IO;
    if (to->node != NULL && is_inside(from->dir, SIM_LIVE, to->node))
        return STELE_EXISTS; /* a directory that holds `from` is not empty */
    if (to->node == from->node)
        return STELE_OK;
    if (to->node != NULL && to->node->is_dir != from->node->is_dir)
        return to->node->is_dir ? STELE_IO : STELE_NOT_FOUND;
    if (to->node != NULL && to->node->is_dir && to->node->entries[SIM_LIVE].count > 0)
        return STELE_EXISTS;
    struct sim_change *change = change_new(names, SIM_CHANGE_MOVE, from->node);
    change_from(change);
    change->to_dir = sim_node_ref(to->dir);
    change->to_name = name_new(to->name, to->name_bytes);
    link_node(names, SIM_LIVE, to->dir, change->to_name, from->node);
    return STELE_OK;
}

/* Makes the change durable. Earlier changes of the same names may have been lost, so nothing is sure. */
static void change_apply(struct sim_names *names, const struct sim_change *change)
{
    struct sim_node *node = change->node;
    switch (change->kind) {
    case SIM_CHANGE_LINK:
    case SIM_CHANGE_MOVE:
        if (!is_inside(change->to_dir, SIM_DURABLE, node))
            link_node(names, SIM_DURABLE, change->to_dir, change->to_name, node);
        break;
    case SIM_CHANGE_UNLINK:
        if (node->parent[SIM_DURABLE] == change->from_dir &&
            strcmp(node->name[SIM_DURABLE]->text, change->from_name->text) == 0)
            unlink_node(names, SIM_DURABLE, node);
        break;
    }
}

void sim_names_sync_dir(struct sim_names *names, struct sim_node *dir)
{
    for (struct stele_list *link = names->changes.next; link != &names->changes;) {
        struct sim_change *change = change_of(link);
        link = link->next;
        if (change->from_dir == dir || change->to_dir == dir) {
            change_apply(names, change);
            change_free(names, change);
        }
    }
}

/* Makes the live entries of a touched dir those of the durable view. */
static void revert_dir(struct sim_names *names, struct sim_node *dir)
{
    if (dir == NULL || !dir->is_touched)
        return;
    dir->is_touched = false;
    struct sim_entries *live = &dir->entries[SIM_LIVE], *durable = &dir->entries[SIM_DURABLE];
    while (live->count > 0)
        unlink_node(names, SIM_LIVE, live->items[live->count - 1].node);
    for (int64_t i = 0; i < durable->count; i++)
        link_node(names, SIM_LIVE, dir, durable->items[i].name, durable->items[i].node);
}

void sim_names_lose(struct sim_names *names, const struct sim_loss *loss, int64_t sequence_kept)
{
    uint64_t keep = stele_prng_below(loss->prng, 5) * 64;
    for (struct stele_list *link = names->changes.next; link != &names->changes; link = link->next) {
        struct sim_change *change = change_of(link);
        bool is_kept = sequence_kept >= 0 ? change->sequence < sequence_kept : stele_prng_chance(loss->prng, keep, 256);
        if (change->from_dir != NULL)
            change->from_dir->is_touched = true;
        if (change->to_dir != NULL)
            change->to_dir->is_touched = true;
        loss->stats->names_kept += is_kept;
        loss->stats->names_lost += !is_kept;
        if (is_kept)
            change_apply(names, change);
    }
    for (struct stele_list *link = names->changes.next; link != &names->changes; link = link->next) {
        revert_dir(names, change_of(link)->from_dir);
        revert_dir(names, change_of(link)->to_dir);
    }
    while (!stele_list_is_empty(&names->changes))
        change_free(names, change_of(names->changes.next));
}

/* The copy of node; a new one goes on the work list. */
static struct sim_node *twin_of(struct sim_node *node, struct sim_node **work)
{
    if (node == NULL || node->twin != NULL)
        return node == NULL ? NULL : node->twin;
    struct sim_node *twin = node_new(node->is_dir, node->mtime_ms);
    twin->refs = 0;
    twin->is_unsynced = node->is_unsynced;
    twin->has_pending_error = node->has_pending_error;
    twin->durable_mtime_ms = node->durable_mtime_ms;
    twin->truncate_sequence = node->truncate_sequence;
    twin->charged_bytes = node->charged_bytes;
    sim_image_copy(&node->image, &twin->image);
    node->twin = twin;
    node->next = *work;
    *work = node;
    return twin;
}

static void copy_entries(struct sim_node *node, enum sim_view view, struct sim_node **work)
{
    const struct sim_entries *from = &node->entries[view];
    struct sim_entries *to = &node->twin->entries[view];
    to->items = sim_grow(NULL, &to->capacity, from->count, sizeof(*to->items));
    to->count = from->count;
    for (int64_t i = 0; i < from->count; i++) {
        struct sim_node *twin = sim_node_ref(twin_of(from->items[i].node, work));
        to->items[i] = (struct sim_entry){.name = sim_name_ref(from->items[i].name), .node = twin};
        twin->parent[view] = node->twin;
        twin->name[view] = from->items[i].name;
    }
}

static void copy_change(const struct sim_change *from, struct sim_names *names, struct sim_node **work)
{
    struct sim_change *to = sim_alloc(sizeof(*to));
    *to = *from;
    to->from_dir = sim_node_ref(twin_of(from->from_dir, work));
    to->to_dir = sim_node_ref(twin_of(from->to_dir, work));
    to->from_name = sim_name_ref(from->from_name);
    to->to_name = sim_name_ref(from->to_name);
    to->node = sim_node_ref(twin_of(from->node, work));
    stele_list_init(&to->link);
    stele_list_push(&names->changes, &to->link);
}

void sim_names_copy(struct sim_names *names, struct sim_names *copy)
{
    struct sim_node *work = NULL, *done = NULL;
    *copy = *names;
    stele_list_init(&copy->changes);
    stele_list_init(&copy->dirty);
    copy->used_bytes = 0;
    copy->root = sim_node_ref(twin_of(names->root, &work));
    for (struct stele_list *link = names->changes.next; link != &names->changes; link = link->next)
        copy_change(change_of(link), copy, &work);
    while (work != NULL) {
        struct sim_node *node = work;
        work = node->next;
        for (int view = 0; view < SIM_VIEW_COUNT; view++)
            copy_entries(node, (enum sim_view)view, &work);
        copy->used_bytes += node->charged_bytes;
        node->next = done;
        done = node;
    }
    for (struct stele_list *link = names->dirty.next; link != &names->dirty; link = link->next) {
        struct sim_node *twin = STELE_CONTAINER_OF(link, struct sim_node, dirty)->twin;
        if (twin != NULL)
            stele_list_push(&copy->dirty, &twin->dirty);
    }
    for (; done != NULL; done = done->next)
        done->twin = NULL;
}

void sim_names_path(const struct sim_node *node, char out_path[STELE_PATH_BYTES])
{
    size_t at = STELE_PATH_BYTES - 1;
    out_path[at] = 0;
    for (; node->parent[SIM_LIVE] != NULL; node = node->parent[SIM_LIVE]) {
        size_t bytes = strlen(node->name[SIM_LIVE]->text);
        if (bytes + 1 > at) {
            at = STELE_PATH_BYTES - 1;
            break;
        }
        at -= bytes + 1;
        out_path[at] = '/';
        memcpy(out_path + at + 1, node->name[SIM_LIVE]->text, bytes);
    }
    memmove(out_path, out_path + at, STELE_PATH_BYTES - at);
}
