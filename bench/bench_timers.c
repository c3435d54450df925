/* What a timer costs in the wheel and in a binary heap, from a thousand to a million armed timers: inserts and cancels.
 * Prints nanoseconds per operation; the wheel's stay level, the heap's grow with the logarithm and with cache misses.
 */
#include "base/prng.h"
#include "base/timing_wheel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPERATIONS = 1000000 };

static void *plain_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes > 0)
        return realloc(ptr, bytes);
    free(ptr);
    return NULL;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void never(struct stele_timer *timer)
{
    (void)timer;
}

/* A heap of (deadline, slot) that knows each slot's place, so that it can cancel. */
struct heap {
    int64_t *deadlines;
    int *items, *places;
    int count;
};

static void heap_put(struct heap *heap, int at, int item)
{
    heap->items[at] = item;
    heap->places[item] = at;
}

static void heap_up(struct heap *heap, int at)
{
    int item = heap->items[at];
    while (at > 0 && heap->deadlines[heap->items[(at - 1) / 2]] > heap->deadlines[item]) {
        heap_put(heap, at, heap->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(heap, at, item);
}

static void heap_down(struct heap *heap, int at)
{
    int item = heap->items[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->deadlines[heap->items[child + 1]] < heap->deadlines[heap->items[child]])
            child++;
        if (heap->deadlines[heap->items[child]] >= heap->deadlines[item])
            break;
        heap_put(heap, at, heap->items[child]);
        at = child;
    }
    heap_put(heap, at, item);
}

static void heap_add(struct heap *heap, int item, int64_t deadline)
{
    heap->deadlines[item] = deadline;
    heap_put(heap, heap->count++, item);
    heap_up(heap, heap->count - 1);
}

static void heap_cancel(struct heap *heap, int item)
{
    int at = heap->places[item];
    int last = heap->items[--heap->count];
    if (last == item)
        return;
    heap_put(heap, at, last);
    heap_up(heap, at);
    heap_down(heap, heap->places[last]);
}

static double run_wheel(int timers, const int64_t *deadlines, const int *picks)
{
    struct stele_mem mem;
    stele_mem_init(&mem, (struct stele_mem_source){.resize = plain_resize}, 0);
    struct stele_timing_wheel *wheel = stele_timing_wheel_new(&mem, 1, 20, 0);
    struct stele_timer *all = calloc((size_t)timers, sizeof(*all));
    for (int i = 0; i < timers; i++) {
        stele_timer_init(&all[i], never);
        if (stele_timer_arm(wheel, &all[i], deadlines[i]) != STELE_OK)
            abort();
    }
    double from = now_ns();
    for (int i = 0; i < OPERATIONS; i++) {
        struct stele_timer *timer = &all[picks[i]];
        stele_timer_cancel(wheel, timer);
        if (stele_timer_arm(wheel, timer, deadlines[i]) != STELE_OK)
            abort();
    }
    double ns = (now_ns() - from) / OPERATIONS;
    stele_timing_wheel_free(wheel);
    free(all);
    return ns;
}

static double run_heap(int timers, const int64_t *deadlines, const int *picks)
{
    struct heap heap = {.deadlines = calloc((size_t)timers, sizeof(int64_t)),
                        .items = calloc((size_t)timers, sizeof(int)),
                        .places = calloc((size_t)timers, sizeof(int))};
    for (int i = 0; i < timers; i++)
        heap_add(&heap, i, deadlines[i]);
    double from = now_ns();
    for (int i = 0; i < OPERATIONS; i++) {
        heap_cancel(&heap, picks[i]);
        heap_add(&heap, picks[i], deadlines[i]);
    }
    double ns = (now_ns() - from) / OPERATIONS;
    free(heap.deadlines);
    free(heap.items);
    free(heap.places);
    return ns;
}

/* --quick: a test that the program runs. */
int main(int argc, char **argv)
{
    int timers_max = argc > 1 && strcmp(argv[1], "--quick") == 0 ? 10000 : 1000000;
    struct stele_prng prng;
    int64_t *deadlines = calloc(OPERATIONS, sizeof(*deadlines));
    int *picks = calloc(OPERATIONS, sizeof(*picks));
    stele_prng_init(&prng, 1, 0);
    printf("timers: ns for one cancel and one insert\n%10s %8s %8s\n", "armed", "wheel", "heap");
    for (int timers = 1000; timers <= timers_max; timers *= 10) {
        for (int i = 0; i < OPERATIONS; i++) {
            deadlines[i] = stele_prng_range(&prng, 1, 600000);
            picks[i] = (int)stele_prng_below(&prng, (uint64_t)timers);
        }
        printf("%10d %8.1f %8.1f\n", timers, run_wheel(timers, deadlines, picks), run_heap(timers, deadlines, picks));
    }
    free(deadlines);
    free(picks);
    return 0;
}
