#include "host/http_head.h"

#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t count;
};

/* The line up to its end, which is taken off `rest`: CR LF, or LF alone. False: there is none. */
static bool take_line(struct span *rest, struct span *out_line)
{
    const char *end = memchr(rest->at, '\n', rest->count);
    if (end == NULL)
        return false;
    size_t bytes = (size_t)(end - rest->at);
    *out_line = (struct span){.at = rest->at, .count = bytes - (bytes > 0 && end[-1] == '\r')};
    rest->at += bytes + 1;
    rest->count -= bytes + 1;
    return true;
}

static struct span take_word(struct span *line)
{
    const char *space = memchr(line->at, ' ', line->count);
    size_t bytes = space == NULL ? line->count : (size_t)(space - line->at);
    struct span word = {.at = line->at, .count = bytes};
    line->at += bytes + (space != NULL);
    line->count -= bytes + (space != NULL);
    return word;
}

static bool is_text(struct span span, const char *text)
{
    return span.count == strlen(text) && memcmp(span.at, text, span.count) == 0;
}

static bool is_method(struct span word)
{
    for (size_t i = 0; i < word.count; i++) {
        if (word.at[i] < 'A' || word.at[i] > 'Z')
            return false;
    }
    return word.count > 0;
}

static int read_request_line(struct span line, struct stele_http_head *head)
{
    struct span method = take_word(&line), target = take_word(&line);
    if (!is_method(method) || target.count == 0 || target.at[0] != '/' || memchr(target.at, 0, target.count) != NULL)
        return 400;
    if (!is_text(line, "HTTP/1.1") && !is_text(line, "HTTP/1.0"))
        return line.count > 5 && memcmp(line.at, "HTTP/", 5) == 0 ? 505 : 400;
    const char *query = memchr(target.at, '?', target.count);
    size_t bytes = query == NULL ? target.count : (size_t)(query - target.at);
    if (bytes >= sizeof(head->path))
        return 414;
    memcpy(head->path, target.at, bytes);
    head->path[bytes] = 0;
    head->is_head = is_text(method, "HEAD");
    return head->is_head || is_text(method, "GET") ? 200 : 405;
}

/* A body is announced by either of two fields. */
static int read_field(struct span line)
{
    const char *colon = memchr(line.at, ':', line.count);
    if (colon == NULL || colon == line.at)
        return 400;
    size_t name = (size_t)(colon - line.at);
    if (name == strlen("transfer-encoding") && strncasecmp(line.at, "transfer-encoding", name) == 0)
        return 413;
    if (name != strlen("content-length") || strncasecmp(line.at, "content-length", name) != 0)
        return 200;
    for (const char *at = colon + 1; at < line.at + line.count; at++) {
        if (*at != ' ' && *at != '0')
            return 413;
    }
    return 200;
}

bool stele_http_head_read(const char *bytes, size_t count, struct stele_http_head *out_head)
{
    struct span rest = {.at = bytes, .count = count}, line;
    struct stele_http_head head = {.status = 200};
    if (!take_line(&rest, &line))
        return false;
    head.status = read_request_line(line, &head);
    while (take_line(&rest, &line)) {
        if (line.count == 0) {
            *out_head = head;
            return true;
        }
        int status = read_field(line);
        if (head.status == 200)
            head.status = status;
    }
    return false;
}
