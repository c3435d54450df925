/* What tests need of the machines, and the product does not have: guards that can be switched off one at a time, to
 * prove that the simulators notice (the mutations M1 to M27), and marks of the places that a run reached.
 *
 * A guard is written as `if (STELE_GUARD(18) ? offset > start : offset >= start)`, the mutation's number its argument.
 * In the product it is the constant true. A simulator compiles the machine's sources itself with STELE_MUTATIONS
 * defined and sets `stele_mutation` to the number of the guard that is off; 0: none.
 *
 * A machine that marks places has a field `uint64_t reached`; `point` is an enumerator below 64. */
#ifndef STELE_REPLICATION_GUARD_H
#define STELE_REPLICATION_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef STELE_MUTATIONS
extern int stele_mutation;
#define STELE_GUARD(number) (stele_mutation != (number))
#define STELE_REACHED(machine, point) ((machine)->reached |= UINT64_C(1) << (point))
#else
#define STELE_GUARD(number) true
#define STELE_REACHED(machine, point) ((void)0)
#endif

#endif
