#include "replication/guard.h"

int stele_mutation; /* the guard that is off; 0: none */
