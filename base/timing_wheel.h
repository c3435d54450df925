/* Hierarchical timing wheel (Varghese and Lauck 1987; the shape is Kafka's util.timer): O(1) insert and cancel,
 * `slots` slots a level, each level's tick the interval of the one below, levels made on demand.
 * Driven by env time only: the owner calls advance with the monotonic clock and arms one real timer to `next`.
 *
 * Invariants
 *  1. A timer fires at the first advance whose time is >= its deadline rounded up to a tick, never before it.
 *  2. Timers of one advance fire in order of their deadline's tick, of equal ticks in order of insertion; a deadline
 * that had passed when it was armed counts as the present and fires before the others, at the next advance.
 *  3. A cancelled timer never fires. Timers may be added and cancelled from a firing timer's function.
 *  4. A clock that stands or goes back fires nothing twice. */
#ifndef STELE_BASE_TIMING_WHEEL_H
#define STELE_BASE_TIMING_WHEEL_H

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"

struct stele_timer {
    struct stele_list link; /* in a slot, or self-linked when idle */
    int64_t deadline_ms;    /* monotonic */
    void (*fire)(struct stele_timer *timer);
};

struct stele_timing_wheel;

/** A wheel whose present is `now_ms`. NULL when out of memory. */
STELE_MUST_CHECK struct stele_timing_wheel *stele_timing_wheel_new(struct stele_mem *mem, int64_t tick_ms, int slots,
                                                                   int64_t now_ms);
/** Makes all levels for deadlines up to `deadline_ms`: arming one of them takes no memory any more. NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_timing_wheel_reserve(struct stele_timing_wheel *wheel, int64_t deadline_ms);
/** Frees the wheel; timers still in it become idle. NULL is fine. */
void stele_timing_wheel_free(struct stele_timing_wheel *wheel);

/** Makes an idle timer; `fire` is called from advance, on the wheel's owner's thread. */
void stele_timer_init(struct stele_timer *timer, void (*fire)(struct stele_timer *timer));
bool stele_timer_is_armed(const struct stele_timer *timer);

/** Arms (or re-arms) `timer` for `deadline_ms`; one that has passed fires at the next advance.
 * Errors: NO_MEMORY when a level had to be made; the timer is then idle. */
STELE_MUST_CHECK enum stele_err stele_timer_arm(struct stele_timing_wheel *wheel, struct stele_timer *timer,
                                                int64_t deadline_ms);
/** Disarms; an idle timer is fine. */
void stele_timer_cancel(struct stele_timing_wheel *wheel, struct stele_timer *timer);

/** Fires all that is due at `now_ms`. */
void stele_timing_wheel_advance(struct stele_timing_wheel *wheel, int64_t now_ms);

/** A time at or before the earliest deadline (never after it), or INT64_MAX when no timer is armed.
 * Waking up then and calling advance always makes progress. */
int64_t stele_timing_wheel_next(const struct stele_timing_wheel *wheel);
int64_t stele_timing_wheel_count(const struct stele_timing_wheel *wheel);

#endif
