/* The inside of the simulated disk, for its own files. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_DISK_STRUCT_H
#define STELE_CLUSTER_TESTS_SIM_SIM_DISK_STRUCT_H

#include "cluster-tests/sim/sim_names.h"

/* One stream a purpose, so that a new fault of one kind leaves the others as they were. */
enum sim_disk_stream { SIM_STREAM_CALLS = 101, SIM_STREAM_CRASH, SIM_STREAM_ROT };

enum { SIM_VIOLATION_TEXT_BYTES = STELE_PATH_BYTES + 128 };

struct sim_rule {
    char *pattern;
    unsigned ops;
    enum stele_err err;
    int64_t delay_us;
};

struct sim_disk {
    struct stele_vfs vfs;
    struct sim_names names;
    struct sim_disk_hooks hooks;
    struct stele_prng calls_prng, crash_prng, rot_prng;
    int64_t run;        /* counts crashes; files of an earlier run fail */
    int64_t open_files; /* and locks */
    int64_t open_maps;
    struct stele_list files, maps; /* those */
    bool is_stopped;
    /* the armed fault */
    struct sim_disk_fault fault;
    int64_t fault_in; /* calls until it strikes; 0: off */
    bool has_struck;
    enum sim_disk_op struck_op;
    /* lasting faults */
    struct sim_rule rules[SIM_DISK_RULES_MAX];
    int rule_count;
    struct sim_disk_rates rates;
    int64_t quota_bytes; /* below 0: none */
    bool is_quota_at_sync;
    /* audits */
    char *renames_allowed[SIM_DISK_ALLOWED_MAX], *reads_allowed[SIM_DISK_ALLOWED_MAX];
    int renames_allowed_count, reads_allowed_count;
    char violation[SIM_VIOLATION_TEXT_BYTES];
    struct sim_disk_stats stats;
};

struct sim_file {
    struct stele_file file;
    struct stele_list link;
    struct sim_node *node;
    int64_t run;
    bool is_writable, is_lock;
    char path[]; /* as opened */
};

struct sim_map {
    struct stele_list link;
    uint8_t bytes[];
};

struct sim_disk *sim_disk_of(struct stele_vfs *vfs);
extern const struct stele_vfs_ops sim_disk_ops;

/** Counts a call and draws its fate: OK, or the error that it is to return. Charges its time. */
enum stele_err sim_disk_enter(struct sim_disk *disk, enum sim_disk_op op, const char *path);
/** Writes of that path would fail for lack of room, by sim_disk_break. */
bool sim_disk_is_broken_full(const struct sim_disk *disk, const char *path);
bool sim_disk_chance(struct sim_disk *disk, uint32_t per_million);
bool sim_pattern_fits(const char *pattern, const char *text);
/** Pages of the file's [pos, end) are clean from now on though they may not have gone out. */
void sim_disk_lose_writes(struct sim_disk *disk, struct sim_node *node, int64_t pos, int64_t end);
void sim_audit_rename(struct sim_disk *disk, const struct sim_node *node, const char *from, const char *to);
void sim_audit_read(struct sim_disk *disk, const struct sim_file *file, int64_t pos, int64_t end);

#endif
