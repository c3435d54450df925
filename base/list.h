/* Intrusive doubly linked circular list with a sentinel. */
#ifndef STELE_BASE_LIST_H
#define STELE_BASE_LIST_H

#include "base/types.h"

#include <stdbool.h>

struct stele_list {
    struct stele_list *next, *prev;
};

static inline void stele_list_init(struct stele_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool stele_list_is_empty(const struct stele_list *list)
{
    return list->next == list;
}

/** Puts `node`, which is in no list, at the end. */
static inline void stele_list_push(struct stele_list *list, struct stele_list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

/** Takes `node` out of its list; it may be called again on a node that is in none (init or removed). */
static inline void stele_list_remove(struct stele_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    stele_list_init(node);
}

#endif
