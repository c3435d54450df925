/* Reading a mapped page that the disk cannot supply, or that a truncation took away, raises SIGBUS. Inside a range that
 * is registered here the page becomes zeros instead and the program goes on; any other SIGBUS goes to the action that
 * was set before. */
#ifndef STELE_HOST_MAP_GUARD_H
#define STELE_HOST_MAP_GUARD_H

#include "base/types.h"

#include <stdbool.h>

/** Guards [start, start + bytes). Installs the signal's action when it is not set. False when out of memory.
 * Thread safe. */
STELE_MUST_CHECK bool stele_map_guard_add(const void *start, size_t bytes);
/** Ends it; before the range is unmapped. Thread safe. */
void stele_map_guard_remove(const void *start);
/** Pages that were replaced by zeros since the process began. */
int64_t stele_map_guard_faults(void);

#endif
