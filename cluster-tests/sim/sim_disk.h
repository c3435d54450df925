/* The simulated disk: base/vfs.h over memory, with everything that a disk may do to a program, from one seed.
 *
 * A file has a live content (the page cache) and a durable one (the platter), both in 4 KiB pages; a directory has live
 * and durable entries. What was not synced is lost, kept or torn at a crash. Time stands still here unless the owner
 * charges it (hooks). Not thread safe: one world, one thread.
 *
 * Paths start at one root whether they begin with '/' or not; "." and empty parts are skipped, ".." is not known.
 *
 * A fail-the-n-th-call loop:
 *
 *     static void round(void *arg, struct sim_disk *disk)
 *     {
 *         enum stele_err err = work(sim_disk_vfs(disk));
 *         assert_true(err == STELE_OK || sim_disk_has_struck(disk));
 *         sim_disk_heal(disk);
 *         ... open again, check ...
 *     }
 *     sim_disk_each_call(disk, &(struct sim_disk_fault){.err = STELE_IO}, round, arg);
 *
 * or, with a disk made anew in every round: sim_disk_arm(disk, at, &fault) with at = 1, 2, ... until
 * !sim_disk_has_struck(disk). A crash loop: .is_crash = true, and sim_disk_crash(disk, mode) in place of heal. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_DISK_H
#define STELE_CLUSTER_TESTS_SIM_SIM_DISK_H

#include "base/vfs.h"

struct sim_disk;

/* The calls that can fail; close, unmap, descriptor, sync_range and resident cannot and are not counted. */
enum sim_disk_op {
    SIM_DISK_OPEN,
    SIM_DISK_READ,
    SIM_DISK_WRITE,
    SIM_DISK_SYNC,
    SIM_DISK_TRUNCATE,
    SIM_DISK_ALLOCATE,
    SIM_DISK_SIZE,
    SIM_DISK_MAP,
    SIM_DISK_STAT,
    SIM_DISK_RENAME,
    SIM_DISK_UNLINK,
    SIM_DISK_MKDIR,
    SIM_DISK_RMDIR,
    SIM_DISK_SYNC_DIR,
    SIM_DISK_LIST,
    SIM_DISK_SET_MTIME,
    SIM_DISK_FREE_BYTES,
    SIM_DISK_LOCK,
    SIM_DISK_OP_COUNT
};

/** A set of calls: SIM_DISK_BIT(a) | SIM_DISK_BIT(b). Wherever a set is asked for, 0 stands for all. */
#define SIM_DISK_BIT(op) (1u << (op))

enum sim_disk_crash_mode {
    SIM_DISK_KILL,        /* the process dies, the page cache lives: nothing is lost, nothing becomes durable */
    SIM_DISK_ORDERED,     /* the power fails under an ext4-like file system: names and truncations are lost from the
                           * newest on, and any sync keeps all older ones; pages go as they like */
    SIM_DISK_ADVERSARIAL, /* the power fails and everything unsynced is lost, kept or torn on its own */
};

/* What the owner supplies; each may be NULL. */
struct sim_disk_hooks {
    void *arg;
    int64_t (*wall_ms)(void *arg);                    /* for mtime */
    void (*charge)(void *arg, int64_t us);            /* a call took that long */
    void (*violation)(void *arg, const char *text);   /* an audit failed; it is counted in any case */
    void (*sync_failed)(void *arg, const char *path); /* of a file */
};

/* Random faults, each a chance per million calls; all 0 at first. */
struct sim_disk_rates {
    uint32_t short_read, short_write;
    uint32_t read_error, write_error, sync_error; /* IO; of sync_error the pages are gone, see sim_disk_evict */
    uint32_t write_back_error; /* of a sync_range: pages are gone, and the file's next sync tells, also after a kill */
    uint32_t sync_lie;         /* a lying disk: sync returns OK and the pages are gone as in sync_error */
    uint32_t evict;            /* before a read: what sim_disk_evict does, to this file */
    uint32_t cold;             /* resident says NO */
    uint32_t stall;
    int64_t call_us_min, call_us_max;   /* every call takes that long */
    int64_t stall_us_min, stall_us_max; /* and a stalled one that long on top */
};

