/* The one question that every request is asked. It allows all until there are principals to tell apart. */
#ifndef STELE_NODE_AUTHORIZE_H
#define STELE_NODE_AUTHORIZE_H

#include <stdbool.h>

enum stele_operation {
    STELE_OPERATION_READ,
    STELE_OPERATION_WRITE,
    STELE_OPERATION_CREATE,
    STELE_OPERATION_DELETE,
    STELE_OPERATION_ALTER,
    STELE_OPERATION_DESCRIBE,
    STELE_OPERATION_CLUSTER /* what nodes do among themselves */
};

/** `principal` NULL: not known. `resource` is a topic's name or id text, NULL for the cluster. */
bool stele_authorize(const char *principal, enum stele_operation operation, const char *resource);

#endif
