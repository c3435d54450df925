/* The throttle of replicas that are moved: set for the topics and the cluster before, taken away when it is done. */
#ifndef STELE_CLI_MOVE_THROTTLE_H
#define STELE_CLI_MOVE_THROTTLE_H

#include "cli/options.h"

struct stele_move_throttle {
    const char *topics[STELE_CLI_LIST_MAX]; /* whose lists were set; the wishes' own */
    size_t topic_count;
    bool has_rates;
};

/** Bounds what catches up for these wishes to `rate` bytes a second of each node: new replicas on the follower's side,
 * those that there are on the leader's. Who bounds it already is not overruled. Anything but STELE_CLI_DONE: said on
 * stderr, and nothing is left of it. */
int stele_move_throttle_begin(const struct stele_cli *cli, struct stele_client *client, int64_t rate,
                              const struct stele_partition_wish *wishes, size_t count,
                              struct stele_move_throttle *out_throttle);
/** Takes it away. */
int stele_move_throttle_end(const struct stele_cli *cli, struct stele_client *client,
                            const struct stele_move_throttle *throttle);

#endif