/* A fault of the n-th call. */
struct sim_disk_fault {
    unsigned ops;       /* only these count; 0: all */
    enum stele_err err; /* what the call returns; with is_crash it is IO */
    bool is_lasting;    /* all later calls of `ops` fail too */
    bool is_crash;      /* the machine stops: this and every later call fails and leaves no trace, until
                         * sim_disk_crash */
};

struct sim_disk_stats {
    int64_t calls[SIM_DISK_OP_COUNT];
    int64_t faults; /* calls that failed because they were told to */
    int64_t crashes, kills;
    int64_t pages_kept, pages_dropped, pages_torn, pages_garbage;
    int64_t sizes_short;    /* files that came back shorter than they were */
    int64_t sizes_unfilled; /* files that came back longer than what was kept of them */
    int64_t truncations_kept, truncations_lost, names_kept, names_lost;
    int64_t short_reads, short_writes, no_space, sync_failures, pages_lost_by_sync, pages_evicted;
    int64_t write_back_errors, sync_lies, bad_reads, rotten;
    int64_t renames_unsynced, reads_unwritten; /* audits that failed */
};

/** An empty disk: only the root is there. Ends the process when out of memory. */
struct sim_disk *sim_disk_new(uint64_t seed);
/** The same content, durable and live, names, faults and random state, without open files and locks; pages are shared
 * until they are written. Also the image to roll a disk back to. */
struct sim_disk *sim_disk_copy(struct sim_disk *disk);
/** Files and maps still in use are not to be touched any more; a teardown checks sim_disk_in_use first. */
void sim_disk_free(struct sim_disk *disk);
/** Looks that the disk does not notice: bytes as a reader sees them now, fewer at the end of the file or when it is not
 * there; and the names in a directory. */
size_t sim_disk_peek(struct sim_disk *disk, const char *path, void *out_bytes, size_t bytes, int64_t pos);
void sim_disk_peek_names(struct sim_disk *disk, const char *path, void (*each)(void *arg, const char *name), void *arg);
/** Open files, locks and maps. */
int64_t sim_disk_in_use(const struct sim_disk *disk);
/** Gives back what a program that is gone left open: its handles are not to be touched any more. */
void sim_disk_abandon(struct sim_disk *disk);
struct stele_vfs *sim_disk_vfs(struct sim_disk *disk);
void sim_disk_set_hooks(struct sim_disk *disk, const struct sim_disk_hooks *hooks);
/** Starts the random choices anew. */
void sim_disk_seed(struct sim_disk *disk, uint64_t seed);

/* Faults of single calls. */

/** The `at`-th call from now (1: the next) fails; 0 disarms. Forgets an earlier fault and whether it struck. A failing
 * write may have written a part; a sync that fails with IO loses pages as in sync_error. */
void sim_disk_arm(struct sim_disk *disk, int64_t at, const struct sim_disk_fault *fault);
/** Did the armed fault strike? */
bool sim_disk_has_struck(const struct sim_disk *disk);
/** The call that it struck first; SIM_DISK_OP_COUNT when none. */
enum sim_disk_op sim_disk_struck_op(const struct sim_disk *disk);
/** "open", "sync_dir", ... for a test's message. */
const char *sim_disk_op_name(enum sim_disk_op op);
/** Is the machine stopped (is_crash struck, and no crash since)? */
bool sim_disk_is_stopped(const struct sim_disk *disk);
/** Calls counted since the beginning. */
int64_t sim_disk_calls(const struct sim_disk *disk);
/** Switches the armed fault, broken paths, rates and quota off. A stopped machine stays stopped. */
void sim_disk_heal(struct sim_disk *disk);

/** Runs `round` on copies of `disk`; in the first the first call fails, in the second the second one, and so on until
 * a round did not reach its fault. Files opened by a round are closed by it. Returns the number of rounds with a fault.
 */
