#!/usr/bin/env bash
# What a node costs: consumers of one partition, small records, many partitions, one and two shards. Prints a table a question; docs/bench.md
# says what a row means. Takes five to ten minutes.
#
#   node.sh [--rounds N] [--dir DIR] [partitions|consumers|records|shards]...
#
#   --rounds N    turns of every measurement (3)
#   --dir DIR     where the data lies, on the file system to be measured (default: here)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/node_lib.sh"
rounds=3 dir=. topics=()

while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2; shift ;;
        --dir) dir=$2; shift ;;
        partitions | consumers | records | shards) topics+=("$1") ;;
        *) sed -n '2,${/^#/!q; s/^# \{0,1\}//; p}' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
    shift
done
[ ${#topics[@]} -gt 0 ] || topics=(partitions consumers records shards)
node_begin "$dir"

fresh() {
    node_fresh
    node_start
}

# So many consumers at the same time, each of `mb` from the beginning of one partition, `times` times.
consume() {  # CONSUMERS MB TIMES
    local i pids=() cpu=0 before from=$EPOCHREALTIME
    before=$(node_cpu)
    for ((time = 0; time < $3; time++)); do
        pids=()
        for ((i = 0; i < $1; i++)); do
            "$bin/stele" bench consume bench --records $(($2 * 1000000 / 1024)) --fetch 1048576 -o json >>"$work/consumed" &
            pids+=($!)
        done
        for i in "${pids[@]}"; do wait "$i" || die "a consumer failed"; done
    done
    note "consumers.$1.cpu" "$(calc "($(node_cpu) - $before) / ($1 * $2 * $3 / 1000)")"
    note "consumers.$1.mbs" "$(calc "$1 * $2 * $3 / ($(ms_since "$from") / 1000)")"
}
consumers() {
    local round
    fresh
    "$bin/stele" bench produce bench --partitions 1 --records 488281 --batch 65536 -o json >/dev/null
    consume 1 500 1 # what this reads is the first turn's: it does not count
    rm "$work"/figure.consumers.*
    for ((round = 0; round < rounds; round++)); do
        consume 1 500 4
        consume 10 200 1
        consume 100 30 1
    done
    node_stop
    printf '\n%-44s %16s %12s\n' "consumers of one partition, 1 MiB fetches" "node CPU s a GB" "MB/s in all"
    for count in 1 10 100; do
        printf '%-44s %16s %12s\n' "$count at the same time" "$(cell consumers.$count.cpu %.3f)" "$(cell consumers.$count.mbs %.0f)"
    done
}

# records ROW RECORDS BENCH...: notes the speed and the CPU time of both sides.
bench_records() {
    local row=$1 count=$2 before
    shift 2
    before=$(node_cpu)
    "$bin/stele" bench "$@" --records "$count" -o json >"$work/answer"
    note "$row.node" "$(calc "($(node_cpu) - $before) / $count * 1e9")"
    note "$row.speed" "$(field records_a_second <"$work/answer")"
    note "$row.client" "$(calc "$(field cpu_us <"$work/answer") / $count * 1e3")"
}
records() {
    local round row
    for ((round = 0; round < rounds; round++)); do
        fresh
        bench_records produce_16k 2000000 produce small --partitions 1 --size 100
        bench_records produce_64k 4000000 produce large --partitions 1 --size 100 --batch 65536 --linger 100
        bench_records produce_1m 4000000 produce huge --partitions 1 --size 100 --batch 1000000 --linger 100
        bench_records consume_16k 2000000 consume small
        bench_records consume_64k 4000000 consume large
        bench_records consume_1m 4000000 consume huge
        node_stop
    done
    printf '\n%-44s %16s %12s %14s\n' "records of 100 bytes, one partition" "records/s" "node ns each" "client ns each"
    for row in "produce_16k:produce, batch.size 16384 (default)" "produce_64k:produce, batch.size 65536" "produce_1m:produce, batch.size 1000000" \
        "consume_16k:consume, batches of 16384" "consume_64k:consume, batches of 65536" "consume_1m:consume, batches of 1000000"; do
        printf '%-44s %16s %12s %14s\n' "${row#*:}" "$(cell "${row%%:*}.speed" %.0f)" "$(cell "${row%%:*}.node" %.0f)" "$(cell "${row%%:*}.client" %.0f)"
    done
}

# Until what is left of a creation is done; a node that never rests is found out by the idle row.
wait_idle() {
    local before
    for ((i = 0; i < 120; i++)); do
        before=$(node_switches)
        sleep 1
        [ $(($(node_switches) - before)) -ge 50 ] || return 0
    done
}
partitions_of() {  # COUNT
    local from before switches
    fresh
    note "$1.rss0" "$(node_rss_mib)"
    from=$EPOCHREALTIME
    if ! "$bin/stele" topic create bench -p "$1" >/dev/null; then
        # The client gave up; the node goes on.
        for ((i = 0; i < 120; i++)); do
            ! "$bin/stele" bench produce bench --records 1 --partition $(($1 - 1)) >/dev/null 2>&1 || break
            sleep 0.5
        done
    fi
    note "$1.create" "$(ms_since "$from")"
    from=$EPOCHREALTIME
    "$bin/stele" bench produce bench --records 1 --partition $(($1 - 1)) --size 100 -o json >/dev/null
    note "$1.first" "$(ms_since "$from")"
    wait_idle
    note "$1.settled" "$(ms_since "$from")"
    "$bin/stele" bench produce bench --records $(($1 * 20)) --size 100 --linger 0 -o json >/dev/null
    sleep 6 # a checkpoint
    before=$(node_cpu) switches=$(node_switches)
    sleep 10
    note "$1.idle" "$(calc "($(node_cpu) - $before) / 10 * 100")"
    note "$1.switches" "$(calc "($(node_switches) - $switches) / 10")"
    note "$1.rss" "$(node_rss_mib)"
    note "$1.files" "$(node_files)"
    node_stop KILL
    node_start
    note "$1.killed" "$start_ms"
    wait_idle
    node_stop
    note "$1.stop" "$stop_ms"
    node_start
    note "$1.clean" "$start_ms"
    node_stop
    note "$1.unchanged" "$stop_ms"
}
partitions() {
    local round count row
    for ((round = 0; round < rounds; round++)); do
        partitions_of 1000
        [ $round -gt 0 ] || partitions_of 10000 # once: it takes long
    done
    printf '\n%-60s %12s %12s\n' "partitions, of one topic" 1,000 10,000
    while IFS=: read -r row format text; do
        printf '%-60s %12s %12s\n' "$text" "$(cell "1000.$row" "$format")" "$(cell "10000.$row" "$format")"
    done <<'ROWS'
create:%.0f:create the topic, ms
first:%.0f:a record to the last of them right after that, ms
settled:%.0f:until the names of all are synced, ms
rss:%.1f:resident memory, idle, MiB
rss0:%.1f:the same without partitions, MiB
files:%.0f:open descriptors, idle
idle:%.2f:CPU when idle, % of one core
switches:%.0f:context switches a second when idle
clean:%.0f:start after a clean stop, ms from exec to ready
killed:%.0f:start after SIGKILL, ms from exec to ready
stop:%.0f:stop after the recovery, ms
unchanged:%.0f:stop when nothing was written, ms
ROWS
}

shards() { "$bin/bench_requests" --rounds "$rounds" --dir "$work"; }

machine
for topic in "${topics[@]}"; do "$topic"; done
