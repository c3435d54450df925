/* What must hold of the replicas of a partition, looked at after every event of a node: facts 8.1. What is looked at is
 * what moved: ends, high watermarks, roles. Batches are read from the files of the simulated disks. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "node/partition.h"

#include <stdlib.h>
#include <string.h>

enum { AGAIN_OFFSETS = 500 };

/* What is looked at. */
struct look {
    struct cluster *run;
    struct cluster_node *node;
    struct cluster_replica *replica;
    const struct stele_partition *of;
    struct cluster_topic *topic;
    struct cluster_partition *partition;
    char name[40];
};

static struct cluster_replica *replica_of(struct cluster_node *node, const struct cluster_topic *topic, int32_t number)
{
    return &node->replicas[topic - node->run->book.topics][number];
}

/* Rot that nobody has read yet: it is no other batch that lies there. What its checksum does not cover may have rotted
 * too. `place` is of the header; NULL: nothing was found. */
static bool is_rotten(const struct look *look, const struct cluster_log_place *place,
                      const struct stele_batch_header *header, const struct cluster_batch *known)
{
    struct stele_batch_header checked;
    size_t bytes = 0;
    bool is_anywhere = sim_disk_stats(look->node->server.disk)->rotten > 0; /* by a script, not cluster_rot */
    if (!is_anywhere && look->node->rots == 0)
        return false;
    if (place == NULL || header->base_offset > known->base_offset)
        return true;
    /* What a client sends twice is the same in another epoch. */
    if (header->crc == known->crc && (is_anywhere || header->partition_leader_epoch == known->epoch))
        return true;
    uint8_t *batch = cluster_log_batch(look->node->server.disk, stele_log_dir(look->of->log), place, header, &bytes);
    bool is_bad = batch == NULL || stele_batch_check(batch, bytes, &checked) != STELE_OK;
    free(batch);
    return is_bad;
}

/* A forced leader began behind all that was known: of what it had deleted nobody saw a batch. */
static bool is_in_hole(const struct cluster_batch *known, int64_t offset)
{
    return known == NULL || known->base_offset > offset;
}

/* Compares the files with what is committed, up to an offset that is. */
static void verify(struct look *look, int64_t to, const char *rule)
{
    struct cluster_replica *replica = look->replica;
    struct sim_world *world = &look->run->world;
    replica->checked_to = stele_max_i64(replica->checked_to, stele_log_start_offset(look->of->log));
    while (replica->checked_to < to) {
        struct stele_batch_header header = {.base_offset = -1};
        const struct cluster_batch *known = cluster_book_batch(look->partition, replica->checked_to);
        if (is_in_hole(known, replica->checked_to)) {
            replica->checked_to = known == NULL ? to : known->base_offset;
            continue;
        }
        bool is_there = cluster_log_find(look->node->server.disk, stele_log_dir(look->of->log), &replica->place,
                                         replica->checked_to, &header);
        bool is_same = is_there && header.base_offset == known->base_offset &&
                       stele_batch_last_offset(&header) + 1 == known->end_offset && header.crc == known->crc &&
                       header.partition_leader_epoch == known->epoch;
        if (!is_same && !is_rotten(look, is_there ? &replica->place : NULL, &header, known))
            sim_world_fail(world,
                           "%s: %s holds at %lld a batch of epoch %d up to %lld, and committed is one of epoch %d "
                           "from %lld up to %lld",
                           rule, look->name, (long long)replica->checked_to,
                           is_there ? (int)header.partition_leader_epoch : -1,
                           is_there ? (long long)stele_batch_last_offset(&header) : -1LL, (int)known->epoch,
                           (long long)known->base_offset, (long long)known->end_offset - 1);
        replica->checked_to = known->end_offset;
    }
}

/* Where its first batch begins, which may lie around its start: batches are lost, and committed, as a whole. */
static int64_t begin_of(const struct look *look)
{
    struct cluster_log_place place = {.is_known = false};
    struct stele_batch_header header;
    int64_t start = stele_log_start_offset(look->of->log);
    bool is_there = cluster_log_find(look->node->server.disk, stele_log_dir(look->of->log), &place, start, &header);
    return is_there ? stele_min_i64(header.base_offset, start) : start;
}

