/* HOST:PORT as text. A host with colons in it, an IPv6 address, stands in brackets: [::1]:7835. */
#ifndef STELE_BASE_ADDRESS_H
#define STELE_BASE_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>

enum { STELE_HOST_BYTES = 256, STELE_ADDRESS_BYTES = STELE_HOST_BYTES + 16 };

/** Into its parts; brackets are taken off, and the host may be empty. Errors: INVALID_ARGUMENT. */
STELE_MUST_CHECK enum stele_err stele_address_split(const char *address, char out_host[STELE_HOST_BYTES],
                                                    int32_t *out_port);
/** The two together. */
void stele_address_join(const char *host, int32_t port, char out_address[STELE_ADDRESS_BYTES]);
/** True for the host that means every interface: empty, 0.0.0.0 or ::. */
bool stele_host_is_any(const char *host);
/** True for a host that only this machine reaches. */
bool stele_host_is_loopback(const char *host);

#endif
