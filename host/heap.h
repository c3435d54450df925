/* The process's heap as a source of memory (base/mem.h). Thread safe. */
#ifndef STELE_HOST_HEAP_H
#define STELE_HOST_HEAP_H

#include "base/mem.h"

struct stele_mem_source stele_heap_source(void);

#endif
