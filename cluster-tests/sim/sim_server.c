/* A death is an event of its own, so that nothing is freed under the feet of what runs; until then nothing leaves the
 * machine, for bytes take a while to leave. */
#include "cluster-tests/sim/sim_server.h"

#include "base/check.h"
#include "cluster-tests/sim/sim_image.h"
#include "node/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_MS_MAX (INT64_MAX / 4000)

enum { QUICK_US = 10 };

static void *plain_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, bytes);
}

static int64_t disk_wall_ms(void *arg)
{
    struct sim_server *server = arg;
    return server->envs[0].env.ops == NULL ? 0 : stele_env_wall_ms(&server->envs[0].env);
}

static void disk_charge(void *arg, int64_t us)
{
    struct sim_server *server = arg;
    bool is_over = server->slow_until_us > 0 && sim_world_now_us(server->world) >= server->slow_until_us;
    server->world->taken_us += is_over ? stele_min_i64(us, QUICK_US) : us;
}

static void disk_sync_failed(void *arg, const char *path)
{
    struct sim_server *server = arg;
    if (server->sync_failed != NULL)
        server->sync_failed(server, path);
}

static void disk_violation(void *arg, const char *text)
{
    struct sim_server *server = arg;
    sim_world_fail(server->world, "the disk's audit: %s", text);
}

static void run_end(struct sim_event *event);

static void use_disk(struct sim_server *server, struct sim_disk *disk)
{
    server->disk = disk;
    struct sim_disk_hooks hooks = {.arg = server,
                                   .wall_ms = disk_wall_ms,
                                   .charge = disk_charge,
                                   .violation = disk_violation,
                                   .sync_failed = disk_sync_failed};
    sim_disk_set_hooks(server->disk, &hooks);
    sim_disk_allow_unsynced_rename(server->disk, "*.deleted");            /* on its way out */
    sim_disk_allow_unsynced_rename(server->disk, "*/partition.metadata"); /* synced before the first synced answer */
}

static void make_disk(struct sim_server *server)
{
    use_disk(server, sim_disk_new(stele_prng_u64(sim_stream(server->world, SIM_STREAM_DISK))));
}

void sim_server_wipe(struct sim_server *server)
{
    STELE_ASSERT(server->state == SIM_SERVER_DOWN);
    sim_disk_free(server->disk);
    make_disk(server);
}

void sim_server_restore(struct sim_server *server, struct sim_disk *disk)
{
    STELE_ASSERT(server->state == SIM_SERVER_DOWN);
    sim_disk_free(server->disk);
    use_disk(server, disk);
}

void sim_server_init(struct sim_server *server, struct sim_world *world, const char *name)
{
    int rows = 0;
    memset(server, 0, sizeof(*server));
    server->world = world;
    server->shard_count = 2;
    (void)snprintf(server->address, sizeof(server->address), "%s:7835", name);
    stele_list_init(&server->listener.link);
    stele_mem_init(&server->mem, (struct stele_mem_source){.resize = plain_resize}, 0);
    const struct stele_setting_row *table = stele_node_setting_rows(&rows);
    server->settings = stele_settings_new(&server->mem, table, rows);
    STELE_ASSERT(server->settings != NULL);
    make_disk(server);
    sim_event_init(&server->end, "death", NULL, run_end);
}

void sim_server_deinit(struct sim_server *server)
{
    STELE_ASSERT(server->state == SIM_SERVER_DOWN);
    sim_event_cancel(server->world, &server->end);
    stele_settings_free(server->settings);
    STELE_ASSERT(stele_mem_is_empty(&server->mem));
    sim_disk_free(server->disk);
}

/* Timers: the loop's one, armed to the core's next deadline. */

static void arm(struct sim_server *server, int shard)
{
    struct sim_world *world = server->world;
    struct sim_event *timer = &server->timers[shard];
    int64_t deadline_ms = stele_node_deadline(server->node, shard);
    if (deadline_ms == INT64_MAX) {
        sim_event_cancel(world, timer);
        return;
    }
    int64_t at_us =
        stele_max_i64(sim_process_world_us(&server->process, stele_min_i64(deadline_ms, CLOCK_MS_MAX) * 1000),
                      sim_world_now_us(world) + 1);
    if (timer->slot == 0 || timer->at_us < at_us || timer->at_us > at_us + world->timer_us_max)
        sim_event_at(world, timer, at_us + sim_draw_log(sim_stream(world, SIM_STREAM_TIMERS), world->timer_us_max));
}

