/* Carries out the lines of a plan. One event walks through them, in script and seed alike, so that both go the same
 * way. What a line did ends with its own event, or when the calm begins. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"

#include <stdio.h>
#include <string.h>

static const struct sim_disk_rates quiet = {.call_us_min = 1, .call_us_max = 10};

static struct cluster_node *node_at(struct cluster *run, int host)
{
    return host >= 0 && host < run->node_count ? &run->nodes[host] : NULL;
}

/* Deaths. */

static void die(struct cluster_node *node, enum sim_death death, int64_t for_us)
{
    if (node->is_gone)
        return;
    node->is_gone = for_us == CLUSTER_FOR_EVER;
    if (node->server.state == SIM_SERVER_DOWN) {
        if (node->is_gone)
            sim_event_cancel(&node->run->world, &node->up);
        return;
    }
    node->down_us = for_us;
    if (node->server.end.slot == 0)
        sim_server_die(&node->server, death);
}

static void stop(struct cluster_node *node, int64_t for_us)
{
    bool is_up = node->server.state == SIM_SERVER_SERVING || node->server.state == SIM_SERVER_STARTING;
    if (!is_up || node->server.end.slot != 0)
        return;
    node->down_us = for_us;
    sim_server_stop(&node->server);
}

static void crash_in_call(struct cluster_node *node, const struct cluster_fault *fault)
{
    struct sim_disk_fault stopped = {.is_crash = true, .err = STELE_IO};
    if (node->server.state == SIM_SERVER_DOWN || sim_disk_is_stopped(node->server.disk))
        return;
    node->down_us = fault->for_us;
    node->crash_how = (int)(fault->arg % 3);
    sim_disk_arm(node->server.disk, stele_max_i64(fault->arg / 3, 1), &stopped);
}

/* Disks. */

static void fail_call(struct cluster_node *node, unsigned ops, int64_t at)
{
    struct sim_disk_fault fault = {.ops = ops, .err = STELE_IO};
    if (node->server.state == SIM_SERVER_DOWN || sim_disk_is_stopped(node->server.disk))
        return;
    node->has_disk_trouble = true;
    sim_disk_arm(node->server.disk, stele_max_i64(at, 1), &fault);
}

static void set_reads(struct cluster_node *node, const struct cluster_fault *fault, bool is_on)
{
    char pattern[40];
    (void)snprintf(pattern, sizeof(pattern), "*%s*", fault->words.word);
    node->is_disk_unreadable = is_on;
    node->has_disk_trouble = true;
    if (is_on)
        sim_disk_break(node->server.disk, pattern, SIM_DISK_BIT(SIM_DISK_READ), STELE_IO, 0);
    else
        sim_disk_mend(node->server.disk, pattern);
}

static void rot(struct cluster_node *node, const struct cluster_fault *fault)
{
    char pattern[40], path[STELE_PATH_BYTES];
    int64_t pos = 0;
    (void)snprintf(pattern, sizeof(pattern), "*%s*", fault->words.word);
    if (sim_disk_rot(node->server.disk, pattern, path, &pos) == STELE_OK)
        sim_world_log(&node->run->world, "%s: %s is damaged at %lld", node->server.process.name, path, (long long)pos);
}

static void set_disk(struct cluster_node *node, const struct cluster_fault *fault, bool is_on)
{
    struct sim_disk *disk = node->server.disk;
    struct sim_disk_rates slow = {.call_us_min = 1, .call_us_max = fault->arg};
    bool is_slow = fault->kind == CLUSTER_SLOW_DISK || fault->kind == CLUSTER_SLOW_SYNC;
    if (is_on && is_slow)
        node->server.slow_until_us =
            stele_max_i64(node->server.slow_until_us, sim_world_now_us(&node->run->world) + fault->for_us);
    if (fault->kind == CLUSTER_READ_FAIL) {
        set_reads(node, fault, is_on);
    } else if (fault->kind == CLUSTER_SLOW_DISK) {
        sim_disk_set_rates(disk, is_on ? &slow : &quiet);
    } else if (fault->kind == CLUSTER_FULL_DISK) {
        node->is_disk_full = is_on;
        node->had_full_disk = node->had_full_disk || is_on;
        sim_disk_set_quota(disk, is_on ? sim_disk_used_bytes(disk) + fault->arg : -1);
    } else if (is_on) {
        sim_disk_break(disk, "*", SIM_DISK_BIT(SIM_DISK_SYNC), STELE_OK, fault->arg);
    } else {
        sim_disk_mend(disk, "*");
    }
}

