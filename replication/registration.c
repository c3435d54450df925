/* What the controller says to a node that registers (facts 4.2); the other half of registry.h. */
#include "replication/registry.h"

#include <string.h>

static bool is_text(const char *text, size_t bytes)
{
    return memchr(text, 0, bytes) != NULL;
}

static bool is_within_bounds(const struct stele_node_registration *node)
{
    if (node->node_id < 0 || stele_uuid_is_zero(&node->incarnation_id) || node->directory_count < 0 ||
        node->directory_count > STELE_NODE_DIRECTORIES_MAX || node->listener_count < 0 ||
        node->listener_count > STELE_NODE_LISTENERS_MAX || node->feature_min > node->feature_max ||
        !is_text(node->rack, sizeof node->rack) || !is_text(node->version, sizeof node->version)) {
        return false;
    }
    for (int32_t i = 0; i < node->listener_count; i++) {
        const struct stele_node_listener *listener = &node->listeners[i];
        if (!is_text(listener->name, sizeof listener->name) || !is_text(listener->host, sizeof listener->host)) {
            return false;
        }
    }
    return true;
}

/* Kafka keeps these for words like "unassigned" and "lost". */
static bool is_reserved(const struct stele_uuid *uuid)
{
    for (size_t i = 0; i + 1 < sizeof uuid->bytes; i++) {
        if (uuid->bytes[i] != 0) {
            return false;
        }
    }
    return uuid->bytes[sizeof uuid->bytes - 1] < 100;
}

static int32_t directory_position(const struct stele_node_registration *node, const struct stele_uuid *directory)
{
    for (int32_t i = 0; i < node->directory_count; i++) {
        if (stele_uuid_equal(&node->directories[i], directory)) {
            return i;
        }
    }
    return -1;
}

uint32_t stele_node_directory_bits(const struct stele_node_registration *node, const struct stele_uuid *directories,
                                   int32_t count)
{
    uint32_t bits = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = directory_position(node, &directories[i]);
        bits |= at >= 0 ? UINT32_C(1) << at : 0;
    }
    return bits;
}

static bool has_valid_directories(const struct stele_registry *registry, const struct stele_node_registration *node)
{
    for (int32_t i = 0; i < node->directory_count; i++) {
        const struct stele_uuid *directory = &node->directories[i];
        if (is_reserved(directory) || directory_position(node, directory) != i) {
            return false;
        }
        const struct stele_node_registration *other = NULL;
        for (int32_t k = 0; (other = stele_registry_at(registry, k)) != NULL; k++) {
            if (other->node_id != node->node_id && directory_position(other, directory) >= 0) {
                return false;
            }
        }
    }
    return node->directory_count > 0;
}

static bool has_valid_listeners(const struct stele_node_registration *node)
{
    for (int32_t i = 0; i < node->listener_count; i++) {
        const struct stele_node_listener *listener = &node->listeners[i];
        if (listener->name[0] == 0 || listener->host[0] == 0 || listener->port < 1 || listener->port > UINT16_MAX) {
            return false;
        }
        for (int32_t k = 0; k < i; k++) {
            if (strcmp(listener->name, node->listeners[k].name) == 0) {
                return false;
            }
        }
    }
    return node->listener_count > 0;
}

/* Only one process at a time holds a directory. Who comes with one of an earlier life has outlived it, then, as after a
 * loss of power, unless that life was heard by this controller: then one of the two has a copy of the other's disk. */
static bool has_outlived(const struct stele_registry *registry, const struct stele_node_registration *before,
                         const struct stele_node_registration *node)
{
    bool has_its_directory = false;
    for (int32_t i = 0; i < node->directory_count; i++) {
        has_its_directory = has_its_directory || directory_position(before, &node->directories[i]) >= 0;
    }
    return has_its_directory && stele_registry_contact_ms(registry, before->node_id) < 0;
}

