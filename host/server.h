/* A node in the real world: its threads, loops, sockets, files and jobs, from start to a graceful end. */
#ifndef STELE_HOST_SERVER_H
#define STELE_HOST_SERVER_H

#include "base/mem.h"
#include "base/settings.h"
#include "base/vfs.h"

struct stele_log_sink;

struct stele_server_options {
    struct stele_mem *mem;
    struct stele_vfs *vfs;
    struct stele_settings *settings; /* of node/settings.h */
    const struct stele_log_sink *sink;
    /* On the calling thread: connections are served at `addresses`, as the ready line of steled --help has them. */
    void (*ready)(void *arg, const char *addresses);
    void *arg;
};

/** Serves until SIGTERM or SIGINT, then stops gracefully. Returns the exit code (node/node.h). */
int stele_server_run(const struct stele_server_options *options);

#endif
