/* What the kernel says of this process, of the page cache and of itself. */
#ifndef STELE_HOST_PROCESS_STATS_H
#define STELE_HOST_PROCESS_STATS_H

#include "node/node.h"

/** -1 for what cannot be read. */
void stele_process_stats(struct stele_host_stats *out_stats);
/** Of the kernel under this process: another one after the machine lost its memory. Zero when it cannot be read. */
struct stele_uuid stele_process_boot_id(void);

#endif
