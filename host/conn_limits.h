/* How many connections there may be, in all and of one address: max.connections, max.connections.per.ip and
 * max.connections.per.ip.overrides. Counts those of every shard; may be used from any thread.
 *
 * IPv4 addresses are counted as the IPv6 addresses that they are mapped to, so a client is the same on every socket. */
#ifndef STELE_HOST_CONN_LIMITS_H
#define STELE_HOST_CONN_LIMITS_H

#include "base/err.h"
#include "base/mem.h"
#include "base/settings.h"

#include <stdbool.h>

struct sockaddr;
struct stele_conn_limits;

struct stele_conn_ip {
    uint8_t bytes[16]; /* zeros: the connection has none */
};

enum stele_conn_refusal { STELE_CONN_TAKEN, STELE_CONN_OVER_MAX, STELE_CONN_OVER_MAX_PER_IP, STELE_CONN_NO_MEMORY };

/** No limits yet. NULL when out of memory. */
STELE_MUST_CHECK struct stele_conn_limits *stele_conn_limits_new(struct stele_mem *mem);
/** Every connection has left. NULL is fine. */
void stele_conn_limits_free(struct stele_conn_limits *limits);

/** A bound on all of them, and none on an address. */
void stele_conn_limits_set_max(struct stele_conn_limits *limits, int64_t max);
/** Takes the settings over; what is open stays open. Errors: INVALID_CONFIG (`error` says why), NO_MEMORY; nothing
 * changed then. */
STELE_MUST_CHECK enum stele_err stele_conn_limits_take(struct stele_conn_limits *limits,
                                                       const struct stele_settings *settings,
                                                       struct stele_error *error);
/** Whether settings could be taken over. Errors: INVALID_CONFIG. */
STELE_MUST_CHECK enum stele_err stele_conn_limits_check(const struct stele_settings *settings,
                                                        struct stele_error *error);

struct stele_conn_ip stele_conn_ip_of(const struct sockaddr *name);
/** Counts a connection that comes in, unless it is refused. One that `may_pass` is not held to max.connections. */
STELE_MUST_CHECK enum stele_conn_refusal stele_conn_limits_enter(struct stele_conn_limits *limits,
                                                                 const struct stele_conn_ip *ip, bool may_pass);
void stele_conn_limits_leave(struct stele_conn_limits *limits, const struct stele_conn_ip *ip);

/** Refusals are told of once a second for each reason; *out_untold: those since the last time, this one left out. */
bool stele_conn_limits_may_tell(struct stele_conn_limits *limits, enum stele_conn_refusal why, int64_t now_ms,
                                int64_t *out_untold);

#endif
