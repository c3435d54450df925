/* The content of one simulated file, as the page cache has it (live) and as the platter has it (durable). */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_IMAGE_H
#define STELE_CLUSTER_TESTS_SIM_SIM_IMAGE_H

#include "base/prng.h"
#include "cluster-tests/sim/sim_disk.h"

enum { SIM_PAGE_BYTES = 4096, SIM_SECTOR_BYTES = 512 };

struct sim_page {
    int refs;
    uint8_t bytes[SIM_PAGE_BYTES];
};

/* NULL reads as zeros. */
struct sim_slot {
    struct sim_page *live, *durable;
    bool is_lost; /* live is newer, but a failed sync called it clean: it will not be written back */
};

struct sim_range {
    int64_t from, to;
};

struct sim_image {
    struct sim_slot *slots; /* of the pages touched; later ones are zeros */
    int64_t slot_count, slot_capacity;
    int64_t bytes, durable_bytes;
    int64_t low_bytes;            /* the least size since the last sync */
    int64_t dirty_from, dirty_to; /* slots outside have live == durable */
    struct sim_range *unwritten;  /* ascending; bytes inside `bytes` that nobody wrote */
    int unwritten_count, unwritten_capacity;
    struct sim_range bad; /* bytes that cannot be read; empty: none */
};

/* One power failure. */
struct sim_loss {
    struct stele_prng *prng;
    struct sim_disk_stats *stats;
    bool is_ordered;
    bool has_garbage;    /* fresh sectors that were dropped read as random bytes */
    uint64_t keep, tear; /* per 256: a page is kept; a kept page is torn */
};

void *sim_alloc(size_t bytes); /* zeroed; ends the process when out of memory */
/** Grows the array `*items` of `*capacity` items to hold `count`. */
void *sim_grow(void *items, int64_t *capacity, int64_t count, size_t item_bytes);

void sim_image_deinit(struct sim_image *image);
/** `copy` is zeroed memory. */
void sim_image_copy(const struct sim_image *image, struct sim_image *copy);
size_t sim_image_read(const struct sim_image *image, void *out_bytes, size_t bytes, int64_t pos);
void sim_image_write(struct sim_image *image, const void *bytes, size_t count, int64_t pos);
void sim_image_truncate(struct sim_image *image, int64_t bytes);
bool sim_image_is_clean(const struct sim_image *image);
/** Live becomes durable, but for lost pages. */
void sim_image_sync(struct sim_image *image);
/** Each dirty page of [pos, end) becomes durable or lost; returns how many were lost. */
int64_t sim_image_write_failed(struct sim_image *image, int64_t pos, int64_t end, struct stele_prng *prng);
/** Some dirty pages of the range become durable. */
void sim_image_write_back(struct sim_image *image, int64_t pos, int64_t bytes, struct stele_prng *prng);
/** Lost pages show their durable content; returns how many. */
int64_t sim_image_evict(struct sim_image *image);
bool sim_image_has_truncation(const struct sim_image *image);
/** The power failed: live and durable become what is left. */
void sim_image_lose(struct sim_image *image, const struct sim_loss *loss, bool is_truncation_kept);
bool sim_image_is_durable(const struct sim_image *image, int64_t pos, int64_t end);
/** Does a read of [pos, end) meet what cannot be read? */
bool sim_image_is_bad(const struct sim_image *image, int64_t pos, int64_t end);
/** Changes one byte inside `bytes`, live and durable. */
void sim_image_flip(struct sim_image *image, int64_t pos, uint8_t mask);
bool sim_image_has_unwritten(const struct sim_image *image, int64_t pos, int64_t end);
void sim_image_forget_unwritten(struct sim_image *image);

#endif
