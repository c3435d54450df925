/* What the metadata log says, as tables: cluster id, topics, partitions, settings, producer ids. Built by applying its
 * records in order; belongs to the control shard. Nothing in it is of this node alone, but what its owner has not
 * looked at yet: topics that were touched or removed since. */
#ifndef STELE_NODE_METADATA_IMAGE_H
#define STELE_NODE_METADATA_IMAGE_H

#include "base/list.h"
#include "node/table.h"
#include "proto/metadata_record.h"
#include "replication/types.h"

/** A setting that was changed: one that holds, or one of the past. Each is in the list of its subject and of all. */
struct stele_image_change {
    struct stele_list all, of_subject, past; /* oldest first; `past`: only those that do not hold any more */
    int64_t time_ms;                         /* of its record */
    enum stele_subject_kind kind;
    char *subject, *name;
    char *value; /* NULL: back to what it is without */
};

/** The settings of one subject that hold. */
struct stele_image_settings {
    const char **names, **values; /* of `changes`, as stele_settings_overlay wants them */
    struct stele_image_change **changes;
    int count, capacity;
    struct stele_list history; /* of_subject of all changes */
};

struct stele_image_partition {
    bool is_known;   /* its record was seen */
    bool is_in_turn; /* the controller's, while it works out a turn that changes it */
    bool is_touched;
    int32_t next_touched; /* of its topic; -1: none */
    struct stele_partition_state state;
};

struct stele_image_topic {
    UT_hash_handle by_name, by_id;
    char *name;
    struct stele_uuid topic_id;
    struct stele_image_partition *partitions;
    int32_t partition_count, partition_capacity;
    struct stele_image_settings settings;

    struct stele_list touched;           /* while something of it was not looked at */
    int32_t first_touched, last_touched; /* its partitions, in the order of their records; -1: none */
    bool has_new_settings;
};

/** A topic that was removed, so that directories of it are known for what they are: the newest ones. */
struct stele_image_removed {
    UT_hash_handle hh;
    struct stele_list link;
    struct stele_list gone; /* while that was not looked at */
    struct stele_uuid topic_id;
    char *name;
    int32_t partition_count;
};

enum { STELE_IMAGE_REMOVED_MAX = 10000 };

/** Nodes whose settings were changed. */
struct stele_image_node {
    struct stele_image_node *next;
    char *subject;
    struct stele_image_settings settings;
};

enum { STELE_IMAGE_LISTENERS_MAX = 16, STELE_IMAGE_DIRECTORIES_MAX = 64 };

struct stele_image_listener {
    char *name, *host;
    int32_t port;
};

/** A node that is registered. */
struct stele_image_member {
    struct stele_image_member *next; /* by rising id */
    int32_t node_id;
    struct stele_uuid incarnation_id, boot_id;
    int64_t node_epoch;
    int64_t served_epoch;
    char *rack, *software_version;
    struct stele_image_listener *listeners;
    struct stele_uuid *directories, *offline_directories;
    size_t listener_count, directory_count, offline_directory_count;
    int32_t level_min, level_max;
    bool is_fenced, is_shutting_down;
};

struct stele_image_voter {
    struct stele_replica_key key;
    char *host; /* of its peer listener */
    int32_t port;
};

/** What an unclean election lost; the newest are kept. */
struct stele_image_lost {
    struct stele_uuid topic_id;
    int32_t partition, leader_epoch;
    int64_t first_offset, end_offset, time_ms;
};

enum { STELE_IMAGE_LOST_MAX = 1000 };

/** Partitions, kept as their records come. */
struct stele_image_tally {
    int64_t known, leaderless, reassigning, imbalanced;
};

/* So many changes of the past are kept. */
enum { STELE_IMAGE_PAST_MAX = 1000 };

