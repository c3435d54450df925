/* A trivial model of one log, every batch that was ever appended and not truncated, and the comparison of a real log
 * with it: contents byte for byte, indexes, epochs, producer state, aborted transactions. A difference prints the seed
 * and ends the program.
 *
 * A truncation is durable only with the next flush; until then a loss of power may bring back what it cut, where the
 * newer bytes were lost. Such batches are the model's ghosts. Each batch is known by offset and epoch, so a replica
 * that meets one cuts it again.
 *
 * A batch whose bytes rotted on the disk stays in the model: a read of it is refused or gives bytes that do not check,
 * and every batch that is neither rotten nor behind a rotten one in its segment is read as ever. */
#ifndef STELE_SIM_LOG_MODEL_H
#define STELE_SIM_LOG_MODEL_H

#include "storage/log.h"

struct model_batch {
    int64_t base_offset, last_offset, max_timestamp;
    int32_t epoch;
    uint8_t *bytes;
    size_t count;
    bool is_rotten;   /* the disk has other bytes now */
    bool is_shadowed; /* behind a rotten one in its segment: it may not be found */
};

enum { MODEL_ROTTEN_INDEXES_MAX = 64 };

struct log_model {
    struct model_batch *batches; /* from offset 0 on, also those below the log start */
    int count, capacity;
    struct model_batch *ghosts;
    int ghost_count, ghost_capacity;
    int64_t rotten_indexes[MODEL_ROTTEN_INDEXES_MAX]; /* bases of segments whose indexes may differ from a rebuild */
    int rotten_index_count;
    int64_t passed; /* the highest start that the log had: what is lost below it is nobody's loss */
    int64_t end;
    uint64_t seed;     /* for the message of a failure */
    int64_t crashes;   /* the same */
    const char *doing; /* the same */
};

void log_model_init(struct log_model *model, uint64_t seed);
void log_model_deinit(struct log_model *model);
/** Copies one or more whole batches. */
void log_model_push(struct log_model *model, const uint8_t *bytes, size_t count);
/** Makes ghosts of the batches from `offset` on, which is the start of one or the end. */
void log_model_truncate(struct log_model *model, int64_t offset);
/** Adds ghosts: batches of an append that did not return. */
void log_model_push_ghosts(struct log_model *model, const uint8_t *bytes, size_t count);
/** What a completed flush or a start after a loss of power means: none can come back. */
void log_model_clear_ghosts(struct log_model *model);
/** Makes the model what a log holds after a start, checking that each of its batches is the model's, or from
 * `promised_end` on one of its ghosts. */
void log_model_adopt(struct log_model *model, struct stele_log *log, int64_t promised_end);
/** The batch that holds `offset`, or the first one after it; `count` when there is none. */
int log_model_find(const struct log_model *model, int64_t offset);

/** Prints the seed, where the run is and the message; exits with 1. */
void log_model_fail(const struct log_model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

#define MODEL_CHECK(model, condition, ...)                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            log_model_fail((model), __VA_ARGS__);                                                                      \
    } while (0)

struct log_expected {
    struct stele_env *env;
    int64_t known_from;     /* epochs and beginnings of transactions are known from this offset on */
    int64_t index_interval; /* of the log's configuration */
    size_t read_bytes;      /* size of a read */
    bool had_rot;
    int64_t *refused, *caught; /* raised by reads of rotten batches: DAMAGED_RANGE, and bytes that did not check */
};

/** Checks [start, end) of the log, up to its first range that is damaged and not by rot, against the model. */
void log_model_check(const struct log_model *model, struct stele_log *log, const struct log_expected *expected);
/** The first offset that is damaged and not by rot, or the end. */
int64_t log_model_sound_end(const struct log_model *model, const struct stele_log *log);
/** Did any batch of [first, last] rot? */
bool log_model_has_rot(const struct log_model *model, int64_t first, int64_t last);
/** These bytes are on the disk, or were before they rotted: marks the batch, one of the model's or of its ghosts. */
void log_model_mark(struct log_model *model, const uint8_t *bytes, size_t count, bool is_rotten);
/** The size of a batch at `offset` that rotted before; 0: none did. */
size_t log_model_rotten_bytes(struct log_model *model, int64_t offset, int64_t *out_next);
/** The last batches were appended to the segment of this base, perhaps behind one that rotted. */
void log_model_shadow(struct log_model *model, int64_t base_offset);
/** Every batch of these offsets was read by a scan: the sound ones are found from now on. */
void log_model_see(struct log_model *model, int64_t first, int64_t end);
/** The indexes of this segment rotted. */
void log_model_mark_index(struct log_model *model, int64_t base_offset);

#endif
