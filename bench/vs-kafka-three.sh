#!/usr/bin/env bash
# Kafka and Stele on this machine in one run: clusters of three nodes each, one after the other, three replicas, min.insync.replicas=2,
# acks=all, each with its own client, in turns; beside them bare loops that move the same bytes. Prints a table of medians; the
# comments below say what a row means.
#
#   vs-kafka-three.sh [--rounds N] [--mb N] [--seconds N] [--kills N] [--dir DIR] [--only kafka|stele]
#
#   --rounds N    turns of every measurement, after one that does not count (3)
#   --mb N        size of what is produced in a turn (500); twelve times as much of the disk is taken
#   --seconds N   how long latency and requests are measured in a turn (10)
#   --kills N     leaders, and then controllers, that are killed (50); Kafka's a tenth of it
#   --dir DIR     where both keep their data, on the file system to be measured (default: a directory under /tmp)
#   --only WHO    measures one of them, for a look
#
# `make bench-vs-kafka` builds first. Needs java 17 and mvn; the jars come from Maven Central, once (cluster-tests/kafka/kafka.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=vs-kafka-three usage_of=${BASH_SOURCE[0]} nodes=3
rounds=3 mb=500 seconds=10 rate=20000 warm=5 kills=50 only='' many=10000
. "$root/bench/vs_kafka_lib.sh"
kafka_servers=$servers,127.0.0.1:$((port + 2)),127.0.0.1:$((port + 3))
stele_servers=127.0.0.1:$((port + 101)),127.0.0.1:$((port + 102)),127.0.0.1:$((port + 103))
export STELE_BOOTSTRAP=$stele_servers

run_node() {  # I [SETTING=VALUE]...
    local i=$1 one arguments=(); shift
    for one in "$@"; do arguments+=(--set "$one"); done
    "$bin/steled" --data "$work/stele$i" --listen "127.0.0.1:$((port + 100 + i))" --peers "$stele_servers" --node "$i" \
        --set log.segment.delete.delay.ms=1000 "${arguments[@]}" >"$work/steled$i.out" 2>>"$work/steled$i.log" &
    stele_pids[i]=$!
}

start() {  # WHO [SETTING=VALUE]...: on empty directories
    local i who=$1; shift
    if [ "$who" = kafka ]; then
        { printf '%s\n' log.segment.delete.delay.ms=1000 min.insync.replicas=2 default.replication.factor=3 "$@"; } >"$work/kafka.conf"
        KAFKA_PEER_CONF=$work/kafka.conf "$kafka" start 3 >/dev/null
    else
        rm -rf "$work"/stele[123]
        for i in 1 2 3; do run_node $i "$@"; done
    fi
    wait_ready "$who"
}
wait_ready() {  # WHO: until a topic of three replicas can be made
    local until=$((SECONDS + 60))
    until make_topic "$1" ready-$RANDOM 1 2>/dev/null; do
        [ $SECONDS -lt $until ] || die "$1 is not ready"
        sleep 0.05
    done
}
stop() { if [ "$1" = kafka ]; then "$kafka" stop; rm -rf "$work"/node[123]; else stop_stele; rm -rf "$work"/stele[123]; fi; }

make_topic() {  # WHO TOPIC PARTITIONS [SETTING=VALUE]...
    local who=$1 topic=$2 partitions=$3 one arguments=(); shift 3
    for one in "$@"; do arguments+=(--config "$one"); done
    if [ "$who" = kafka ]; then
        kafka_client org.apache.kafka.tools.TopicCommand --bootstrap-server "$kafka_servers" --create --topic "$topic" --partitions "$partitions" \
            --replication-factor 3 "${arguments[@]}" >/dev/null
    else
        "$bin/stele" topic create "$topic" --partitions "$partitions" --replicas 3 "${arguments[@]}" >/dev/null
    fi
}
forget() {  # WHO TOPIC
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.TopicCommand --bootstrap-server "$kafka_servers" --delete --topic "$2" >/dev/null
        wait_small "$work"/node[123]/data
    else
        "$bin/stele" topic delete "$2" >/dev/null
        wait_small "$work"/stele[123]
    fi
}

