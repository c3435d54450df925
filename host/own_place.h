/* Which entry of --peers is this machine. */
#ifndef STELE_HOST_OWN_PLACE_H
#define STELE_HOST_OWN_PLACE_H

#include "node/listeners.h"
#include "node/peer_list.h"

/** From 1: the entry whose host is an address of this machine; of several, that with the port of a listener. Names are
 * looked up, which may take a while. Errors: INVALID_CONFIG (none, or several); `error` says the way out. */
STELE_MUST_CHECK enum stele_err stele_own_place(const struct stele_peer_list *peers,
                                                const struct stele_listeners *listeners, int32_t *out_place,
                                                struct stele_error *error);

#endif