/* Of what is committed, this is to lead without the rest: somebody wanted it so. */
static void lose_what_is_not_there(struct look *look)
{
    struct cluster_replica *replica = look->replica;
    struct cluster_log_place place = {.is_known = false};
    struct stele_batch_header header;
    int64_t at = stele_log_start_offset(look->of->log), end_offset = stele_log_end_offset(look->of->log);
    while (at < look->partition->end_offset && at < end_offset) {
        const struct cluster_batch *known = cluster_book_batch(look->partition, at);
        if (known == NULL)
            break;
        if (is_in_hole(known, at)) {
            at = known->base_offset;
            continue;
        }
        bool is_there = cluster_log_find(look->node->server.disk, stele_log_dir(look->of->log), &place, at, &header);
        bool is_same = is_there && header.base_offset == known->base_offset && header.crc == known->crc &&
                       header.partition_leader_epoch == known->epoch;
        if (!is_same && !is_rotten(look, is_there ? &place : NULL, &header, known))
            break;
        at = known->end_offset;
    }
    if (at == stele_log_start_offset(look->of->log)) /* it has none of what is known */
        at = begin_of(look);
    if (at >= look->partition->end_offset) { /* it may begin behind what it had, lost to force before, and deleted */
        look->partition->end_offset = at;
        look->partition->start_offset =
            stele_max_i64(look->partition->start_offset, stele_log_start_offset(look->of->log));
        return;
    }
    sim_world_log(&look->run->world, "%s leads, forced to: what is committed from %lld up to %lld is lost", look->name,
                  (long long)at, (long long)look->partition->end_offset);
    cluster_reach(look->run, CLUSTER_POINT_FORCED);
    look->partition->forced_epoch = look->of->replica.leader.leader_epoch;
    bool is_excused = cluster_epoch_at(look->partition, look->partition->forced_epoch)->is_excused;
    cluster_book_lose(look->run, look->topic, look->of->key.number, at, is_excused);
    look->partition->end_offset = at; /* what is below is the same, or was deleted */
    for (int i = 0; i < look->run->node_count; i++) {
        struct cluster_replica *other = replica_of(&look->run->nodes[i], look->topic, look->of->key.number);
        other->checked_to = stele_min_i64(other->checked_to, at);
        /* It may have what is lost, or get it of who leads and has not heard, until it is cut; also what was lost the
         * time before, while it was away. */
        other->stale_from = other->stale_from < 0 ? at : stele_min_i64(other->stale_from, at);
    }
    replica->stale_from = -1;
    replica->place.is_known = false;
}

/* The high watermark of this replica went beyond what was known to be committed. */
static void commit(struct look *look, int64_t to)
{
    struct cluster_replica *replica = look->replica;
    struct sim_disk *disk = look->node->server.disk;
    const char *dir = stele_log_dir(look->of->log);
    while (look->partition->end_offset < to) {
        struct cluster_commit next = {
            .topic = look->topic, .partition = look->of->key.number, .epoch = look->of->replica.leader_epoch};
        uint8_t *bytes = NULL;
        if (cluster_log_find(disk, dir, &replica->place, look->partition->end_offset, &next.header))
            bytes = cluster_log_batch(disk, dir, &replica->place, &next.header, &next.count);
        if (bytes == NULL)
            sim_world_fail(&look->run->world, "%s has a high watermark of %lld, and its files have nothing at %lld",
                           look->name, (long long)to, (long long)look->partition->end_offset);
        next.bytes = bytes;
        cluster_book_commit(look->run, &next);
        free(bytes);
        replica->checked_to = look->partition->end_offset;
    }
}

