/* Invariants:
 *   1. Entries are sorted by node id; no id is there twice.
 *   2. Only a node that is not fenced has a session, and only while this controller is active.
 *   3. `shutdown_offset` is -1 but for a node in controlled shutdown, and is set once a life.
 *
 * A life of a node (one node epoch), by its durable flags:
 *   registered  ->  fenced            stele_registry_register
 *   fenced      ->  active            stele_registry_heartbeat: it has applied its own registration
 *   active      ->  shutting down     stele_registry_heartbeat: it asked to go and still leads
 *   any         ->  fenced            stele_registry_heartbeat (it asked, or may go), stele_registry_expired
 * A node that began to shut down is never active again in that life. */
#include "replication/registry.h"

#include "base/check.h"

#include <string.h>

struct stele_registry_entry {
    struct stele_node_registration node;
    int64_t session_end_ms;  /* INT64_MAX: it has none */
    int64_t metadata_offset; /* of its last heartbeat to this controller; -1: none came yet */
    int64_t shutdown_offset;
    int64_t request_number; /* of the last request that was admitted */
    int64_t contact_ms;     /* -1: this controller has not heard of it */
};

void stele_registry_init(struct stele_registry *registry, struct stele_mem *mem,
                         struct stele_registry_settings settings)
{
    *registry = (struct stele_registry){.mem = mem, .settings = settings};
}

void stele_registry_deinit(struct stele_registry *registry)
{
    stele_mem_free(registry->mem, registry->entries);
    registry->entries = NULL;
    registry->count = registry->capacity = 0;
}