void cluster_disk_quiet(struct cluster_node *node)
{
    sim_disk_set_rates(node->server.disk, &quiet);
    memset(node->dirs_broken, 0, sizeof(node->dirs_broken));
    memset(node->dirs_full, 0, sizeof(node->dirs_full));
}

/* Log directories, one of several. */

bool cluster_node_has_broken_dir(const struct cluster_node *node)
{
    return node->dirs_broken[0] + node->dirs_broken[1] + node->dirs_broken[2] > 0;
}

bool cluster_node_has_full_dir(const struct cluster_node *node)
{
    return node->dirs_full[0] + node->dirs_full[1] + node->dirs_full[2] > 0;
}

void cluster_node_mount(struct cluster_node *node)
{
    node->wants_mount = false;
    node->is_amnesiac = true;
    sim_disk_evict(node->server.disk);
}

/* Patterns of their own, so that one is mended without the other. */
static void set_directory(struct cluster_node *node, const struct cluster_fault *fault, bool is_on)
{
    static const unsigned needs_room =
        SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_ALLOCATE) | SIM_DISK_BIT(SIM_DISK_MKDIR);
    bool is_full = fault->kind == CLUSTER_DIR_FULL;
    int *lines = is_full ? &node->dirs_full[fault->arg] : &node->dirs_broken[fault->arg];
    const char pattern[] = {(char)('a' + fault->arg), '*', is_full ? '*' : 0, 0};
    if (!is_on && *lines == 0) /* it is another disk now */
        return;
    *lines += is_on ? 1 : -1;
    node->had_full_disk = node->had_full_disk || is_full;
    node->has_disk_trouble = node->has_disk_trouble || !is_full;
    if (is_on && *lines == 1)
        sim_disk_break(node->server.disk, pattern, is_full ? needs_room : 0, is_full ? STELE_NO_SPACE : STELE_IO, 0);
    if (is_on || *lines > 0)
        return;
    sim_disk_mend(node->server.disk, pattern);
    if (is_full)
        return;
    if (node->server.state == SIM_SERVER_DOWN) {
        cluster_node_mount(node);
    } else {
        node->wants_mount = true;
        die(node, SIM_DEATH_KILL, 1000000);
    }
}

static void set_memory(struct cluster_node *node, uint32_t per_million)
{
    node->is_short_of_memory = node->is_short_of_memory || per_million > 0;
    node->no_memory = per_million;
    if (node->server.state != SIM_SERVER_DOWN)
        node->server.process.no_memory = per_million;
}

/* The net. */

static void set_way(struct cluster *run, int from, int to, bool is_on)
{
    if (is_on)
        sim_net_block(&run->world, from, to);
    else
        sim_net_free(&run->world, from, to);
}

static void set_both(struct cluster *run, int a, int b, bool is_on)
{
    set_way(run, a, b, is_on);
    set_way(run, b, a, is_on);
}

static bool is_apart(const struct cluster *run, const struct cluster_fault *fault, int i, int j)
{
    bool is_split = ((fault->arg >> i) & 1) != ((fault->arg >> j) & 1);
    switch ((int)fault->kind) {
    case CLUSTER_ISOLATE:
        return i == fault->a || j == fault->a;
    case CLUSTER_SPLIT:
        return is_split;
    case CLUSTER_BRIDGE:
        return is_split && i != fault->a && j != fault->a;
    default: /* a ring */
        return j - i != 1 && !(i == 0 && j == run->node_count - 1);
    }
}

static void set_partition(struct cluster *run, const struct cluster_fault *fault, bool is_on)
{
    if (fault->kind == CLUSTER_ONE_WAY) {
        set_way(run, fault->a, fault->b, is_on);
        return;
    }
    if (fault->kind == CLUSTER_CUT) {
        set_both(run, fault->a, fault->b, is_on);
        return;
    }
    for (int i = 0; i < run->node_count && fault->kind == CLUSTER_DEAF; i++) {
        if (i != fault->a)
            set_way(run, i, fault->a, is_on);
    }
    if (fault->kind == CLUSTER_DEAF)
        return;
    for (int i = 0; i < run->node_count; i++) {
        for (int j = i + 1; j < run->node_count; j++) {
            if (is_apart(run, fault, i, j))
                set_both(run, i, j, is_on);
        }
    }
    for (int i = 0; i < run->client_count && fault->kind == CLUSTER_ISOLATE && fault->arg == 1; i++)
        set_both(run, fault->a, run->node_count + i, is_on);
}

/* One line. */

