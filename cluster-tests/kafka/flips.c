/* Flips bytes of what Kafka wrote, one after another, and asks the verifier each time: flips DIR LIST
 * quick|long|rewrite
 *
 * DIR: the samples, made by unpack.sh. LIST: the flips that nobody can find, with the reason for each kind; every other
 * flip must be found as damage, and no listed one may be found (undetectable-flips.txt says how to read it).
 *
 * Which bits: of bytes outside every checksum each bit alone and all at once, since a field may tolerate one and not
 * the other. Of bytes under a checksum one bit (another one for the next byte) and all at once: a CRC-32C finds every
 * error within 32 neighbouring bits, so that the choice cannot matter and two say as much as 255. `quick` takes one of
 * the two in turn, and of the larger logs only some bytes under checksums; `long` takes all. */
#include "cluster-tests/kafka/flips.h"

#include "base/cursor.h"
#include "cluster-tests/kafka/sample_files.h"
#include "proto/record_batch.h"
#include "storage/checkpoint.h"
#include "storage/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MASKS = 9,
    ZERO_TAIL = 1024,
    PARTITIONS_MAX = 12,
    SMALL_LOG_BYTES = 12000,
    LARGE_LOG_BYTES = 100000,
    WRONG_TOLD_MAX = 40
};

static const uint8_t masks[MASKS] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff};

/* A directory to be verified, made of parts of the samples. A set with checkpoints becomes a log directory of these
 * partitions only; of another the one partition alone is verified. */
struct world {
    const char *set;
    const char *partitions[PARTITIONS_MAX];
    bool flips_partitions; /* the files of the partitions; else those beside them */
    int long_stride;       /* > 0: too slow for a quick run, and of the long one every so many bytes under checksums */
};

static const struct world worlds[] = {
    {"clean",
     {"__consumer_offsets-0", "__consumer_offsets-1", "__consumer_offsets-2", "__transaction_state-0",
      "__transaction_state-1", "compacted-0", "plainoffsets-0", "trimmed-0"},
     false,
     0},
    {"clean", {"__cluster_metadata-0"}, true, 0},
    {"clean", {"__consumer_offsets-0", "__consumer_offsets-1"}, true, 0},
    {"clean", {"__transaction_state-1"}, true, 0},
    {"clean", {"appendtime-0"}, true, 0},
    {"clean", {"codec.gzip-0"}, true, 0},
    {"clean", {"codec.lz4-0"}, true, 0},
    {"clean", {"codec.none-0"}, true, 0},
    {"clean", {"codec.snappy-0"}, true, 0},
    {"clean", {"codec.zstd-0"}, true, 0},
    {"clean", {"compacted-0"}, true, 0},
    {"clean", {"plainoffsets-0"}, true, 0},
    {"clean", {"segments.index-0"}, true, 5},
    {"clean", {"segments.size-0"}, true, 997},
    {"clean", {"trimmed-0"}, true, 0},
    {"clean", {"txn-0"}, true, 0},
    {"crashed",
     {"__consumer_offsets-0", "__consumer_offsets-1", "__transaction_state-1", "compacted-0", "plainoffsets-0",
      "trimmed-0"},
     false,
     0},
    {"crashed", {"__consumer_offsets-0", "__consumer_offsets-1"}, true, 0},
    {"crashed", {"__transaction_state-1"}, true, 0},
    {"crashed", {"compacted-0"}, true, 0},
    {"crashed", {"plainoffsets-0"}, true, 0},
    {"crashed", {"segments.index-0"}, true, 41},
    {"crashed", {"txn-0"}, true, 0},
    {"diverged", {"n1-before"}, true, 0},
    {"diverged", {"n1-after"}, true, 0},
    {"diverged", {"n2"}, true, 0},
    {"diverged", {"n3"}, true, 0},
};

static struct {
    const char *samples;
    bool is_long, is_rewrite;
    struct flip_list listed, seen;
    const struct world *world;
    struct sim_disk *disk;
    struct stele_test_env test;
    char root[64]; /* what is verified */
    int64_t damages, leftovers;
    /* of all */
    int64_t flips, found, told_as_leftover, silent, wrong;
} run;

static void ignore(void *arg, const struct stele_finding *finding)
{
    (void)arg;
    (void)finding;
}

static void verify(void)
{
    struct stele_verify_options options = {.found = ignore};
    struct stele_verify_report report;
    if (stele_verify(&run.test.env, run.root, &options, &report) != STELE_OK) {
        fprintf(stderr, "flips: %s cannot be verified\n", run.root);
        exit(2);
    }
    run.damages = report.damages;
    run.leftovers = report.crash_leftovers;
}

