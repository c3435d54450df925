#include "node/metadata_image.h"

#include <string.h>

static void listeners_free(struct stele_mem *mem, struct stele_image_listener *listeners, size_t count)
{
    for (size_t i = 0; listeners != NULL && i < count; i++) {
        stele_mem_free(mem, listeners[i].name);
        stele_mem_free(mem, listeners[i].host);
    }
    stele_mem_free(mem, listeners);
}

static void member_free(struct stele_mem *mem, struct stele_image_member *member)
{
    listeners_free(mem, member->listeners, member->listener_count);
    stele_mem_free(mem, member->directories);
    stele_mem_free(mem, member->offline_directories);
    stele_mem_free(mem, member->rack);
    stele_mem_free(mem, member->software_version);
    stele_mem_free(mem, member);
}

static void voters_free(struct stele_mem *mem, struct stele_image_voter *voters, size_t count)
{
    for (size_t i = 0; voters != NULL && i < count; i++)
        stele_mem_free(mem, voters[i].host);
    stele_mem_free(mem, voters);
}

void stele_image__cluster_drop(struct stele_image *image)
{
    while (image->members != NULL) {
        struct stele_image_member *member = image->members;
        image->members = member->next;
        member_free(image->mem, member);
    }
    voters_free(image->mem, image->voters, image->voter_count);
    stele_mem_free(image->mem, image->lost);
    image->voters = NULL;
    image->lost = NULL;
    image->voter_count = image->lost_count = 0;
}

const struct stele_image_member *stele_image_member_of(const struct stele_image *image, int32_t node_id)
{
    const struct stele_image_member *member = image->members;
    while (member != NULL && member->node_id != node_id)
        member = member->next;
    return member;
}

static enum stele_err copy_directories(struct stele_mem *mem, const struct stele_node_directory_id *from, size_t count,
                                       struct stele_uuid **out_ids)
{
    struct stele_uuid *ids = stele_mem_array(mem, STELE_MEM_METADATA, count, sizeof(*ids));
    if (ids == NULL)
        return STELE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        ids[i] = from[i].directory_id;
    *out_ids = ids;
    return STELE_OK;
}

static enum stele_err copy_listeners(struct stele_mem *mem, const struct stele_metadata_record *record,
                                     struct stele_image_member *member)
{
    size_t count = record->u.node.listener_count;
    member->listeners = stele_mem_array(mem, STELE_MEM_METADATA, count, sizeof(*member->listeners));
    if (member->listeners == NULL)
        return STELE_NO_MEMORY;
    for (; member->listener_count < count; member->listener_count++) {
        const struct stele_listener_address *from = &record->u.node.listeners[member->listener_count];
        struct stele_image_listener *to = &member->listeners[member->listener_count];
        *to = (struct stele_image_listener){.name = stele_mem_string(mem, STELE_MEM_METADATA, from->name),
                                            .host = stele_mem_string(mem, STELE_MEM_METADATA, from->host),
                                            .port = from->port};
        if (to->name == NULL || to->host == NULL) {
            member->listener_count++; /* what there is of it is freed too */
            return STELE_NO_MEMORY;
        }
    }
    return STELE_OK;
}

static enum stele_err make_member(struct stele_mem *mem, const struct stele_metadata_record *record,
                                  struct stele_image_member **out_member)
{
    struct stele_image_member *member = stele_mem_alloc(mem, STELE_MEM_METADATA, sizeof(*member));
    if (member == NULL)
        return STELE_NO_MEMORY;
    member->node_id = record->u.node.node_id;
    member->incarnation_id = record->u.node.incarnation_id;
    member->boot_id = record->u.node.boot_id;
    member->node_epoch = record->u.node.node_epoch;
    member->served_epoch = record->u.node.served_epoch;
    member->level_min = record->u.node.level_min;
    member->level_max = record->u.node.level_max;
    member->is_fenced = record->u.node.is_fenced;
    member->is_shutting_down = record->u.node.is_shutting_down;
    member->directory_count = record->u.node.directory_count;
    member->offline_directory_count = record->u.node.offline_directory_count;
    member->rack = stele_mem_string(mem, STELE_MEM_METADATA, record->u.node.rack);
    member->software_version = stele_mem_string(mem, STELE_MEM_METADATA, record->u.node.software_version);
    enum stele_err err = member->rack == NULL || member->software_version == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK)
        err = copy_listeners(mem, record, member);
    if (err == STELE_OK)
        err = copy_directories(mem, record->u.node.directories, member->directory_count, &member->directories);
    if (err == STELE_OK)
        err = copy_directories(mem, record->u.node.offline_directories, member->offline_directory_count,
                               &member->offline_directories);
    if (err == STELE_OK)
        *out_member = member;
    else
        member_free(mem, member);
    return err;
}

/* Where the member is linked, or would be. */
static struct stele_image_member **place_of(struct stele_image *image, int32_t node_id)
{
    struct stele_image_member **at = &image->members;
    while (*at != NULL && (*at)->node_id < node_id)
        at = &(*at)->next;
    return at;
}