produce() {  # WHO TOPIC RECORDS SIZE BATCH LINGER: records a second
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.ProducerPerformance --bootstrap-server "$kafka_servers" --topic "$2" --num-records "$3" \
            --record-size "$4" --throughput -1 --command-property acks=all batch.size="$5" linger.ms="$6" |
            grep -oE '[0-9.]+ records/sec' | tail -n 1 | cut -d' ' -f1
    else
        "$bin/stele" bench produce "$2" --records "$3" --size "$4" --acks all --batch "$5" --linger "$6" -o json | field 'answer["records_a_second"]'
    fi
}
latency() {  # WHO TOPIC: p50 and p99 in us, records a second
    if [ "$1" = kafka ]; then
        kafka_client "$root/bench/LatencyProducer.java" "$kafka_servers" "$2" "$rate" "$seconds" "$warm" acks=all linger.ms=1
    else
        "$bin/stele" bench produce "$2" --rate "$rate" --seconds "$seconds" --size 1024 --acks all --linger 1 -o json |
            field '*[answer["latency"][0][k] for k in ("p50_us", "p99_us")], answer["records_a_second"]'
    fi
}

producers() {  # WHO TOPIC PRODUCERS: requests of a single record a second, of so many connections
    if [ "$1" = kafka ]; then
        kafka_client "$root/bench/ManyProducers.java" "$kafka_servers" "$2" "$3" "$seconds"
    else
        "$bin/bench_producers" "$stele_servers" "$2" "$3" "$seconds"
    fi
}

measure() {  # WHO: on a cluster of its own
    local before speed p50 p99 count synced=flush.before.ack=true singles=40000
    [ "$1" = stele ] || { synced=flush.messages=1 singles=4000; }
    make_topic "$1" "load$turn" 1
    settle
    before=$(ticks "$1")
    speed=$(produce "$1" "load$turn" "$records" 1024 1048576 100)
    note "$1.produce.cpu" "$(cpu_a_gb $(($(ticks "$1") - before)))"
    note "$1.produce.mbs" "$(mbs "$speed")"
    forget "$1" "load$turn"
    make_topic "$1" "rate$turn" 1
    settle
    latency "$1" "rate$turn" >"$work/latency"
    read -r p50 p99 speed <"$work/latency"
    note "$1.p50" "$p50"
    note "$1.p99" "$p99"
    note "$1.rate" "$speed"
    note "$1.single" "$(produce "$1" "rate$turn" $((seconds * singles)) 100 1 0)"
    for count in 4 16; do note "$1.single.$count" "$(producers "$1" "rate$turn" $count)"; done
    forget "$1" "rate$turn"
    for partitions in 1 100; do
        make_topic "$1" "sync$partitions-$turn" $partitions "$synced"
        settle
        note "$1.sync$partitions.mbs" "$(mbs "$(produce "$1" "sync$partitions-$turn" $((records / 2)) 1024 1048576 100)")"
        note "$1.sync$partitions.single" "$(produce "$1" "sync$partitions-$turn" $((seconds * singles / 2)) 100 1 0)"
        for count in 4 16; do note "$1.sync$partitions.single.$count" "$(producers "$1" "sync$partitions-$turn" $count)"; done
        forget "$1" "sync$partitions-$turn"
    done
}

# One loop for each write and each copy through a socket: a leader takes, two followers take, the leader gives twice.
measure_bare() {
    local cpu speed sum=0 i
    settle
    for i in 1 2 3; do
        "$bin/bench_bare" receive "$mb" "$work/bare" >"$work/loop"
        read -r cpu speed <"$work/loop"
        sum=$(awk -v a="$sum" -v b="$cpu" 'BEGIN {print a + b}')
    done
    for i in 1 2; do
        "$bin/bench_bare" send "$mb" "$work/bare" >"$work/loop"
        read -r cpu speed <"$work/loop"
        sum=$(awk -v a="$sum" -v b="$cpu" 'BEGIN {print a + b}')
    done
    note bare.produce.cpu "$(awk -v c="$sum" -v mb="$mb" 'BEGIN {printf "%.3f", c / (mb / 1000)}')"
    rm "$work/bare"
}

