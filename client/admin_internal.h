/* What the admin calls share: a call that polls until it is answered, and the object that its answer becomes. */
#ifndef STELE_CLIENT_ADMIN_INTERNAL_H
#define STELE_CLIENT_ADMIN_INTERNAL_H

#include "client/nodes.h"

/** A call that somebody waits for; `take` sees the answer while it lives and says in `err` how it went. */
struct stele_waited {
    struct stele_client_node *node; /* that is asked; NULL: whichever */
    enum stele_purpose purpose;     /* CONTROL, unless it says something else */
    struct stele_call call;
    bool is_done;
    bool is_final;  /* the answer tells all: no retry whatever the error's class */
    bool is_change; /* of what a cluster holds: refused, it may be because an earlier try did it */
    enum stele_err err;
    void (*take)(struct stele_waited *waited, const struct stele_response *response);
    struct stele_error *error;
    void *arg;
};

/** Tries until the answer tells all or the request's time has passed. */
STELE_MUST_CHECK enum stele_err stele_client__wait_for(struct stele_client *client, struct stele_waited *waited,
                                                       struct stele_request *request);
/** One try, given up at `until` or, of a node that was named, when it cannot be reached. */
STELE_MUST_CHECK enum stele_err stele_client__wait_once(struct stele_client *client, struct stele_waited *waited,
                                                        struct stele_request *request, int64_t until);
/** Polls until a failed try may be made again. False: that is not before `until`, or never. */
bool stele_client__wait_to_retry(struct stele_client *client, struct stele_backoff *backoff, enum stele_err err,
                                 int64_t until);
/** Gives a failure a text, unless the node gave one; returns the failure. */
enum stele_err stele_client__explain(struct stele_client *client, struct stele_waited *waited);
/** The partition of a request, whose topic id and leader epoch are filled in for every try. */
struct stele_place {
    const char *topic;
    int32_t partition;
    struct stele_uuid *topic_id;
    int32_t *leader_epoch;
};
/** The same as wait_for at the leader of a partition, wherever it moves. */
STELE_MUST_CHECK enum stele_err stele_client__wait_at_leader(struct stele_client *client, struct stele_waited *waited,
                                                             struct stele_request *request,
                                                             const struct stele_place *place);
/** The error of an answer with the node's own words, if it has some. UNKNOWN_TOPIC_OR_PARTITION is final: of a class
 * that may be tried again, since a new topic takes a moment to be known, but who asks wants to know. */
void stele_waited_end(struct stele_waited *waited, enum stele_err err, const char *message);
/** The error of somebody who named a topic that is not there. */
enum stele_err stele_client__no_topic(struct stele_error *error, const char *topic);
/** When a call that begins now is given up, */
int64_t stele_client__until_ms(const struct stele_client *client);
/** and how long the node that is asked may take, so that its answer comes before. */
int32_t stele_client__timeout_ms(const struct stele_client *client);

/** An object that the caller frees at once. Functions that take memory from it give NULL when there is none, and
 * leave is_out_of_memory behind, so that one look at the end tells. */
struct stele_answer_memory {
    struct stele_arena arena;
    bool is_out_of_memory;
};

/** Memory with `bytes` of a zeroed object in it, or NULL; freed through the object. */
STELE_MUST_CHECK void *stele_answer_new(struct stele_client *client, size_t bytes);
struct stele_answer_memory *stele_answer_of(void *object);
/** NULL is fine. */
void stele_answer_free(void *object);
STELE_MUST_CHECK void *stele_answer_alloc(struct stele_answer_memory *memory, size_t bytes);
/** `count` and one more pointer. */
STELE_MUST_CHECK void *stele_answer_list(struct stele_answer_memory *memory, size_t count);
/** A copy; NULL stays NULL. */
const char *stele_answer_text(struct stele_answer_memory *memory, const char *text);
const char *stele_answer_uuid(struct stele_answer_memory *memory, const struct stele_uuid *uuid);
/** Of an error: `message`, or what is always said of it; "" for OK. */
const char *stele_answer_error(struct stele_answer_memory *memory, enum stele_err err, const char *message);
/** A list in `to` of structs of `type` made by `make` from the elements of an array of the message. */
#define STELE_ANSWER_LIST(memory, to, count, from, type, make)                                                         \
    do {                                                                                                               \
        type **list_ = stele_answer_list((memory), (count));                                                           \
        for (size_t i_ = 0; list_ != NULL && i_ < (count); i_++) {                                                     \
            list_[i_] = stele_answer_alloc((memory), sizeof(type));                                                    \
            if (list_[i_] != NULL)                                                                                     \
                make((memory), &(from)[i_], list_[i_]);                                                                \
        }                                                                                                              \
        (to) = (const type *const *)list_;                                                                             \
    } while (0)

/** The end of a call that brings an object: hands it out or frees it. */
struct stele_result stele_answer_finish(enum stele_err err, const struct stele_error *error, void *object,
                                        void **out_object);

/** What became of a partition, of which no leader is told and nothing lost. */
struct stele_partition_result stele_answer_outcome(struct stele_answer_memory *memory, const char *topic,
                                                   int32_t partition, enum stele_err err, const char *message);
/** By topic and partition; not when the memory ran out. */
void stele_answer_sort_outcomes(struct stele_partition_results *outcomes);

#endif
