/* The nodes of the cluster. One that was named once stays known: others hold pointers, and there are few. */
#include "client/nodes.h"

#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 4096 };

static struct stele_client_node *node_of(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_client_node, link);
}

/* The bootstrap addresses by turns, then those of the nodes of a cluster. */
static void any_address(struct stele_client *client, struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    const char *at = client->bootstrap;
    int32_t count = 1, wanted;
    for (const char *comma = at; (comma = strchr(comma, ',')) != NULL; comma++)
        count++;
    wanted = link->address_at++ % (count + (client->is_cluster ? client->node_count : 0));
    if (wanted >= count) {
        struct stele_list *node = client->nodes.next;
        for (wanted -= count; wanted > 0; wanted--)
            node = node->next;
        (void)snprintf(out_address, STELE_ADDRESS_BYTES, "%s", node_of(node)->address);
        return;
    }
    for (; wanted > 0; wanted--)
        at = strchr(at, ',') + 1;
    (void)snprintf(out_address, STELE_ADDRESS_BYTES, "%.*s", (int)strcspn(at, ","), at);
}

void stele_client__node_address(const struct stele_client_node *node, struct stele_link *link,
                                char out_address[STELE_ADDRESS_BYTES])
{
    if (node->node_id < 0)
        any_address(node->client, link, out_address);
    else
        (void)snprintf(out_address, STELE_ADDRESS_BYTES, "%s", node->address);
}

static void control_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    stele_client__node_address(STELE_CONTAINER_OF(link, struct stele_client_node, links[STELE_FOR_CONTROL]), link,
                               out_address);
}

static void produce_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    stele_client__node_address(STELE_CONTAINER_OF(link, struct stele_client_node, links[STELE_FOR_PRODUCE]), link,
                               out_address);
}

static void looking_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    stele_client__node_address(STELE_CONTAINER_OF(link, struct stele_client_node, links[STELE_FOR_LOOKING]), link,
                               out_address);
}

/* Who comes back may find a node that was started anew, or the leaders elsewhere. */
static void produces_changed(struct stele_link *link, enum stele_err err)
{
    struct stele_client_node *node = STELE_CONTAINER_OF(link, struct stele_client_node, links[STELE_FOR_PRODUCE]);
    struct stele_list *producers = &node->client->producers;
    if (err == STELE_OK)
        return;
    for (struct stele_list *at = producers->next; at != producers; at = at->next) {
        struct stele_client_part *part = STELE_CONTAINER_OF(at, struct stele_client_part, link);
        part->cut_off(part, node);
    }
}

static void node_init(struct stele_client_node *node, struct stele_client *client, int32_t node_id)
{
    node->client = client;
    node->node_id = node_id;
    stele_list_init(&node->link);
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        stele_link_init(&node->links[i], &client->group);
    node->links[STELE_FOR_CONTROL].next_address = control_address;
    node->links[STELE_FOR_PRODUCE].next_address = produce_address;
    node->links[STELE_FOR_PRODUCE].changed = produces_changed;
    node->links[STELE_FOR_LOOKING].next_address = looking_address;
    node->links[STELE_FOR_LOOKING].is_admin = true;
}

static void node_close(struct stele_client_node *node)
{
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        stele_link_close(&node->links[i]);
}

void stele_client__nodes_init(struct stele_client *client)
{
    stele_list_init(&client->nodes);
    node_init(&client->any, client, -1);
}

void stele_client__nodes_deinit(struct stele_client *client)
{
    node_close(&client->any);
    while (!stele_list_is_empty(&client->nodes)) {
        struct stele_client_node *node = node_of(client->nodes.next);
        node_close(node);
        stele_list_remove(&node->link);
        stele_mem_free(client->env->mem, node);
    }
}

struct stele_client_node *stele_client__node(const struct stele_client *client, int32_t node_id)
{
    for (struct stele_list *at = client->nodes.next; at != &client->nodes; at = at->next) {
        if (node_of(at)->node_id == node_id)
            return node_of(at);
    }
    return NULL;
}

