/* Any bytes as a settings file: refused or taken, never more. */
#include "base/settings.h"
#include "base/test/support.h"

static const struct stele_setting_row rows[] = {
    {.name = "log.retention.ms",
     .type = STELE_SETTING_INT,
     .default_text = "1",
     .min = -1,
     .max = INT64_MAX,
     .topic_name = "retention.ms",
     .synonyms = {{"log.retention.hours", 3600000}},
     .doc = "a"},
    {.name = "b", .type = STELE_SETTING_BOOL, .default_text = "false", .doc = "b"},
    {.name = "l", .type = STELE_SETTING_LIST, .default_text = "x", .choices = "x,y", .doc = "l"},
    {.name = "r", .type = STELE_SETTING_RATIO, .default_text = "0.5", .doc = "r"},
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem memory;
    struct stele_error error;
    stele_test_mem_init(&memory);
    struct stele_settings *settings = stele_settings_new(&memory.mem, rows, (int)STELE_ARRAY_LEN(rows));
    if (stele_settings_parse(settings, (const char *)bytes, count, "fuzz", &error) == STELE_OK)
        (void)stele_settings_int(settings, "retention.ms");
    stele_settings_free(settings);
    return stele_mem_is_empty(&memory.mem) ? 0 : (__builtin_trap(), 0);
}