static void run_timer(struct sim_event *event)
{
    struct sim_server *server = event->env->owner;
    int shard = (int)(event - server->timers);
    if (stele_node_deadline(server->node, shard) <= stele_env_mono_ms(&event->env->env))
        stele_node_tick(server->node, shard);
}

static void after_event(struct sim_env *env)
{
    struct sim_server *server = env->owner;
    if (server->stepped != NULL && server->node != NULL)
        server->stepped(server);
    if (sim_disk_is_stopped(server->disk) && server->end.slot == 0) {
        sim_world_reach(server->world, SIM_POINT_CRASH_IN_CALL);
        sim_server_die(server, SIM_DEATH_KILL); /* the owner may know better: see before_death */
    }
    if (server->node == NULL || server->end.slot != 0)
        return;
    for (int i = 0; i < server->shard_count; i++)
        arm(server, i);
}

static void after_trace(struct sim_env *env, const struct stele_trace_event *event)
{
    struct sim_server *server = env->owner;
    if (server->traced != NULL)
        server->traced(server, event);
}

/* What the node says, on its control shard. */

static void on_ready(void *arg, enum stele_err err, const struct stele_error *error)
{
    struct sim_server *server = arg;
    if (server->end.slot != 0 || sim_disk_is_stopped(server->disk))
        return;
    if (err != STELE_OK) {
        sim_world_log(server->world, "%s: the start failed: %s", server->process.name, error->text);
        sim_world_reach(server->world, SIM_POINT_START_FAILED);
        sim_server_die(server, SIM_DEATH_FAILED);
        return;
    }
    if (server->state == SIM_SERVER_STOPPING)
        return; /* it was asked to stop before, and does */
    server->state = SIM_SERVER_SERVING;
    if (!server->is_open)
        sim_net_listen(&server->listener);
    server->is_open = true;
    if (server->ready != NULL)
        server->ready(server);
}

/* Other nodes come before it is ready. */
static void on_open(void *arg)
{
    struct sim_server *server = arg;
    if (server->end.slot != 0 || sim_disk_is_stopped(server->disk) || server->state == SIM_SERVER_STOPPING)
        return;
    sim_net_listen(&server->listener);
    server->is_open = true;
}

static void on_stopped(void *arg, enum stele_err err)
{
    struct sim_server *server = arg;
    server->is_stop_clean = err == STELE_OK;
    sim_world_log(server->world, "%s: stopped: %s", server->process.name, stele_err_text(err));
    if (server->end.slot == 0)
        sim_server_die(server, SIM_DEATH_STOPPED);
}

static void on_fatal(void *arg, int exit_code, const struct stele_error *error)
{
    struct sim_server *server = arg;
    if (server->end.slot != 0 || sim_disk_is_stopped(server->disk))
        return;
    sim_world_log(server->world, "%s: ends with %d: %s", server->process.name, exit_code, error->text);
    sim_world_reach(server->world, SIM_POINT_FATAL);
    sim_server_die(server, SIM_DEATH_KILL); /* the process exits at once */
}

static enum stele_err on_accept(void *arg, int index, struct stele_conn *conn,
                                const struct stele_conn_handler **out_handler, void **out_arg)
{
    struct sim_server *server = arg;
    if (server->end.slot != 0)
        return STELE_CLOSED;
    return stele_node_accept(server->node, STELE_SHARD_DATA + index, 0, conn, out_handler, out_arg);
}

/* A life */