/* The lines of a checkpoint that name the world's partitions. */
static void filter_checkpoint(char *text)
{
    char kept[8192] = "", name[300], topic[256];
    int count = 0, partition;
    long long offset;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%255s %d %lld\n", topic, &partition, &offset) != 3 || strchr(line, '\n') == NULL ||
            strcspn(line, " ") > strcspn(line, "\n"))
            continue;
        (void)snprintf(name, sizeof(name), "%s-%d", topic, partition);
        for (int i = 0; i < PARTITIONS_MAX && run.world->partitions[i] != NULL; i++) {
            if (strcmp(name, run.world->partitions[i]) != 0)
                continue;
            count++;
            (void)snprintf(kept + strlen(kept), sizeof(kept) - strlen(kept), "%s %d %lld\n", topic, partition, offset);
        }
    }
    (void)sprintf(text, "0\n%d\n%.8000s", count, kept);
}

static void load_beside(void)
{
    static const char *const names[] = {
        STELE_RECOVERY_POINT_FILE, STELE_LOG_START_FILE,       STELE_HIGH_WATERMARK_FILE,
        STELE_CLEANER_OFFSET_FILE, STELE_META_PROPERTIES_FILE, STELE_CLEAN_SHUTDOWN_FILE,
    };
    char path[STELE_PATH_BYTES], target[STELE_PATH_BYTES];
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        size_t count = 0;
        (void)snprintf(path, sizeof(path), "%.2000s/%s/%s", run.samples, run.world->set, names[i]);
        (void)snprintf(target, sizeof(target), "/%s/%s", run.world->set, names[i]);
        char *text = (char *)sample_read(path, &count);
        if (text == NULL)
            continue;
        if (strstr(names[i], "-checkpoint") != NULL) {
            filter_checkpoint(text);
            count = strlen(text);
        }
        sample_put(run.disk, target, text, count);
        free(text);
    }
}

/* Preallocated zeros are all alike: a kilobyte of them is enough. */
static enum stele_err cut_zeros(void *arg, const char *name)
{
    char path[STELE_PATH_BYTES];
    const char *suffix = strrchr(name, '.');
    size_t count = 0, used;
    if (suffix == NULL || (strcmp(suffix, ".index") != 0 && strcmp(suffix, ".timeindex") != 0))
        return STELE_OK;
    (void)snprintf(path, sizeof(path), "%.2000s/%.255s", (const char *)arg, name);
    uint8_t *bytes = sample_get(run.disk, path, &count);
    for (used = count; used > 0 && bytes[used - 1] == 0; used--)
        ;
    size_t entry = strcmp(suffix, ".index") == 0 ? 8 : 12;
    used = (used + ZERO_TAIL + entry - 1) / entry * entry;
    if (used < count)
        sample_put(run.disk, path, bytes, used);
    free(bytes);
    return STELE_OK;
}

static void begin(const struct world *world)
{
    char from[STELE_PATH_BYTES], to[128];
    run.world = world;
    run.disk = sim_disk_new(1);
    stele_test_env_init(&run.test, sim_disk_vfs(run.disk));
    struct stele_vfs *vfs = run.test.env.vfs;
    (void)snprintf(run.root, sizeof(run.root), "/%s", world->set);
    assert_ok(vfs->ops->mkdir(vfs, run.root));
    load_beside();
    for (int i = 0; i < PARTITIONS_MAX && world->partitions[i] != NULL; i++) {
        (void)snprintf(from, sizeof(from), "%.2000s/%s/%s", run.samples, world->set, world->partitions[i]);
        (void)snprintf(to, sizeof(to), "/%.60s/%.60s", world->set, world->partitions[i]);
        sample_load(run.disk, from, to);
        assert_ok(vfs->ops->list(vfs, to, cut_zeros, to));
    }
    if (strcmp(world->set, "diverged") == 0)
        (void)snprintf(run.root, sizeof(run.root), "%.60s", to);
    verify();
    if (run.damages != 0) {
        fprintf(stderr, "flips: %s is not sound to begin with\n", run.root);
        exit(2);
    }
}

static void end(void)
{
    stele_test_mem_check_empty(&run.test.mem);
    assert_int_equal(sim_disk_in_use(run.disk), 0);
    sim_disk_free(run.disk);
}

static const char *const result_names[] = {"found", "leftover", "silent"};

/* One flip: asks, compares with the list, and takes it back. */
static void flip(const char *path, const struct flip_field *field, int64_t pos, int mask)
{
    int64_t leftovers = run.leftovers;
    assert_ok(sim_disk_flip(run.disk, path, pos, masks[mask]));
    verify();
    assert_ok(sim_disk_flip(run.disk, path, pos, masks[mask]));
    enum flip_result result = run.damages > 0 ? FLIP_FOUND : run.leftovers > leftovers ? FLIP_LEFTOVER : FLIP_SILENT;
    struct flip_key key = {.path = path + 1, .field = field->name, .result = result};
    run.leftovers = leftovers;
    run.flips++;
    run.found += result == FLIP_FOUND;
    run.told_as_leftover += result == FLIP_LEFTOVER;
    run.silent += result == FLIP_SILENT;
    if (result != FLIP_FOUND)
        flip_list_add(&run.seen, &key, pos, mask);
    enum flip_result want = flip_list_find(&run.listed, path + 1, pos, mask);
    if (want == result)
        return;
    if (run.wrong++ < WRONG_TOLD_MAX && !run.is_rewrite)
        fprintf(stderr, "%s:%lld (%s) ^ %02x: %s, the list says %s\n", path + 1, (long long)pos, field->name,
                masks[mask], result_names[result], result_names[want]);
}

