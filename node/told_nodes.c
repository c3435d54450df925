/* The view of the nodes that the shards of this node work by, made from the image. */
#include "node/controller.h"
#include "node/node_struct.h"

#include <string.h>

static const char *peer_listener(const struct stele_node *node)
{
    for (int i = 0; i < node->listeners.count; i++) {
        if (node->listeners.items[i].is_peer)
            return node->listeners.items[i].name;
    }
    return "";
}

/* Where it registered to be reached; what --peers says of one that tells no such listener. */
static void find_address(const struct stele_controller *control, const struct stele_image_member *member,
                         char out_address[STELE_ADDRESS_BYTES])
{
    const struct stele_peer_list *list = &control->formation.file.peers;
    const char *name = peer_listener(control->node);
    out_address[0] = 0;
    for (size_t i = 0; i < member->listener_count; i++) {
        if (strcmp(member->listeners[i].name, name) != 0 || strlen(member->listeners[i].host) >= STELE_HOST_BYTES)
            continue;
        stele_address_join(member->listeners[i].host, member->listeners[i].port, out_address);
        return;
    }
    if (member->node_id >= 1 && member->node_id <= list->count)
        memcpy(out_address, list->addresses[member->node_id - 1], STELE_ADDRESS_BYTES);
}

/* Equal numbers, equal racks. */
static uint32_t rack_number(const struct stele_image *image, const struct stele_image_member *of)
{
    uint32_t number = 1;
    if (of->rack[0] == 0)
        return 0;
    for (const struct stele_image_member *member = image->members; strcmp(member->rack, of->rack) != 0;
         member = member->next)
        number++;
    return number;
}

static void fill(const struct stele_controller *control, const struct stele_image_member *member,
                 struct stele_known_listener *listeners, struct stele_known_node *out_known)
{
    for (size_t i = 0; i < member->listener_count; i++)
        listeners[i] = (struct stele_known_listener){
            .name = member->listeners[i].name, .host = member->listeners[i].host, .port = member->listeners[i].port};
    *out_known = (struct stele_known_node){.status = {.node_id = member->node_id,
                                                      .rack = rack_number(&control->mlog.image, member),
                                                      .node_epoch = member->node_epoch,
                                                      .is_active = !member->is_fenced,
                                                      .is_leaving = member->is_shutting_down},
                                           .rack = member->rack,
                                           .listeners = listeners,
                                           .listener_count = (int)member->listener_count};
    find_address(control, member, out_known->peer_address);
}

enum stele_err stele_controller_tell_nodes(struct stele_controller *control)
{
    struct stele_mem *mem = control->shard->env->mem;
    const struct stele_image *image = &control->mlog.image;
    size_t count = 0, listener_count = 0, at = 0;
    if (control->peers.shard == NULL || control->reconcile.told_members == image->member_records)
        return STELE_OK;
    for (const struct stele_image_member *member = image->members; member != NULL; member = member->next) {
        count++;
        listener_count += member->listener_count;
    }
    struct stele_known_node *items = stele_mem_array(mem, STELE_MEM_NODE, count + 1, sizeof(*items));
    struct stele_known_listener *listeners =
        stele_mem_array(mem, STELE_MEM_NODE, listener_count + 1, sizeof(*listeners));
    struct stele_nodes *nodes = NULL;
    if (items != NULL && listeners != NULL) {
        struct stele_known_listener *free = listeners;
        for (const struct stele_image_member *member = image->members; member != NULL; member = member->next) {
            fill(control, member, free, &items[at++]);
            free += member->listener_count;
        }
        nodes = stele_nodes_new(mem, items, (int)count);
    }
    stele_mem_free(mem, items);
    stele_mem_free(mem, listeners);
    if (nodes == NULL)
        return STELE_NO_MEMORY;
    stele_node_tell_nodes(control->node, nodes);
    stele_nodes_unref(nodes);
    control->reconcile.told_members = image->member_records;
    return STELE_OK;
}
