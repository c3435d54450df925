/* Runs a plan in a process of its own, so that a run that fails ends nothing else; and cuts a plan that fails down to
 * the lines that it needs to. */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_TRY_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_TRY_H

#include "cluster-tests/sim/cluster_run.h"

struct cluster_try {
    struct cluster_result result;
    bool is_fine;
    char failure[512]; /* what did not hold */
};

/** Memory that children share with their parent; NULL never. */
void *cluster_shared(size_t bytes);
/** The plan stays the caller's. `*out_try` is shared memory. With is_quiet it says nothing. */
void cluster_try(const struct cluster_plan *plan, bool is_verbose, bool is_quiet, struct cluster_try *out_try);
/** The same failure: the same words, whatever the numbers. */
bool cluster_is_same_failure(const char *a, const char *b);
/** Lines that can be left out are (ddmin), what lasts is made shorter, while the plan fails as it does; takes at most
 * `seconds` or a little more. False when it does not fail at all. */
bool cluster_shrink(struct cluster_plan *plan, int seconds, char out_failure[512]);

#endif