# described WHO TOPIC: leader and how many are in sync, of partition 0.
described() {
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.TopicCommand --bootstrap-server "$kafka_servers" --describe --topic "$2" |
            awk '/Partition: 0/ {for (i = 1; i < NF; i++) {if ($i == "Leader:") leader = $(i + 1); if ($i == "Isr:") n = split($(i + 1), isr, ",")}} END {print leader, n}'
    else
        "$bin/stele" topic describe "$2" -o json 2>/dev/null | field '*[(one["leader"], len(one["isr"])) for one in answer["topics"][0]["partitions"][:1]][0]' 2>/dev/null || echo 0 0
    fi
}

controller() {  # WHO
    if [ "$1" = kafka ]; then
        kafka_client org.apache.kafka.tools.MetadataQuorumCommand --bootstrap-server "$kafka_servers" describe --status | awk '/^LeaderId:/ {print $2}'
    else
        "$bin/stele" quorum status -o json | field 'answer["leader"]'
    fi
}

# The node that leads (or the active controller, which holds a replica too) dies, and comes back when writing goes on; the next one dies when all
# are in sync.
measure_kills() {  # WHO COUNT leader|controller
    local i leader isr gaps="$work/gaps.$1" lines until
    make_topic "$1" gap 1
    : >"$gaps"
    if [ "$1" = kafka ]; then
        KAFKA_HEAP=512m "$kafka" tool "$root/bench/GapProducer.java" "$kafka_servers" gap 100 >"$gaps" 2>>"$work/client.log" &
    else
        "$bin/bench_gap" "$stele_servers" gap 20 >"$gaps" &
    fi
    local client=$!
    for ((i = 1; i <= $2; i++)); do
        until=$((SECONDS + 90))
        isr=0
        while [ "$isr" -lt 3 ]; do
            [ $SECONDS -lt $until ] || die "$1: not in sync before kill $i"
            sleep 0.3
            read -r leader isr < <(described "$1" gap)
        done
        sleep 1
        [ "$3" = leader ] || leader=$(controller "$1")
        lines=$(wc -l <"$gaps")
        if [ "$1" = kafka ]; then kill -KILL "$("$kafka" pid "$leader")"; else kill -KILL "${stele_pids[leader]}"; wait "${stele_pids[leader]}" 2>/dev/null || true; fi
        while [ "$(wc -l <"$gaps")" -le "$lines" ] && [ $SECONDS -lt $until ]; do sleep 0.05; done
        sleep 1
        note "$1.gap.$3" "$(tail -n +$((lines + 1)) "$gaps" | sort -n | tail -n 1)"
        if [ "$1" = kafka ]; then "$kafka" restart "$leader"; else run_node "$leader"; fi
    done
    kill "$client"
    wait "$client" 2>/dev/null || true
}

# Partitions in number: on a cluster of its own. ext4 gives out no inode again that was freed within the last minute, and searches on and on
# among those of what was measured before: so it waits until they are old. Kafka's controller takes no more than 10,000 records for a request,
# so there are two topics; they are made when the directories of all their partitions are there, on every node.
measure_many() {  # WHO
    local from i before after dirs="$work/$1" until
    [ "$1" = stele ] || dirs=$work/node
    settle
    sleep 65
    start "$1"
    from=$EPOCHREALTIME
    for i in 1 2; do make_topic "$1" many$i $((many / 2)); done
    until=$((SECONDS + 300))
    for i in 1 2 3; do
        while [ "$(find "$dirs$i" -maxdepth 2 -name 'many*' -printf . | wc -c)" -lt $many ]; do
            [ $SECONDS -lt $until ] || die "$1: not all of $many partitions are on node $i"
            sleep 0.05
        done
    done
    note "$1.many.make" "$(awk -v a="$from" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.2f", b - a}')"
    sleep 20
    before=$(ticks "$1")
    sleep 20
    after=$(ticks "$1")
    note "$1.many.idle" "$(awk -v t=$((after - before)) -v hz="$(getconf CLK_TCK)" 'BEGIN {printf "%.2f", t / hz / 20 / 3 * 100}')"
    note "$1.many.rss" "$(rss_mib "$1")"
    from=$EPOCHREALTIME
    if [ "$1" = kafka ]; then
        for i in 1 2 3; do kill -KILL "$("$kafka" pid $i)"; done
        from=$EPOCHREALTIME
        for i in 1 2 3; do "$kafka" restart $i & done
        wait
    else
        for i in 1 2 3; do kill -KILL "${stele_pids[i]}"; wait "${stele_pids[i]}" 2>/dev/null || true; done
        from=$EPOCHREALTIME
        for i in 1 2 3; do run_node $i; done
    fi
    until=$((SECONDS + 180))
    until produce "$1" many1 100 100 1 0 >/dev/null 2>&1; do [ $SECONDS -lt $until ] || die "$1 with $many partitions is not back"; done
    note "$1.many.start" "$(awk -v a="$from" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.2f", b - a}')"
    stop "$1"
}

