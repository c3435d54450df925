#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

struct err_row {
    int number;
    enum stele_err_class class_;
    const char *name, *text;
};

static const struct err_row rows[] = {
#define STELE_ERR(name, number, class, text) {(number), STELE_CLASS_##class, #name, (text)},
#include "base/err.def"
#undef STELE_ERR
};

static const struct err_row *row_of(int number)
{
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        if (rows[i].number == number)
            return &rows[i];
    }
    return row_of(STELE_UNKNOWN_SERVER_ERROR);
}

const char *stele_err_name(enum stele_err err)
{
    return row_of((int)err)->name;
}

const char *stele_err_text(enum stele_err err)
{
    return row_of((int)err)->text;
}

enum stele_err_class stele_err_class(enum stele_err err)
{
    return row_of((int)err)->class_;
}

/* What a peer is told of an error that has no number on the wire. */
static enum stele_err wire_form(int number)
{
    switch (number) {
    case STELE_NO_SPACE:
    case STELE_IO:
    case STELE_OFFLINE:
        return STELE_KAFKA_STORAGE_ERROR;
    case STELE_CORRUPT:
    case STELE_DAMAGED_RANGE:
        return STELE_CORRUPT_MESSAGE;
    case STELE_NO_MEMORY:
        return STELE_THROTTLING_QUOTA_EXCEEDED;
    case STELE_INVALID_ARGUMENT:
    case STELE_MALFORMED:
        return STELE_INVALID_REQUEST;
    case STELE_TOO_LARGE:
        return STELE_MESSAGE_TOO_LARGE;
    case STELE_CLOSED:
    case STELE_CANCELLED:
    case STELE_UNREACHABLE:
        return STELE_REQUEST_TIMED_OUT;
    default:
        return STELE_UNKNOWN_SERVER_ERROR;
    }
}

int16_t stele_err_wire(enum stele_err err)
{
    int number = (int)err;
    return (int16_t)(number < 1000 ? number : (int)wire_form(number));
}

enum stele_err stele_err_from_wire(int16_t number)
{
    return number < 1000 ? (enum stele_err)row_of(number)->number : STELE_UNKNOWN_SERVER_ERROR;
}

enum stele_err stele_error_set(struct stele_error *error, enum stele_err err, const char *format, ...)
{
    if (error != NULL) {
        va_list args;
        va_start(args, format);
        error->err = err;
        (void)vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
    }
    return err;
}