struct stele_image {
    struct stele_mem *mem;
    char *cluster_id; /* NULL: no FORMAT record was seen */
    int32_t level;
    struct stele_image_topic *by_name, *by_id;
    struct stele_list removed; /* oldest first */
    struct stele_image_removed *removed_by_id;
    int removed_count;
    struct stele_image_settings cluster;
    struct stele_image_node *nodes;
    struct stele_list changes, past;
    int past_count;
    int64_t setting_records;  /* of cluster and nodes, applied so far: settings are others when it is another */
    int64_t member_records;   /* likewise members */
    int64_t next_producer_id; /* ids below it may have been given */

    struct stele_image_member *members;
    struct stele_image_voter *voters; /* those of the last record */
    size_t voter_count;
    struct stele_image_lost *lost; /* oldest first */
    size_t lost_count;
    struct stele_image_tally tally;

    /* What was not looked at. */
    bool is_new; /* nothing was: the lists are not kept */
    struct stele_list touched, gone;
};

void stele_image_init(struct stele_image *image, struct stele_mem *mem);
void stele_image_deinit(struct stele_image *image);
/** Becomes what `from` is, which is empty afterwards, as after init. Both are of one memory. */
void stele_image_replace(struct stele_image *image, struct stele_image *from);
/** `time_ms` is that of the record. Errors: NO_MEMORY, CORRUPT (the record contradicts those before it),
 * UNSUPPORTED_VERSION (a level of a newer version); the image is then no longer to be trusted. */
STELE_MUST_CHECK enum stele_err stele_image_apply(struct stele_image *image, const struct stele_metadata_record *record,
                                                  int64_t time_ms);
struct stele_image_topic *stele_image_topic_named(const struct stele_image *image, const char *name);
struct stele_image_topic *stele_image_topic_of(const struct stele_image *image, const struct stele_uuid *topic_id);
int stele_image_topic_count(const struct stele_image *image);

/** The settings of a subject: a node's id as text, "" for the cluster, a topic's name. NULL when there is none. */
const struct stele_image_settings *stele_image_settings_of(const struct stele_image *image,
                                                           enum stele_subject_kind kind, const char *subject);
/** NULL when it does not hold. */
const struct stele_image_change *stele_image_setting(const struct stele_image_settings *settings, const char *name);

/** Everything is to be looked at: all topics are in `touched`, with all their partitions, none is in `gone`. */
void stele_image_touch_all(struct stele_image *image);
/** The partition is to be looked at, perhaps once more. */
void stele_image_touch(struct stele_image *image, struct stele_image_topic *topic, int32_t number);
/** The next partition of a topic to be looked at, which it is now; -1: none. */
int32_t stele_image_take_touched(struct stele_image_topic *topic);

/** NULL when none was removed, or it was forgotten. `topic_id` NULL: by name, the one removed last. */
struct stele_image_removed *stele_image_removed_of(const struct stele_image *image, const struct stele_uuid *topic_id,
                                                   const char *name);
/** Nothing of it is in a directory of any node any more. */
void stele_image_forget_removed(struct stele_image *image, struct stele_image_removed *removed);

/** NULL when it is not registered. */
const struct stele_image_member *stele_image_member_of(const struct stele_image *image, int32_t node_id);

/* Between the files of the image. */

void stele_image__touch_topic(struct stele_image *image, struct stele_image_topic *topic);
void stele_image__cluster_drop(struct stele_image *image);
/** The records of members, voters, levels and lost ranges. */
STELE_MUST_CHECK enum stele_err stele_image__apply_cluster(struct stele_image *image,
                                                           const struct stele_metadata_record *record, int64_t time_ms);

void stele_image__settings_init(struct stele_image_settings *settings);
/** Drops a subject's settings with their history. */
void stele_image__settings_drop(struct stele_image *image, struct stele_image_settings *settings);
STELE_MUST_CHECK enum stele_err stele_image__apply_setting(struct stele_image *image,
                                                           const struct stele_metadata_record *record, int64_t time_ms);

#endif