/* The position of the first entry whose id is not below. */
static int32_t position_of(const struct stele_registry *registry, int32_t node_id)
{
    int32_t low = 0, high = registry->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (registry->entries[middle].node.node_id < node_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct stele_registry_entry *entry_of(const struct stele_registry *registry, int32_t node_id)
{
    const int32_t at = position_of(registry, node_id);
    return at < registry->count && registry->entries[at].node.node_id == node_id ? &registry->entries[at] : NULL;
}

/* NULL as well when it is another life of the node. */
static struct stele_registry_entry *entry_of_life(const struct stele_registry *registry, int32_t node_id,
                                                  int64_t node_epoch)
{
    struct stele_registry_entry *entry = entry_of(registry, node_id);
    return entry != NULL && entry->node.node_epoch == node_epoch ? entry : NULL;
}

static bool is_active_entry(const struct stele_registry_entry *entry)
{
    return !entry->node.is_fenced && !entry->node.is_shutting_down;
}

static void soft_reset(struct stele_registry_entry *entry)
{
    entry->session_end_ms = INT64_MAX;
    entry->metadata_offset = entry->shutdown_offset = -1;
    entry->request_number = 0;
    entry->contact_ms = -1;
}

static enum stele_err room_make(struct stele_registry *registry, int32_t count)
{
    if (count > STELE_NODES_MAX) {
        return STELE_TOO_LARGE;
    }
    if (count <= registry->capacity) {
        return STELE_OK;
    }
    const int32_t capacity = (int32_t)stele_min_i64(STELE_NODES_MAX, stele_max_i64(count, 2 * registry->capacity));
    struct stele_registry_entry *entries =
        stele_mem_resize(registry->mem, STELE_MEM_METADATA, registry->entries, (size_t)capacity * sizeof *entries);
    if (entries == NULL) {
        return STELE_NO_MEMORY;
    }
    registry->entries = entries;
    registry->capacity = capacity;
    return STELE_OK;
}

enum stele_err stele_registry_apply(struct stele_registry *registry, const struct stele_node_registration *record)
{
    struct stele_registry_entry *entry = entry_of(registry, record->node_id);
    if (entry == NULL) {
        const enum stele_err err = room_make(registry, registry->count + 1);
        if (err != STELE_OK) {
            return err;
        }
        const int32_t at = position_of(registry, record->node_id);
        memmove(&registry->entries[at + 1], &registry->entries[at],
                (size_t)(registry->count - at) * sizeof *registry->entries);
        registry->count++;
        entry = &registry->entries[at];
        soft_reset(entry);
    } else if (entry->node.node_epoch != record->node_epoch) {
        soft_reset(entry);
    }
    entry->node = *record;
    return STELE_OK;
}

enum stele_err stele_registry_apply_flags(struct stele_registry *registry, int32_t node_id, int64_t node_epoch,
                                          const struct stele_heartbeat_verdict *flags, int64_t now_ms)
{
    struct stele_registry_entry *entry = entry_of_life(registry, node_id, node_epoch);
    if (entry == NULL) {
        return entry_of(registry, node_id) != NULL ? STELE_STALE_BROKER_EPOCH : STELE_BROKER_ID_NOT_REGISTERED;
    }
    const bool was_fenced = entry->node.is_fenced;
    entry->node.is_fenced = flags->is_fenced;
    entry->node.is_shutting_down = flags->is_shutting_down;
    entry->node.offline_directories = flags->offline_directories;
    if (flags->is_fenced) {
        entry->contact_ms = was_fenced ? entry->contact_ms : -1;
        entry->session_end_ms = INT64_MAX;
        entry->shutdown_offset = -1;
    } else if (was_fenced && registry->is_active) {
        entry->session_end_ms = now_ms + registry->settings.session_ms;
    }
    return STELE_OK;
}

void stele_registry_apply_removal(struct stele_registry *registry, int32_t node_id)
{
    if (entry_of(registry, node_id) != NULL) {
        const int32_t at = position_of(registry, node_id);
        registry->count--;
        memmove(&registry->entries[at], &registry->entries[at + 1],
                (size_t)(registry->count - at) * sizeof *registry->entries);
    }
}

enum stele_err stele_registry_copy(struct stele_registry *registry, const struct stele_registry *from)
{
    const enum stele_err err = room_make(registry, from->count);
    if (err != STELE_OK) {
        return err;
    }
    for (int32_t i = 0; i < from->count; i++) {
        registry->entries[i].node = from->entries[i].node;
    }
    registry->count = from->count;
    stele_registry_deactivate(registry);
    return STELE_OK;
}

void stele_registry_activate(struct stele_registry *registry, int64_t now_ms)
{
    registry->is_active = true;
    for (int32_t i = 0; i < registry->count; i++) {
        struct stele_registry_entry *entry = &registry->entries[i];
        soft_reset(entry);
        if (!entry->node.is_fenced) {
            entry->session_end_ms = now_ms + registry->settings.session_ms;
        }
    }
}

void stele_registry_deactivate(struct stele_registry *registry)
{
    registry->is_active = false;
    for (int32_t i = 0; i < registry->count; i++) {
        soft_reset(&registry->entries[i]);
    }
}

void stele_registry_touch(struct stele_registry *registry, int32_t node_id, int64_t node_epoch, int64_t now_ms)
{
    struct stele_registry_entry *entry = entry_of_life(registry, node_id, node_epoch);
    if (entry == NULL || !registry->is_active) {
        return;
    }
    entry->contact_ms = now_ms;
    if (!entry->node.is_fenced) {
        entry->session_end_ms = now_ms + registry->settings.session_ms;
    }
}

void stele_registry_suspect(struct stele_registry *registry, int32_t node_id, int64_t node_epoch, int64_t now_ms)
{
    struct stele_registry_entry *entry = entry_of_life(registry, node_id, node_epoch);
    if (entry != NULL && entry->session_end_ms != INT64_MAX) {
        entry->session_end_ms = stele_min_i64(entry->session_end_ms, now_ms + registry->settings.suspicion_ms);
    }
}

void stele_registry_shutdown_written(struct stele_registry *registry, int32_t node_id, int64_t offset)
{
    struct stele_registry_entry *entry = entry_of(registry, node_id);
    if (entry != NULL && !entry->node.is_fenced && entry->node.is_shutting_down && entry->shutdown_offset < 0) {
        entry->shutdown_offset = offset;
    }
}

/* 4.3.6: everybody who serves clients knows who leads instead. */
static bool is_known_everywhere(const struct stele_registry *registry, int64_t offset)
{
    for (int32_t i = 0; i < registry->count; i++) {
        const struct stele_registry_entry *entry = &registry->entries[i];
        if (is_active_entry(entry) && entry->metadata_offset < offset) {
            return false;
        }
    }
    return true;
}

static enum stele_node_state state_of(const struct stele_registry_entry *entry)
{
    if (entry->node.is_fenced) {
        return STELE_NODE_FENCED;
    }
    return entry->node.is_shutting_down ? STELE_NODE_SHUTTING_DOWN : STELE_NODE_UNFENCED;
}

/* 4.3.4 to 4.3.6. */
static enum stele_node_state state_after(const struct stele_registry *registry,
                                         const struct stele_registry_entry *entry,
                                         const struct stele_heartbeat *heartbeat, bool leads)
{
    switch (state_of(entry)) {
    case STELE_NODE_FENCED:
        if (heartbeat->wants_shutdown) {
            return STELE_NODE_SHUTDOWN_NOW;
        }
        return !heartbeat->wants_fence && heartbeat->metadata_offset >= entry->node.node_epoch &&
                       !entry->node.is_shutting_down
                   ? STELE_NODE_UNFENCED
                   : STELE_NODE_FENCED;
    case STELE_NODE_UNFENCED:
        if (heartbeat->wants_fence) {
            return heartbeat->wants_shutdown ? STELE_NODE_SHUTDOWN_NOW : STELE_NODE_FENCED;
        }
        if (heartbeat->wants_shutdown) {
            return leads ? STELE_NODE_SHUTTING_DOWN : STELE_NODE_SHUTDOWN_NOW;
        }
        return STELE_NODE_UNFENCED;
    case STELE_NODE_SHUTTING_DOWN:
        return !leads && entry->shutdown_offset >= 0 && is_known_everywhere(registry, entry->shutdown_offset)
                   ? STELE_NODE_SHUTDOWN_NOW
                   : STELE_NODE_SHUTTING_DOWN;
    case STELE_NODE_SHUTDOWN_NOW:
        break;
    }
    return STELE_NODE_SHUTDOWN_NOW;
}

static uint32_t directory_bits(const struct stele_node_registration *node)
{
    return (UINT32_C(1) << node->directory_count) - 1;
}

static void verdict_make(const struct stele_registry_entry *entry, enum stele_node_state to,
                         uint32_t offline_directories, struct stele_heartbeat_verdict *out_verdict)
{
    const struct stele_node_registration *node = &entry->node;
    struct stele_heartbeat_verdict verdict = {
        .from = state_of(entry),
        .to = to,
        .is_fenced = to == STELE_NODE_FENCED || to == STELE_NODE_SHUTDOWN_NOW,
        .is_shutting_down = node->is_shutting_down || to == STELE_NODE_SHUTTING_DOWN,
        .offline_directories = node->offline_directories | (offline_directories & directory_bits(node)),
        .elects = node->is_fenced && to == STELE_NODE_UNFENCED,
        .answer_should_shut_down = to == STELE_NODE_SHUTDOWN_NOW,
    };
    verdict.answer_is_fenced = verdict.is_fenced;
    verdict.has_change = verdict.is_fenced != node->is_fenced || verdict.is_shutting_down != node->is_shutting_down ||
                         verdict.offline_directories != node->offline_directories;
    *out_verdict = verdict;
}

enum stele_err stele_registry_heartbeat(struct stele_registry *registry, const struct stele_heartbeat *heartbeat,
                                        bool leads, struct stele_heartbeat_verdict *out_verdict)
{
    struct stele_registry_entry *entry = entry_of(registry, heartbeat->node_id);
    if (entry == NULL) {
        return STELE_BROKER_ID_NOT_REGISTERED;
    }
    if (entry->node.node_epoch != heartbeat->node_epoch) {
        return STELE_STALE_BROKER_EPOCH;
    }
    entry->metadata_offset = stele_max_i64(entry->metadata_offset, heartbeat->metadata_offset);
    verdict_make(entry, state_after(registry, entry, heartbeat, leads), heartbeat->offline_directories, out_verdict);
    out_verdict->answer_is_caught_up = heartbeat->metadata_offset >= entry->node.node_epoch;
    return STELE_OK;
}

static const struct stele_registry_entry *first_to_end(const struct stele_registry *registry)
{
    const struct stele_registry_entry *first = NULL;
    for (int32_t i = 0; i < registry->count; i++) {
        const struct stele_registry_entry *entry = &registry->entries[i];
        if (entry->session_end_ms != INT64_MAX && (first == NULL || entry->session_end_ms < first->session_end_ms)) {
            first = entry;
        }
    }
    return first;
}

int64_t stele_registry_deadline(const struct stele_registry *registry)
{
    const struct stele_registry_entry *first = first_to_end(registry);
    return first != NULL ? first->session_end_ms : INT64_MAX;
}

int32_t stele_registry_expired(const struct stele_registry *registry, int64_t now_ms,
                               struct stele_heartbeat_verdict *out_verdict)
{
    const struct stele_registry_entry *first = first_to_end(registry);
    if (first == NULL || first->session_end_ms > now_ms) {
        return STELE_NO_NODE;
    }
    verdict_make(first, STELE_NODE_FENCED, 0, out_verdict);
    return first->node.node_id;
}

bool stele_registry_has_session(const struct stele_registry *registry, int32_t node_id, int64_t now_ms)
{
    const struct stele_registry_entry *entry = entry_of(registry, node_id);
    return entry != NULL && entry->session_end_ms != INT64_MAX && entry->session_end_ms > now_ms;
}

enum stele_err stele_registry_admit(struct stele_registry *registry, int32_t node_id, int64_t node_epoch,
                                    int64_t request_number)
{
    struct stele_registry_entry *entry = entry_of_life(registry, node_id, node_epoch);
    if (entry == NULL) {
        return STELE_STALE_BROKER_EPOCH;
    }
    if (request_number <= entry->request_number) {
        return STELE_REQUEST_TIMED_OUT;
    }
    entry->request_number = request_number;
    return STELE_OK;
}

int64_t stele_registry_contact_ms(const struct stele_registry *registry, int32_t node_id)
{
    const struct stele_registry_entry *entry = entry_of(registry, node_id);
    return entry != NULL ? entry->contact_ms : -1;
}

bool stele_registry_is_heard(const struct stele_registry *registry, int32_t node_id, int64_t now_ms)
{
    const int64_t contact_ms = stele_registry_contact_ms(registry, node_id);
    return contact_ms >= 0 && now_ms - contact_ms < registry->settings.session_ms;
}

const struct stele_node_registration *stele_registry_find(const struct stele_registry *registry, int32_t node_id)
{
    const struct stele_registry_entry *entry = entry_of(registry, node_id);
    return entry != NULL ? &entry->node : NULL;
}

const struct stele_node_registration *stele_registry_at(const struct stele_registry *registry, int32_t position)
{
    return position >= 0 && position < registry->count ? &registry->entries[position].node : NULL;
}

bool stele_registry_is_active_node(const struct stele_registry *registry, int32_t node_id)
{
    const struct stele_registry_entry *entry = entry_of(registry, node_id);
    return entry != NULL && is_active_entry(entry);
}

void stele_registry_view(const struct stele_registry *registry, const struct stele_node_set *set,
                         struct stele_partition_view *view)
{
    for (int32_t i = 0; i < set->count; i++) {
        const struct stele_registry_entry *entry = entry_of(registry, set->ids[i]);
        if (entry != NULL && stele_partition_view_find(view, set->ids[i]) == NULL) {
            STELE_ASSERT(view->count < (int32_t)STELE_ARRAY_LEN(view->nodes));
            view->nodes[view->count++] = (struct stele_replica_view){.node_id = entry->node.node_id,
                                                                     .node_epoch = entry->node.node_epoch,
                                                                     .is_active = is_active_entry(entry)};
        }
    }
}
