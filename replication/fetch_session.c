#include "replication/fetch_session.h"

#include "base/check.h"

/* Epochs of incremental requests are 1 .. INT32_MAX and then 1 again (7.1.2). */
static int32_t epoch_after(int32_t epoch)
{
    return epoch == INT32_MAX ? 1 : epoch + 1;
}

void stele_fetch_session_init(struct stele_fetch_session *session)
{
    *session = (struct stele_fetch_session){.id = 0};
    stele_list_init(&session->entries);
    stele_list_init(&session->ready);
    stele_list_init(&session->round);
}

enum stele_err stele_fetch_session_begin(struct stele_fetch_session *session, int32_t id, int32_t epoch, int32_t new_id,
                                         enum stele_fetch_session_kind *out_kind)
{
    STELE_ASSERT(new_id > 0);
    if (epoch == STELE_SESSION_EPOCH_FIRST) {
        STELE_ASSERT(stele_list_is_empty(&session->entries));
        session->id = new_id;
        session->next_epoch = 1;
        *out_kind = STELE_SESSION_FULL;
        return STELE_OK;
    }
    if (epoch == STELE_SESSION_EPOCH_LAST) {
        STELE_ASSERT(stele_list_is_empty(&session->entries));
        session->id = 0;
        *out_kind = STELE_SESSION_NONE;
        return STELE_OK;
    }
    if (session->id == 0 || id != session->id) {
        return STELE_FETCH_SESSION_ID_NOT_FOUND;
    }
    if (epoch != session->next_epoch) {
        return STELE_INVALID_FETCH_SESSION_EPOCH;
    }
    session->next_epoch = epoch_after(epoch);
    *out_kind = STELE_SESSION_INCREMENTAL;
    return STELE_OK;
}

struct stele_fetch_session_entry *stele_fetch_session_find(const struct stele_fetch_session *session,
                                                           const struct stele_list *watchers)
{
    for (struct stele_list *link = watchers->next; link != watchers; link = link->next) {
        struct stele_fetch_session_entry *entry =
            STELE_CONTAINER_OF(link, struct stele_fetch_session_entry, in_watchers);
        if (entry->session == session) {
            return entry;
        }
    }
    return NULL;
}

static void make_ready(struct stele_fetch_session_entry *entry)
{
    if (!entry->is_ready) {
        entry->is_ready = true;
        stele_list_push(&entry->session->ready, &entry->in_ready);
    }
}

void stele_fetch_session_put(struct stele_fetch_session *session, struct stele_list *watchers,
                             struct stele_fetch_session_entry *entry, const struct stele_fetch_line *line)
{
    STELE_ASSERT(!entry->session);
    entry->session = session;
    entry->sent_high_watermark = STELE_OFFSET_NONE;
    entry->sent_start_offset = STELE_OFFSET_NONE;
    stele_list_push(&session->entries, &entry->in_session);
    stele_list_push(watchers, &entry->in_watchers);
    session->count++;
    stele_fetch_session_set(entry, line);
}

void stele_fetch_session_set(struct stele_fetch_session_entry *entry, const struct stele_fetch_line *line)
{
    entry->line = *line;
    make_ready(entry);
}

void stele_fetch_session_drop(struct stele_fetch_session_entry *entry)
{
    STELE_ASSERT(entry->session);
    if (entry->is_ready) {
        stele_list_remove(&entry->in_ready);
        entry->is_ready = false;
    }
    stele_list_remove(&entry->in_session);
    stele_list_remove(&entry->in_watchers);
    entry->session->count--;
    entry->session = NULL;
}

struct stele_fetch_session_entry *stele_fetch_session_first(const struct stele_fetch_session *session)
{
    return stele_list_is_empty(&session->entries)
               ? NULL
               : STELE_CONTAINER_OF(session->entries.next, struct stele_fetch_session_entry, in_session);
}

void stele_fetch_session_mark(struct stele_list *watchers)
{
    for (struct stele_list *link = watchers->next; link != watchers; link = link->next) {
        make_ready(STELE_CONTAINER_OF(link, struct stele_fetch_session_entry, in_watchers));
    }
}

/* Puts all of `from` before all of `to`. */
static void list_prepend(struct stele_list *to, struct stele_list *from)
{
    if (stele_list_is_empty(from)) {
        return;
    }
    from->prev->next = to->next;
    to->next->prev = from->prev;
    to->next = from->next;
    from->next->prev = to;
    stele_list_init(from);
}

void stele_fetch_session_round_begin(struct stele_fetch_session *session)
{
    STELE_ASSERT(stele_list_is_empty(&session->round));
    list_prepend(&session->round, &session->ready);
}

struct stele_fetch_session_entry *stele_fetch_session_round_next(struct stele_fetch_session *session)
{
    if (stele_list_is_empty(&session->round)) {
        return NULL;
    }
    struct stele_fetch_session_entry *entry =
        STELE_CONTAINER_OF(session->round.next, struct stele_fetch_session_entry, in_ready);
    stele_list_remove(&entry->in_ready);
    entry->is_ready = false;
    return entry;
}

void stele_fetch_session_keep(struct stele_fetch_session_entry *entry)
{
    make_ready(entry);
}

