/* Requests that only the active controller can do, at whichever node they came: the node asks the controller, over
 * connections of its own so that no vote waits behind them, and answers when its own image holds what was changed.
 *
 * A session of another node is answered here or refused, never forwarded again. A refusal says so in its header: then
 * nothing was done, and the asking node tries again wherever the controller is by then.
 *
 * Invariants
 *  1. A connection carries one request at a time, so that one that is late takes no other with it.
 *  2. What may have been done is not asked again, unless doing it twice does no harm.
 * States of an ask: WAITING -> ON_LINK -> WAITING (sure that nothing was done), -> APPLYING -> done. */
#ifndef STELE_NODE_FORWARD_H
#define STELE_NODE_FORWARD_H

#include "base/timing_wheel.h"
#include "proto/link.h"

struct stele_controller;
struct stele_forward;
struct stele_forward_link;
struct stele_server_call;

enum { STELE_FORWARD_LINKS = 4, STELE_FORWARD_MAX = 256 /* at a time */ };

enum stele_forward_end {
    STELE_FORWARD_HERE,     /* this node is the active controller: the asker does it itself */
    STELE_FORWARD_ANSWERED, /* the response is filled; perhaps with an error of this node's */
    STELE_FORWARD_NO_MEMORY /* the response is not; the request may have been done */
};

/** On the control shard. Lives in its asker's memory until `done`, or until it was dropped. */
struct stele_forward_ask {
    struct stele_request *request; /* lives until `done` */
    struct stele_response *response;
    struct stele_arena *arena; /* the response's */
    /* Perhaps from inside stele_forward_take. */
    void (*done)(struct stele_forward_ask *ask, enum stele_forward_end how);

    /* the rest is node/forward.c's; all zero before it is taken */
    struct stele_list link;
    struct stele_forward *forward; /* NULL: it is not under way */
    struct stele_forward_link *on; /* NULL: it waits */
    struct stele_call call;
    int64_t deadline_ms;
    int64_t apply_offset;
};

struct stele_forward_link {
    struct stele_forward *forward;
    struct stele_link link;
    struct stele_forward_ask *ask; /* NULL: it is idle */
    int32_t node_id;               /* of the connection */
};

struct stele_forward {
    struct stele_controller *control;
    struct stele_link_group group;
    struct stele_forward_link links[STELE_FORWARD_LINKS];
    struct stele_list waiting, applying;
    int count;
    int64_t retry_ms; /* nothing is sent before, after a refusal */
    struct stele_timer timer;
    bool is_open, is_stopping, is_looking;
};

/** All zero before: it is not open, and takes nothing. */
void stele_forward_open(struct stele_forward *forward, struct stele_controller *control);
/** Asks, until the request's time is over. */
void stele_forward_take(struct stele_forward *forward, struct stele_forward_ask *ask);
/** At the end of the node: takes it out wherever it is; also one that was never taken, or has ended. */
void stele_forward_drop(struct stele_forward_ask *ask);
/** Who leads has changed, or the image has more. */
void stele_forward_look(struct stele_forward *forward);
/** The node stops: what was not sent is refused, what was sent has a little time. */
void stele_forward_stop(struct stele_forward *forward);
/** Drops the connections; nothing may be under way. */
void stele_forward_end(struct stele_forward *forward);

/** False: the call is not for the controller alone, or the node is alone; its handler goes on. True: it is taken, and
 * the handler is called later if this node is the controller. */
bool stele_forward_call(
    struct stele_server_call *call,
    void (*handle)(struct stele_server_call *call)); /** While the node does not serve yet: another node is told that
                                                        nothing was done. False: it is no request for that. */
bool stele_forward_refuse(struct stele_server_call *call);

/* Of requests and answers (node/forward_api.c). */

bool stele_forward__is_for_controller(const struct stele_request *request);
/** It changes what the image holds: doing it twice may do harm. */
bool stele_forward__is_change(const struct stele_request *request);
int64_t stele_forward__time_out_ms(const struct stele_request *request);
/** `message` lives as long as the response. */
void stele_forward__answer_with(struct stele_response *response, enum stele_api api, enum stele_err err,
                                const char *message);
enum stele_err stele_forward__err_of(const struct stele_response *response, enum stele_api api);

#endif