/* The program reads its settings anew; what it makes of them dies with it. */
static void copy_settings(struct sim_server *server)
{
    int rows = 0;
    const struct stele_setting_row *table = stele_node_setting_rows(&rows);
    struct stele_error error = {.text = ""};
    server->life_settings = stele_settings_new(&server->process.mem, table, rows);
    STELE_ASSERT(server->life_settings != NULL);
    for (int i = 0; i < rows; i++) {
        if (!stele_settings_is_set(server->settings, table[i].name))
            continue;
        char number[STELE_SETTING_NUMBER_BYTES];
        const char *origin = NULL, *text = stele_settings_in_force(server->settings, &table[i], number, &origin);
        enum stele_err err = stele_settings_set(server->life_settings, table[i].name, text, "run", &error);
        STELE_ASSERT(err == STELE_OK);
    }
}

/* Of the machine's kernel: the same until it loses its power. Not drawn, so that runs stay what they are. */
static struct stele_uuid boot_id(const struct sim_server *server)
{
    struct stele_uuid uuid = {.bytes = {1}};
    (void)snprintf((char *)uuid.bytes + 1, sizeof(uuid.bytes) - 1, "%.5s%lld", server->address,
                   (long long)server->boots);
    return uuid;
}

static void run_begin(struct sim_event *event)
{
    struct sim_server *server = STELE_CONTAINER_OF(event, struct sim_server, begin);
    char host[64];
    struct stele_node_options options = {.envs = server->env_list,
                                         .nets = server->net_list,
                                         .shard_count = server->shard_count,
                                         .settings = server->life_settings,
                                         .boot_id = boot_id(server),
                                         .open = on_open,
                                         .ready = on_ready,
                                         .stopped = on_stopped,
                                         .fatal = on_fatal,
                                         .arg = server};
    enum stele_err err = stele_node_new(&options, &server->node);
    if (err == STELE_NO_MEMORY && server->process.no_memory_count > 0) {
        sim_world_reach(server->world, SIM_POINT_START_FAILED);
        sim_server_die(server, SIM_DEATH_FAILED);
        return;
    }
    if (err != STELE_OK)
        sim_world_fail(server->world, "no node: %s", stele_err_text(err));
    (void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(server->address, ":"), server->address);
    stele_node_set_advertised(server->node, host, 7835);
    stele_node_start(server->node);
}

static void run_stop(struct sim_event *event)
{
    struct sim_server *server = STELE_CONTAINER_OF(event, struct sim_server, stop);
    if (server->end.slot == 0)
        stele_node_stop(server->node);
}

void sim_server_start(struct sim_server *server)
{
    struct sim_world *world = server->world;
    char name[32];
    STELE_ASSERT(server->state == SIM_SERVER_DOWN);
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(server->address, ":"), server->address);
    sim_process_begin(&server->process, world, name);
    server->process.wall_skew_ms = server->wall_skew_ms;
    server->process.drift_ppm = server->drift_ppm;
    copy_settings(server);
    for (int i = 0; i < server->shard_count; i++) {
        char shard[16];
        (void)snprintf(shard, sizeof(shard), i == 0 ? "control" : "data%d", i);
        struct sim_env *env = &server->envs[i];
        sim_env_init(env, &server->process, shard, sim_disk_vfs(server->disk));
        env->owner = server;
        env->after = after_event;
        env->traced = after_trace;
        sim_net_init(&server->nets[i], env);
        server->env_list[i] = &env->env;
        server->net_list[i] = &server->nets[i].net;
        sim_event_init(&server->timers[i], "timer", env, run_timer);
    }
    server->listener = (struct sim_listener){.nets = &server->nets[STELE_SHARD_DATA],
                                             .net_count = server->shard_count - STELE_SHARD_DATA,
                                             .accept = on_accept,
                                             .arg = server};
    (void)snprintf(server->listener.address, sizeof(server->listener.address), "%s", server->address);
    stele_list_init(&server->listener.link);
    sim_event_init(&server->begin, "begin", &server->envs[0], run_begin);
    sim_event_init(&server->stop, "stop", &server->envs[0], run_stop);
    server->state = SIM_SERVER_STARTING;
    server->is_open = false;
    server->starts++;
    sim_world_log(world, "%s: starts", name);
    sim_world_reach(world, SIM_POINT_START);
    sim_net_machine_back(world, server->address);
    sim_event_after(world, &server->begin, 1);
}

