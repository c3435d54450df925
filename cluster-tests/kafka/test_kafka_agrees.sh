#!/usr/bin/env bash
# Real Kafka reads what we wrote. Its kafka-dump-log finds nothing wrong with our logs, indexes, snapshots and transaction
# indexes of every kind, after a clean stop and after recovery, and prints the lines that `stele dump` prints.
# A real broker, given directories that we wrote, with and without the clean-shutdown marker, starts on them and serves the
# same records, offsets, times, producers and transactions, and goes on from there.
# Needs the jars of kafka.sh (Maven Central, or what Maven has of it); without them it is skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
bin=$root/build/bin
write_logs=${WRITE_LOGS:-$root/build/release/bin/write_logs}
work=$(mktemp -d)
export KAFKA_PEER=${KAFKA_PEER:-$root/build/kafka-peer} KAFKA_HEAP=512m LC_ALL=C.UTF-8
export KAFKA_JAVA_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1" # short lives
kafka=$here/kafka.sh
node=
stop_node() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; node=; fi; }
trap 'stop_node -KILL; "$kafka" stop; rm -rf "$work"' EXIT
die() { echo "test_kafka_agrees: $*"; exit 1; }
step() { echo "$((SECONDS)) s: $*"; }

if ! timeout 600 "$kafka" install >"$work/install" 2>&1; then
    cat "$work/install"
    # Only a repository out of reach excuses.
    if "$kafka" answers; then die "kafka.sh install failed although Maven Central answers"; fi
    echo "Maven Central does not answer, and the jars of Kafka are not cached"
    exit 77
fi

