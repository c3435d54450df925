/* Any bytes as the files of a log directory with one partition: verification tells, never breaks and changes nothing;
 * and a log that it finds sound is opened without damage, without a leftover also without a cut.
 *
 * The input is a sequence of files: a byte that names one (with 0x80: its checksums are to be made right first, the
 * fuzzer cannot guess them), its size in two bytes, its content. */
#include "base/check.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "storage/checkpoint.h"
#include "storage/log.h"
#include "storage/test/disk_files.h"
#include "storage/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { FIX_CHECKSUMS = 0x80 };

#define DIR "/d"
#define PARTITION DIR "/t-0"
#define FIRST PARTITION "/00000000000000000000"
#define SECOND PARTITION "/00000000000000000010"

static const char *const paths[] = {
    FIRST ".log",
    FIRST ".index",
    FIRST ".timeindex",
    FIRST ".txnindex",
    FIRST ".snapshot",
    SECOND ".log",
    SECOND ".index",
    SECOND ".timeindex",
    SECOND ".txnindex",
    SECOND ".snapshot",
    PARTITION "/00000000000000000012.snapshot",
    PARTITION "/" STELE_LEADER_EPOCH_FILE,
    PARTITION "/" STELE_PARTITION_METADATA_FILE,
    PARTITION "/00000000000000000000-0000000000.checkpoint",
    DIR "/" STELE_RECOVERY_POINT_FILE,
    DIR "/" STELE_LOG_START_FILE,
    DIR "/" STELE_HIGH_WATERMARK_FILE,
    DIR "/" STELE_CLEANER_OFFSET_FILE,
    DIR "/" STELE_CLEAN_SHUTDOWN_FILE,
    DIR "/" STELE_META_PROPERTIES_FILE,
};

static void fix_batches(uint8_t *bytes, size_t count)
{
    for (size_t at = 0; count - at >= STELE_BATCH_HEADER_BYTES;) {
        int64_t size = stele_batch_size(bytes + at);
        if (size < STELE_BATCH_HEADER_BYTES || (size_t)size > count - at)
            return;
        stele_put_u32(bytes + at + STELE_BATCH_POS_CRC, stele_crc32c(0, bytes + at + STELE_BATCH_POS_ATTRIBUTES,
                                                                     (size_t)size - STELE_BATCH_POS_ATTRIBUTES));
        at += (size_t)size;
    }
}

static void put(struct sim_disk *disk, uint8_t selector, const uint8_t *bytes, size_t count)
{
    static uint8_t copy[1 << 16];
    const char *path = paths[(selector & ~FIX_CHECKSUMS) % STELE_ARRAY_LEN(paths)], *suffix = strrchr(path, '.');
    if (count > 0)
        memcpy(copy, bytes, count);
    if ((selector & FIX_CHECKSUMS) != 0 && suffix != NULL) {
        if (strcmp(suffix, ".log") == 0 || strcmp(suffix, ".checkpoint") == 0)
            fix_batches(copy, count);
        else if (strcmp(suffix, ".snapshot") == 0 && count >= 6)
            stele_put_u32(copy + 2, stele_crc32c(0, copy + 6, count - 6));
    }
    disk_put(disk, path, copy, count);
}

static void count_finding(void *arg, const struct stele_finding *finding)
{
    int64_t *counts = arg;
    STELE_ASSERT(finding->path != NULL && finding->text[0] != 0);
    counts[finding->kind == STELE_FINDING_DAMAGE]++;
}

static void open_sound(struct stele_test_env *test, struct sim_disk *disk, const struct stele_verify_report *verified)
{
    struct stele_vfs *vfs = test->env.vfs;
    struct stele_log_open open = {.env = &test->env, .dir = PARTITION, .name = "t-0", .high_watermark = -1};
    struct stele_recovery_report report;
    struct stele_checkpoint checkpoint;
    struct stele_error error = {.text = ""};
    struct stele_log *log = NULL;
    int64_t ignored;
    stele_log_config_default(&open.config);
    open.config.producer_id_expiration_ms = INT64_MAX;
    stele_checkpoint_init(&checkpoint, test->env.mem);
    STELE_ASSERT(stele_checkpoint_read(&checkpoint, vfs, DIR, STELE_RECOVERY_POINT_FILE, NULL) == STELE_OK);
    (void)stele_checkpoint_get(&checkpoint, "t", 0, &open.recovery_point);
    STELE_ASSERT(stele_checkpoint_read(&checkpoint, vfs, DIR, STELE_LOG_START_FILE, NULL) == STELE_OK);
    (void)stele_checkpoint_get(&checkpoint, "t", 0, &open.log_start_offset);
    STELE_ASSERT(stele_checkpoint_read(&checkpoint, vfs, DIR, STELE_HIGH_WATERMARK_FILE, NULL) == STELE_OK);
    (void)stele_checkpoint_get(&checkpoint, "t", 0, &open.high_watermark);
    STELE_ASSERT(stele_checkpoint_read(&checkpoint, vfs, DIR, STELE_CLEANER_OFFSET_FILE, NULL) == STELE_OK);
    open.is_compacted = stele_checkpoint_get(&checkpoint, "t", 0, &ignored);
    open.was_clean = disk_has(disk, DIR "/" STELE_CLEAN_SHUTDOWN_FILE);
    stele_checkpoint_deinit(&checkpoint);
    enum stele_err err = stele_log_open(&open, &log, &report, &error);
    if (err != STELE_OK) {
        fprintf(stderr, "sound, but: %s\n", error.text);
        abort();
    }
    STELE_ASSERT(!report.found_damage);
    STELE_ASSERT(report.bytes_cut == 0 || verified->crash_leftovers > 0);
    stele_log_check(log);
    stele_log_free(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_env test;
    struct stele_verify_report report;
    int64_t counts[2] = {0, 0};
    struct stele_verify_options options = {.found = count_finding, .arg = counts};
    struct sim_disk *disk = sim_disk_new(1);
    stele_test_env_init(&test, sim_disk_vfs(disk));
    disk_make_dir(disk, DIR);
    disk_make_dir(disk, PARTITION);
    while (count >= 3) {
        size_t size = stele_min_size((size_t)bytes[1] << 8 | bytes[2], count - 3);
        put(disk, bytes[0], bytes + 3, size);
        bytes += 3 + size;
        count -= 3 + size;
    }
    int64_t changes = disk_changes(disk);
    STELE_ASSERT(stele_verify(&test.env, DIR, &options, &report) == STELE_OK);
    STELE_ASSERT(disk_changes(disk) == changes);
    STELE_ASSERT(report.damages == counts[1] && report.crash_leftovers == counts[0]);
    options.is_compacted = true;
    STELE_ASSERT(stele_verify(&test.env, PARTITION, &options, &(struct stele_verify_report){0}) == STELE_OK);
    STELE_ASSERT(stele_mem_is_empty(&test.mem.mem));
    if (report.damages == 0 && disk_has(disk, FIRST ".log"))
        open_sound(&test, disk, &report);
    STELE_ASSERT(stele_mem_is_empty(&test.mem.mem));
    sim_disk_free(disk);
    return 0;
}
