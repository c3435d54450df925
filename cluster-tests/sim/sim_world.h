/* A world on virtual time, all of it from one seed: a queue of events, processes with the envs that they live in, and
 * what is kept of a run (a hash, counts, a log for readers). Machines, clients and connections are built on it:
 * sim_server.h, sim_client.h, sim_net.h. Any number of each; nothing here is global.
 *
 * Invariants
 *  1. Events run in the order of time, then of scheduling; time never goes back. One runs at a time.
 *  2. An event of an env waits while the env is busy: with the time that its last event took, or a pause of a client.
 *  3. Every choice is drawn from a stream of the seed that belongs to one purpose, so that switching one class of
 *     faults off leaves the choices of the others as they were.
 *  4. Whatever an event changes goes into the hash: the same seed gives the same hash. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_WORLD_H
#define STELE_CLUSTER_TESTS_SIM_SIM_WORLD_H

#include "base/env.h"
#include "base/list.h"
#include "base/prng.h"

struct sim_world;
struct sim_env;
struct sim_net_world;

/* One stream of the seed each; those of a process are told apart by its number. */
enum sim_stream {
    SIM_STREAM_SETUP,
    SIM_STREAM_CORE, /* env->random */
    SIM_STREAM_TASKS,
    SIM_STREAM_JOBS,
    SIM_STREAM_TIMERS,
    SIM_STREAM_LATENCY,
    SIM_STREAM_CHUNKS,
    SIM_STREAM_CONNECT,
    SIM_STREAM_RESET,
    SIM_STREAM_STALL,
    SIM_STREAM_SILENCE,
    SIM_STREAM_KILL,
    SIM_STREAM_DISK,
    SIM_STREAM_DISK_FAULT,
    SIM_STREAM_WORKLOAD,
    SIM_STREAM_CLOCK,
    SIM_STREAM_MEMORY,
    SIM_STREAM_COUNT
};

/* What a run may reach; a test may ask for each. */
#define SIM_POINTS(P)                                                                                                  \
    P(CONNECTED, "connections")                                                                                        \
    P(REFUSED, "refused")                                                                                              \
    P(BLACKHOLED, "blackholed")                                                                                        \
    P(RESET, "reset")                                                                                                  \
    P(STALLED, "stalled")                                                                                              \
    P(HALF_OPEN, "half-open")                                                                                          \
    P(MOVED, "a connection that went to another loop")                                                                 \
    P(LATE_BYTES, "bytes after a close")                                                                               \
    P(SEND_FULL, "send buffers full")                                                                                  \
    P(READ_PAUSED, "reads paused")                                                                                     \
    P(FILE_PIECE, "file pieces")                                                                                       \
    P(KILL, "kills")                                                                                                   \
    P(POWER_ORDERED, "power losses (ordered)")                                                                         \
    P(POWER_ADVERSARIAL, "power losses (adversarial)")                                                                 \
    P(CRASH_IN_CALL, "crashes inside a disk call")                                                                     \
    P(CRASH_IN_START, "crashes in a start")                                                                            \
    P(START, "starts")                                                                                                 \
    P(START_FAILED, "failed starts")                                                                                   \
    P(STOP, "clean stops")                                                                                             \
    P(FATAL, "ends by the node itself")                                                                                \
    P(JOB, "jobs")                                                                                                     \
    P(JOB_WAITED, "jobs that waited for their lane")

enum sim_point {
#define P(name, text) SIM_POINT_##name,
    SIM_POINTS(P)
#undef P
        SIM_POINT_COUNT
};
const char *sim_point_text(enum sim_point point);

/** Something that happens at a time; embedded in what it is about. */
struct sim_event {
    void (*run)(struct sim_event *event);
    struct sim_env *env; /* whose loop it runs on; NULL: nobody's */
    const char *name;
    int64_t at_us;
    uint64_t sequence;
    int64_t slot; /* in the heap, from 1; 0: not queued */
};

struct sim_world {
    uint64_t seed;
    int64_t now_us, taken_us; /* taken: what the running event took so far */
    struct sim_event **heap;
    int64_t count, capacity;
    uint64_t sequence, hash;
    int64_t events;
    struct stele_prng streams[SIM_STREAM_COUNT]; /* of the world itself */
    int64_t reached[SIM_POINT_COUNT];
    struct sim_env *running; /* whose event runs */
    int process_count;
    struct sim_net_world *net;
    int64_t task_us_max, job_us_max, timer_us_max; /* the longest delays drawn */
    bool is_verbose;
    void (*failed)(void *arg, const char *text); /* prints how to see it again */
    void *arg;
};