# dump_agrees DIR...: every file of these directories.
dump_agrees() {
    local files=() base
    mapfile -t files < <(find "$@" -type f \( -name '*.log' -o -name '*.index' -o -name '*.timeindex' -o -name '*.txnindex' -o -name '*.snapshot' \) | sort)
    "$kafka" dump-log --deep-iteration --print-data-log --files "$(IFS=,; echo "${files[*]}")" >"$work/want" 2>"$work/complaints" ||
        { cat "$work/complaints"; die "kafka-dump-log failed"; }
    "$bin/stele" dump --print-records "${files[@]}" >"$work/got" || die "stele dump failed"
    cmp "$work/want" "$work/got" || { diff "$work/want" "$work/got" | cut -c1-300 | head -n 20; die "stele dump differs from kafka-dump-log"; }
    # It says of every segment that does not begin at 0, Kafka's own too, that it does not follow offset -1.
    while read -r file; do
        [[ $file == *.log ]] || continue
        base=$((10#$(basename "$file" .log)))
        if [ "$base" -gt 0 ] && grep -q '^baseOffset' <("$bin/stele" dump "$file"); then
            printf 'Non-consecutive offsets in %s\n  -1 is followed by %d\n' "$file" "$base"
        fi
    done < <(printf '%s\n' "${files[@]}") | paste - - | sort >"$work/expected"
    paste - - <"$work/complaints" | sort >"$work/said"
    diff "$work/expected" "$work/said" || die "kafka-dump-log complains"
    step "${#files[@]} files, $(wc -l <"$work/want") lines agree with kafka-dump-log: $(basename -a "$@" | paste -sd ' ')"
}

cd "$work"
for end in clean recovered; do
    mkdir "$end"
    "$write_logs" "$end" "$end" "$end" >"$end.expected"
    "$bin/stele" dump --verify "$end" >findings || { cat findings; die "$end is not sound"; }
done

# --- a node that dies in a load ---

codecs="none gzip snappy lz4 zstd"
start_node() {
    rm -f out; mkfifo out
    "$bin/steled" --data node --listen 127.0.0.1:0 --set log.segment.bytes=500000 >out 2>>steled.log &
    node=$!
    read -r word address <out || { cat steled.log; die "steled gave no ready line"; }
    export STELE_BOOTSTRAP=$address
}
awk 'BEGIN {for (i = 0; i < 2000; i++) {printf "key-%d:record %d", i % 97, i; for (k = 0; k < 30; k++) printf " %x", (i + 1) * (k + 7) * 7919; print ""}}' >lines
start_node
producers=()
for codec in $codecs; do
    "$bin/stele" topic create "$codec"
    head -n 1000 lines | "$bin/stele" produce "$codec" -K : --compression "$codec"
done
for codec in $codecs; do
    while head -n 100 lines; do sleep 0.02; done 2>/dev/null | "$bin/stele" produce "$codec" -K : --compression "$codec" --report "report.$codec" 2>/dev/null &
    producers+=($!)
done
for codec in $codecs; do
    until [ "$( (wc -l <"report.$codec") 2>/dev/null || echo 0)" -gt 1000 ]; do
        kill -0 "$node" "${producers[@]}" 2>/dev/null || die "steled or a producer ended"
    done
done
stop_node -KILL
for pid in "${producers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
cp -r node died
start_node
stop_node -KILL
cp -r node restarted
start_node
for codec in $codecs; do
    "$bin/stele" consume "$codec" --from beginning --to end -f '%o %T %K %S %k %s\n' >"consumed.$codec"
    # What was acknowledged is there.
    [ "$(wc -l <"consumed.$codec")" -ge $((1000 + $(wc -l <"report.$codec") - 1)) ] || die "$codec: acknowledged records are gone"
done
stop_node -TERM
for end in died restarted node; do
    "$bin/stele" dump --verify "$end" >findings || { cat findings; die "$end is not sound"; }
done
step "a node died in a load at $(cat report.* | wc -l) acknowledged records, and came back"
dump_agrees "$work/clean" "$work/recovered" "$work/restarted" "$work/node"

# --- the broker ---

KAFKA_PORT=$(python3 -c 'import random, socket
while True:
    port = random.randrange(20000, 22000)
    try:
        for offset in (1, 10001):
            socket.socket().bind(("127.0.0.1", port + offset))
        print(port)
        break
    except OSError:
        pass')
export KAFKA_PORT KAFKA_PEER_CONF=$work/conf
servers=127.0.0.1:$((KAFKA_PORT + 1))
# The records are of today and of hours ago; nothing of them may age while the broker looks at them.
cat >"$KAFKA_PEER_CONF" <<P
log.dirs=$work/kafka/clean,$work/kafka/killed
metadata.log.dir=$work/kafka/metadata
log.retention.ms=-1
producer.id.expiration.ms=2147483647
P
"$kafka" start 1 >/dev/null
step "the broker is up"
{ "$write_logs" topics clean; "$write_logs" topics killed; printf 'stopped.%s\n' $codecs; printf 'died.%s\n' $codecs; } >topics
"$kafka" tool "$here/Reader.java" create "$servers" <topics >ids
"$kafka" stop
step "$(wc -l <ids) topics were made, the broker is down"

# Our directories in the place of Kafka's, with the topic ids that Kafka knows.
rm -rf kafka/clean/*-0 kafka/killed/*-0 kafka/*/*-checkpoint kafka/*/.kafka_cleanshutdown
for end in clean killed; do
    "$write_logs" $end kafka/$end $end ids >$end.expected
done
adopt() { # FROM PREFIX TO: the partitions of a node's directory, and their lines of its checkpoints
    local codec id file
    for codec in $codecs; do
        cp -r "$1/$codec-0" "$3/$2.$codec-0"
        id=$(awk -v topic="$2.$codec" '$1 == topic {print $2}' ids)
        printf 'version: 0\ntopic_id: %s' "$id" >"$3/$2.$codec-0/partition.metadata"
    done
    for file in recovery-point log-start replication; do
        file=$file-offset-checkpoint
        { tail -n +3 "$3/$file"; [ ! -f "$1/$file" ] || tail -n +3 "$1/$file" | sed "/^__/d; s/^/$2./"; } >entries
        { printf '0\n%d\n' "$(wc -l <entries)"; cat entries; } >"$3/$file"
    done
}
adopt node stopped kafka/clean
adopt died died kafka/killed
for end in clean killed; do
    "$bin/stele" dump --verify kafka/$end >findings || { cat findings; die "$end is not sound"; }
done
python3 - $codecs >node.expected <<'P'
import sys
for topic in ["%s.%s" % (prefix, codec) for prefix in ("stopped", "died") for codec in sys.argv[1:]]:
    latest = (-1, -1)
    for offset, line in enumerate(open("consumed." + topic.split(".")[1])):
        at, time, key_size, size, key, value = line[:-1].split(" ", 5)
        if int(at) != offset or len(key) != int(key_size) or len(value) != int(size):
            sys.exit("not the line that it should be: " + line)
        latest = latest if latest[1] >= int(time) else (offset, int(time))
        print("record %s %d 0 CreateTime %s %s %s" % (topic, offset, time, key.encode().hex(), value.encode().hex()))
        print("committed %s %d" % (topic, offset))
        if offset % 1000 == 0:
            print("time %s 0 0 %s" % (topic, time) if offset == 0 else "time %s %d - -" % (topic, int(time) + 86400000))
    print("latest %s %d %d" % (topic, *latest))
    print("offsets %s 0 %d %d" % (topic, offset + 1, offset + 1))
P
# The client's producers are idempotent: what is known of each is its last batch.
for topic in $(printf 'clean/stopped.%s killed/died.%s ' $(for codec in $codecs; do echo "$codec $codec"; done)); do
    for log in kafka/$topic-0/*.log; do "$bin/stele" dump "$log"; done | awk -v topic="${topic#*/}" '
        /^baseOffset:/ {for (i = 1; i < NF; i++) value[$i] = $(i + 1); id = value["producerId:"]
                        last[id] = value["producerEpoch:"] " " value["lastSequence:"] " " value["CreateTime:"]}
        END {for (id in last) if (id >= 0) print "producer", topic, id, last[id], -1, -1}'
done >>node.expected
cat clean.expected killed.expected node.expected >expected
"$kafka" restart 1
step "the broker is up on our logs"
"$kafka" tool "$here/Reader.java" answer "$servers" expected >answers
sort -u expected >want; sort -u answers >got
diff want got >difference || { cut -c1-200 difference | awk 'NR <= 40'; die "Kafka serves something else"; }
step "$(grep -c '^record' answers) records, $(grep -c '^time' answers) times, $(grep -c '^producer' answers) producers are served as they were written"

# It goes on from there: the open transactions end, a record comes after the last one, and what it leaves is sound to us.
"$kafka" tool "$here/Reader.java" append "$servers" expected | sort >got
awk '$1 == "offsets" {end[$2] = $5} $1 == "producer" && $8 != -1 {end[$2]++} END {for (t in end) print "end", t, end[t] + 1, end[t] + 1}' expected |
    sort >want
diff want got || die "Kafka does not append at the end"
"$kafka" stop
for end in clean killed; do
    "$bin/stele" dump --verify kafka/$end >findings || true
    # Kafka cuts the epochs that it read at the log's start only where that has a checkpoint.
    if grep '^damage' findings | grep -v 'killed.emptied-0/leader-epoch-checkpoint:-1: epoch 0, from offset 0 on'; then
        die "what Kafka made of $end is not sound"
    fi
    tail -n 1 findings | grep -q ' batches' || die "no verdict on $end"
done
# It believed the marker, recovered what had none, and complained only of the batches that we tore.
said=$KAFKA_PEER/node1/out.log
grep -q "Skipping recovery of $(ls -d kafka/clean/*-0 | wc -l) logs from $work/kafka/clean " "$said" || die "Kafka did not take our marker"
grep -q "Recovering $(ls -d kafka/killed/*-0 | wc -l) logs from $work/kafka/killed " "$said" || die "Kafka did not recover what has no marker"
grep -E ' (WARN|ERROR|FATAL) ' "$said" |
    grep -vE 'QuorumController|NodeToControllerChannelManager|/kafka/killed\] Corruption found in segment|Found invalid messages in log segment [^ ]*/kafka/killed/killed\.' >complaints || true
[ ! -s complaints ] || { cat complaints; die "Kafka complains"; }
step "done"