void sim_server_stop(struct sim_server *server)
{
    STELE_ASSERT(server->state == SIM_SERVER_SERVING || server->state == SIM_SERVER_STARTING);
    if (server->is_open)
        sim_net_unlisten(&server->listener);
    server->state = SIM_SERVER_STOPPING;
    sim_event_after(server->world, &server->stop, 1);
}

void sim_server_drift(struct sim_server *server, int64_t ppm)
{
    server->drift_ppm = ppm;
    if (server->state != SIM_SERVER_DOWN)
        sim_process_drift(&server->process, ppm);
}

void sim_server_die(struct sim_server *server, enum sim_death death)
{
    STELE_ASSERT(server->state != SIM_SERVER_DOWN);
    server->death = death;
    sim_event_after(server->world, &server->end, 0);
}

/* As host/server.c ends: nothing may be left of a node. */
static void free_node(struct sim_server *server)
{
    for (int i = 0; i < server->shard_count; i++)
        sim_net_part(&server->nets[i], SIM_PARTING_CLOSE);
    sim_process_drop_work(&server->process);
    stele_node_free(server->node);
    stele_settings_free(server->life_settings);
    for (int tag = 0; tag < STELE_MEM_TAG_COUNT; tag++) {
        if (server->process.mem.tag_blocks[tag] != 0)
            sim_world_fail(server->world, "a node that was freed holds memory: %s, %lld blocks",
                           stele_mem_tag_name((enum stele_mem_tag)tag), (long long)server->process.mem.tag_blocks[tag]);
    }
    if (sim_disk_in_use(server->disk) != 0)
        sim_world_fail(server->world, "a node that was freed holds %lld files",
                       (long long)sim_disk_in_use(server->disk));
}

/* A process that ends by itself frees its node; one that is killed does not, and half of the time it is made to, as a
 * test of what a node gives back in the middle of everything. */
static void take_down(struct sim_server *server)
{
    static const enum sim_disk_crash_mode modes[] = {SIM_DISK_KILL, SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL,
                                                     SIM_DISK_KILL, SIM_DISK_KILL};
    bool is_power = server->death == SIM_DEATH_POWER_ORDERED || server->death == SIM_DEATH_POWER_ADVERSARIAL;
    bool is_own = server->death == SIM_DEATH_FAILED || server->death == SIM_DEATH_STOPPED;
    server->boots += is_power;
    bool frees = is_own || (!is_power && sim_chance(sim_stream(server->world, SIM_STREAM_KILL), 1, 2));
    if (frees && server->node != NULL)
        free_node(server);
    for (int i = 0; i < server->shard_count; i++)
        sim_net_part(&server->nets[i], is_power ? SIM_PARTING_SILENT : SIM_PARTING_KILL);
    sim_disk_crash(server->disk, modes[server->death]);
    sim_disk_abandon(server->disk);
}

static void run_end(struct sim_event *event)
{
    static const char *const texts[] = {"is killed", "loses its power", "loses its power and what it likes", "ends",
                                        "has stopped"};
    struct sim_server *server = STELE_CONTAINER_OF(event, struct sim_server, end);
    struct sim_world *world = server->world;
    if (server->before_death != NULL)
        server->before_death(server);
    sim_world_log(world, "%s: %s", server->process.name, texts[server->death]);
    static const enum sim_point points[] = {SIM_POINT_KILL, SIM_POINT_POWER_ORDERED, SIM_POINT_POWER_ADVERSARIAL};
    if (server->death <= SIM_DEATH_POWER_ADVERSARIAL) {
        sim_world_reach(world, points[server->death]);
        if (server->state == SIM_SERVER_STARTING)
            sim_world_reach(world, SIM_POINT_CRASH_IN_START);
    } else if (server->death == SIM_DEATH_STOPPED) {
        sim_world_reach(world, SIM_POINT_STOP);
    }
    sim_net_unlisten(&server->listener);
    sim_event_cancel(world, &server->begin);
    sim_event_cancel(world, &server->stop);
    for (int i = 0; i < server->shard_count; i++)
        sim_event_cancel(world, &server->timers[i]);
    take_down(server);
    sim_process_end(&server->process);
    server->node = NULL;
    server->state = SIM_SERVER_DOWN;
    if (server->dead != NULL)
        server->dead(server);
}