void sim_world_init(struct sim_world *world, uint64_t seed);
/** Every process and connection was ended before. */
void sim_world_deinit(struct sim_world *world);
/** Runs the next event; false when there is none. */
bool sim_world_step(struct sim_world *world);
/** The time that code which runs now sees: that of its event and what it took so far. */
int64_t sim_world_now_us(const struct sim_world *world);

void sim_event_init(struct sim_event *event, const char *name, struct sim_env *env,
                    void (*run)(struct sim_event *event));
/** Schedules `event` `after_us` from now; one that is queued is moved. */
void sim_event_at(struct sim_world *world, struct sim_event *event, int64_t at_us);
void sim_event_after(struct sim_world *world, struct sim_event *event, int64_t after_us);
/** As after, but a queued one is only ever moved to an earlier time. */
void sim_event_hurry(struct sim_world *world, struct sim_event *event, int64_t after_us);
void sim_event_cancel(struct sim_world *world, struct sim_event *event);

/** Mixes what happened into the hash. */
void sim_world_mix(struct sim_world *world, uint64_t value);
/** A line of the log that a reader of one seed sees. */
void sim_world_log(struct sim_world *world, const char *format, ...) STELE_PRINTF(2, 3);
void sim_world_reach(struct sim_world *world, enum sim_point point);
/** Ends the program: an invariant does not hold. */
void sim_world_fail(struct sim_world *world, const char *format, ...) STELE_PRINTF(2, 3) __attribute__((noreturn));

static inline struct stele_prng *sim_stream(struct sim_world *world, enum sim_stream stream)
{
    return &world->streams[stream];
}
/** Mostly small, up to `most`: each power of two is as likely. */
int64_t sim_draw_log(struct stele_prng *prng, int64_t most);
static inline bool sim_chance(struct stele_prng *prng, uint64_t numerator, uint64_t denominator)
{
    return stele_prng_chance(prng, numerator, denominator);
}

/** What a clock that is ahead by `skew_ms` shows now. */
int64_t sim_wall_ms(const struct sim_world *world, int64_t skew_ms);

/** A process: memory and envs that end together. */
struct sim_process {
    struct sim_world *world;
    char name[32];
    int number;
    struct stele_mem mem;
    struct stele_list blocks; /* all of its memory */
    struct stele_list envs, tasks, jobs, lanes;
    int64_t wall_skew_ms;
    int64_t drift_ppm, drift_from_us, mono_from_us; /* its clock goes so much faster, since; and what it showed then */
    int64_t paused_us;                              /* its jobs rest until then */
    uint32_t no_memory;                             /* allocations that fail, per million */
    int64_t no_memory_count;
    bool is_alive;
};

void sim_process_begin(struct sim_process *process, struct sim_world *world, const char *name);
/** From now on its monotonic clock goes faster by so much, per million. */
void sim_process_drift(struct sim_process *process, int64_t ppm);
/** What its monotonic clock shows at a time of the world, and the first time when it shows that. */
int64_t sim_process_mono_us(const struct sim_process *process, int64_t world_us);
int64_t sim_process_world_us(const struct sim_process *process, int64_t mono_us);
/** Nothing of it runs for so long (SIGSTOP); its connections stay. */
void sim_process_pause(struct sim_process *process, int64_t us);
/** Tasks and jobs that were started are gone and never end. */
void sim_process_drop_work(struct sim_process *process);
/** Its events are dropped, its memory is gone: as the kernel does it. Envs are given up before. */
void sim_process_end(struct sim_process *process);

/** The env of one loop of a process. */
struct sim_env {
    struct stele_env env;
    struct stele_metrics metrics;
    struct sim_process *process;
    struct stele_list link;
    char name[48];
    struct stele_prng random;
    int64_t busy_us, seen_us;           /* busy until; the latest time that it was told */
    int64_t task_us;                    /* when the last task that it posted arrives; its order is kept */
    void (*after)(struct sim_env *env); /* after each of its events; NULL */
    void (*traced)(struct sim_env *env, const struct stele_trace_event *event); /* NULL */
    void *owner;
};

void sim_env_init(struct sim_env *env, struct sim_process *process, const char *name, struct stele_vfs *vfs);
static inline struct sim_env *sim_env_of(struct stele_env *env)
{
    return STELE_CONTAINER_OF(env, struct sim_env, env);
}

#endif
