/* Every error of the system: one enum made from err.def, with a class that alone decides retries. */
#ifndef STELE_BASE_ERR_H
#define STELE_BASE_ERR_H

#include "base/types.h"

enum stele_err {
#define STELE_ERR(name, number, class, text) STELE_##name = (number),
#include "base/err.def"
#undef STELE_ERR
};

enum stele_err_class {
    STELE_CLASS_NONE,      /* not a failure */
    STELE_CLASS_RETRIABLE, /* the same request may succeed later */
    STELE_CLASS_FENCED,    /* somebody newer took over: refresh what is known, then retry */
    STELE_CLASS_FATAL,     /* the same request will never succeed */
};

enum { STELE_ERROR_TEXT_BYTES = 512 };

/** A human explanation, filled only at the edges: open, configuration, admin and client calls.
 * `text` names the thing and the way out. */
struct stele_error {
    enum stele_err err;
    char text[STELE_ERROR_TEXT_BYTES];
};

/** The enum's name without its prefix, for instance "CORRUPT_MESSAGE"; never NULL. */
const char *stele_err_name(enum stele_err err);

/** One sentence, lower case, without a full stop; never NULL. */
const char *stele_err_text(enum stele_err err);

enum stele_err_class stele_err_class(enum stele_err err);

/** The number that may leave the process: local errors become the nearest one of Kafka's. */
int16_t stele_err_wire(enum stele_err err);

/** The error of a number received from a peer; UNKNOWN_SERVER_ERROR for an unknown number. */
enum stele_err stele_err_from_wire(int16_t number);

/** Sets `error` (may be NULL) to `err` with a formatted text and returns `err`. */
enum stele_err stele_error_set(struct stele_error *error, enum stele_err err, const char *format, ...)
    STELE_PRINTF(3, 4);

#endif
