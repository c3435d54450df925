/* A node alone, with two clients: see sim_node.c. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_NODE_H
#define STELE_CLUSTER_TESTS_SIM_SIM_NODE_H

/** argv[0] is not looked at. */
int sim_node_main(int argc, char **argv);

#endif
