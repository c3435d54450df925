#!/usr/bin/env bash
# What producers and tailing consumers notice of one that reads the same partition from its beginning, from the disk. Prints a table of
# medians; docs/bench.md says what a row means. Takes about three minutes.
#
#   cold-reads.sh [--rounds N] [--mb N] [--seconds N] [--dir DIR]
#
#   --rounds N    turns of the four cases (3)
#   --mb N        old records in the partition (3000)
#   --seconds N   of one case (8)
#   --dir DIR     where the data lies, on the file system to be measured (default: here)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/node_lib.sh"
rounds=3 mb=3000 seconds=8 dir=.
rate=5000 back_rate=100000 # records of 1 KiB a second: of the producer, and of the one that reads from the beginning

while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2; shift ;;
        --mb) mb=$2; shift ;;
        --seconds) seconds=$2; shift ;;
        --dir) dir=$2; shift ;;
        *) sed -n '2,${/^#/!q; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
    shift
done
node_begin "$dir"
[ "$(df -Pm "$work" | awk 'NR == 2 {print $4}')" -gt $((2 * mb + 1000)) ] || die "not enough room on the disk"

old_files() { ls "$data"/bench-0/*.log | head -n -1; }
cached_mb() { "$bin/bench_cache" resident $(old_files) | awk '{printf "%.0f", $1 / 1e6}'; }

read_back() {  # again and again from the beginning, until it is ended
    local reader=''
    trap '[ -z "$reader" ] || kill "$reader"; exit 0' TERM
    while :; do
        "$bin/stele" bench consume bench --seconds "$seconds" --rate "$back_rate" --fetch 1048576 -o json >>"$work/back" 2>>"$work/client.log" &
        reader=$!
        wait "$reader" || exit 1
    done
}

measure() {  # none|hot|disk|cold
    local cpu cached
    : >"$work/back"
    if [ "$1" = cold ] || [ "$1" = disk ]; then
        "$bin/bench_cache" drop $(old_files)
        cached=$(cached_mb)
        [ "$cached" -le $((mb / 100)) ] || die "$cached MB are still in the page cache"
    elif [ "$1" = hot ]; then
        cat $(old_files) >/dev/null
    fi
    sync -f "$work"
    cpu=$(node_cpu)
    case $1 in
        disk) "$bin/bench_cache" read $((back_rate * 1024 / 1000000)) $(old_files) & helper_pids+=($!) ;;
        hot | cold) read_back & helper_pids+=($!) ;;
    esac
    # Both at once: the first is told of by the acknowledgements, the second by a consumer at the end of the partition.
    "$bin/stele" bench produce bench --seconds "$seconds" --rate "$rate" --linger 0 -o json >"$work/produce" &
    local producer=$!
    "$bin/stele" bench end-to-end bench --seconds "$seconds" --rate "$rate" --linger 0 -o json >"$work/tail"
    wait "$producer"
    [ "$1" = none ] || kill -0 "${helper_pids[@]}" || die "what was to read ended early"
    note "$1.cpu" "$(calc "($(node_cpu) - $cpu) / $seconds * 100")"
    if [ "$1" = cold ]; then
        note cold.read "$(calc "$(cached_mb) - $cached" %.0f)"
    fi
    end_helpers
    for what in produce tail; do
        note "$1.$what.p50" "$(field p50_us <"$work/$what")"
        note "$1.$what.p99" "$(field p99_us <"$work/$what")"
    done
}

node_start
"$bin/stele" topic create bench -p 1 --config segment.bytes=134217728 >/dev/null
"$bin/stele" bench produce bench --records $((mb * 1000000 / 1024)) --batch 65536 -o json >/dev/null
for ((round = 0; round < rounds; round++)); do
    # Who comes first changes, so that what one leaves to the next does too.
    case $((round % 3)) in 0) order='none hot disk cold' ;; 1) order='cold disk none hot' ;; *) order='hot cold none disk' ;; esac
    for case in $order; do measure "$case"; done
done
node_stop

machine
echo "two producers of $rate records of 1 KiB a second, one tailing consumer; the third reads $back_rate a second from the beginning"
printf '%-52s %12s %12s %12s %12s %10s\n' "" "produce p50" "produce p99" "tail p50" "tail p99" "node CPU"
row() { printf '%-52s %9s ms %9s ms %9s ms %9s ms %8s %%\n' "$2" "$(cell "$1.produce.p50" %.2f 0.001)" "$(cell "$1.produce.p99" %.2f 0.001)" \
    "$(cell "$1.tail.p50" %.2f 0.001)" "$(cell "$1.tail.p99" %.2f 0.001)" "$(cell "$1.cpu" %.0f)"; }
row none "without another consumer"
row hot "with one that reads from the page cache"
row disk "with another program that reads from the disk"
row cold "with one that reads from the disk ($(cell cold.read %.0f) MB in a turn)"