static enum stele_err registration_check(const struct stele_registry *registry,
                                         const struct stele_node_request *request,
                                         const struct stele_registry_terms *terms,
                                         const struct stele_node_registration *before)
{
    const struct stele_node_registration *node = &request->node;
    if (!stele_uuid_equal(&request->cluster_id, &terms->cluster_id)) {
        return STELE_INCONSISTENT_CLUSTER_ID;
    }
    if (!is_within_bounds(node)) {
        return STELE_INVALID_REGISTRATION;
    }
    const bool is_other_life = before != NULL && !stele_uuid_equal(&before->incarnation_id, &node->incarnation_id);
    if (is_other_life && stele_registry_has_session(registry, node->node_id, terms->now_ms) &&
        !before->is_shutting_down && !has_outlived(registry, before, node)) {
        return STELE_DUPLICATE_BROKER_REGISTRATION;
    }
    if (!has_valid_directories(registry, node) || !has_valid_listeners(node) ||
        (before == NULL && registry->count >= STELE_NODES_MAX)) {
        return STELE_INVALID_REGISTRATION;
    }
    return terms->feature_level < node->feature_min || terms->feature_level > node->feature_max
               ? STELE_UNSUPPORTED_VERSION
               : STELE_OK;
}

/* What of the directories that the node had is lost: they are gone, or failed before (a failed disk's cache may have
 * shown what the disk does not have). */
static uint32_t directories_lost(const struct stele_node_registration *before,
                                 const struct stele_node_registration *node)
{
    uint32_t lost = before->offline_directories;
    for (int32_t i = 0; i < before->directory_count; i++) {
        if (directory_position(node, &before->directories[i]) < 0) {
            lost |= UINT32_C(1) << i;
        }
    }
    return lost;
}

/* Whatever was acknowledged since its copy was made is not in it. */
static uint32_t directories_older(const struct stele_node_registration *before,
                                  const struct stele_node_request *request)
{
    uint32_t older = 0;
    for (int32_t i = 0; i < request->node.directory_count; i++) {
        if (directory_position(before, &request->node.directories[i]) >= 0 && request->served_epochs[i] > 0 &&
            request->served_epochs[i] < before->served_epoch) {
            older |= UINT32_C(1) << i;
        }
    }
    return older;
}

static uint32_t directories_still_offline(const struct stele_node_registration *before,
                                          const struct stele_node_registration *node)
{
    uint32_t offline = 0;
    for (int32_t i = 0; i < node->directory_count; i++) {
        const int32_t at = directory_position(before, &node->directories[i]);
        if (at >= 0 && ((before->offline_directories >> at) & 1) != 0) {
            offline |= UINT32_C(1) << i;
        }
    }
    return offline;
}

enum stele_err stele_registry_register(const struct stele_registry *registry, const struct stele_node_request *request,
                                       const struct stele_registry_terms *terms,
                                       struct stele_registration_verdict *out_verdict)
{
    const struct stele_node_registration *before = stele_registry_find(registry, request->node.node_id);
    const enum stele_err err = registration_check(registry, request, terms, before);
    if (err != STELE_OK) {
        return err;
    }
    struct stele_registration_verdict verdict = {.record = request->node};
    struct stele_node_registration *record = &verdict.record;
    record->served_epoch = before != NULL ? before->served_epoch : 0;
    if (before != NULL && stele_uuid_equal(&before->incarnation_id, &record->incarnation_id)) {
        verdict.is_same_incarnation = true;
        record->node_epoch = before->node_epoch;
        record->boot_id = before->boot_id;
        record->is_fenced = before->is_fenced;
        record->is_shutting_down = before->is_shutting_down;
        record->offline_directories = directories_still_offline(before, record);
        verdict.lost_directories = directories_lost(before, record) & ~before->offline_directories;
        *out_verdict = verdict;
        return STELE_OK;
    }
    record->node_epoch = terms->record_offset;
    record->is_fenced = true;
    record->is_shutting_down = false;
    record->offline_directories = 0;
    if (before != NULL) {
        const bool is_clean = request->previous_epoch == before->node_epoch;
        const bool is_same_boot =
            !stele_uuid_is_zero(&record->boot_id) && stele_uuid_equal(&record->boot_id, &before->boot_id);
        verdict.has_lost_memory = !is_clean && !is_same_boot;
        verdict.lost_directories = directories_lost(before, record);
        verdict.older_directories = directories_older(before, request);
    }
    *out_verdict = verdict;
    return STELE_OK;
}
