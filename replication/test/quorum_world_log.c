/* The model logs: what the owner of a real log answers, and what a crash leaves of it. */
#include "replication/test/quorum_world.h"

#include <string.h>

struct world_entry *world_entry(struct world_node *node, int64_t offset)
{
    STELE_ASSERT(offset >= node->log_start);
    STELE_ASSERT(offset < node->end);
    return &node->entries[offset];
}

int32_t world_last_epoch(const struct world_node *node)
{
    return node->end > node->log_start ? node->entries[node->end - 1].epoch : node->base_epoch;
}

/* As an epoch index answers (KIP-101, KIP-279). */
struct stele_epoch_end world_epoch_end(struct world_node *node, int32_t epoch)
{
    struct stele_epoch_end unknown = {.epoch = -1, .end_offset = -1};
    int32_t last = world_last_epoch(node);
    if ((node->end == node->log_start && node->log_start == 0) || epoch > last) {
        return unknown;
    }
    if (epoch == last) {
        return (struct stele_epoch_end){.epoch = epoch, .end_offset = node->end};
    }
    /* The first record of a higher epoch; epochs never fall, so it is searched by halves. */
    int64_t low = node->log_start, high = node->end;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (node->entries[middle].epoch > epoch) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == node->log_start) {
        return (struct stele_epoch_end){.epoch = epoch, .end_offset = low};
    }
    return (struct stele_epoch_end){.epoch = node->entries[low - 1].epoch, .end_offset = low};
}

uint64_t world_mix(uint64_t hash, const struct world_entry *entry)
{
    hash ^= ((uint64_t)(uint32_t)entry->epoch << 32) | entry->payload;
    hash *= UINT64_C(0xff51afd7ed558ccd);
    return hash ^ (hash >> 29);
}

void world_log_append(struct world *world, struct world_node *node, const struct world_entry *entry)
{
    if (node->end >= WORLD_LOG) {
        world_break(world, "world", "the log is full");
        return;
    }
    world_check_unique(world, node->end, entry);
    node->has_new_voters = node->has_new_voters || entry->voters >= 0;
    node->entries[node->end++] = *entry;
}

void world_log_truncate(struct world *world, struct world_node *node, int64_t end_offset)
{
    world_check_truncate(world, node, end_offset);
    world->truncations++;
    for (int64_t i = end_offset; i < node->synced; i++) {
        node->tail[i] = node->entries[i];
    }
    node->tail_end = node->synced > end_offset ? node->synced : 0;
    node->has_new_voters = true;
    node->end = end_offset;
    node->synced = stele_min_i64(node->synced, end_offset);
    node->sync_end = stele_min_i64(node->sync_end, end_offset);
}

/* The unsynced tail is lost from some record on; what was cut off comes back when nothing was written over it. */
void world_log_crash(struct world *world, struct world_node *node)
{
    int64_t kept = stele_prng_range(&world->prng, node->synced, node->end);
    if (node->tail_end > node->end && node->end == node->synced && stele_prng_chance(&world->prng, 1, 2)) {
        for (int64_t i = node->end; i < node->tail_end; i++) {
            node->entries[i] = node->tail[i];
        }
        kept = node->tail_end;
    }
    node->end = kept;
    node->synced = kept;
    node->tail_end = 0;
    node->sync_end = -1;
    /* A snapshot was installed but the log not yet replaced. */
    if (node->snapshot_count > 0) {
        const struct world_snapshot *newest = &node->snapshots[node->snapshot_count - 1];
        bool is_inside = newest->id.end_offset >= node->log_start && newest->id.end_offset <= node->end;
        int32_t epoch = !is_inside                                 ? -1
                        : newest->id.end_offset == node->log_start ? node->base_epoch
                                                                   : node->entries[newest->id.end_offset - 1].epoch;
        if (epoch != newest->id.epoch) {
            node->snapshots[0] = *newest;
            node->snapshot_count = 1;
            node->log_start = node->end = node->synced = node->snapshots[0].id.end_offset;
            node->base_epoch = node->snapshots[0].id.epoch;
            node->base_hash = node->snapshots[0].hash;
        }
    }
}

/* The voters records that the disk has, oldest first, the latest of them. */
int32_t world_history(struct world *world, struct world_node *node, struct stele_voters_at *out_history)
{
    int64_t offsets[STELE_VOTERS_HISTORY_MAX];
    int32_t sets[STELE_VOTERS_HISTORY_MAX], count = 0, filled = 0;
    for (int64_t i = node->end - 1; i >= node->log_start && count < STELE_VOTERS_HISTORY_MAX - 1; i--) {
        if (node->entries[i].voters >= 0) {
            offsets[count] = i;
            sets[count++] = node->entries[i].voters;
        }
    }
    const struct world_snapshot *base = NULL;
    for (int32_t i = 0; i < node->snapshot_count; i++) {
        if (node->snapshots[i].id.end_offset <= node->log_start || base == NULL) {
            base = &node->snapshots[i];
        }
    }
    if (node->log_start > 0 && base != NULL) {
        out_history[filled++] = (struct stele_voters_at){.offset = base->id.end_offset - 1, .voters = base->voters};
    } else if (node->is_founder) {
        out_history[filled++] = (struct stele_voters_at){.offset = -1, .voters = world->founders};
    }
    for (int32_t i = count - 1; i >= 0; i--) {
        if (filled > 0 && offsets[i] <= out_history[filled - 1].offset) {
            continue;
        }
        out_history[filled++] = (struct stele_voters_at){.offset = offsets[i], .voters = world->sets[sets[i]]};
    }
    return filled;
}