/* This leader has heard of the member since its machine booted last, with the directories that it has now. */
static bool has_heard_of(const struct look *look, const struct cluster_node *node)
{
    const struct stele_leader *leader = &look->of->replica.leader;
    const struct stele_image *image = &look->node->server.node->control.mlog.image;
    const struct stele_image_member *member = stele_image_member_of(image, node->number + 1);
    const struct stele_node *of = node->server.node;
    if (member == NULL || !stele_uuid_equal(&member->boot_id, &of->options.boot_id))
        return false;
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        if (leader->replicas.ids[i] == member->node_id && leader->followers[i].status.node_epoch < member->node_epoch)
            return false; /* the word is on its way */
    }
    int count = of->control.dirs != NULL ? stele_log_dirs_count(of->control.dirs) : 0; /* it is ending */
    for (int i = 0; i < count; i++) {
        struct stele_uuid id;
        bool is_there = !stele_log_dirs_id(of->control.dirs, i, &id);
        for (size_t k = 0; k < member->directory_count && !is_there; k++)
            is_there = stele_uuid_equal(&member->directories[k], &id);
        if (!is_there)
            return false;
    }
    return true;
}

/* D11: what counts as committed is in every log that may lead by what the leader knows. A node that lost its memory
 * since it said what it has is found out later, by a leader that is cut off much later, unless what it said was on its
 * disk. */
static void check_members(struct look *look, const struct stele_node_set *members, int64_t high_watermark)
{
    for (int32_t i = 0; i < members->count; i++) {
        struct cluster_node *node = &look->run->nodes[members->ids[i] - 1];
        struct cluster_replica *replica = replica_of(node, look->topic, look->of->key.number);
        if (!cluster_node_lives(node))
            continue;
        bool has_lost = node->is_amnesiac || !has_heard_of(look, node);
        bool may_lack = has_lost && (!look->topic->flushes_before_ack || node->is_wiped);
        if (replica->of == NULL || replica->of->state != STELE_PARTITION_OPEN || may_lack)
            continue;
        int64_t end_offset = stele_log_end_offset(replica->of->log);
        if (end_offset < high_watermark)
            sim_world_fail(&look->run->world, "D11: %s has a high watermark of %lld, and n%d, in sync, ends at %lld",
                           look->name, (long long)high_watermark, node->number + 1, (long long)end_offset);
        int64_t synced = stele_max_i64(stele_log_recovery_point(replica->of->log), replica->synced_to);
        if (look->topic->flushes_before_ack && synced < high_watermark)
            sim_world_fail(&look->run->world, "D11: %s has a high watermark of %lld, and n%d has synced up to %lld",
                           look->name, (long long)high_watermark, node->number + 1, (long long)synced);
    }
}

/* Where that ends which was committed before an epoch. Of what was deleted before anybody saw it there are no batches:
 * as what follows it was committed no earlier, it goes with that. */
static int64_t end_before(const struct cluster_partition *partition, int32_t leader_epoch)
{
    int64_t i = partition->count;
    while (i > 0 && partition->batches[i - 1].committed_in >= leader_epoch)
        i--;
    if (i == partition->count)
        return partition->end_offset;
    return i > 0 ? partition->batches[i - 1].end_offset : 0;
}

static void check_leader(struct look *look, int64_t high_watermark)
{
    const struct stele_leader *leader = &look->of->replica.leader;
    struct cluster_replica *replica = look->replica;
    struct cluster_epoch *epoch = cluster_epoch_at(look->partition, leader->leader_epoch);
    struct sim_world *world = &look->run->world;
    if (epoch->leader != 0 && epoch->leader != look->node->number + 1)
        sim_world_fail(world, "D1: n%d and %s lead epoch %d", epoch->leader, look->name, (int)leader->leader_epoch);
    if (epoch->leader == 0) {
        cluster_reach(look->run, CLUSTER_POINT_LEADER);
        sim_world_log(world, "%s leads in epoch %d", look->name, (int)leader->leader_epoch);
    }
    epoch->leader = look->node->number + 1;
    if (replica->role != STELE_REPLICA_LEADER || replica->leader_epoch != leader->leader_epoch) {
        if (epoch->is_forced)
            return;
        verify(look, end_before(look->partition, leader->leader_epoch), "D5 (a leader has all)");
        return;
    }
    if (high_watermark < replica->high_watermark)
        sim_world_fail(world, "D9: the high watermark of %s goes back from %lld to %lld", look->name,
                       (long long)replica->high_watermark, (long long)high_watermark);
    if (high_watermark == replica->high_watermark)
        return;
    if (leader->isr.count < stele_leader_min_isr(leader))
        sim_world_fail(world, "D12: the high watermark of %s moves with %d in sync", look->name,
                       (int)leader->isr.count);
    check_members(look, &leader->isr, high_watermark);
    if (leader->isr_state != STELE_ISR_COMMITTED)
        check_members(look, &leader->change.isr, high_watermark);
}