/* What failed in one life of a node may be there in the next. In a snapshot nodes come once, and nothing is forgotten.
 */
static void forget_offline(struct stele_image *image, int32_t node_id)
{
    for (struct stele_image_topic *topic = image->by_name; topic != NULL; topic = topic->by_name.next) {
        for (int32_t i = 0; i < topic->partition_count; i++)
            stele_node_set_remove(&topic->partitions[i].state.offline, node_id);
    }
}

static enum stele_err apply_node(struct stele_image *image, const struct stele_metadata_record *record)
{
    struct stele_image_member **at = place_of(image, record->u.node.node_id), *member;
    bool is_known = *at != NULL && (*at)->node_id == record->u.node.node_id;
    if (record->u.node.node_id < 0 || record->u.node.listener_count > STELE_IMAGE_LISTENERS_MAX ||
        record->u.node.directory_count > STELE_IMAGE_DIRECTORIES_MAX ||
        record->u.node.offline_directory_count > STELE_IMAGE_DIRECTORIES_MAX ||
        (is_known && record->u.node.node_epoch < (*at)->node_epoch))
        return STELE_CORRUPT;
    enum stele_err err = make_member(image->mem, record, &member);
    if (err != STELE_OK)
        return err;
    image->member_records++;
    member->next = is_known ? (*at)->next : *at;
    if (is_known && (*at)->node_epoch != member->node_epoch)
        forget_offline(image, member->node_id);
    if (is_known)
        member_free(image->mem, *at);
    *at = member;
    return STELE_OK;
}

static enum stele_err apply_node_removed(struct stele_image *image, const struct stele_metadata_record *record)
{
    struct stele_image_member **at = place_of(image, record->u.node_removed.node_id), *member = *at;
    if (member == NULL || member->node_id != record->u.node_removed.node_id)
        return STELE_CORRUPT;
    image->member_records++;
    *at = member->next;
    forget_offline(image, member->node_id);
    member_free(image->mem, member);
    return STELE_OK;
}

static enum stele_err apply_voters(struct stele_image *image, const struct stele_metadata_record *record)
{
    size_t count = record->u.voters.voter_count;
    if (count == 0 || count > STELE_REPLICAS_MAX)
        return STELE_CORRUPT;
    struct stele_image_voter *voters = stele_mem_array(image->mem, STELE_MEM_METADATA, count, sizeof(*voters));
    if (voters == NULL)
        return STELE_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct stele_voter *from = &record->u.voters.voters[i];
        voters[i] = (struct stele_image_voter){.key = {.node_id = from->node_id, .directory_id = from->directory_id},
                                               .host = stele_mem_string(image->mem, STELE_MEM_METADATA, from->host),
                                               .port = from->port};
        if (voters[i].host == NULL) {
            voters_free(image->mem, voters, i);
            return STELE_NO_MEMORY;
        }
    }
    voters_free(image->mem, image->voters, image->voter_count);
    image->voters = voters;
    image->voter_count = count;
    return STELE_OK;
}

static enum stele_err apply_lost(struct stele_image *image, const struct stele_metadata_record *record, int64_t time_ms)
{
    struct stele_image_lost *lost = image->lost;
    if (lost == NULL)
        lost = stele_mem_array(image->mem, STELE_MEM_METADATA, STELE_IMAGE_LOST_MAX, sizeof(*lost));
    if (lost == NULL)
        return STELE_NO_MEMORY;
    image->lost = lost;
    if (image->lost_count == STELE_IMAGE_LOST_MAX)
        memmove(lost, lost + 1, --image->lost_count * sizeof(*lost));
    lost[image->lost_count++] = (struct stele_image_lost){.topic_id = record->u.lost_range.topic_id,
                                                          .partition = record->u.lost_range.partition,
                                                          .leader_epoch = record->u.lost_range.leader_epoch,
                                                          .first_offset = record->u.lost_range.first_offset,
                                                          .end_offset = record->u.lost_range.end_offset,
                                                          .time_ms = time_ms};
    return STELE_OK;
}

enum stele_err stele_image__apply_cluster(struct stele_image *image, const struct stele_metadata_record *record,
                                          int64_t time_ms)
{
    switch ((int)record->kind) {
    case STELE_METADATA_NODE:
        return apply_node(image, record);
    case STELE_METADATA_NODE_REMOVED:
        return apply_node_removed(image, record);
    case STELE_METADATA_LEADER_CHANGE: /* the quorum's */
        return STELE_OK;
    case STELE_METADATA_VOTERS:
        return apply_voters(image, record);
    case STELE_METADATA_LEVEL_CHANGE:
        image->level = record->u.level.level;
        return STELE_OK;
    case STELE_METADATA_LOST_RANGE:
        return apply_lost(image, record, time_ms);
    }
    return STELE_UNSUPPORTED_VERSION;
}
