/* What the metadata log says, as tables: cluster id, topics, partitions, topic settings. Built by applying its records
 * in order; belongs to the control shard. */
#ifndef STELE_NODE_METADATA_IMAGE_H
#define STELE_NODE_METADATA_IMAGE_H

#include "node/table.h"
#include "proto/metadata_record.h"

struct stele_image_partition {
    bool is_known;  /* its record was seen */
    bool is_placed; /* a log directory was found or made for it */
    int32_t leader_id, leader_epoch, partition_epoch;
    int32_t *replicas, *isr;
    size_t replica_count, isr_count;
};

struct stele_image_topic {
    UT_hash_handle by_name, by_id;
    char *name;
    struct stele_uuid topic_id;
    struct stele_image_partition *partitions;
    int32_t partition_count;
    char **setting_names, **setting_values;
    int setting_count;
};

struct stele_image {
    struct stele_mem *mem;
    char *cluster_id; /* NULL: no FORMAT record was seen */
    int32_t level;
    struct stele_image_topic *by_name, *by_id;
};

void stele_image_init(struct stele_image *image, struct stele_mem *mem);
void stele_image_deinit(struct stele_image *image);
/** Errors: NO_MEMORY, CORRUPT (the record contradicts those before it), UNSUPPORTED_VERSION (a level of a newer
 * version); the image is then no longer to be trusted. */
STELE_MUST_CHECK enum stele_err stele_image_apply(struct stele_image *image,
                                                  const struct stele_metadata_record *record);
struct stele_image_topic *stele_image_topic_named(const struct stele_image *image, const char *name);
struct stele_image_topic *stele_image_topic_of(const struct stele_image *image, const struct stele_uuid *topic_id);
int stele_image_topic_count(const struct stele_image *image);

#endif