/* Every how many bytes under a checksum one is flipped. */
static int64_t stride_of(size_t count)
{
    if (run.world->long_stride > 0)
        return run.world->long_stride;
    if (run.is_long)
        return count <= LARGE_LOG_BYTES ? 1 : 997;
    if (strcmp(run.world->set, "crashed") == 0) /* the logs are those of the clean set */
        return 41;
    return count <= SMALL_LOG_BYTES ? 1 : (int64_t)count / 150;
}

static enum stele_err flip_file(void *arg, const char *name)
{
    char path[STELE_PATH_BYTES];
    size_t count = 0;
    struct stele_stat stat;
    (void)snprintf(path, sizeof(path), "%.2000s/%.255s", (const char *)arg, name);
    assert_ok(run.test.env.vfs->ops->stat(run.test.env.vfs, path, &stat));
    if (stat.is_dir)
        return STELE_OK;
    uint8_t *bytes = sample_get(run.disk, path, &count);
    int64_t stride = stride_of(count);
    bool is_sampled = !run.is_long && count > SMALL_LOG_BYTES;
    for (size_t pos = 0; pos < count; pos++) {
        struct flip_field field = flip_field_of(name, bytes, count, pos);
        bool is_alike = field.is_checked ? (int64_t)pos % stride != 0 : field.is_inner && is_sampled;
        if (field.is_skipped || is_alike)
            continue;
        int bit = (int)(pos % 8);
        for (int mask = 0; mask < MASKS; mask++) {
            bool is_one_of_two = mask == bit || mask == MASKS - 1;
            bool is_turn = run.is_long || (pos / (size_t)stride) % 2 == (mask == MASKS - 1);
            if (!field.is_checked || (is_one_of_two && is_turn))
                flip(path, &field, (int64_t)pos, mask);
        }
    }
    free(bytes);
    return STELE_OK;
}

static void run_world(const struct world *world)
{
    struct stele_vfs *vfs;
    char dir[128];
    int64_t flips = run.flips;
    begin(world);
    vfs = run.test.env.vfs;
    (void)snprintf(dir, sizeof(dir), "/%.60s", world->set);
    if (!world->flips_partitions)
        assert_ok(vfs->ops->list(vfs, dir, flip_file, dir));
    for (int i = 0; i < PARTITIONS_MAX && world->partitions[i] != NULL && world->flips_partitions; i++) {
        (void)snprintf(dir, sizeof(dir), "/%.60s/%.60s", world->set, world->partitions[i]);
        assert_ok(vfs->ops->list(vfs, dir, flip_file, dir));
    }
    end();
    printf("%s %s%s: %lld flips\n", world->set, world->partitions[0],
           world->flips_partitions ? "" : " and its checkpoints", (long long)(run.flips - flips));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bool is_rewrite = argc == 4 && strcmp(argv[3], "rewrite") == 0;
    bool is_usual = (argc == 4 || argc == 5) && (strcmp(argv[3], "quick") == 0 || strcmp(argv[3], "long") == 0);
    if (!is_rewrite && !is_usual) {
        fprintf(stderr, "usage: flips DIR LIST quick|long [PARTITION]\n       flips DIR LIST rewrite\n");
        return 2;
    }
    run.samples = argv[1];
    run.is_long = strcmp(argv[3], "quick") != 0;
    run.is_rewrite = is_rewrite;
    if (!flip_list_read(&run.listed, argv[2]))
        return 2;
    for (size_t i = 0; i < STELE_ARRAY_LEN(worlds); i++) {
        bool is_wanted = argc < 5 || strcmp(argv[4], worlds[i].partitions[0]) == 0;
        if (is_wanted && (run.is_long || worlds[i].long_stride == 0))
            run_world(&worlds[i]);
    }
    printf("reached: %lld flips, %lld found, %lld told as what a crash leaves, %lld silent\n", (long long)run.flips,
           (long long)run.found, (long long)run.told_as_leftover, (long long)run.silent);
    bool is_good = is_rewrite ? flip_list_write(&run.seen, &run.listed, argv[2]) : run.wrong == 0;
    is_good = flip_list_has_reasons(is_rewrite ? &run.seen : &run.listed, &run.listed) && is_good;
    flip_list_free(&run.seen);
    flip_list_free(&run.listed);
    if (run.wrong > 0 && !is_rewrite)
        fprintf(stderr, "flips: %lld disagree with %s\n", (long long)run.wrong, argv[2]);
    return is_good ? 0 : 1;
}
