#include "storage/history.h"

#include "storage/resync.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, LINE_BYTES_MAX = 160 };

static const char *const kinds[] = {"roll", "delete", "cut", "damage", "rebuild", "repair"};
static const char *const reason_names[STELE_REASON_COUNT] = {
#define R(name, text) #name,
    STELE_REASONS(R)
#undef R
};
static const char *const reason_texts[STELE_REASON_COUNT] = {
#define R(name, text) text,
    STELE_REASONS(R)
#undef R
};

const char *stele_reason_text(enum stele_reason reason)
{
    return reason_texts[reason];
}

const char *stele_history_kind_name(enum stele_history_kind kind)
{
    return kinds[kind];
}

/* Above the limit the older half is dropped; a crash in between leaves the old file whole. */
static enum stele_err shorten(struct stele_env *env, const char *dir, const char *path)
{
    uint8_t *text = NULL;
    size_t count = 0;
    enum stele_err err =
        stele_vfs_read_whole(env->vfs, env->mem, STELE_MEM_LOG, path, FILE_BYTES_MAX * 2, &text, &count);
    if (err != STELE_OK)
        return err;
    const uint8_t *half = memchr(text + count / 2, '\n', count - count / 2);
    size_t kept = half == NULL ? 0 : (size_t)(text + count - half) - 1;
    err = stele_vfs_replace(env->vfs, dir, STELE_HISTORY_FILE, text + count - kept, kept);
    stele_mem_free(env->mem, text);
    return err;
}

/* A line that a crash tore must not swallow the next one. */
static enum stele_err end_torn_line(struct stele_file *file, int64_t *inout_end)
{
    char last = '\n';
    enum stele_err err = *inout_end == 0 ? STELE_OK : stele_file_read(file, &last, 1, *inout_end - 1);
    if (err != STELE_OK || last == '\n')
        return err;
    err = stele_file_write(file, "\n", 1, *inout_end);
    *inout_end += err == STELE_OK;
    return err;
}

static enum stele_err append_line(struct stele_env *env, const char *dir, const char *line, size_t bytes)
{
    char path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    int64_t end = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_HISTORY_FILE);
    if (err == STELE_OK)
        err = env->vfs->ops->open(env->vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file);
    if (err != STELE_OK)
        return err;
    err = env->vfs->ops->size(file, &end);
    if (err == STELE_OK)
        err = end_torn_line(file, &end);
    if (err == STELE_OK)
        err = stele_file_write(file, line, bytes, end);
    env->vfs->ops->close(file);
    return err == STELE_OK && end > FILE_BYTES_MAX ? shorten(env, dir, path) : err;
}

enum stele_err stele_history_append(struct stele_env *env, const char *dir, const struct stele_history_event *event)
{
    char line[LINE_BYTES_MAX];
    int bytes = snprintf(line, sizeof(line), "%lld %s %lld %lld %s\n", (long long)event->wall_ms, kinds[event->kind],
                         (long long)event->offset, (long long)event->bytes, reason_names[event->reason]);
    return append_line(env, dir, line, (size_t)bytes);
}

enum stele_err stele_history_sync(struct stele_env *env, const char *dir)
{
    char path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    enum stele_err err = stele_path_join(path, dir, STELE_HISTORY_FILE);
    if (err == STELE_OK)
        err = env->vfs->ops->open(env->vfs, path, STELE_OPEN_WRITE, &file);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    err = stele_sync_marked(file, dir);
    env->vfs->ops->close(file);
    return err == STELE_OK ? env->vfs->ops->sync_dir(env->vfs, dir) : err;
}

static int index_of(const char *const *words, int count, const char *word, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        if (strlen(words[i]) == bytes && memcmp(words[i], word, bytes) == 0)
            return i;
    }
    return -1;
}

static bool parse_line(const char *line, size_t bytes, struct stele_history_event *out_event)
{
    struct stele_text_scan words = {.at = line, .end = line + bytes};
    const char *word[5];
    size_t count[5];
    for (int i = 0; i < 5; i++) {
        if (!stele_text_word(&words, &word[i], &count[i]))
            return false;
    }
    int kind = index_of(kinds, (int)STELE_ARRAY_LEN(kinds), word[1], count[1]);
    int reason = index_of(reason_names, STELE_REASON_COUNT, word[4], count[4]);
    out_event->kind = (enum stele_history_kind)kind;
    out_event->reason = (enum stele_reason)reason;
    return kind >= 0 && reason >= 0 && stele_text_number(word[0], count[0], &out_event->wall_ms) &&
           stele_text_number(word[2], count[2], &out_event->offset) &&
           stele_text_number(word[3], count[3], &out_event->bytes);
}

enum stele_err stele_history_read(struct stele_env *env, const char *dir,
                                  void (*each)(void *arg, const struct stele_history_event *event), void *arg)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0, bytes;
    const char *line;
    struct stele_history_event event;
    enum stele_err err = stele_path_join(path, dir, STELE_HISTORY_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(env->vfs, env->mem, STELE_MEM_LOG, path, FILE_BYTES_MAX * 2, &text, &count);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    if (err != STELE_OK)
        return err;
    struct stele_text_scan lines = {.at = (const char *)text, .end = (const char *)text + count};
    while (stele_text_line(&lines, &line, &bytes)) {
        if (lines.at[-1] == '\n' && parse_line(line, bytes, &event))
            each(arg, &event);
    }
    stele_mem_free(env->mem, text);
    return STELE_OK;
}
