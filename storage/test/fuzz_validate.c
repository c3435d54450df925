/* Any bytes as a client's batch, under any of the settings that matter (the first byte): refused with the bytes as they
 * were, or turned into a batch that is sound, of the topic's codec and timestamp type, and that validation leaves alone
 * the second time. The checksum, length, magic and base offset are mended first when the second byte says so. */
#include "base/check.h"
#include "base/test/support.h"
#include "storage/validate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { PREFIX_BYTES = 2, NOW_MS = 1700000000 };

enum setting_bits { COMPACT = 0x08, APPEND_TIME = 0x10, NARROW_TIME = 0x20, SMALL = 0x40 };

static struct stele_log_config config_of(uint8_t bits)
{
    struct stele_log_config config;
    int codec = bits & 7;
    stele_log_config_default(&config);
    config.compression_producer = codec >= STELE_CODEC_COUNT;
    config.compression = config.compression_producer ? STELE_CODEC_NONE : (enum stele_codec)codec;
    config.cleanup_compact = (bits & COMPACT) != 0;
    config.log_append_time = (bits & APPEND_TIME) != 0;
    config.max_unpacked_bytes = 1 << 20;
    if ((bits & NARROW_TIME) != 0)
        config.timestamp_before_max_ms = config.timestamp_after_max_ms = 1000;
    if ((bits & SMALL) != 0)
        config.max_message_bytes = 128;
    return config;
}

static void mend(uint8_t *batch, size_t count)
{
    stele_put_i64(batch, 0);
    batch[STELE_BATCH_POS_MAGIC] = STELE_BATCH_MAGIC;
    stele_put_i32(batch + STELE_BATCH_POS_LENGTH, (int32_t)count - STELE_BATCH_PREFIX_BYTES);
    stele_batch_restamp_time(batch, count, stele_get_i16(batch + STELE_BATCH_POS_ATTRIBUTES),
                             stele_get_i64(batch + STELE_BATCH_POS_MAX_TIMESTAMP));
}

/* What is stored is sound by itself. */
static void check_stored(struct stele_mem *mem, const struct stele_log_config *config, const uint8_t *batch,
                         size_t count)
{
    struct stele_batch_header header;
    struct stele_record_walker walker;
    struct stele_record record;
    int32_t records = 0;
    int64_t max_timestamp = STELE_NO_TIMESTAMP;
    STELE_ASSERT(stele_batch_check(batch, count, &header) == STELE_OK);
    STELE_ASSERT(((header.attributes & STELE_BATCH_LOG_APPEND_TIME) != 0) == config->log_append_time);
    STELE_ASSERT((header.attributes & STELE_BATCH_CONTROL) == 0);
    int codec = header.attributes & STELE_BATCH_CODEC_MASK;
    STELE_ASSERT(config->compression_producer || codec == (int)config->compression);
    /* One that was made anew may unpack to a little more: records of unlike varints. */
    STELE_ASSERT(stele_record_walker_init(&walker, mem, batch, count, 8 << 20) == STELE_OK);
    while (stele_record_next(&walker, &record) == STELE_OK) {
        STELE_ASSERT(codec == STELE_CODEC_NONE || record.offset == records);
        STELE_ASSERT(record.key != NULL || !config->cleanup_compact);
        max_timestamp = stele_max_i64(max_timestamp, record.timestamp);
        records++;
    }
    STELE_ASSERT(stele_record_next(&walker, &record) == STELE_END);
    STELE_ASSERT(records == header.record_count);
    STELE_ASSERT(header.last_offset_delta == records - 1);
    STELE_ASSERT(header.max_timestamp == (config->log_append_time ? NOW_MS : max_timestamp));
    stele_record_walker_deinit(&walker);
}

static void check_batch(struct stele_mem *mem, const struct stele_log_config *config, uint8_t *batch, size_t count)
{
    struct stele_validated out = {.bad_record = -1};
    struct stele_error error = {.text = ""};
    uint8_t *before = stele_mem_raw(mem, STELE_MEM_TOOL, count);
    memcpy(before, batch, count);
    if (stele_validate(mem, config, batch, count, NOW_MS, &out, &error) != STELE_OK) {
        STELE_ASSERT(memcmp(before, batch, count) == 0);
        STELE_ASSERT(error.text[0] != 0);
        STELE_ASSERT(out.bad_record >= -1);
    } else if (out.rebuilt != NULL) {
        STELE_ASSERT(memcmp(before, batch, count) == 0);
        STELE_ASSERT(out.bytes == out.rebuilt->count);
        STELE_ASSERT(out.bytes <= (size_t)config->max_message_bytes);
        check_stored(mem, config, out.rebuilt->bytes, out.bytes);
        stele_buf_unref(out.rebuilt);
    } else {
        STELE_ASSERT(out.bytes == count);
        check_stored(mem, config, batch, count);
        memcpy(before, batch, count);
        enum stele_err again = stele_validate(mem, config, batch, count, NOW_MS, &out, &error);
        STELE_ASSERT(again == (config->log_append_time ? STELE_INVALID_TIMESTAMP : STELE_OK));
        STELE_ASSERT(memcmp(before, batch, count) == 0);
    }
    stele_mem_free(mem, before);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem mem;
    if (count < PREFIX_BYTES)
        return 0;
    stele_test_mem_init(&mem);
    struct stele_log_config config = config_of(bytes[0]);
    size_t batch_bytes = count - PREFIX_BYTES;
    uint8_t *batch = stele_mem_raw(&mem.mem, STELE_MEM_TOOL, batch_bytes);
    memcpy(batch, bytes + PREFIX_BYTES, batch_bytes);
    if (bytes[1] != 0 && batch_bytes >= STELE_BATCH_HEADER_BYTES)
        mend(batch, batch_bytes);
    check_batch(&mem.mem, &config, batch, batch_bytes);
    stele_mem_free(&mem.mem, batch);
    STELE_ASSERT(stele_mem_is_empty(&mem.mem));
    return 0;
}