who=${only:-kafka stele}
case " $who " in *' kafka '*) "$kafka" install ;; esac
for ((turn = 0; turn <= rounds; turn++)); do
    say "turn $turn of $rounds"
    # Who comes first changes, so that what one leaves to the other does too.
    order=$who
    [ -n "$only" ] || [ $((turn % 2)) -eq 0 ] || order='stele kafka'
    for one in $order; do
        start "$one"
        measure "$one"
        stop "$one"
    done
    measure_bare
done
turn=1
for one in $who; do
    for role in leader controller; do
        say "kills of the $role of $one"
        start "$one"
        measure_kills "$one" $([ "$one" = kafka ] && echo $((kills / 10 + 1)) || echo "$kills") $role
        stop "$one"
    done
    say "$many partitions of $one"
    measure_many "$one"
done
for one in kafka stele; do # what was not measured
    for key in produce.cpu produce.mbs p50 p99 rate single{,.4,.16} sync1.mbs sync1.single{,.4,.16} sync100.mbs sync100.single{,.4,.16} gap.leader gap.controller many.make many.idle many.rss many.start; do
        [ -f "$work/figure.$one.$key" ] || echo 0 >"$work/figure.$one.$key"
    done
done

pair() { row "$1" "$("$2" "kafka.$3")" "$("$2" "stele.$3")" "${5:-}" "$4"; }
q99() { printf '%.0f' "$(quantile "$1" 0.99)"; }
echo "$(machine); medians of $rounds turns of $mb MB"
row "three nodes, three replicas, acks=all" Kafka Stele "bare loop" goal
pair "produce, 1 MB batches: CPU s of all nodes per GB" f2 produce.cpu "3" "$(f2 bare.produce.cpu)"
pair "produce, 1 MB batches: MB/s" f0 produce.mbs "3 times"
pair "produce latency at $rate records/s, linger 1 ms: p50 ms" ms p50 "1"
pair "produce latency at $rate records/s, linger 1 ms: p99 ms" ms p99 "4"
pair "records/s that came in" f0 rate "$rate"
pair "requests of a single record: 1/s" f0 single "40000"
for count in 4 16; do pair "the same, $count producers: 1/s" f0 single.$count ""; done
pair "synced before each answer: MB/s" f0 sync1.mbs "3 times"
pair "synced before each answer: requests/s" f0 sync1.single "20000"
for count in 4 16; do pair "synced, $count producers: requests/s" f0 sync1.single.$count ""; done
pair "synced, 100 partitions: MB/s" f0 sync100.mbs "3 times"
pair "synced, 100 partitions: requests/s" f0 sync100.single "20000"
for count in 4 16; do pair "synced, 100 partitions, $count producers: requests/s" f0 sync100.single.$count ""; done
for role in leader controller; do
    pair "$role killed: longest gap between two answers, median ms" f0 gap.$role "400"
    pair "$role killed: 99 % of the gaps, ms" q99 gap.$role "1000"
done
pair "$many partitions: creation s" f2 many.make "3"
pair "$many partitions: idle CPU of a node, %" f2 many.idle "1"
pair "$many partitions: largest node, MiB" f0 many.rss "150"
pair "$many partitions: from SIGKILL of all to a write, s" f2 many.start "2"
