/* Keeps what a producer or consumer knows of its topic up to date: every metadata.max.age.ms, and soon after an error
 * that says that something changed. */
#ifndef STELE_CLIENT_REFRESH_H
#define STELE_CLIENT_REFRESH_H

#include "client/client_internal.h"

struct stele_refresh {
    struct stele_client *client;
    const char *topic; /* the owner's */
    int64_t age_ms, next_ms, asked_ms;
    struct stele_call call;
    bool is_asking;
    struct stele_backoff backoff;
    /* The topic as it is now; called from poll. Errors: NO_MEMORY, then it is called again. */
    enum stele_err (*changed)(struct stele_refresh *refresh, const struct stele_uuid *topic_id, int32_t partitions);
};

/** For a topic that was just asked for. */
void stele_refresh__init(struct stele_refresh *refresh, struct stele_client *client,
                         const struct stele_settings *settings, const char *topic);
/** `err` came from the topic's partition: asks soon when it tells of a change. */
void stele_refresh__note(struct stele_refresh *refresh, enum stele_err err);
void stele_refresh__tick(struct stele_refresh *refresh, int64_t now_ms);
int64_t stele_refresh__deadline(const struct stele_refresh *refresh);
void stele_refresh__stop(struct stele_refresh *refresh);

#endif
