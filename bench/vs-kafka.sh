#!/usr/bin/env bash
# Kafka and Stele on this machine in one run: one node each, one replica, acks=all, records of 1 KiB, each with its own client, in turns;
# beside them bare loops that move the same bytes. Prints a table of medians; docs/bench.md says what a row means. Takes about six minutes.
#
#   vs-kafka.sh [--rounds N] [--mb N] [--seconds N] [--dir DIR]
#
#   --rounds N    turns of every measurement, after one that does not count (5)
#   --mb N        size of what is produced and consumed in a turn (1000); four times as much of the disk is taken
#   --seconds N   how long latency is measured in a turn (10)
#   --dir DIR     where both keep their data, on the file system to be measured (default: a directory under /tmp)
#
# `make bench-vs-kafka` builds first. Needs java 17 and mvn; the jars come from Maven Central, once (cluster-tests/kafka/kafka.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=vs-kafka usage_of=${BASH_SOURCE[0]} nodes=1
rounds=5 mb=1000 seconds=10 rate=50000 warm=5
. "$root/bench/vs_kafka_lib.sh"
export STELE_BOOTSTRAP=127.0.0.1:$port

start() {  # NODE: starts it on an empty directory; how long until it answered
    local probe started from
    "$bin/bench_bare" ready "$1" "$([ "$1" = kafka ] && echo $((port + 1)) || echo "$port")" >"$work/ready" &
    probe=$!
    if [ "$1" = kafka ]; then
        KAFKA_PEER_CONF=$work/kafka.conf "$kafka" start 1 >/dev/null
        from=$(cat "$work/node1/started_ns")
    else
        rm -rf "$work/stele"
        from=$(date +%s%N)
        "$bin/steled" --data "$work/stele" --listen "$STELE_BOOTSTRAP" --set log.segment.delete.delay.ms=1000 >"$work/steled.out" 2>"$work/steled.log" &
        stele_pids=($!)
    fi
    wait "$probe"
    note "$1.start" "$(awk -v a="$from" -v b="$(cat "$work/ready")" 'BEGIN {printf "%.1f", (b - a) / 1e6}')"
}

produce() {  # NODE TOPIC: 1 MB batches, as fast as it goes; records a second
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.ProducerPerformance --bootstrap-server "$servers" --topic "$2" --num-records "$records" \
            --record-size 1024 --throughput -1 --command-property acks=all batch.size=1048576 linger.ms=100 |
            grep -oE '[0-9.]+ records/sec' | tail -n 1 | cut -d' ' -f1
    else
        "$bin/stele" bench produce "$2" --partitions 1 --records "$records" --size 1024 --acks all --batch 1048576 --linger 100 -o json |
            field 'answer["records_a_second"]'
    fi
}

consume() {  # NODE TOPIC
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.ConsumerPerformance --bootstrap-server "$servers" --topic "$2" --num-records "$records" \
            --hide-header --timeout 60000 | awk -F', ' '{print $NF}'
    else
        "$bin/stele" bench consume "$2" --records "$records" --fetch 1048576 -o json | field 'answer["records_a_second"]'
    fi
}

latency() {  # NODE TOPIC: p50 and p99 in us, records a second
    if [ "$1" = kafka ]; then
        kafka_client "$root/bench/LatencyProducer.java" "$servers" "$2" "$rate" "$seconds" "$warm" acks=all
    else
        "$bin/stele" bench produce "$2" --partitions 1 --rate "$rate" --seconds "$seconds" --size 1024 --acks all -o json |
            field '*[answer["latency"][0][k] for k in ("p50_us", "p99_us")], answer["records_a_second"]'
    fi
}

forget() {  # NODE TOPIC
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.TopicCommand --bootstrap-server "$servers" --delete --topic "$2" >/dev/null
        wait_small "$work/node1/data"
    else
        "$bin/stele" topic delete "$2" >/dev/null
        wait_small "$work/stele"
    fi
}

