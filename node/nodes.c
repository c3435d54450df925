#include "node/nodes.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

#include <string.h>

/* Listeners and texts lie behind the items, in the same block. */
struct packing {
    struct stele_known_listener *listeners;
    char *text;
};

static size_t text_bytes(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

static const char *pack_text(struct packing *packing, const char *text)
{
    size_t bytes = text_bytes(text);
    char *at = packing->text;
    if (bytes == 0)
        return "";
    memcpy(at, text, bytes);
    packing->text += bytes;
    return at;
}

static void pack(struct packing *packing, struct stele_known_node *to, const struct stele_known_node *from)
{
    *to = *from;
    to->rack = pack_text(packing, from->rack);
    to->listeners = packing->listeners;
    for (int i = 0; i < from->listener_count; i++) {
        *packing->listeners++ = (struct stele_known_listener){.name = pack_text(packing, from->listeners[i].name),
                                                              .host = pack_text(packing, from->listeners[i].host),
                                                              .port = from->listeners[i].port};
    }
}

struct stele_nodes *stele_nodes_new(struct stele_mem *mem, const struct stele_known_node *items, int count)
{
    size_t listeners = 0, bytes = 0;
    for (int i = 0; i < count; i++) {
        listeners += (size_t)items[i].listener_count;
        bytes += text_bytes(items[i].rack);
        for (int k = 0; k < items[i].listener_count; k++)
            bytes += text_bytes(items[i].listeners[k].name) + text_bytes(items[i].listeners[k].host);
    }
    struct stele_nodes *nodes = stele_mem_alloc(mem, STELE_MEM_NODE,
                                                sizeof(*nodes) + (size_t)count * sizeof(nodes->items[0]) +
                                                    listeners * sizeof(struct stele_known_listener) + bytes);
    if (nodes == NULL)
        return NULL;
    struct packing packing = {.listeners = (struct stele_known_listener *)(void *)&nodes->items[count]};
    packing.text = (char *)(packing.listeners + listeners);
    nodes->mem = mem;
    nodes->refs = 1;
    nodes->count = count;
    for (int i = 0; i < count; i++)
        pack(&packing, &nodes->items[i], &items[i]);
    return nodes;
}

struct stele_nodes *stele_nodes_ref(struct stele_nodes *nodes)
{
    nodes->refs++;
    return nodes;
}

void stele_nodes_unref(struct stele_nodes *nodes)
{
    if (nodes != NULL && --nodes->refs == 0)
        stele_mem_free(nodes->mem, nodes);
}

const struct stele_known_node *stele_nodes_find(const struct stele_nodes *nodes, int32_t node_id)
{
    for (int i = 0; nodes != NULL && i < nodes->count; i++) {
        if (nodes->items[i].status.node_id == node_id)
            return &nodes->items[i];
    }
    return NULL;
}

const struct stele_known_listener *stele_known_listener_of(const struct stele_known_node *known, const char *name)
{
    for (int i = 0; i < known->listener_count; i++) {
        if (strcmp(known->listeners[i].name, name) == 0)
            return &known->listeners[i];
    }
    return NULL;
}

void stele_nodes_add_hint(const struct stele_nodes *nodes, struct stele_arena *arena, const char *listener,
                          int32_t node_id, struct stele_hints *hints)
{
    const struct stele_known_node *known = node_id < 0 ? NULL : stele_nodes_find(nodes, node_id);
    const struct stele_known_listener *told = known != NULL ? stele_known_listener_of(known, listener) : NULL;
    for (size_t i = 0; i < hints->count; i++) {
        if (hints->items[i].node_id == node_id)
            return;
    }
    if (told == NULL || hints->count == STELE_HINTS_MAX)
        return;
    if (hints->items == NULL)
        hints->items = stele_arena_array(arena, STELE_HINTS_MAX, sizeof(*hints->items));
    /* Copies: the view may go before the answer is packed. */
    const char *host = stele_arena_string(arena, told->host, strlen(told->host));
    const char *rack = stele_arena_string(arena, known->rack, strlen(known->rack));
    if (hints->items == NULL || host == NULL || rack == NULL)
        return;
    hints->items[hints->count++] =
        (struct stele_metadata_node){.node_id = node_id, .host = host, .port = told->port, .rack = rack};
}

/* From the control shard to the others. */

static void nodes_home(struct stele_task *task)
{
    struct stele_nodes_note *note = STELE_CONTAINER_OF(task, struct stele_nodes_note, task);
    struct stele_nodes *nodes = note->next;
    note->is_sent = false;
    note->next = NULL;
    if (nodes == NULL)
        return;
    stele_shard__send_nodes(note->shard, nodes);
    stele_nodes_unref(nodes);
}

static void nodes_arrived(struct stele_task *task)
{
    struct stele_nodes_note *note = STELE_CONTAINER_OF(task, struct stele_nodes_note, task);
    struct stele_shard *shard = note->shard;
    struct stele_nodes *nodes = note->sent;
    note->sent = NULL;
    stele_shard_take_nodes(shard, nodes);
    stele_nodes_unref(nodes);
    task->run = nodes_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], task);
}

void stele_shard__send_nodes(struct stele_shard *shard, struct stele_nodes *nodes)
{
    struct stele_nodes_note *note = &shard->nodes_note;
    note->shard = shard;
    if (note->is_sent) {
        stele_nodes_unref(note->next);
        note->next = stele_nodes_ref(nodes);
        return;
    }
    note->is_sent = true;
    note->sent = stele_nodes_ref(nodes);
    note->task.run = nodes_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &note->task);
}

void stele_node_tell_nodes(struct stele_node *node, struct stele_nodes *nodes)
{
    for (int i = STELE_SHARD_DATA; i < node->shard_count; i++)
        stele_shard__send_nodes(&node->shards[i], nodes);
}

void stele_shard_take_nodes(struct stele_shard *shard, struct stele_nodes *nodes)
{
    struct stele_partition *partition, *next;
    stele_nodes_unref(shard->nodes);
    shard->nodes = stele_nodes_ref(nodes);
    HASH_ITER(hh, shard->partitions, partition, next)
    stele_replica__nodes_changed(partition);
}
