#!/usr/bin/env bash
# Every guard of the machines (replication/guard.h) is switched off, one at a time: a program must notice it within the seeds
# that stand here, and the seed that noticed must pass with the guard on.
#
#   test_mutations.sh [--quick] [--only GUARD] [DIR]      DIR: where the programs are (build/dev/bin)
#
# --quick leaves out the rows that take long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# guard  program  seeds  when
table='
1   membership_model  5    quick
2   stele-sim         20   quick
2   partition_sim     50   quick
3   partition_sim     500  quick
4   partition_sim     3000 quick
5   stele-sim         120  quick
5   partition_sim     20   quick
6   partition_sim     200  quick
7   partition_sim     300  quick
8   stele-sim         5    quick
8   partition_sim     20   quick
9   partition_sim     4000 quick
10  partition_sim     5000 quick
11  partition_sim     500  quick
12  stele-sim         5    quick
12  partition_sim     20   quick
13  stele-sim         60   long
13  partition_sim     100  quick
14  partition_sim     400  quick
15  stele-sim         5    quick
15  partition_sim     20   quick
16  quorum_world      50   quick
17  stele-sim         150  long
17  quorum_world      50   quick
18  stele-sim         10   quick
18  quorum_world      50   quick
19  stele-sim         100  long
19  quorum_world      50   quick
20  quorum_world      50   quick
21  stele-sim         10   quick
21  quorum_world      50   quick
22  node_node         1    quick
23  partition_sim     6000 quick
24  stele-sim         400  long
25  stele-sim         20   quick
25  partition_sim     20   quick
26  stele-sim         5    quick
26  partition_sim     300  quick
27  stele-sim         5    quick
27  quorum_world      50   quick
'

is_quick=false only='' bin=build/dev/bin
while [ $# -gt 0 ]; do
    case $1 in
    --quick) is_quick=true ;;
    --only) only=$2 && shift ;;
    *) bin=$1 ;;
    esac
    shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# off PROGRAM GUARD SEEDS: runs seeds with the guard off until one fails; prints that seed, nothing when none does.
off() {
    local program=$1 guard=$2 seeds=$3
    case $program in
    stele-sim)
        "$bin/stele-sim-mutations" --mutation "$guard" --seed 1 --seeds "$seeds" --jobs 1 --failures 1
        ;;
    partition_sim) "$bin/partition_sim" --mutation "$guard" --seeds 1 "$seeds" ;;
    quorum_world) "$bin/quorum_world" --mutation "$guard" --seeds "$seeds" --quick ;;
    membership_model) "$bin/replication_membership_model" "$guard" ;;
    node_node) "$bin/node_node_guarded" "$guard" ;;
    esac >"$work/off" 2>&1 || true
    case $program in
    quorum_world) sed -n "s/^M$guard: seed \([0-9]*\),.*/\1/p" "$work/off" ;;
    membership_model) grep -q FAILED "$work/off" && sed -n 's/^seed \([0-9]*\)$/\1/p' "$work/off" | tail -n 1 ;;
    node_node) ! grep -q FAILED "$work/off" || echo 1 ;;
    *) sed -n 's/^seed \([0-9]*\)\(:\| failed\).*/\1/p' "$work/off" | head -n 1 ;;
    esac
}

# on PROGRAM SEED: the same seed with all guards on.
on() {
    local program=$1 seed=$2
    case $program in
    stele-sim) "$bin/stele-sim-mutations" --seed "$seed" ;;
    partition_sim) "$bin/partition_sim" --seed "$seed" ;;
    quorum_world) "$bin/quorum_world" --first "$seed" --seeds 1 ;;
    membership_model) "$bin/replication_membership_model" ;;
    node_node) "$bin/node_node_guarded" ;;
    esac >"$work/on" 2>&1
}

failed=0 guards=''
while read -r guard program seeds when; do
    [ -n "$guard" ] || continue
    [ -z "$only" ] || [ "$only" = "$guard" ] || continue
    [ "$when" = quick ] || ! $is_quick || continue
    guards="$guards $guard"
    seed=$(off "$program" "$guard" "$seeds" || true)
    if [ -z "$seed" ] || [ "$seed" -gt "$seeds" ]; then
        echo "M$guard: $program does not notice it in $seeds seeds"
        failed=$((failed + 1))
    elif ! on "$program" "$seed"; then
        echo "M$guard: seed $seed of $program fails with the guard on as well:"
        tail -n 5 "$work/on"
        failed=$((failed + 1))
    else
        echo "M$guard: $program, seed $seed of $seeds"
    fi
done <<<"$table"

if ! $is_quick && [ -z "$only" ]; then
    for guard in $(seq 1 27); do
        [[ "$guards " = *" $guard "* ]] || { echo "M$guard has no row" && failed=$((failed + 1)); }
    done
fi
echo "$(wc -w <<<"$guards") rows, $failed failed"
[ $failed -eq 0 ]
