/* The file cluster-formation beside the metadata log: how far this disk is with the formation of its cluster, and with
 * whom.
 *
 *     0                                              version of the file
 *     <EMPTY, FORMING or FORMED> <node id> <directory id> <cluster id or ->
 *     <the list of peers, as every node has it>
 *     <directory ids of the voters, in the order of the list, or ->
 *     <crc32c of the three lines, 8 hex digits>
 *
 * It is written whole or not at all (stele_vfs_replace); one that is damaged is told, never taken for absent. */
#ifndef STELE_NODE_FORMATION_FILE_H
#define STELE_NODE_FORMATION_FILE_H

#include "base/mem.h"
#include "base/vfs.h"
#include "node/peer_list.h"
#include "proto/api_peer.h"

#define STELE_FORMATION_FILE "cluster-formation"

struct stele_formation_file {
    enum stele_form_stage stage;
    int32_t node_id;
    struct stele_uuid directory_id, cluster_id; /* cluster zero: EMPTY */
    struct stele_peer_list peers;
    struct stele_voters voters; /* with which it is formed; none: EMPTY, or the node came to a cluster that was there */
};

/** Durably. Errors: IO, NO_SPACE. */
STELE_MUST_CHECK enum stele_err stele_formation_file_write(struct stele_vfs *vfs, const char *dir,
                                                           const struct stele_formation_file *file);
/** Errors: NOT_FOUND (there is none), CORRUPT, IO, NO_MEMORY; said in `error`. */
STELE_MUST_CHECK enum stele_err stele_formation_file_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                                          struct stele_formation_file *out_file,
                                                          struct stele_error *error);
/** The same of text. Errors: CORRUPT. */
STELE_MUST_CHECK enum stele_err stele_formation_file_parse(const char *text, size_t count,
                                                           struct stele_formation_file *out_file);

#endif
