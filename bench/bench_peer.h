/* The other side of a node, for programs that speak the protocol themselves: one blocking connection, one frame after
 * another. A failure ends the program. */
#ifndef STELE_BENCH_BENCH_PEER_H
#define STELE_BENCH_BENCH_PEER_H

#include "bench/bench_util.h"

#include "client/stele.h"
#include "proto/codec.h"

enum { BENCH_ANSWER_BYTES_MAX = 4 << 20 };

/** Starts steled of the directory that the program `self` lies in, with its data in the scratch directory and one
 * setting NAME=VALUE (NULL: none); its CPU time counts as the child's. */
void bench_node_start(struct bench_world *world, const char *self, const char *setting, char out_address[128]);
/** Stops it and removes its data. */
void bench_node_stop(struct bench_world *world);

/** A connection to a port of 127.0.0.1. */
int bench_connect(int port);
/** The port of HOST:PORT. */
int bench_port(const char *address);
void bench_receive(int fd, uint8_t *at, size_t bytes);
void bench_send(int fd, const void *bytes, size_t count);

/** Sends a request without records and receives the answer's frame: its message into *out, its records at the returned
 * place of `answer` (BENCH_ANSWER_BYTES_MAX). The arena holds the message. */
const uint8_t *bench_ask(int fd, struct stele_arena *arena, struct stele_request *request, uint8_t *answer,
                         struct stele_response *out, size_t *out_record_bytes);
/** The hello that a connection begins with. */
void bench_greet(struct bench_world *world, int fd, uint8_t *answer);

/** The id of a topic that is there. */
struct stele_uuid bench_topic_id(struct stele_client *client, const char *name);

#endif
