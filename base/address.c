#include "base/address.h"

#include <stdio.h>
#include <string.h>

static const char *const digits = "0123456789";

enum stele_err stele_address_split(const char *address, char out_host[STELE_HOST_BYTES], int32_t *out_port)
{
    const char *colon = strrchr(address, ':'), *from = address;
    if (colon == NULL)
        return STELE_INVALID_ARGUMENT;
    size_t digit_count = strlen(colon + 1), bytes = (size_t)(colon - address);
    if (digit_count == 0 || digit_count > 5 || strspn(colon + 1, digits) != digit_count)
        return STELE_INVALID_ARGUMENT;
    int32_t port = 0;
    for (const char *at = colon + 1; *at != 0; at++)
        port = port * 10 + (*at - '0');
    bool is_bracketed = bytes > 2 && from[0] == '[' && from[bytes - 1] == ']';
    if (is_bracketed) {
        from++;
        bytes -= 2;
    }
    if (port > UINT16_MAX || bytes >= STELE_HOST_BYTES || memchr(from, '[', bytes) != NULL ||
        memchr(from, ']', bytes) != NULL || (memchr(from, ':', bytes) != NULL) != is_bracketed)
        return STELE_INVALID_ARGUMENT;
    memcpy(out_host, from, bytes);
    out_host[bytes] = 0;
    *out_port = port;
    return STELE_OK;
}

void stele_address_join(const char *host, int32_t port, char out_address[STELE_ADDRESS_BYTES])
{
    (void)snprintf(out_address, STELE_ADDRESS_BYTES, strchr(host, ':') != NULL ? "[%.255s]:%d" : "%.255s:%d", host,
                   (int)port);
}

bool stele_host_is_any(const char *host)
{
    return host[0] == 0 || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

bool stele_host_is_loopback(const char *host)
{
    bool is_address = strspn(host, "0123456789.") == strlen(host);
    return (strncmp(host, "127.", 4) == 0 && is_address) || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}
