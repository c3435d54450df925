/* Invariants:
 *  1. Slots outside [dirty_from, dirty_to) have live == durable (the same page) and are not lost.
 *  2. Live bytes past `bytes` in the last page are zero, and no slot past it has a live page.
 *  3. low_bytes <= bytes, and low_bytes < durable_bytes only while a truncation is not durable.
 *  4. A page with more than one reference does not change. */
#include "cluster-tests/sim/sim_image.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

void *sim_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    STELE_ASSERT(memory != NULL);
    return memory;
}

void *sim_grow(void *items, int64_t *capacity, int64_t count, size_t item_bytes)
{
    if (count <= *capacity)
        return items;
    int64_t next = *capacity == 0 ? 4 : *capacity;
    while (next < count)
        next *= 2;
    uint8_t *memory = realloc(items, (size_t)next * item_bytes);
    STELE_ASSERT(memory != NULL);
    memset(memory + (size_t)*capacity * item_bytes, 0, (size_t)(next - *capacity) * item_bytes);
    *capacity = next;
    return memory;
}

static struct sim_page *page_ref(struct sim_page *page)
{
    if (page != NULL)
        page->refs++;
    return page;
}

static void page_unref(struct sim_page *page)
{
    if (page != NULL && --page->refs == 0)
        free(page);
}

/* Puts `page` (its reference moves) in place of what is there. */
static void page_put(struct sim_page **at, struct sim_page *page)
{
    page_unref(*at);
    *at = page;
}

/* The page at `at`, made and unshared so that it may change. */
static struct sim_page *page_own(struct sim_page **at)
{
    if (*at != NULL && (*at)->refs == 1)
        return *at;
    struct sim_page *own = *at == NULL ? sim_alloc(sizeof(*own)) : malloc(sizeof(*own));
    STELE_ASSERT(own != NULL);
    if (*at != NULL)
        memcpy(own->bytes, (*at)->bytes, SIM_PAGE_BYTES);
    own->refs = 1;
    page_put(at, own);
    return own;
}

