/* The names of the simulated disk: a tree of nodes with live and durable links, and the changes not yet synced. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_NAMES_H
#define STELE_CLUSTER_TESTS_SIM_SIM_NAMES_H

#include "base/list.h"
#include "cluster-tests/sim/sim_image.h"

enum sim_view { SIM_LIVE, SIM_DURABLE, SIM_VIEW_COUNT };

/* One name, shared by the entries and changes that use it. */
struct sim_name {
    int refs;
    char text[];
};

struct sim_entry {
    struct sim_name *name;
    struct sim_node *node; /* a reference */
};

struct sim_entries {
    struct sim_entry *items; /* ascending by name */
    int64_t count, capacity;
};

/* A file or directory. It lives while an entry, a change or an open file refers to it. */
struct sim_node {
    int refs;
    bool is_dir;
    bool is_locked;
    bool is_unsynced;       /* written or cut since its last good sync */
    bool has_pending_error; /* of a write-back: the next sync fails */
    int64_t mtime_ms, durable_mtime_ms;
    int64_t truncate_sequence;                  /* of its last unsynced truncation */
    int64_t charged_bytes;                      /* of the quota: what it reserved from its beginning */
    struct sim_image image;                     /* of a file */
    struct sim_entries entries[SIM_VIEW_COUNT]; /* of a directory */
    struct sim_node *parent[SIM_VIEW_COUNT];    /* NULL: no link there; no node has two */
    struct sim_name *name[SIM_VIEW_COUNT];      /* the entry's */
    struct stele_list dirty;                    /* in sim_names.dirty while it has unsynced content */
    struct sim_node *next;                      /* in work lists */
    struct sim_node *twin;                      /* while names are copied: its copy */
    bool is_touched;                            /* while names are lost: a change concerns it */
};

enum sim_change_kind { SIM_CHANGE_LINK, SIM_CHANGE_MOVE, SIM_CHANGE_UNLINK };

/* A change of names that is live and not durable. */
struct sim_change {
    struct stele_list link;
    enum sim_change_kind kind;
    struct sim_node *from_dir, *to_dir; /* LINK: to only; UNLINK: from only */
    struct sim_name *from_name, *to_name;
    struct sim_node *node;
    int64_t sequence;
};

struct sim_names {
    struct sim_node *root;
    struct stele_list changes; /* oldest first */
    struct stele_list dirty;
    int64_t sequence;        /* of the next change or truncation */
    int64_t sequence_synced; /* an ordered file system has all before this one durable */
    int64_t used_bytes;
};

/* Where a path leads. */
struct sim_place {
    struct sim_node *dir; /* holds the last part; NULL when the path is the root */
    const char *name;
    size_t name_bytes;
    struct sim_node *node; /* NULL when missing */
};

void sim_names_init(struct sim_names *names, int64_t now_ms);
void sim_names_deinit(struct sim_names *names);
/** Fills `copy`, fresh memory, with all that is linked or changed; open files and locks stay behind. */
void sim_names_copy(struct sim_names *names, struct sim_names *copy);

struct sim_name *sim_name_ref(struct sim_name *name);
void sim_name_unref(struct sim_name *name);
struct sim_node *sim_node_ref(struct sim_node *node);
void sim_node_unref(struct sim_names *names, struct sim_node *node);
/** Keeps node in the list of dirty files exactly while it is dirty. */
void sim_node_note(struct sim_names *names, struct sim_node *node);
/** Sets what the node has reserved. */
void sim_node_charge(struct sim_names *names, struct sim_node *node, int64_t bytes);

/** Errors: NOT_FOUND (a directory on the way), IO (a part is too long or ".."). */
enum stele_err sim_names_find(struct sim_names *names, enum sim_view view, const char *path,
                              struct sim_place *out_place);
struct sim_node *sim_names_make(struct sim_names *names, const struct sim_place *place, bool is_dir, int64_t now_ms);
void sim_names_remove(struct sim_names *names, const struct sim_place *place);
/** Errors: as rename(2). */
enum stele_err sim_names_move(struct sim_names *names, const struct sim_place *from, const struct sim_place *to);
void sim_names_sync_dir(struct sim_names *names, struct sim_node *dir);
/** The power failed: keeps the changes below `sequence_kept` (ordered) or any (sequence_kept < 0). */
void sim_names_lose(struct sim_names *names, const struct sim_loss *loss, int64_t sequence_kept);
/** Writes the live path of node, "" when it has none or it does not fit. */
void sim_names_path(const struct sim_node *node, char out_path[STELE_PATH_BYTES]);

#endif
