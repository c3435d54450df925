/* Levels are blocks inside blocks: a timer of tick d lives at the lowest level whose parent block holds both d and the
 * present, in slot (d / slot ticks) mod slots. So every timer of a block has come down before one can be put there
 * directly, which keeps equal deadlines in order of insertion, and the first slot in use of the lowest level in use is
 * the next to look at. */
#include "base/timing_wheel.h"

#include "base/check.h"

enum { LEVELS_MAX = 64, WORD_BITS = 64 };

struct level {
    int64_t slot_ticks;        /* of one slot */
    uint64_t *used;            /* a bit for each slot; that of an empty slot may be set until it is looked for */
    struct stele_list slots[]; /* wheel->slots of them */
};

struct stele_timing_wheel {
    struct stele_mem *mem;
    int64_t tick_ms;
    int slots;
    int64_t now_tick;
    int64_t count;
    int level_count;
    struct level *levels[LEVELS_MAX];
    struct stele_list due; /* armed for a tick that has passed */
};

static struct level *level_new(struct stele_timing_wheel *wheel, int64_t slot_ticks)
{
    size_t words = ((size_t)wheel->slots + WORD_BITS - 1) / WORD_BITS;
    size_t bytes = sizeof(struct level) + (size_t)wheel->slots * sizeof(struct stele_list) + words * sizeof(uint64_t);
    struct level *level = stele_mem_alloc(wheel->mem, STELE_MEM_TIMERS, bytes);
    if (level == NULL)
        return NULL;
    level->slot_ticks = slot_ticks;
    level->used = (uint64_t *)(void *)&level->slots[wheel->slots];
    for (int i = 0; i < wheel->slots; i++)
        stele_list_init(&level->slots[i]);
    return level;
}

struct stele_timing_wheel *stele_timing_wheel_new(struct stele_mem *mem, int64_t tick_ms, int slots, int64_t now_ms)
{
    STELE_ASSERT(tick_ms > 0);
    STELE_ASSERT(slots > 1);
    STELE_ASSERT(now_ms >= 0);
    struct stele_timing_wheel *wheel = stele_mem_alloc(mem, STELE_MEM_TIMERS, sizeof(*wheel));
    if (wheel == NULL)
        return NULL;
    wheel->mem = mem;
    wheel->tick_ms = tick_ms;
    wheel->slots = slots;
    wheel->now_tick = now_ms / tick_ms;
    stele_list_init(&wheel->due);
    return wheel;
}

static void empty_list(struct stele_list *list)
{
    while (!stele_list_is_empty(list))
        stele_list_remove(list->next);
}

void stele_timing_wheel_free(struct stele_timing_wheel *wheel)
{
    if (wheel == NULL)
        return;
    empty_list(&wheel->due);
    for (int k = 0; k < wheel->level_count; k++) {
        for (int i = 0; i < wheel->slots; i++)
            empty_list(&wheel->levels[k]->slots[i]);
        stele_mem_free(wheel->mem, wheel->levels[k]);
    }
    stele_mem_free(wheel->mem, wheel);
}

void stele_timer_init(struct stele_timer *timer, void (*fire)(struct stele_timer *timer))
{
    stele_list_init(&timer->link);
    timer->deadline_ms = 0;
    timer->fire = fire;
}

bool stele_timer_is_armed(const struct stele_timer *timer)
{
    return !stele_list_is_empty(&timer->link);
}

static int64_t deadline_tick(const struct stele_timing_wheel *wheel, int64_t deadline_ms)
{
    if (deadline_ms <= 0)
        return 0;
    return (deadline_ms - 1) / wheel->tick_ms + 1;
}

/* Does the parent block of this level hold both ticks? A parent too large for int64 holds all. */
static bool shares_block(const struct stele_timing_wheel *wheel, const struct level *level, int64_t tick)
{
    int64_t block_ticks;
    if (__builtin_mul_overflow(level->slot_ticks, (int64_t)wheel->slots, &block_ticks))
        return true;
    return tick / block_ticks == wheel->now_tick / block_ticks;
}

static enum stele_err add_level(struct stele_timing_wheel *wheel)
{
    STELE_ASSERT(wheel->level_count < LEVELS_MAX);
    int k = wheel->level_count;
    int64_t slot_ticks = k == 0 ? 1 : wheel->levels[k - 1]->slot_ticks * wheel->slots;
    struct level *level = level_new(wheel, slot_ticks);
    if (level == NULL)
        return STELE_NO_MEMORY;
    wheel->levels[wheel->level_count++] = level;
    return STELE_OK;
}

enum stele_err stele_timing_wheel_reserve(struct stele_timing_wheel *wheel, int64_t deadline_ms)
{
    int64_t tick = stele_max_i64(deadline_tick(wheel, deadline_ms), wheel->now_tick), block_ticks = 1;
    for (int k = 0; block_ticks <= tick; k++) { /* until one block holds all from 0 on */
        if (k == wheel->level_count && add_level(wheel) != STELE_OK)
            return STELE_NO_MEMORY;
        if (__builtin_mul_overflow(block_ticks, (int64_t)wheel->slots, &block_ticks))
            break;
    }
    return STELE_OK;
}

