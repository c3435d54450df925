/* uthash with the node's memory: whoever changes a table has its stele_mem in scope as `uthash_mem`. An element that
 * could not be added for want of memory has a NULL `tbl` in its handle. */
#ifndef STELE_NODE_TABLE_H
#define STELE_NODE_TABLE_H

#include "base/mem.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) stele_mem_raw(uthash_mem, STELE_MEM_NODE, (bytes))
#define uthash_free(ptr, bytes) stele_mem_free(uthash_mem, (ptr))

#include <uthash.h>

#endif
