/* What befalls single calls: the armed fault, broken paths, random faults, time; and the audits. */
#include "base/check.h"
#include "cluster-tests/sim/sim_disk_struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {"open",  "read",     "write", "sync",      "truncate",   "allocate",
                                       "size",  "map",      "stat",  "rename",    "unlink",     "mkdir",
                                       "rmdir", "sync_dir", "list",  "set_mtime", "free_bytes", "lock"};
_Static_assert(STELE_ARRAY_LEN(op_names) == SIM_DISK_OP_COUNT, "every call has a name");

const char *sim_disk_op_name(enum sim_disk_op op)
{
    return op < SIM_DISK_OP_COUNT ? op_names[op] : "none";
}

static char *copy_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = sim_alloc(bytes);
    memcpy(copy, text, bytes);
    return copy;
}

bool sim_pattern_fits(const char *pattern, const char *text)
{
    const char *star = NULL, *star_text = NULL;
    while (*text != 0) {
        if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

bool sim_disk_chance(struct sim_disk *disk, uint32_t per_million)
{
    return per_million > 0 && stele_prng_chance(&disk->calls_prng, per_million, 1000000);
}

static bool is_in(unsigned ops, enum sim_disk_op op)
{
    return ops == 0 || (ops & SIM_DISK_BIT(op)) != 0;
}

static void charge(struct sim_disk *disk, int64_t us)
{
    if (us > 0 && disk->hooks.charge != NULL)
        disk->hooks.charge(disk->hooks.arg, us);
}

static void charge_call(struct sim_disk *disk)
{
    const struct sim_disk_rates *rates = &disk->rates;
    int64_t us = 0;
    if (rates->call_us_max > 0)
        us = stele_prng_range(&disk->calls_prng, rates->call_us_min, rates->call_us_max);
    if (sim_disk_chance(disk, rates->stall))
        us += stele_prng_range(&disk->calls_prng, rates->stall_us_min, rates->stall_us_max);
    charge(disk, us);
}

/* The armed fault: OK when it does not concern this call. */
static enum stele_err strike(struct sim_disk *disk, enum sim_disk_op op)
{
    if (disk->fault_in == 0 || !is_in(disk->fault.ops, op) || --disk->fault_in > 0)
        return STELE_OK;
    if (!disk->has_struck)
        disk->struck_op = op;
    disk->has_struck = true;
    disk->fault_in = disk->fault.is_lasting ? 1 : 0;
    disk->is_stopped = disk->fault.is_crash;
    return disk->fault.is_crash ? STELE_IO : disk->fault.err;
}

static enum stele_err broken(struct sim_disk *disk, enum sim_disk_op op, const char *path)
{
    for (int i = 0; i < disk->rule_count; i++) {
        const struct sim_rule *rule = &disk->rules[i];
        if (!is_in(rule->ops, op) || !sim_pattern_fits(rule->pattern, path))
            continue;
        charge(disk, rule->delay_us);
        if (rule->err != STELE_OK)
            return rule->err;
    }
    return STELE_OK;
}

bool sim_disk_is_broken_full(const struct sim_disk *disk, const char *path)
{
    for (int i = 0; i < disk->rule_count; i++) {
        const struct sim_rule *rule = &disk->rules[i];
        if (rule->err == STELE_NO_SPACE && is_in(rule->ops, SIM_DISK_WRITE) && sim_pattern_fits(rule->pattern, path))
            return true;
    }
    return false;
}

static enum stele_err random_fault(struct sim_disk *disk, enum sim_disk_op op)
{
    uint32_t rate = op == SIM_DISK_READ                              ? disk->rates.read_error
                    : op == SIM_DISK_WRITE                           ? disk->rates.write_error
                    : op == SIM_DISK_SYNC || op == SIM_DISK_SYNC_DIR ? disk->rates.sync_error
                                                                     : 0;
    return sim_disk_chance(disk, rate) ? STELE_IO : STELE_OK;
}

enum stele_err sim_disk_enter(struct sim_disk *disk, enum sim_disk_op op, const char *path)
{
    if (disk->is_stopped)
        return STELE_IO;
    disk->stats.calls[op]++;
    charge_call(disk);
    enum stele_err err = strike(disk, op);
    if (err == STELE_OK)
        err = broken(disk, op, path);
    if (err == STELE_OK)
        err = random_fault(disk, op);
    disk->stats.faults += err != STELE_OK;
    return err;
}

void sim_disk_arm(struct sim_disk *disk, int64_t at, const struct sim_disk_fault *fault)
{
    STELE_ASSERT(at == 0 || fault->is_crash || fault->err != STELE_OK);
    disk->fault_in = at;
    disk->has_struck = false;
    disk->struck_op = SIM_DISK_OP_COUNT;
    if (at > 0)
        disk->fault = *fault;
}

bool sim_disk_has_struck(const struct sim_disk *disk)
{
    return disk->has_struck;
}

enum sim_disk_op sim_disk_struck_op(const struct sim_disk *disk)
{
    return disk->struck_op;
}

bool sim_disk_is_stopped(const struct sim_disk *disk)
{
    return disk->is_stopped;
}

int64_t sim_disk_calls(const struct sim_disk *disk)
{
    int64_t calls = 0;
    for (int op = 0; op < SIM_DISK_OP_COUNT; op++)
        calls += disk->stats.calls[op];
    return calls;
}

static void drop_rule(struct sim_disk *disk, int index)
{
    free(disk->rules[index].pattern);
    disk->rules[index] = disk->rules[--disk->rule_count];
}

void sim_disk_heal(struct sim_disk *disk)
{
    disk->fault_in = 0;
    while (disk->rule_count > 0)
        drop_rule(disk, 0);
    disk->rates = (struct sim_disk_rates){0};
    disk->quota_bytes = -1;
}

void sim_disk_break(struct sim_disk *disk, const char *pattern, unsigned ops, enum stele_err err, int64_t delay_us)
{
    STELE_ASSERT(disk->rule_count < SIM_DISK_RULES_MAX);
    disk->rules[disk->rule_count++] =
        (struct sim_rule){.pattern = copy_text(pattern), .ops = ops, .err = err, .delay_us = delay_us};
}

void sim_disk_mend(struct sim_disk *disk, const char *pattern)
{
    for (int i = disk->rule_count - 1; i >= 0; i--) {
        if (strcmp(disk->rules[i].pattern, pattern) == 0)
            drop_rule(disk, i);
    }
}

void sim_disk_set_rates(struct sim_disk *disk, const struct sim_disk_rates *rates)
{
    disk->rates = *rates;
}

void sim_disk_set_quota(struct sim_disk *disk, int64_t bytes)
{
    disk->quota_bytes = bytes;
}

void sim_disk_set_quota_at_sync(struct sim_disk *disk, bool is_at_sync)
{
    disk->is_quota_at_sync = is_at_sync;
}

int64_t sim_disk_used_bytes(const struct sim_disk *disk)
{
    return disk->names.used_bytes;
}

int64_t sim_disk_each_call(struct sim_disk *disk, const struct sim_disk_fault *fault,
                           void (*round)(void *arg, struct sim_disk *disk), void *arg)
{
    for (int64_t at = 1;; at++) {
        struct sim_disk *copy = sim_disk_copy(disk);
        sim_disk_arm(copy, at, fault);
        round(arg, copy);
        bool has_struck = copy->has_struck;
        STELE_ASSERT(sim_disk_in_use(copy) == 0);
        sim_disk_free(copy);
        if (!has_struck)
            return at - 1;
    }
}

/* Audits */

static void violate(struct sim_disk *disk, const char *what, const char *path, int64_t pos)
{
    char text[SIM_VIOLATION_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s: %s at %lld", what, path, (long long)pos);
    if (disk->violation[0] == 0)
        memcpy(disk->violation, text, sizeof(text));
    if (disk->hooks.violation != NULL)
        disk->hooks.violation(disk->hooks.arg, text);
}

static bool is_allowed(char *const *patterns, int count, const char *path)
{
    for (int i = 0; i < count; i++) {
        if (sim_pattern_fits(patterns[i], path))
            return true;
    }
    return false;
}

void sim_audit_rename(struct sim_disk *disk, const struct sim_node *node, const char *from, const char *to)
{
    if (node->is_dir || !node->is_unsynced || is_allowed(disk->renames_allowed, disk->renames_allowed_count, to))
        return;
    disk->stats.renames_unsynced++;
    violate(disk, "renamed without a sync since its last write", from, node->image.bytes);
}

void sim_audit_read(struct sim_disk *disk, const struct sim_file *file, int64_t pos, int64_t end)
{
    if (!sim_image_has_unwritten(&file->node->image, pos, end) ||
        is_allowed(disk->reads_allowed, disk->reads_allowed_count, file->path))
        return;
    disk->stats.reads_unwritten++;
    violate(disk, "bytes read that were never written", file->path, pos);
}

void sim_disk_allow_unsynced_rename(struct sim_disk *disk, const char *pattern)
{
    STELE_ASSERT(disk->renames_allowed_count < SIM_DISK_ALLOWED_MAX);
    disk->renames_allowed[disk->renames_allowed_count++] = copy_text(pattern);
}

void sim_disk_allow_unwritten_read(struct sim_disk *disk, const char *pattern)
{
    STELE_ASSERT(disk->reads_allowed_count < SIM_DISK_ALLOWED_MAX);
    disk->reads_allowed[disk->reads_allowed_count++] = copy_text(pattern);
}

int64_t sim_disk_violations(const struct sim_disk *disk)
{
    return disk->stats.renames_unsynced + disk->stats.reads_unwritten;
}

const char *sim_disk_violation_text(const struct sim_disk *disk)
{
    return disk->violation;
}

const struct sim_disk_stats *sim_disk_stats(const struct sim_disk *disk)
{
    return &disk->stats;
}
