/* What the kernel says of this process and of the page cache. */
#ifndef STELE_HOST_PROCESS_STATS_H
#define STELE_HOST_PROCESS_STATS_H

#include "node/node.h"

/** -1 for what cannot be read. */
void stele_process_stats(struct stele_host_stats *out_stats);

#endif
