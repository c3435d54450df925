/* The setting `peers`: the nodes that form a cluster, HOST:PORT of the peer listener of each, comma separated. The
 * first is node 1. Every node must have the same list. */
#ifndef STELE_NODE_PEER_LIST_H
#define STELE_NODE_PEER_LIST_H

#include "base/address.h"
#include "replication/quorum_event.h"

enum { STELE_PEERS_TEXT_BYTES = STELE_VOTERS_MAX * STELE_ADDRESS_BYTES };

struct stele_peer_list {
    char addresses[STELE_VOTERS_MAX][STELE_ADDRESS_BYTES]; /* of node i + 1 */
    int count;                                             /* 0: a node that is alone */
};

/** Errors: INVALID_CONFIG; `error` names what is wrong. */
STELE_MUST_CHECK enum stele_err stele_peer_list_parse(const char *text, struct stele_peer_list *out_list,
                                                      struct stele_error *error);
/** The list without blanks, as nodes compare it. */
void stele_peer_list_text(const struct stele_peer_list *list, char out_text[STELE_PEERS_TEXT_BYTES]);

#endif