bool stele_fetch_session_settle(struct stele_fetch_session_entry *entry, const struct stele_fetch_answer *answer,
                                bool has_records)
{
    if (answer->err != STELE_OK) {
        entry->sent_high_watermark = STELE_OFFSET_NONE; /* so that its recovery is said (7.1.4) */
        return true;
    }
    if (stele_epoch_end_is_known(&answer->diverging)) {
        return true;
    }
    bool is_moved =
        answer->high_watermark != entry->sent_high_watermark || answer->log_start_offset != entry->sent_start_offset;
    entry->sent_high_watermark = answer->high_watermark;
    entry->sent_start_offset = answer->log_start_offset;
    if (has_records) {
        make_ready(entry);
    }
    return has_records || is_moved;
}

void stele_fetch_session_round_end(struct stele_fetch_session *session)
{
    list_prepend(&session->ready, &session->round);
}

void stele_fetcher_init(struct stele_fetcher *fetcher)
{
    *fetcher = (struct stele_fetcher){.is_broken = true};
    stele_list_init(&fetcher->entries);
    stele_list_init(&fetcher->due);
    stele_list_init(&fetcher->forgotten);
}

void stele_fetcher_add(struct stele_fetcher *fetcher, struct stele_fetcher_entry *entry)
{
    STELE_ASSERT(!entry->fetcher);
    entry->fetcher = fetcher;
    entry->is_known = false;
    stele_list_push(&fetcher->entries, &entry->in_fetcher);
    stele_list_init(&entry->in_due);
    fetcher->count++;
    stele_fetcher_touch(entry);
}

void stele_fetcher_touch(struct stele_fetcher_entry *entry)
{
    if (stele_list_is_empty(&entry->in_due)) {
        stele_list_push(&entry->fetcher->due, &entry->in_due);
    }
}

bool stele_fetcher_remove(struct stele_fetcher_entry *entry)
{
    struct stele_fetcher *fetcher = entry->fetcher;
    STELE_ASSERT(fetcher);
    stele_list_remove(&entry->in_due);
    stele_list_remove(&entry->in_fetcher);
    fetcher->count--;
    if (!entry->is_known) {
        entry->fetcher = NULL;
        return false;
    }
    stele_list_push(&fetcher->forgotten, &entry->in_fetcher);
    return true;
}

struct stele_fetcher_request stele_fetcher_begin(struct stele_fetcher *fetcher)
{
    STELE_ASSERT(!fetcher->is_opening);
    struct stele_fetcher_request request = {.id = fetcher->id, .is_full = fetcher->is_broken};
    if (fetcher->is_broken) {
        fetcher->is_broken = false;
        fetcher->is_opening = true;
        fetcher->attempt++;
        fetcher->next_epoch = STELE_SESSION_EPOCH_FIRST;
        for (struct stele_list *link = fetcher->entries.next; link != &fetcher->entries; link = link->next) {
            struct stele_fetcher_entry *entry = STELE_CONTAINER_OF(link, struct stele_fetcher_entry, in_fetcher);
            entry->is_known = false;
            stele_fetcher_touch(entry);
        }
    }
    request.epoch = fetcher->next_epoch;
    request.attempt = fetcher->attempt;
    fetcher->next_epoch = epoch_after(fetcher->next_epoch);
    return request;
}

struct stele_fetcher_entry *stele_fetcher_next_due(struct stele_fetcher *fetcher)
{
    if (stele_list_is_empty(&fetcher->due)) {
        return NULL;
    }
    struct stele_fetcher_entry *entry = STELE_CONTAINER_OF(fetcher->due.next, struct stele_fetcher_entry, in_due);
    stele_list_remove(&entry->in_due);
    return entry;
}

void stele_fetcher_sent(struct stele_fetcher_entry *entry)
{
    entry->is_known = true;
}

struct stele_fetcher_entry *stele_fetcher_next_forgotten(struct stele_fetcher *fetcher)
{
    if (stele_list_is_empty(&fetcher->forgotten)) {
        return NULL;
    }
    struct stele_fetcher_entry *entry =
        STELE_CONTAINER_OF(fetcher->forgotten.next, struct stele_fetcher_entry, in_fetcher);
    stele_list_remove(&entry->in_fetcher);
    entry->fetcher = NULL;
    entry->is_known = false;
    return entry;
}

bool stele_fetcher_is_due(const struct stele_fetcher *fetcher)
{
    return !fetcher->is_opening &&
           (fetcher->is_broken || !stele_list_is_empty(&fetcher->due) || !stele_list_is_empty(&fetcher->forgotten));
}

bool stele_fetcher_answered(struct stele_fetcher *fetcher, const struct stele_fetcher_request *request,
                            enum stele_err err, int32_t id)
{
    if (request->attempt != fetcher->attempt || fetcher->is_broken) {
        return false;
    }
    fetcher->is_opening = false;
    if (err == STELE_FETCH_SESSION_ID_NOT_FOUND) {
        fetcher->id = 0;
    }
    if (err != STELE_OK || id <= 0 || (!request->is_full && id != request->id)) {
        fetcher->is_broken = true;
        return false;
    }
    fetcher->id = id;
    return true;
}