measure() {  # NODE
    local before speed p50 p99
    settle
    before=$(ticks "$1")
    speed=$(produce "$1" "load$turn")
    note "$1.produce.cpu" "$(cpu_a_gb $(($(ticks "$1") - before)))"
    note "$1.produce.mbs" "$(mbs "$speed")"
    settle
    before=$(ticks "$1")
    speed=$(consume "$1" "load$turn")
    note "$1.consume.cpu" "$(cpu_a_gb $(($(ticks "$1") - before)))"
    note "$1.consume.mbs" "$(mbs "$speed")"
    forget "$1" "load$turn"
    settle
    latency "$1" "rate$turn" >"$work/latency"
    read -r p50 p99 speed <"$work/latency"
    note "$1.p50" "$p50"
    note "$1.p99" "$p99"
    note "$1.rate" "$speed"
    forget "$1" "rate$turn"
}

measure_bare() {
    local cpu speed
    settle
    "$bin/bench_bare" receive "$mb" "$work/bare" >"$work/loop"
    read -r cpu speed <"$work/loop"
    note bare.produce.cpu "$(awk -v c="$cpu" -v mb="$mb" 'BEGIN {printf "%.3f", c / (mb / 1000)}')"
    note bare.produce.mbs "$speed"
    settle
    "$bin/bench_bare" send "$mb" "$work/bare" >"$work/loop"
    read -r cpu speed <"$work/loop"
    note bare.consume.cpu "$(awk -v c="$cpu" -v mb="$mb" 'BEGIN {printf "%.3f", c / (mb / 1000)}')"
    note bare.consume.mbs "$speed"
    rm "$work/bare"
}

"$kafka" install
# Deleted topics go at once, so that the disk holds one turn's.
echo 'log.segment.delete.delay.ms=1000' >"$work/kafka.conf"
for ((turn = 1; turn <= 3; turn++)); do
    say "start $turn of 3"
    start kafka
    start stele
    [ $turn -lt 3 ] || break
    stop_stele
    "$kafka" stop
done
sleep 5
turn=1
for node in kafka stele; do note $node.idle "$(rss_mib $node)"; done
for ((turn = 0; turn <= rounds; turn++)); do
    say "turn $turn of $rounds"
    # Who comes first changes, so that what one leaves to the other does too.
    order='kafka stele'
    [ $((turn % 2)) -eq 0 ] || order='stele kafka'
    for node in $order; do measure $node; done
    measure_bare
done
turn=1
for node in kafka stele; do note $node.loaded "$(rss_mib $node)"; done

echo "$(machine); medians of $rounds turns of $mb MB"
row "" Kafka Stele "bare loop" goal
row "produce, 1 MB batches: CPU s of the node per GB" "$(f2 kafka.produce.cpu)" "$(f2 stele.produce.cpu)" "$(f2 bare.produce.cpu)" "0.9"
row "produce, 1 MB batches: MB/s" "$(f0 kafka.produce.mbs)" "$(f0 stele.produce.mbs)" "$(f0 bare.produce.mbs)"  ""
row "consume, 1 MiB fetches: CPU s of the node per GB" "$(f2 kafka.consume.cpu)" "$(f2 stele.consume.cpu)" "$(f2 bare.consume.cpu)" "0.25"
row "consume, 1 MiB fetches: MB/s" "$(f0 kafka.consume.mbs)" "$(f0 stele.consume.mbs)" "$(f0 bare.consume.mbs)" ""
row "produce latency at $rate records/s: p50 ms" "$(ms kafka.p50)" "$(ms stele.p50)" "" "0.3"
row "produce latency at $rate records/s: p99 ms" "$(ms kafka.p99)" "$(ms stele.p99)" "" "0.7"
row "records/s that came in" "$(f0 kafka.rate)" "$(f0 stele.rate)" "" "$rate"
row "resident memory, idle after the start: MiB" "$(f2 kafka.idle)" "$(f2 stele.idle)" "" "15"
row "resident memory, after all turns: MiB" "$(f2 kafka.loaded)" "$(f2 stele.loaded)" "" ""
row "from exec to the first answer: ms" "$(f0 kafka.start)" "$(f0 stele.start)" "" "100"