/* A leader that has not heard of the forced election, with followers that have not either, goes on to acknowledge. */
static void lose_what_is_deposed(struct look *look, int64_t to)
{
    struct cluster_log_place place = {.is_known = false};
    struct sim_disk *disk = look->node->server.disk;
    const char *dir = stele_log_dir(look->of->log);
    int64_t at = stele_max_i64(look->replica->high_watermark, look->replica->stale_from);
    at = stele_max_i64(at, stele_log_start_offset(look->of->log));
    while (at < to) {
        struct cluster_commit next = {.topic = look->topic, .partition = look->of->key.number};
        uint8_t *bytes = NULL;
        if (cluster_log_find(disk, dir, &place, at, &next.header))
            bytes = cluster_log_batch(disk, dir, &place, &next.header, &next.count);
        if (bytes == NULL)
            sim_world_fail(&look->run->world, "%s has a high watermark of %lld, and its files have nothing at %lld",
                           look->name, (long long)to, (long long)at);
        next.bytes = bytes;
        cluster_book_deposed(look->run, &next);
        free(bytes);
        at = stele_batch_last_offset(&next.header) + 1;
    }
}

/* It has heard of the forced election: what it has from before, it cuts. */
static bool has_heard_of_force(const struct look *look)
{
    return look->of->replica.leader_epoch >= look->partition->forced_epoch;
}

/* It leads after the forced election: by then it has what the forced leader had, or is one itself. */
static bool leads_since(const struct look *look)
{
    const struct stele_replica *replica = &look->of->replica;
    return replica->role == STELE_REPLICA_LEADER && replica->leader.leader_epoch > look->partition->forced_epoch;
}

static bool begins_forced(const struct look *look)
{
    const struct stele_replica *replica = &look->of->replica;
    int32_t epoch = replica->leader.leader_epoch;
    bool is_new = look->replica->role != STELE_REPLICA_LEADER || look->replica->leader_epoch != epoch;
    return replica->role == STELE_REPLICA_LEADER && is_new && cluster_epoch_at(look->partition, epoch)->is_forced;
}

/* An empty log whose leader has a batch around the offset where it begins: it is to begin with that batch. */
static bool begins_anew(const struct look *look)
{
    const struct stele_log *log = look->of->log;
    const struct cluster_replica *replica = look->replica;
    return stele_log_start_offset(log) == stele_log_end_offset(log) && replica->start_offset == replica->end_offset &&
           stele_log_end_offset(log) < replica->end_offset;
}

/* D31. A node that lost what its disk had not synced, or its disk, may begin lower again; who led and said where it
 * begins has that on its disk. */
static void check_start(struct look *look, int64_t start_offset)
{
    struct cluster_replica *replica = look->replica;
    struct cluster_start start = {.offset = start_offset,
                                  .held_bytes = stele_log_bytes(look->of->log),
                                  .wall_ms = stele_env_wall_ms(&look->node->server.envs[0].env)};
    /* See begins_anew: a replica that follows may have the batch around its start before it begins there again. */
    bool is_leader = look->of->replica.role == STELE_REPLICA_LEADER;
    bool is_empty = start_offset == stele_log_high_watermark(look->of->log);
    if (is_empty && start_offset < replica->start_floor)
        replica->start_floor = 0; /* it has nothing left, and begins where its leader does */
    if (start_offset < replica->start_offset && is_leader && !is_empty)
        sim_world_fail(&look->run->world, "D31: %s begins at %lld, and began at %lld", look->name,
                       (long long)start_offset, (long long)replica->start_offset);
    if (start_offset < replica->start_floor && is_leader)
        sim_world_fail(&look->run->world, "D31: %s begins at %lld, and has said that it begins at %lld", look->name,
                       (long long)start_offset, (long long)replica->start_floor);
    cluster_book_start(look->run, look->topic, look->of->key.number, &start);
}

