/* Keeps what a producer or consumer knows of its topic up to date: every metadata.max.age.ms, and soon after an error
 * that says that something changed. In a cluster the nodes are asked by turns then: the one that was asked last may be
 * cut off from the others, and know of no change. So it may tell of the topic that was there before, under the same
 * name: another one than is known counts when two nodes in a row tell of it. */
#ifndef STELE_CLIENT_REFRESH_H
#define STELE_CLIENT_REFRESH_H

#include "client/nodes.h"

struct stele_refresh {
    struct stele_client *client;
    const char *topic;             /* the owner's */
    struct stele_leaders *leaders; /* the owner's, kept up to date */
    int64_t age_ms, next_ms, asked_ms;
    struct stele_client_node *node; /* that is asked */
    struct stele_call call;
    bool is_asking, is_urgent;
    struct stele_backoff backoff;
    bool is_other_told;                         /* the last answer was of another topic, */
    struct stele_uuid other_id;                 /* this one, */
    const struct stele_client_node *other_from; /* by this node; NULL: the next one that was asked gave no answer */
    /* The topic as it is now, its leaders taken; called from poll. Errors: NO_MEMORY, then it is called again. */
    enum stele_err (*changed)(struct stele_refresh *refresh, const struct stele_uuid *topic_id, int32_t partitions);
};

/** For a topic that was just asked for. */
void stele_refresh__init(struct stele_refresh *refresh, struct stele_leaders *leaders,
                         const struct stele_settings *settings, const char *topic);
/** `err` came from the topic's partition, or from the way to it: asks soon when it tells of a change. */
void stele_refresh__note(struct stele_refresh *refresh, enum stele_err err);
void stele_refresh__tick(struct stele_refresh *refresh, int64_t now_ms);
int64_t stele_refresh__deadline(const struct stele_refresh *refresh);
void stele_refresh__stop(struct stele_refresh *refresh);

#endif
