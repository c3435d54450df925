/* A loopback connection whose far end a thread drains into memory: where what is read goes. */
#ifndef STELE_BENCH_BENCH_SINK_H
#define STELE_BENCH_BENCH_SINK_H

#include <stdint.h>

struct bench_sink;

struct bench_sink *bench_sink_new(void);
void bench_sink_free(struct bench_sink *sink);
int bench_sink_fd(const struct bench_sink *sink);
/** Sends a range of a file with sendfile, as much in each call as the socket takes. */
void bench_sink_file(struct bench_sink *sink, int fd, int64_t pos, int64_t bytes);
/** Returns when all that was sent so far has arrived. */
void bench_sink_wait(struct bench_sink *sink);

#endif