static int64_t pages_of(int64_t bytes)
{
    return (bytes + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES;
}

static void mark_dirty(struct sim_image *image, int64_t from, int64_t to)
{
    if (from >= to)
        return;
    bool is_first = image->dirty_from >= image->dirty_to;
    image->dirty_from = is_first ? from : stele_min_i64(image->dirty_from, from);
    image->dirty_to = is_first ? to : stele_max_i64(image->dirty_to, to);
}

static bool is_dirty(const struct sim_slot *slot)
{
    return slot->live != slot->durable && !slot->is_lost;
}

void sim_image_deinit(struct sim_image *image)
{
    for (int64_t i = 0; i < image->slot_count; i++) {
        page_unref(image->slots[i].live);
        page_unref(image->slots[i].durable);
    }
    free(image->slots);
    free(image->unwritten);
    memset(image, 0, sizeof(*image));
}

void sim_image_copy(const struct sim_image *image, struct sim_image *copy)
{
    *copy = *image;
    copy->slots = NULL;
    copy->slot_capacity = 0;
    copy->slots = sim_grow(NULL, &copy->slot_capacity, image->slot_count, sizeof(*copy->slots));
    for (int64_t i = 0; i < image->slot_count; i++)
        copy->slots[i] = (struct sim_slot){.live = page_ref(image->slots[i].live),
                                           .durable = page_ref(image->slots[i].durable),
                                           .is_lost = image->slots[i].is_lost};
    copy->unwritten = NULL;
    copy->unwritten_count = copy->unwritten_capacity = 0;
    for (int i = 0; i < image->unwritten_count; i++) {
        int64_t capacity = copy->unwritten_capacity;
        copy->unwritten = sim_grow(copy->unwritten, &capacity, i + 1, sizeof(*copy->unwritten));
        copy->unwritten_capacity = (int)capacity;
        copy->unwritten[copy->unwritten_count++] = image->unwritten[i];
    }
}

size_t sim_image_read(const struct sim_image *image, void *out_bytes, size_t bytes, int64_t pos)
{
    uint8_t *out = out_bytes;
    if (pos >= image->bytes)
        return 0;
    size_t count = (size_t)stele_min_i64((int64_t)stele_min_size(bytes, INT64_MAX), image->bytes - pos);
    for (size_t done = 0; done < count;) {
        int64_t index = (pos + (int64_t)done) / SIM_PAGE_BYTES;
        size_t at = (size_t)((pos + (int64_t)done) % SIM_PAGE_BYTES);
        size_t chunk = stele_min_size(SIM_PAGE_BYTES - at, count - done);
        const struct sim_page *page = index < image->slot_count ? image->slots[index].live : NULL;
        if (page == NULL)
            memset(out + done, 0, chunk);
        else
            memcpy(out + done, page->bytes + at, chunk);
        done += chunk;
    }
    return count;
}

static void add_unwritten(struct sim_image *image, int64_t from, int64_t to)
{
    if (from >= to)
        return;
    int64_t capacity = image->unwritten_capacity;
    image->unwritten = sim_grow(image->unwritten, &capacity, image->unwritten_count + 1, sizeof(*image->unwritten));
    image->unwritten_capacity = (int)capacity;
    image->unwritten[image->unwritten_count++] = (struct sim_range){from, to};
}

/* Takes [from, to) out of the unwritten ranges. A range inside splits; as ranges only shrink between growths, that
 * keeps them few. */
static void fill_unwritten(struct sim_image *image, int64_t from, int64_t to)
{
    int count = image->unwritten_count;
    struct sim_range rest = {0, 0};
    int kept = 0, rest_at = 0;
    for (int i = 0; i < count; i++) {
        struct sim_range range = image->unwritten[i];
        if (range.from < from && range.to > to) {
            rest = (struct sim_range){to, range.to};
            rest_at = kept + 1;
            range.to = from;
        } else if (range.from < from) {
            range.to = stele_min_i64(range.to, from);
        } else if (range.to > to) {
            range.from = stele_max_i64(range.from, to);
        } else {
            continue;
        }
        image->unwritten[kept++] = range;
    }
    image->unwritten_count = kept;
    if (rest.from < rest.to) {
        add_unwritten(image, rest.from, rest.to);
        memmove(image->unwritten + rest_at + 1, image->unwritten + rest_at,
                (size_t)(image->unwritten_count - 1 - rest_at) * sizeof(*image->unwritten));
        image->unwritten[rest_at] = rest;
    }
}

bool sim_image_is_bad(const struct sim_image *image, int64_t pos, int64_t end)
{
    return image->bad.from < image->bad.to && pos < image->bad.to && end > image->bad.from;
}

/* A sector that is written anew can be read again; one in the middle takes those behind it along. */
static void heal_bad(struct sim_image *image, int64_t pos, int64_t end)
{
    if (!sim_image_is_bad(image, pos, end))
        return;
    if (pos <= image->bad.from)
        image->bad.from = stele_min_i64(image->bad.to, end);
    else
        image->bad.to = pos;
}

void sim_image_write(struct sim_image *image, const void *bytes, size_t count, int64_t pos)
{
    const uint8_t *in = bytes;
    int64_t end = pos + (int64_t)count;
    if (count == 0)
        return;
    image->slots = sim_grow(image->slots, &image->slot_capacity, pages_of(end), sizeof(*image->slots));
    image->slot_count = stele_max_i64(image->slot_count, pages_of(end));
    for (size_t done = 0; done < count;) {
        struct sim_slot *slot = &image->slots[(pos + (int64_t)done) / SIM_PAGE_BYTES];
        size_t at = (size_t)((pos + (int64_t)done) % SIM_PAGE_BYTES);
        size_t chunk = stele_min_size(SIM_PAGE_BYTES - at, count - done);
        memcpy(page_own(&slot->live)->bytes + at, in + done, chunk);
        slot->is_lost = false;
        done += chunk;
    }
    mark_dirty(image, pos / SIM_PAGE_BYTES, pages_of(end));
    heal_bad(image, pos, end);
    if (image->unwritten_count > 0)
        fill_unwritten(image, pos, end);
    if (pos > image->bytes)
        add_unwritten(image, image->bytes, pos);
    image->bytes = stele_max_i64(image->bytes, end);
}

/* Zeros what the page holds from byte `bytes` of the file on. */
static void cut_page(struct sim_page **at, int64_t bytes)
{
    size_t from = (size_t)(bytes % SIM_PAGE_BYTES);
    if (*at != NULL && from > 0)
        memset(page_own(at)->bytes + from, 0, SIM_PAGE_BYTES - from);
}

void sim_image_truncate(struct sim_image *image, int64_t bytes)
{
    if (bytes >= image->bytes) {
        add_unwritten(image, image->bytes, bytes);
        image->bytes = bytes;
        return;
    }
    mark_dirty(image, bytes / SIM_PAGE_BYTES, image->slot_count);
    if (bytes / SIM_PAGE_BYTES < image->slot_count)
        cut_page(&image->slots[bytes / SIM_PAGE_BYTES].live, bytes);
    for (int64_t i = pages_of(bytes); i < image->slot_count; i++) {
        page_put(&image->slots[i].live, NULL);
        image->slots[i].is_lost = false;
    }
    if (image->unwritten_count > 0)
        fill_unwritten(image, bytes, INT64_MAX);
    image->bytes = bytes;
    image->low_bytes = stele_min_i64(image->low_bytes, bytes);
}

bool sim_image_is_clean(const struct sim_image *image)
{
    return image->dirty_from >= image->dirty_to && image->bytes == image->durable_bytes &&
           !sim_image_has_truncation(image);
}

bool sim_image_has_truncation(const struct sim_image *image)
{
    return image->low_bytes < image->durable_bytes;
}

/* Cuts the durable content. */
static void cut_durable(struct sim_image *image, int64_t bytes)
{
    if (bytes / SIM_PAGE_BYTES < image->slot_count) {
        struct sim_slot *slot = &image->slots[bytes / SIM_PAGE_BYTES];
        if (slot->durable != slot->live)
            cut_page(&slot->durable, bytes);
    }
    for (int64_t i = stele_max_i64(pages_of(bytes), image->dirty_from); i < image->slot_count; i++)
        page_put(&image->slots[i].durable, NULL);
    image->durable_bytes = bytes;
}

/* Empty dirty range and slots that are needed alone; lost slots keep the range. */
static void settle(struct sim_image *image)
{
    int64_t from = image->dirty_from, to = stele_min_i64(image->dirty_to, image->slot_count);
    while (image->slot_count > pages_of(image->bytes) && image->slots[image->slot_count - 1].durable == NULL)
        image->slot_count--;
    image->dirty_from = image->dirty_to = 0;
    for (int64_t i = from; i < stele_min_i64(to, image->slot_count); i++) {
        if (image->slots[i].live != image->slots[i].durable)
            mark_dirty(image, i, i + 1);
    }
}

void sim_image_sync(struct sim_image *image)
{
    /* A lost page keeps its old bytes, but not those past a truncation. */
    cut_durable(image, stele_min_i64(image->low_bytes, image->durable_bytes));
    for (int64_t i = image->dirty_from; i < stele_min_i64(image->dirty_to, image->slot_count); i++) {
        struct sim_slot *slot = &image->slots[i];
        if (is_dirty(slot))
            page_put(&slot->durable, page_ref(slot->live));
    }
    image->durable_bytes = image->low_bytes = image->bytes;
    settle(image);
}

int64_t sim_image_write_failed(struct sim_image *image, int64_t pos, int64_t end, struct stele_prng *prng)
{
    int64_t lost = 0, to = stele_min_i64(image->dirty_to, image->slot_count);
    if (end < image->bytes)
        to = stele_min_i64(to, pages_of(end));
    for (int64_t i = stele_max_i64(pos / SIM_PAGE_BYTES, image->dirty_from); i < to; i++) {
        struct sim_slot *slot = &image->slots[i];
        if (!is_dirty(slot) || slot->live == NULL)
            continue;
        if (stele_prng_chance(prng, 1, 4)) {
            page_put(&slot->durable, page_ref(slot->live));
        } else {
            slot->is_lost = true;
            lost++;
        }
    }
    return lost;
}

void sim_image_write_back(struct sim_image *image, int64_t pos, int64_t bytes, struct stele_prng *prng)
{
    int64_t from = stele_max_i64(pos / SIM_PAGE_BYTES, image->dirty_from);
    int64_t to = stele_min_i64(stele_min_i64(pages_of(pos + bytes), image->dirty_to), image->slot_count);
    for (int64_t i = from; i < to; i++) {
        struct sim_slot *slot = &image->slots[i];
        if (is_dirty(slot) && slot->live != NULL && stele_prng_chance(prng, 1, 2))
            page_put(&slot->durable, page_ref(slot->live));
    }
}

int64_t sim_image_evict(struct sim_image *image)
{
    int64_t evicted = 0;
    for (int64_t i = image->dirty_from; i < stele_min_i64(image->dirty_to, image->slot_count); i++) {
        struct sim_slot *slot = &image->slots[i];
        if (!slot->is_lost)
            continue;
        page_put(&slot->live, page_ref(slot->durable));
        if (image->bytes / SIM_PAGE_BYTES == i)
            cut_page(&slot->live, image->bytes);
        slot->is_lost = false;
        evicted++;
    }
    return evicted;
}

/* The bytes [from, to) of the page as they are on a platter where the new ones did not arrive: old ones below `base`,
 * the end of what was durable; past it anything. */
static void drop_bytes(struct sim_page *page, int64_t page_pos, int64_t base, const struct sim_range *range,
                       const struct sim_loss *loss)
{
    int64_t fresh = stele_max_i64(base - page_pos, range->from);
    if (fresh < range->to && loss->has_garbage)
        stele_prng_bytes(loss->prng, page->bytes + fresh, (size_t)(range->to - fresh));
}

/* Some sectors of the page arrived, or the bytes up to one or from one on. */
static void tear_page(struct sim_slot *slot, int64_t index, int64_t base, const struct sim_loss *loss)
{
    const struct sim_page *live = slot->live;
    struct sim_page *page = page_own(&slot->durable);
    int64_t pos = index * SIM_PAGE_BYTES;
    uint64_t kind = stele_prng_below(loss->prng, 3);
    int64_t split = (int64_t)stele_prng_below(loss->prng, SIM_PAGE_BYTES + 1);
    if (kind == 2) {
        for (int64_t at = 0; at < SIM_PAGE_BYTES; at += SIM_SECTOR_BYTES) {
            struct sim_range sector = {at, at + SIM_SECTOR_BYTES};
            if (stele_prng_chance(loss->prng, 1, 2))
                memcpy(page->bytes + at, live->bytes + at, SIM_SECTOR_BYTES);
            else
                drop_bytes(page, pos, base, &sector, loss);
        }
        return;
    }
    struct sim_range kept = kind == 0 ? (struct sim_range){0, split} : (struct sim_range){split, SIM_PAGE_BYTES};
    struct sim_range dropped = kind == 0 ? (struct sim_range){split, SIM_PAGE_BYTES} : (struct sim_range){0, split};
    memcpy(page->bytes + kept.from, live->bytes + kept.from, (size_t)(kept.to - kept.from));
    drop_bytes(page, pos, base, &dropped, loss);
}

/* Settles one page; true when any of its new bytes arrived. */
static bool lose_page(struct sim_slot *slot, int64_t index, int64_t base, const struct sim_loss *loss)
{
    struct sim_range whole = {0, SIM_PAGE_BYTES};
    if (slot->live == slot->durable || slot->live == NULL)
        return false; /* a hole is not written back; the truncation that made it was settled before */
    if (slot->is_lost || !stele_prng_chance(loss->prng, loss->keep, 256)) {
        loss->stats->pages_dropped++;
        if (loss->has_garbage && (index + 1) * SIM_PAGE_BYTES > base) {
            drop_bytes(page_own(&slot->durable), index * SIM_PAGE_BYTES, base, &whole, loss);
            loss->stats->pages_garbage++;
        }
        return false;
    }
    if (stele_prng_chance(loss->prng, loss->tear, 256)) {
        tear_page(slot, index, base, loss);
        loss->stats->pages_torn++;
        return true;
    }
    page_put(&slot->durable, page_ref(slot->live));
    loss->stats->pages_kept++;
    return true;
}

/* The size is metadata of its own: it may have arrived without the data, or the data without it. */
static int64_t size_left(const struct sim_image *image, int64_t kept_end, const struct sim_loss *loss)
{
    int64_t base = image->durable_bytes;
    if (image->bytes <= base)
        return base;
    switch (stele_prng_below(loss->prng, 4)) {
    case 0:
        return image->bytes;
    case 1:
        return loss->is_ordered ? kept_end : base;
    case 2:
        return loss->is_ordered ? kept_end : stele_prng_range(loss->prng, base, image->bytes);
    default:
        return kept_end;
    }
}

void sim_image_lose(struct sim_image *image, const struct sim_loss *loss, bool is_truncation_kept)
{
    if (sim_image_has_truncation(image)) {
        if (is_truncation_kept) {
            cut_durable(image, image->low_bytes);
            loss->stats->truncations_kept++;
        } else {
            loss->stats->truncations_lost++;
        }
    }
    int64_t base = image->durable_bytes, kept_end = base;
    for (int64_t i = image->dirty_from; i < stele_min_i64(image->dirty_to, image->slot_count); i++) {
        if (lose_page(&image->slots[i], i, base, loss))
            kept_end = stele_max_i64(kept_end, stele_min_i64((i + 1) * SIM_PAGE_BYTES, image->bytes));
    }
    int64_t size = size_left(image, kept_end, loss);
    loss->stats->sizes_short += size < image->bytes;
    loss->stats->sizes_unfilled += size > kept_end;
    cut_durable(image, size);
    if (size % SIM_PAGE_BYTES != 0 && size / SIM_PAGE_BYTES < image->slot_count)
        cut_page(&image->slots[size / SIM_PAGE_BYTES].durable, size);
    image->slot_count = stele_min_i64(image->slot_count, pages_of(size));
    image->bytes = image->low_bytes = size;
    /* Slots cut off above still have a live page. */
    for (int64_t i = image->dirty_from; i < image->slot_capacity && i < image->dirty_to; i++) {
        struct sim_slot *slot = &image->slots[i];
        page_put(&slot->live, page_ref(slot->durable));
        slot->is_lost = false;
    }
    image->dirty_from = image->dirty_to = 0;
    sim_image_forget_unwritten(image);
}

bool sim_image_is_durable(const struct sim_image *image, int64_t pos, int64_t end)
{
    if (end > image->bytes || end > image->durable_bytes || end > image->low_bytes)
        return false;
    for (int64_t i = stele_max_i64(pos / SIM_PAGE_BYTES, image->dirty_from); i < image->slot_count; i++) {
        static const struct sim_page zeros;
        const struct sim_slot *slot = &image->slots[i];
        int64_t from = stele_max_i64(pos - i * SIM_PAGE_BYTES, 0);
        int64_t to = stele_min_i64(end - i * SIM_PAGE_BYTES, SIM_PAGE_BYTES);
        if (to <= 0 || i >= image->dirty_to)
            break;
        const struct sim_page *live = slot->live == NULL ? &zeros : slot->live;
        const struct sim_page *durable = slot->durable == NULL ? &zeros : slot->durable;
        if (from < to && memcmp(live->bytes + from, durable->bytes + from, (size_t)(to - from)) != 0)
            return false;
    }
    return true;
}

void sim_image_flip(struct sim_image *image, int64_t pos, uint8_t mask)
{
    int64_t index = pos / SIM_PAGE_BYTES;
    STELE_ASSERT(pos < image->bytes);
    image->slots = sim_grow(image->slots, &image->slot_capacity, index + 1, sizeof(*image->slots));
    image->slot_count = stele_max_i64(image->slot_count, index + 1);
    struct sim_slot *slot = &image->slots[index];
    bool was_same = slot->live == slot->durable;
    if (was_same)
        page_put(&slot->durable, NULL);
    page_own(&slot->live)->bytes[pos % SIM_PAGE_BYTES] ^= mask;
    if (was_same)
        slot->durable = page_ref(slot->live);
    else if (slot->durable != NULL) /* also where its size has not come out yet */
        page_own(&slot->durable)->bytes[pos % SIM_PAGE_BYTES] ^= mask;
}

bool sim_image_has_unwritten(const struct sim_image *image, int64_t pos, int64_t end)
{
    for (int i = 0; i < image->unwritten_count; i++) {
        if (image->unwritten[i].from < end && image->unwritten[i].to > pos)
            return true;
    }
    return false;
}

void sim_image_forget_unwritten(struct sim_image *image)
{
    image->unwritten_count = 0;
}
