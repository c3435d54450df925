#include "node/peer_list.h"

#include <stdio.h>
#include <string.h>

static enum stele_err take(struct stele_peer_list *list, const char *from, size_t bytes, struct stele_error *error)
{
    char address[STELE_ADDRESS_BYTES], host[STELE_HOST_BYTES];
    int32_t port = 0;
    if (list->count == STELE_VOTERS_MAX)
        return stele_error_set(error, STELE_INVALID_CONFIG, "peers: there may be %d of them", (int)STELE_VOTERS_MAX);
    bool is_good = bytes < sizeof(address);
    if (is_good) {
        memcpy(address, from, bytes);
        address[bytes] = 0;
        is_good = stele_address_split(address, host, &port) == STELE_OK && !stele_host_is_any(host) && port > 0;
    }
    if (!is_good)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "peers: '%.*s' is no address of a node: write HOST:PORT of its peer listener",
                               (int)(bytes < 200 ? bytes : 200), from);
    stele_address_join(host, port, address);
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->addresses[i], address) == 0)
            return stele_error_set(error, STELE_INVALID_CONFIG, "peers: %s is there twice: each node has a place",
                                   address);
    }
    memcpy(list->addresses[list->count++], address, sizeof(address));
    return STELE_OK;
}

enum stele_err stele_peer_list_parse(const char *text, struct stele_peer_list *out_list, struct stele_error *error)
{
    struct stele_peer_list list = {.count = 0};
    const char *at = text;
    while (at != NULL && text[strspn(text, " \t")] != 0) {
        const char *from = at + strspn(at, " \t");
        size_t bytes = strcspn(from, ",");
        at = from[bytes] == ',' ? from + bytes + 1 : NULL;
        while (bytes > 0 && (from[bytes - 1] == ' ' || from[bytes - 1] == '\t'))
            bytes--;
        enum stele_err err = take(&list, from, bytes, error);
        if (err != STELE_OK)
            return err;
    }
    *out_list = list;
    return STELE_OK;
}

void stele_peer_list_text(const struct stele_peer_list *list, char out_text[STELE_PEERS_TEXT_BYTES])
{
    size_t at = 0;
    out_text[0] = 0;
    for (int i = 0; i < list->count; i++)
        at +=
            (size_t)snprintf(out_text + at, STELE_PEERS_TEXT_BYTES - at, "%s%s", i > 0 ? "," : "", list->addresses[i]);
}