static enum stele_err take_node(struct stele_client *client, const struct stele_metadata_node *from)
{
    struct stele_client_node *node = stele_client__node(client, from->node_id);
    if (from->node_id < 0 || from->host[0] == 0 || strlen(from->host) >= STELE_HOST_BYTES || from->port <= 0 ||
        from->port > UINT16_MAX)
        return STELE_OK; /* nobody can go there */
    if (node == NULL) {
        if (client->node_count == NODES_MAX)
            return STELE_OK;
        node = stele_mem_alloc(client->env->mem, STELE_MEM_CLIENT, sizeof(*node));
        if (node == NULL)
            return STELE_NO_MEMORY;
        node_init(node, client, from->node_id);
        stele_list_push(&client->nodes, &node->link);
        client->node_count++;
        client->is_cluster = client->node_count > 1;
    }
    stele_address_join(from->host, from->port, node->address);
    return STELE_OK;
}

enum stele_err stele_client__take_nodes(struct stele_client *client, const struct stele_metadata_node *nodes,
                                        size_t count)
{
    enum stele_err err = STELE_OK;
    for (size_t i = 0; i < count && err == STELE_OK; i++)
        err = take_node(client, &nodes[i]);
    return err;
}

struct stele_client_node *stele_client__next_node(struct stele_client *client)
{
    struct stele_list *at = client->nodes.next;
    if (client->node_count == 0)
        return NULL;
    for (uint32_t turn = client->node_turn++ % (uint32_t)client->node_count; turn > 0; turn--)
        at = at->next;
    return node_of(at);
}

/* A node that is somewhere else now does not come back to its old place. */
void stele_client__tick_link(const struct stele_client_node *node, struct stele_link *link, int64_t now_ms)
{
    if (node->node_id >= 0 && link->conn != NULL && strcmp(link->address, node->address) != 0) {
        stele_link_drop(link);
        link->backoff = (struct stele_backoff){0};
    }
    stele_link_tick(link, now_ms);
}

bool stele_client__is_unreached(const struct stele_client_node *node, enum stele_purpose purpose,
                                const struct stele_call *call)
{
    const struct stele_link *link = &node->links[purpose];
    return node->node_id >= 0 && !call->is_sent && link->conn == NULL && link->backoff.attempts > 0;
}

enum stele_err stele_client__call(struct stele_client_node *node, enum stele_purpose purpose, struct stele_call *call,
                                  struct stele_request *request, struct stele_buf *records)
{
    return stele_link_call(&node->links[purpose], call, request, records);
}

void stele_client__cancel(struct stele_client_node *node, enum stele_purpose purpose, struct stele_call *call)
{
    stele_link_cancel(&node->links[purpose], call);
}

static void tick_node(struct stele_client_node *node, int64_t now_ms)
{
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        stele_client__tick_link(node, &node->links[i], now_ms);
}

/* A node that a handler makes known comes at the end. */
void stele_client__tick_nodes(struct stele_client *client, int64_t now_ms)
{
    tick_node(&client->any, now_ms);
    for (struct stele_list *at = client->nodes.next; at != &client->nodes; at = at->next)
        tick_node(node_of(at), now_ms);
}

static int64_t node_deadline(const struct stele_client_node *node, int64_t deadline)
{
    for (int i = 0; i < STELE_PURPOSE_COUNT; i++)
        deadline = stele_min_i64(deadline, stele_link_deadline(&node->links[i]));
    return deadline;
}

int64_t stele_client__nodes_deadline(struct stele_client *client)
{
    int64_t deadline = node_deadline(&client->any, INT64_MAX);
    for (struct stele_list *at = client->nodes.next; at != &client->nodes; at = at->next)
        deadline = node_deadline(node_of(at), deadline);
    return deadline;
}