int64_t sim_disk_each_call(struct sim_disk *disk, const struct sim_disk_fault *fault,
                           void (*round)(void *arg, struct sim_disk *disk), void *arg);

/* Faults that last. A pattern is a whole path with '*' for any bytes, '/' too; a file is known by the path that it was
 * opened with. */

enum { SIM_DISK_RULES_MAX = 16 };
/** `ops` (0: all) on paths of `pattern` fail with `err` until mended; OK: they do not fail but take `delay_us` longer.
 * Where writes fail for lack of room there are no free bytes either. */
void sim_disk_break(struct sim_disk *disk, const char *pattern, unsigned ops, enum stele_err err, int64_t delay_us);
/** Takes back every sim_disk_break of exactly this pattern. */
void sim_disk_mend(struct sim_disk *disk, const char *pattern);
void sim_disk_set_rates(struct sim_disk *disk, const struct sim_disk_rates *rates);
/** Room for `bytes` of content in all; below 0: no limit. A write that does not fit is short, then NO_SPACE. Growing by
 * truncate takes no room, allocate does. */
void sim_disk_set_quota(struct sim_disk *disk, int64_t bytes);
/** Delayed allocation: writes past the quota succeed and sync fails with NO_SPACE, losing pages as in sync_error. */
void sim_disk_set_quota_at_sync(struct sim_disk *disk, bool is_at_sync);
int64_t sim_disk_used_bytes(const struct sim_disk *disk);

/* Damage. */

/** Ends the run of the program: its files fail from now on (close works), its locks are gone, a stopped machine runs
 * again, the armed fault is disarmed. What survives is up to `mode`. */
void sim_disk_crash(struct sim_disk *disk, enum sim_disk_crash_mode mode);
/** Reads of pages that a failed sync lost show the durable content from now on, as when the cache dropped them. */
void sim_disk_evict(struct sim_disk *disk);
/** Flips the bits of `mask` in one byte at rest. NOT_FOUND without such a file or byte. */
enum stele_err sim_disk_flip(struct sim_disk *disk, const char *path, int64_t pos, uint8_t mask);
/** The sectors of [pos, end) cannot be read (IO) until they are written anew; that outlives every crash. NOT_FOUND
 * without such a file. */
enum stele_err sim_disk_spoil(struct sim_disk *disk, const char *path, int64_t pos, int64_t end);
/** A write that went astray, found at rest: sector `to` holds what belongs to sector `from` (indexes of 512 bytes),
 * which is as if it had never been written. NOT_FOUND without such a file or sectors. */
enum stele_err sim_disk_misplace(struct sim_disk *disk, const char *path, int64_t from, int64_t to);
/** Bit rot: damages one bit to one sector of a random file whose path has `pattern` and which is not empty. Tells which
 * (out_path) and where; NOT_FOUND when there is none. */
enum stele_err sim_disk_rot(struct sim_disk *disk, const char *pattern, char out_path[STELE_PATH_BYTES],
                            int64_t *out_pos);

/* Audits. */

/** Would the bytes [pos, end) of `path`, as a reader sees them now, survive any crash, name included? An empty range
 * asks for the name alone. */
bool sim_disk_is_durable(struct sim_disk *disk, const char *path, int64_t pos, int64_t end);
enum { SIM_DISK_ALLOWED_MAX = 16 };
/** A file may be renamed to a path of `pattern` without having been synced, every page of it, since its last write. */
void sim_disk_allow_unsynced_rename(struct sim_disk *disk, const char *pattern);
/** Reads of bytes that were never written (grown by truncate or allocate, or skipped) are fine for paths of
 * `pattern`; they are fine everywhere after a crash or kill, until the next such growth. */
void sim_disk_allow_unwritten_read(struct sim_disk *disk, const char *pattern);
/** Failed audits so far, and the text of the first ("" when none). */
int64_t sim_disk_violations(const struct sim_disk *disk);
const char *sim_disk_violation_text(const struct sim_disk *disk);
const struct sim_disk_stats *sim_disk_stats(const struct sim_disk *disk);

#endif