/* Puts an idle timer where its tick says; `tick` is after the present. */
static enum stele_err place(struct stele_timing_wheel *wheel, struct stele_timer *timer, int64_t tick)
{
    for (int k = 0;; k++) {
        if (k == wheel->level_count && add_level(wheel) != STELE_OK)
            return STELE_NO_MEMORY;
        struct level *level = wheel->levels[k];
        if (shares_block(wheel, level, tick)) {
            int64_t slot = tick / level->slot_ticks % wheel->slots;
            level->used[slot / WORD_BITS] |= UINT64_C(1) << (slot % WORD_BITS);
            stele_list_push(&level->slots[slot], &timer->link);
            return STELE_OK;
        }
    }
}

enum stele_err stele_timer_arm(struct stele_timing_wheel *wheel, struct stele_timer *timer, int64_t deadline_ms)
{
    stele_timer_cancel(wheel, timer);
    timer->deadline_ms = deadline_ms;
    int64_t tick = deadline_tick(wheel, deadline_ms);
    enum stele_err err = STELE_OK;
    if (tick <= wheel->now_tick)
        stele_list_push(&wheel->due, &timer->link);
    else
        err = place(wheel, timer, tick);
    if (err == STELE_OK)
        wheel->count++;
    return err;
}

void stele_timer_cancel(struct stele_timing_wheel *wheel, struct stele_timer *timer)
{
    if (!stele_timer_is_armed(timer))
        return;
    stele_list_remove(&timer->link);
    wheel->count--;
    STELE_ASSERT(wheel->count >= 0);
}

/* Moves all of `from` to the end of `to`, which is empty. */
static void take_all(struct stele_list *from, struct stele_list *to)
{
    if (stele_list_is_empty(from))
        return;
    to->next = from->next;
    to->prev = from->prev;
    to->next->prev = to;
    to->prev->next = to;
    stele_list_init(from);
}

static void fire_all(struct stele_timing_wheel *wheel, struct stele_list *slot)
{
    struct stele_list firing;
    stele_list_init(&firing);
    take_all(slot, &firing);
    while (!stele_list_is_empty(&firing)) {
        struct stele_timer *timer = STELE_CONTAINER_OF(firing.next, struct stele_timer, link);
        stele_timer_cancel(wheel, timer);
        timer->fire(timer);
    }
}

/* Brings the timers of a slot that the present has reached one or more levels down. */
static void bring_down(struct stele_timing_wheel *wheel, struct stele_list *slot)
{
    struct stele_list moving;
    stele_list_init(&moving);
    take_all(slot, &moving);
    while (!stele_list_is_empty(&moving)) {
        struct stele_timer *timer = STELE_CONTAINER_OF(moving.next, struct stele_timer, link);
        stele_list_remove(&timer->link);
        enum stele_err err = place(wheel, timer, deadline_tick(wheel, timer->deadline_ms));
        STELE_ASSERT(err == STELE_OK); /* lower levels exist */
    }
}

/* The first slot in use from `slot` on; wheel->slots: none is. Cancelled timers do not say which slot they leave. */
static int64_t slot_in_use(const struct stele_timing_wheel *wheel, struct level *level, int64_t slot)
{
    while (slot < wheel->slots) {
        uint64_t *word = &level->used[slot / WORD_BITS];
        uint64_t rest = *word >> (slot % WORD_BITS);
        if (rest == 0) {
            slot = (slot / WORD_BITS + 1) * WORD_BITS;
            continue;
        }
        slot += __builtin_ctzll(rest);
        if (!stele_list_is_empty(&level->slots[slot]))
            return slot;
        *word &= ~(UINT64_C(1) << (slot % WORD_BITS));
    }
    return wheel->slots;
}

/* The tick at which the first slot in use begins; INT64_MAX when none is. */
static int64_t next_tick(const struct stele_timing_wheel *wheel)
{
    for (int k = 0; k < wheel->level_count; k++) {
        struct level *level = wheel->levels[k];
        int64_t block = wheel->now_tick / level->slot_ticks, present = block % wheel->slots;
        int64_t slot = slot_in_use(wheel, level, present + 1);
        if (slot < wheel->slots)
            return (block - present + slot) * level->slot_ticks;
    }
    return INT64_MAX;
}

static void step_to(struct stele_timing_wheel *wheel, int64_t tick)
{
    wheel->now_tick = tick;
    for (int k = wheel->level_count - 1; k > 0; k--) {
        struct level *level = wheel->levels[k];
        if (tick % level->slot_ticks == 0)
            bring_down(wheel, &level->slots[tick / level->slot_ticks % wheel->slots]);
    }
    fire_all(wheel, &wheel->levels[0]->slots[tick % wheel->slots]);
}

void stele_timing_wheel_advance(struct stele_timing_wheel *wheel, int64_t now_ms)
{
    int64_t to_tick = now_ms / wheel->tick_ms;
    fire_all(wheel, &wheel->due);
    for (int64_t tick = next_tick(wheel); tick <= to_tick; tick = next_tick(wheel))
        step_to(wheel, tick);
    if (to_tick > wheel->now_tick)
        wheel->now_tick = to_tick;
}

int64_t stele_timing_wheel_next(const struct stele_timing_wheel *wheel)
{
    int64_t next_ms;
    if (!stele_list_is_empty(&wheel->due))
        return wheel->now_tick * wheel->tick_ms;
    int64_t tick = next_tick(wheel);
    return __builtin_mul_overflow(tick, wheel->tick_ms, &next_ms) ? INT64_MAX : next_ms;
}

int64_t stele_timing_wheel_count(const struct stele_timing_wheel *wheel)
{
    return wheel->count;
}
