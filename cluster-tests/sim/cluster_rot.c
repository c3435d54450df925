/* Bit rot in the logs of nodes that run: of a batch that is committed, that the node has synced and knows to be, and
 * that another replica in sync has. What is to be said of it then is what must hold anyhow: a reader gets the records
 * that were written or none, no replica takes the damage for the end of its log, and nothing that was acknowledged is
 * lost. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "node/partition.h"
#include "storage/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROT_BYTES_MAX = 512, CHECKPOINT_BYTES = 16384 };

/* Another in sync has it as it is, on its disk. */
static bool is_elsewhere(struct cluster *run, const struct cluster_node *node, const struct cluster_known *known,
                         const struct cluster_batch *batch)
{
    const struct stele_node_set *isr = &known->topic->partitions[known->number].state.isr;
    for (int32_t i = 0; i < isr->count; i++) {
        struct cluster_node *other = &run->nodes[isr->ids[i] - 1];
        const struct cluster_replica *replica = &other->replicas[known->topic - run->book.topics][known->number];
        if (other == node || !cluster_node_lives(other) || replica->of == NULL || other->rots > 0)
            continue;
        if (replica->of->state == STELE_PARTITION_OPEN && replica->start_offset <= batch->base_offset &&
            stele_log_recovery_point(replica->of->log) >= batch->end_offset)
            return true;
    }
    return false;
}

/* Up to there a start takes what does not check for damage, and behind it for what a crash tore: what the checkpoint in
 * the log directory says. */
static int64_t checkpointed(const struct cluster_node *node, const struct stele_partition *of)
{
    char path[STELE_PATH_BYTES], text[CHECKPOINT_BYTES], line[300];
    const char *dir = stele_log_dir(of->log), *slash = strrchr(dir, '/');
    const char *name = slash == NULL ? dir : slash + 1, *dash = strrchr(name, '-');
    STELE_ASSERT(slash != NULL && dash != NULL);
    (void)snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - dir), dir, STELE_RECOVERY_POINT_FILE);
    text[sim_disk_peek(node->server.disk, path, text, sizeof(text) - 1, 0)] = 0;
    (void)snprintf(line, sizeof(line), "\n%.*s %s ", (int)(dash - name), name, dash + 1);
    const char *at = strstr(text, line);
    return at == NULL ? 0 : strtoll(at + strlen(line), NULL, 10);
}

/* One of a drawn partition; NULL: that has none. */
static const struct cluster_batch *pick(struct cluster_node *node, const struct cluster_known *known,
                                        struct stele_prng *prng)
{
    const struct stele_partition *of = known->of;
    const struct cluster_partition *partition = &known->topic->partitions[known->number];
    if (of->state != STELE_PARTITION_OPEN || of->log == NULL || !partition->has_state || known->topic->is_gone)
        return NULL;
    int64_t start = stele_log_start_offset(of->log);
    int64_t end = stele_min_i64(stele_log_recovery_point(of->log), stele_log_high_watermark(of->log));
    end = stele_min_i64(stele_min_i64(end, partition->end_offset), checkpointed(node, of));
    if (start >= end)
        return NULL;
    const struct cluster_batch *batch = cluster_book_batch(partition, stele_prng_range(prng, start, end - 1));
    if (batch == NULL || batch->base_offset < start || batch->end_offset > end ||
        !is_elsewhere(node->run, node, known, batch))
        return NULL;
    return batch;
}

/* Base offset and epoch of a batch are under no checksum. */
static void damage(struct cluster_node *node, const char *path, int64_t at, int64_t bytes, struct stele_prng *prng)
{
    bool is_length = stele_prng_chance(prng, 1, 8), is_bit = stele_prng_chance(prng, 1, 2);
    int64_t low = is_length ? STELE_BATCH_POS_LENGTH : STELE_BATCH_POS_MAGIC;
    int64_t end = is_length ? STELE_BATCH_POS_EPOCH : bytes;
    int64_t pos = stele_prng_range(prng, low, end - 1);
    end = is_bit ? pos + 1 : stele_min_i64(end, pos + ROT_BYTES_MAX);
    for (; pos < end; pos++) {
        int64_t mask = is_bit ? 1 << stele_prng_below(prng, 8) : stele_prng_range(prng, 1, 255);
        enum stele_err err = sim_disk_flip(node->server.disk, path, at + pos, (uint8_t)mask);
        STELE_ASSERT(err == STELE_OK);
    }
}

void cluster_rot(struct cluster_node *node, uint64_t seed)
{
    struct stele_prng prng;
    struct cluster_log_place place = {.is_known = false};
    struct stele_batch_header header;
    char path[STELE_PATH_BYTES];
    stele_prng_init(&prng, node->run->world.seed, seed);
    if (node->known_count == 0 || !cluster_node_lives(node))
        return;
    const struct cluster_known *known = &node->known[stele_prng_below(&prng, (uint64_t)node->known_count)];
    const struct cluster_batch *batch = pick(node, known, &prng);
    const char *dir = batch == NULL ? "" : stele_log_dir(known->of->log);
    if (batch == NULL || !cluster_log_find(node->server.disk, dir, &place, batch->base_offset, &header) ||
        header.base_offset != batch->base_offset || header.crc != batch->crc)
        return;
    (void)snprintf(path, sizeof(path), "%s/%020lld.log", dir, (long long)place.segment_base);
    damage(node, path, place.at, (int64_t)header.length + STELE_BATCH_PREFIX_BYTES, &prng);
    node->rots++;
    cluster_reach(node->run, CLUSTER_POINT_ROTTEN);
    sim_world_log(&node->run->world, "%s: offsets %lld to %lld of %s rot", node->server.process.name,
                  (long long)batch->base_offset, (long long)batch->end_offset - 1, dir);
}
