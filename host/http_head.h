/* The head of an HTTP/1 request, as far as the port for machines that watch needs it. Pure. */
#ifndef STELE_HOST_HTTP_HEAD_H
#define STELE_HOST_HTTP_HEAD_H

#include "base/types.h"

#include <stdbool.h>

enum { STELE_HTTP_PATH_BYTES = 128 };

struct stele_http_head {
    int status; /* 200: GET or HEAD of `path`; else what is to be answered: 400, 405, 413, 414, 505 */
    bool is_head;
    char path[STELE_HTTP_PATH_BYTES]; /* without its query */
};

/** False: more bytes are needed, there is no empty line yet. */
bool stele_http_head_read(const char *bytes, size_t count, struct stele_http_head *out_head);

#endif