int64_t cluster_replicas_floor(struct cluster *run, const struct cluster_topic *topic, int partition)
{
    const struct stele_node_set *replicas = &topic->partitions[partition].state.replicas;
    int64_t floor = INT64_MAX;
    for (int i = 0; i < run->node_count; i++) {
        struct cluster_node *node = &run->nodes[i];
        const struct cluster_replica *replica = replica_of(node, topic, partition);
        bool is_there = cluster_node_lives(node) && replica->of != NULL;
        if (!is_there && stele_node_set_has(replicas, i + 1))
            return -1;
        if (is_there) /* also one that has not heard yet that it is no replica any more */
            floor = stele_min_i64(floor, replica->start_offset);
    }
    return floor == INT64_MAX ? -1 : floor;
}

struct cluster_replica *cluster_replicas_leader(struct cluster *run, const struct cluster_topic *topic, int partition)
{
    struct cluster_replica *leader = NULL;
    int count = 0;
    for (int i = 0; i < run->node_count; i++) {
        struct cluster_replica *replica = replica_of(&run->nodes[i], topic, partition);
        if (!cluster_node_lives(&run->nodes[i]) || replica->of == NULL || replica->role != STELE_REPLICA_LEADER)
            continue;
        leader = replica;
        count++;
    }
    return count == 1 ? leader : NULL;
}

static void check_replica(struct look *look)
{
    struct stele_log *log = look->of->log;
    struct cluster_replica *replica = look->replica;
    struct cluster_partition *partition = look->partition;
    int64_t end_offset = stele_log_end_offset(log), high_watermark = stele_log_high_watermark(log);
    enum stele_replica_role role = look->of->replica.role;
    if (stele_log_start_offset(log) > high_watermark || high_watermark > end_offset)
        sim_world_fail(&look->run->world, "D8: %s begins at %lld, has a high watermark of %lld and ends at %lld",
                       look->name, (long long)stele_log_start_offset(log), (long long)high_watermark,
                       (long long)end_offset);
    check_start(look, stele_log_start_offset(log));
    if (replica->stale_from >= 0 && has_heard_of_force(look) &&
        (end_offset <= replica->stale_from || end_offset < replica->end_offset || leads_since(look)))
        replica->stale_from = -1;
    if (begins_forced(look))
        lose_what_is_not_there(look);
    if (end_offset < replica->checked_to) {
        if (!partition->was_forced && !begins_anew(look))
            sim_world_fail(&look->run->world, "D23: %s is cut to %lld, and had what is committed up to %lld",
                           look->name, (long long)end_offset, (long long)replica->checked_to);
        replica->checked_to = end_offset;
    }
    if (end_offset < replica->end_offset)
        cluster_reach(look->run, CLUSTER_POINT_CUT);
    if (role == STELE_REPLICA_FOLLOWER && look->of->replica.follower.is_read_from)
        cluster_reach(look->run, CLUSTER_POINT_FOLLOWER_READ);
    if (replica->stale_from >= 0) {
        verify(look, stele_min_i64(replica->stale_from, high_watermark), "D2 (logs match)");
        if (role == STELE_REPLICA_LEADER && !has_heard_of_force(look))
            lose_what_is_deposed(look, high_watermark);
    } else if (high_watermark > partition->end_offset) {
        verify(look, partition->end_offset, "D2 (logs match)");
        commit(look, high_watermark);
    } else {
        verify(look, high_watermark, "D2 (logs match)");
    }
    if (role == STELE_REPLICA_LEADER)
        check_leader(look, high_watermark);
    replica->role = role;
    replica->leader_epoch = look->of->replica.leader.leader_epoch;
    replica->high_watermark = high_watermark;
    replica->start_offset = stele_log_start_offset(log);
    replica->end_offset = end_offset;
}