static bool is_lasting(enum cluster_fault_kind kind)
{
    enum cluster_class class = cluster_fault_class(kind);
    return kind == CLUSTER_READ_FAIL || class == CLUSTER_CLASS_DIRECTORY || class == CLUSTER_CLASS_SLOW_DISK ||
           class == CLUSTER_CLASS_FULL_DISK || class == CLUSTER_CLASS_CLOCK || class == CLUSTER_CLASS_MEMORY ||
           class == CLUSTER_CLASS_DELAY || class == CLUSTER_CLASS_ONE_WAY || class == CLUSTER_CLASS_PARTITION;
}

static void set_lasting(struct cluster *run, const struct cluster_fault *fault, bool is_on)
{
    struct cluster_node *node = node_at(run, fault->a);
    switch ((int)fault->kind) {
    case CLUSTER_DRIFT:
        sim_server_drift(&node->server, is_on ? fault->arg : 0);
        break;
    case CLUSTER_STEP:
        node->server.wall_skew_ms += is_on ? fault->arg : -fault->arg;
        node->server.process.wall_skew_ms = node->server.wall_skew_ms;
        break;
    case CLUSTER_NO_MEMORY:
        set_memory(node, is_on ? (uint32_t)fault->arg : 0);
        break;
    case CLUSTER_DELAY:
        sim_net_delay(&run->world, fault->a, fault->b, is_on ? fault->arg : 0);
        break;
    case CLUSTER_DIR_FAIL:
    case CLUSTER_DIR_FULL:
        set_directory(node, fault, is_on);
        break;
    case CLUSTER_SLOW_DISK:
    case CLUSTER_SLOW_SYNC:
    case CLUSTER_FULL_DISK:
    case CLUSTER_READ_FAIL:
        set_disk(node, fault, is_on);
        break;
    default:
        set_partition(run, fault, is_on);
        break;
    }
}

/* A node that forms, or will because it heard of this disk, never forms with another one: all would have to be emptied.
 * Of one that is down it is not known. */
static bool forms_with(const struct cluster *run, const struct cluster_node *node)
{
    for (int i = 0; i < run->node_count; i++) {
        const struct cluster_node *other = &run->nodes[i];
        if (!cluster_node_lives(other) && run->quorum.committed_to == 0)
            return true;
        if (!cluster_node_lives(other))
            continue;
        const struct stele_formation *formation = &other->server.node->control.formation;
        bool has_heard = formation->file.stage == STELE_FORM_EMPTY && formation->heard[node->number].is_heard;
        if (has_heard || formation->is_writing || formation->file.stage == STELE_FORM_FORMING)
            return true;
    }
    return false;
}

static void strike(struct cluster *run, const struct cluster_fault *fault)
{
    struct cluster_node *node = node_at(run, fault->a);
    enum sim_death power = fault->arg == 1 ? SIM_DEATH_POWER_ADVERSARIAL : SIM_DEATH_POWER_ORDERED;
    switch ((int)fault->kind) {
    case CLUSTER_KILL:
        die(node, SIM_DEATH_KILL, fault->for_us);
        break;
    case CLUSTER_POWER:
        die(node, power, fault->for_us);
        break;
    case CLUSTER_KILL_ALL:
    case CLUSTER_POWER_ALL:
        for (int i = 0; i < run->node_count; i++)
            die(&run->nodes[i], fault->kind == CLUSTER_KILL_ALL ? SIM_DEATH_KILL : power, fault->for_us);
        break;
    case CLUSTER_CRASH:
        crash_in_call(node, fault);
        break;
    case CLUSTER_STOP:
        stop(node, fault->for_us);
        break;
    case CLUSTER_WIPE:
        if (forms_with(run, node) ||
            cluster_operators_hold(run)) /* with one voter less there would be no majority any more */
            break;
        node->wants_wipe = true;
        die(node, SIM_DEATH_KILL, fault->for_us);
        break;
    case CLUSTER_PAUSE:
        if (node->server.state != SIM_SERVER_DOWN)
            sim_process_pause(&node->server.process, fault->for_us);
        break;
    case CLUSTER_SYNC_FAIL:
        fail_call(node, SIM_DISK_BIT(SIM_DISK_SYNC) | SIM_DISK_BIT(SIM_DISK_SYNC_DIR), fault->arg);
        break;
    case CLUSTER_WRITE_FAIL:
        fail_call(node, SIM_DISK_BIT(SIM_DISK_WRITE), fault->arg);
        break;
    case CLUSTER_BIT_ROT:
        cluster_rot(node, (uint64_t)fault->arg);
        break;
    case CLUSTER_ROT:
        rot(node, fault);
        break;
    case CLUSTER_ELECT:
        run->wants_election = true;
        break;
    case CLUSTER_STALL:
        (void)sim_net_stall(&run->world, fault->a, fault->b, fault->arg, fault->for_us);
        break;
    case CLUSTER_RESET:
        (void)sim_net_reset(&run->world, fault->a, fault->b, fault->arg);
        break;
    default:
        (void)sim_net_silence(&run->world, fault->a, fault->b, fault->arg / 2, fault->arg % 2 == 1);
        break;
    }
}

