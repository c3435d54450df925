/* Admin calls on settings. The numbers of the public header are those of the messages. */
#include "client/admin_internal.h"

_Static_assert(STELE_CONFIG_NODE == (int)STELE_SUBJECT_NODE, "");
_Static_assert(STELE_CONFIG_CLUSTER == (int)STELE_SUBJECT_CLUSTER, "");
_Static_assert(STELE_CONFIG_TOPIC == (int)STELE_SUBJECT_TOPIC, "");
_Static_assert(STELE_CONFIG_OF_DEFAULT == (int)STELE_SETTING_OF_DEFAULT, "");
_Static_assert(STELE_CONFIG_OF_START == (int)STELE_SETTING_OF_START, "");
_Static_assert(STELE_CONFIG_OF_CLUSTER == (int)STELE_SETTING_OF_CLUSTER, "");
_Static_assert(STELE_CONFIG_OF_NODE == (int)STELE_SETTING_OF_NODE, "");
_Static_assert(STELE_CONFIG_OF_TOPIC == (int)STELE_SETTING_OF_TOPIC, "");

enum { ALTERED_MAX = 64 };

static void make_setting(struct stele_answer_memory *memory, const struct stele_described_setting *from,
                         struct stele_config_setting *to)
{
    *to = (struct stele_config_setting){.name = stele_answer_text(memory, from->name),
                                        .value = stele_answer_text(memory, from->value),
                                        .origin = (int)from->origin,
                                        .origin_detail = stele_answer_text(memory, from->origin_detail),
                                        .default_value = stele_answer_text(memory, from->default_value),
                                        .is_dynamic = from->is_dynamic,
                                        .doc = stele_answer_text(memory, from->doc),
                                        .warning = stele_answer_text(memory, from->warning)};
}

static void make_change(struct stele_answer_memory *memory, const struct stele_setting_change *from,
                        struct stele_config_change *to)
{
    *to = (struct stele_config_change){.time_ms = from->time_ms,
                                       .kind = (int)from->kind,
                                       .subject = stele_answer_text(memory, from->subject),
                                       .name = stele_answer_text(memory, from->name),
                                       .value = stele_answer_text(memory, from->value)};
}

static void take_config(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_describe_settings_response *described = &response->body.describe_settings;
    struct stele_config *config = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(config);
    stele_waited_end(waited, described->err, described->message);
    if (described->err != STELE_OK)
        return;
    config->setting_count = described->setting_count;
    config->change_count = described->change_count;
    STELE_ANSWER_LIST(memory, config->settings, described->setting_count, described->settings,
                      struct stele_config_setting, make_setting);
    STELE_ANSWER_LIST(memory, config->changes, described->change_count, described->changes, struct stele_config_change,
                      make_change);
}

static enum stele_err check_kind(int kind, struct stele_error *error)
{
    if (kind >= STELE_CONFIG_NODE && kind <= STELE_CONFIG_TOPIC)
        return STELE_OK;
    return stele_error_set(error, STELE_INVALID_ARGUMENT, "settings are of a node, the cluster or a topic, not of %d",
                           kind);
}

struct stele_result stele_config_describe(struct stele_client *client, int kind, const char *subject,
                                          const char *const *names, unsigned with, struct stele_config **out_config)
{
    struct stele_error error = {.text = ""};
    struct stele_config *config = NULL;
    size_t count = 0;
    void *made = NULL;
    enum stele_err err = check_kind(kind, &error);
    if (err == STELE_OK) {
        config = stele_answer_new(client, sizeof(*config));
        err = config == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    while (names != NULL && names[count] != NULL)
        count++;
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_config, .error = &error, .arg = config};
        struct stele_request request = {
            .header.api = STELE_API_DESCRIBE_SETTINGS,
            .body.describe_settings = {.kind = (enum stele_subject_kind)kind,
                                       .subject = subject,
                                       .names = names,
                                       .name_count = count,
                                       .with_doc = (with & STELE_CONFIG_WITH_DOC) != 0,
                                       .with_history = (with & STELE_CONFIG_WITH_HISTORY) != 0}};
        err = stele_client__wait_for(client, &waited, &request);
    }
    struct stele_result result = stele_answer_finish(err, &error, config, &made);
    if (result.code == STELE_OK)
        *out_config = made;
    return result;
}

void stele_config_free(struct stele_config *config)
{
    stele_answer_free(config);
}

static void take_altered(struct stele_waited *waited, const struct stele_response *response)
{
    stele_waited_end(waited, response->body.alter_settings.err, response->body.alter_settings.message);
}

struct stele_result stele_config_alter(struct stele_client *client, int kind, const char *subject,
                                       const struct stele_setting *settings, bool is_check)
{
    struct stele_altered_setting altered[ALTERED_MAX];
    struct stele_error error = {.text = ""};
    size_t count = 0;
    enum stele_err err = check_kind(kind, &error);
    for (; settings != NULL && settings[count].name != NULL; count++) {
        if (count == ALTERED_MAX)
            return stele_client__failure(STELE_TOO_LARGE, "more than %d settings at once", (int)ALTERED_MAX);
        altered[count] = (struct stele_altered_setting){.name = settings[count].name, .value = settings[count].value};
    }
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_altered, .error = &error};
        struct stele_request request = {.header.api = STELE_API_ALTER_SETTINGS,
                                        .body.alter_settings = {.kind = (enum stele_subject_kind)kind,
                                                                .subject = subject,
                                                                .settings = altered,
                                                                .setting_count = count,
                                                                .validate_only = is_check}};
        err = stele_client__wait_for(client, &waited, &request);
    }
    return stele_client__result(err, error.text);
}