/* The only replica there is leads whatever it lost with its power, or its disk. */
static void take_loss(struct look *look)
{
    struct cluster_partition *partition = look->partition;
    int64_t end_offset = stele_log_end_offset(look->of->log);
    bool is_alone =
        look->run->node_count == 1 || (partition->has_state && partition->state.replicas.count == 1 &&
                                       stele_node_set_has(&partition->state.replicas, look->node->number + 1));
    if (!is_alone || !look->node->is_amnesiac || end_offset >= partition->end_offset)
        return;
    cluster_reach(look->run, CLUSTER_POINT_ONLY_LOST);
    cluster_book_lose(look->run, look->topic, look->of->key.number, end_offset, look->node->is_wiped);
    partition->end_offset = stele_max_i64(partition->end_offset, begin_of(look));
}

/* True when something moved. */
static bool has_moved(const struct cluster_replica *replica, const struct stele_partition *of)
{
    return replica->of != of || replica->end_offset != stele_log_end_offset(of->log) ||
           replica->start_offset != stele_log_start_offset(of->log) ||
           replica->high_watermark != stele_log_high_watermark(of->log) || replica->role != of->replica.role ||
           replica->leader_epoch != of->replica.leader.leader_epoch;
}

static struct cluster_known *know(struct cluster_node *node, const struct stele_partition *of, bool is_open)
{
    for (int i = 0; i < node->known_count; i++) {
        struct cluster_known *known = &node->known[i];
        if (known->of == of && known->number == of->key.number &&
            stele_uuid_equal(&known->topic->id, &of->key.topic_id))
            return known;
    }
    struct cluster_topic *topic = cluster_book_topic(node->run, &of->key.topic_id);
    if (topic == NULL || !is_open)
        return NULL;
    if (node->known_count == CLUSTER_KNOWN_MAX)
        sim_world_fail(&node->run->world, "n%d has too many partitions", node->number + 1);
    if (of->key.number >= CLUSTER_PARTITIONS_MAX)
        sim_world_fail(&node->run->world, "%s has a partition %d", topic->name, (int)of->key.number);
    struct cluster_known *known = &node->known[node->known_count++];
    *known = (struct cluster_known){
        .of = of, .topic = topic, .number = of->key.number, .replica = replica_of(node, topic, of->key.number)};
    known->since_epoch = node->partition_epochs[topic - node->run->book.topics][of->key.number];
    return known;
}

/* What was compared in an earlier life is compared again at the end of the run, but for the last of it. */
static void start_at_batch(struct cluster_known *known, int32_t number)
{
    struct cluster_partition *partition = &known->topic->partitions[number];
    int64_t at = stele_min_i64(known->replica->checked_to, partition->end_offset);
    const struct cluster_batch *batch = cluster_book_batch(partition, at);
    known->replica->checked_to = batch == NULL ? partition->end_offset : batch->base_offset;
    known->replica->checked_to = stele_min_i64(known->replica->checked_to, stele_log_high_watermark(known->of->log));
}

static struct look look_at(struct cluster_node *node, const struct cluster_known *known)
{
    struct look look = {.run = node->run,
                        .node = node,
                        .replica = known->replica,
                        .of = known->of,
                        .topic = known->topic,
                        .partition = &known->topic->partitions[known->of->key.number]};
    (void)snprintf(look.name, sizeof(look.name), "%s of n%d", known->of->name, node->number + 1);
    return look;
}

/* S17: what a node has of a partition goes when the metadata log has it that it is no replica any more, or that there
 * is no such topic. */