void cluster_fault_mend(struct cluster *run, struct cluster_line *line)
{
    if (line->is_on)
        set_lasting(run, &line->fault, false);
    line->is_on = false;
}

/* A line of a script may name what is not there. */
static bool is_possible(const struct cluster *run, const struct cluster_fault *fault)
{
    int host_count = run->node_count + run->client_count;
    if (fault->kind == CLUSTER_ELECT || fault->kind == CLUSTER_HOLD ||
        cluster_class_is_call(cluster_fault_class(fault->kind)))
        return true;
    bool needs_b = fault->kind == CLUSTER_CUT || (fault->kind >= CLUSTER_DELAY && fault->kind <= CLUSTER_ONE_WAY);
    if (fault->a >= host_count || fault->b >= host_count)
        return false;
    bool is_node = fault->a >= 0 && fault->a < run->node_count;
    if (cluster_fault_class(fault->kind) == CLUSTER_CLASS_DIRECTORY)
        return is_node && fault->arg >= 0 && fault->arg < run->nodes[fault->a].dir_count &&
               run->nodes[fault->a].dir_count > 1;
    if (needs_b)
        return fault->a >= 0 && fault->b >= 0 && fault->a != fault->b;
    return is_node;
}

void cluster_fault_strike(struct cluster *run, struct cluster_line *line)
{
    char text[CLUSTER_TEXT_BYTES];
    if (!is_possible(run, &line->fault))
        return;
    cluster_fault_text(&line->fault, run->node_count, text);
    sim_world_log(&run->world, "FAULT %s", text);
    run->faults[cluster_fault_class(line->fault.kind)]++;
    if (cluster_class_is_call(cluster_fault_class(line->fault.kind))) {
        cluster_operators_order(run, &line->fault);
        return;
    }
    if (line->fault.kind == CLUSTER_HOLD) {
        (void)sim_net_hold(&run->world, line->connection, line->it, line->fault.for_us);
        return;
    }
    if (!is_lasting(line->fault.kind)) {
        strike(run, &line->fault);
        return;
    }
    line->is_on = true;
    set_lasting(run, &line->fault, true);
    if (line->fault.for_us != CLUSTER_FOR_EVER)
        sim_event_after(&run->world, &line->end, line->fault.for_us);
}

static void run_fault(struct sim_event *event)
{
    struct cluster *run = STELE_CONTAINER_OF(event, struct cluster, fault);
    cluster_watch_line(run, &run->plan.lines[run->next_line++]);
    while (run->next_line < run->plan.count && run->plan.lines[run->next_line].fault.words.is_behind)
        run->next_line++; /* the line before it brings it */
    if (run->next_line < run->plan.count)
        sim_event_at(&run->world, event, run->plan.lines[run->next_line].fault.at_us);
}

void cluster_faults_begin(struct cluster *run)
{
    sim_event_init(&run->fault, "fault", NULL, run_fault);
    cluster_watch_begin(run);
    for (int i = 0; i < run->node_count; i++)
        cluster_disk_quiet(&run->nodes[i]);
    if (run->plan.count > 0)
        sim_event_at(&run->world, &run->fault, run->plan.lines[0].fault.at_us);
}

void cluster_faults_end(struct cluster *run)
{
    sim_event_cancel(&run->world, &run->fault);
    cluster_watch_end(run);
    for (int64_t i = 0; i < run->plan.count; i++) {
        struct cluster_line *line = &run->plan.lines[i];
        sim_event_cancel(&run->world, &line->end);
        if (line->is_on && line->fault.for_us != CLUSTER_FOR_EVER)
            cluster_fault_mend(run, line);
    }
    for (int i = 0; i < run->node_count; i++) {
        struct cluster_node *node = &run->nodes[i];
        if (!sim_disk_is_stopped(node->server.disk))
            sim_disk_arm(node->server.disk, 0, NULL);
        /* Whoever runs the cluster starts a node anew whose disk had failed. */
        if (node->has_disk_trouble && cluster_node_lives(node))
            die(node, SIM_DEATH_KILL, 1000000);
    }
}
