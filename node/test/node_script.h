/* A piece of a node's life that tests break off or disturb at any moment: start, a topic, produces, fetches that wait,
 * lookups, stop. Whatever happens, every request must end in an answer or with its connection. */
#ifndef STELE_NODE_TEST_NODE_SCRIPT_H
#define STELE_NODE_TEST_NODE_SCRIPT_H

#include "node/test/node_world.h"

enum { NODE_SCRIPT_CONNS = 2, NODE_SCRIPT_PARTITIONS = 2 };

enum node_script_stage {
    NODE_SCRIPT_STARTS,
    NODE_SCRIPT_LOOKS, /* for its topic */
    NODE_SCRIPT_CREATES,
    NODE_SCRIPT_WORKS,
    NODE_SCRIPT_STOPS,
    NODE_SCRIPT_ENDED, /* stopped, or the start failed, or fatal */
};

struct node_script {
    struct node_world *world;
    enum node_script_stage stage;
    struct node_conn *conns[NODE_SCRIPT_CONNS];
    bool has_topic;
    struct stele_uuid topic_id;
    int idle_rounds;
    bool probes; /* before the stop: is everything served? (by then nothing fails any more) */
};

void node_script_init(struct node_script *script, struct node_world *world);
/** One movement, or a moment of time when nothing moves; false at the end. Fails the test when it does not get on. */
bool node_script_step(struct node_script *script);
/** Asks the node to stop now. */
void node_script_stop(struct node_script *script);
/** Starts a node anew on what is on the disk, without faults, and holds the book against what it serves: all that was
 * acknowledged, or (only_synced) acknowledged as synced. Then new records are taken, and the node is stopped cleanly.
 */
void node_script_check(struct node_script *script, bool only_synced);

#endif
