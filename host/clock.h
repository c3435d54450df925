/* The clocks and the kernel's randomness: the only file of the project that reads them. Thread safe. */
#ifndef STELE_HOST_CLOCK_H
#define STELE_HOST_CLOCK_H

#include "base/types.h"

/** Never goes back. */
int64_t stele_clock_mono_us(void);
/** Unix time. */
int64_t stele_clock_wall_ms(void);
/** A seed for a generator. */
uint64_t stele_clock_entropy(void);

#endif