static void check_left(struct cluster_node *node, struct cluster_known *known)
{
    const struct stele_metadata_log *mlog = cluster_metadata_of(node);
    int32_t out_epoch = known->topic->partitions[known->number].out_epochs[node->number];
    const struct stele_image_topic *it = mlog == NULL ? NULL : stele_image_topic_of(&mlog->image, &known->topic->id);
    if (it != NULL && out_epoch < known->since_epoch)
        sim_world_fail(&node->run->world, "S17: n%d lets %s-%d go, and is a replica of it", node->number + 1,
                       known->topic->name, known->number);
    if (it != NULL)
        cluster_reach(node->run, CLUSTER_POINT_REPLICA_LEFT);
    *known->replica = (struct cluster_replica){.stale_from = -1};
}

/* It is in another log directory now, and has there all that it had. */
static void look_anew(struct cluster_known *known)
{
    struct cluster_replica *replica = known->replica;
    if (replica->log != NULL && replica->log != known->of->log) {
        replica->place.is_known = false;
        replica->checked_to = stele_log_start_offset(known->of->log);
        start_at_batch(known, known->of->key.number);
    }
    replica->log = known->of->log;
}

/* What was synced stays so, also where a start takes a checkpoint for its recovery point; until it is cut. */
static void note_synced(struct cluster_replica *replica, const struct stele_log *log)
{
    int64_t synced = stele_max_i64(replica->synced_to, stele_log_recovery_point(log));
    replica->synced_to = stele_min_i64(synced, stele_log_end_offset(log));
}

/* Those that the node let go. */
static void forget_others(struct cluster_node *node)
{
    int kept = 0;
    for (int i = 0; i < node->known_count; i++) {
        if (!node->known[i].is_there)
            check_left(node, &node->known[i]);
        else
            node->known[kept++] = node->known[i];
    }
    node->known_count = kept;
}

void cluster_replicas_check(struct cluster_node *node)
{
    struct stele_list *all = &node->server.node->partitions;
    if (!cluster_node_lives(node))
        return;
    for (int i = 0; i < node->known_count; i++)
        node->known[i].is_there = false;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        const struct stele_partition *of = STELE_CONTAINER_OF(at, struct stele_partition, all);
        if (of->state == STELE_PARTITION_REMOVED)
            continue;
        bool is_open = of->state != STELE_PARTITION_OPENING && of->log != NULL;
        struct cluster_known *known = know(node, of, is_open);
        if (known == NULL)
            continue;
        known->is_there = true;
        if (is_open)
            note_synced(known->replica, of->log);
        if (!is_open || of->replica.cut != STELE_CUT_NONE || !has_moved(known->replica, of))
            continue;
        bool is_first = known->replica->of != of;
        if (is_first) {
            int64_t checked_to = stele_max_i64(known->replica->checked_to - AGAIN_OFFSETS, 0);
            *known->replica = (struct cluster_replica){.of = of,
                                                       .leader_epoch = -1,
                                                       .checked_to = checked_to,
                                                       .stale_from = known->replica->stale_from,
                                                       .synced_to = known->replica->synced_to,
                                                       .start_floor = known->replica->start_floor};
            start_at_batch(known, of->key.number);
        }
        look_anew(known);
        struct look look = look_at(node, known);
        if (is_first)
            take_loss(&look);
        check_replica(&look);
    }
    forget_others(node);
}

void cluster_replicas_check_all(struct cluster *run)
{
    for (int i = 0; i < run->node_count; i++) {
        struct cluster_node *node = &run->nodes[i];
        for (int k = 0; k < node->known_count && cluster_node_lives(node); k++) {
            struct look look = look_at(node, &node->known[k]);
            look.replica->checked_to = 0;
            verify(&look, stele_log_high_watermark(look.of->log), "D2 (logs match, at the end)");
        }
    }
}

void cluster_replicas_forget(struct cluster_node *node)
{
    for (int i = 0; i < CLUSTER_LIVES_MAX; i++) {
        for (int k = 0; k < CLUSTER_PARTITIONS_MAX; k++)
            node->replicas[i][k].of = NULL;
    }
    node->known_count = 0;
}
