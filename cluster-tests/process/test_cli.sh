#!/usr/bin/env bash
# Every command of stele against a real node: what it prints, its JSON, its exit codes, and what a wrong line gets.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
stele=$bin/stele
work=$(mktemp -d)
node=
trap '[ -z "$node" ] || kill -KILL "$node" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_cli: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
# gives CODE TEXT COMMAND...: that exit code, and the text on standard error ("" for none)
gives() {
    local code=$1 text=$2 status=0
    shift 2
    "$@" >"$work/said" 2>"$work/errors" || status=$?
    [ "$status" = "$code" ] || { cat "$work/said" "$work/errors"; die "$* gave $status, not $code"; }
    [ -z "$text" ] || grep -qF -- "$text" "$work/errors" || { cat "$work/errors"; die "$* does not say '$text'"; }
    [ "$code" != 0 ] || [ -n "$text" ] || [ ! -s "$work/errors" ] || { cat "$work/errors"; die "$* said something"; }
}
# json EXPRESSION COMMAND...: done, its output is JSON (a document, or one a line), of which the Python expression over `d` holds
json() {
    local expression=$1
    shift
    "$@" -o json >"$work/json" || die "$* -o json gave $?"
    python3 - "$work/json" "$expression" <<'PYTHON' || { cat "$work/json"; die "$* -o json: not $expression"; }
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
try:
    d = json.loads(text)
except ValueError:
    d = [json.loads(line) for line in text.splitlines()]
sys.exit(not eval(sys.argv[2]))
PYTHON
}

mkfifo "$work/out"
"$bin/steled" --data "$work/data" --listen 127.0.0.1:0 --set log.segment.bytes=200000 >"$work/out" 2>"$work/steled.log" &
node=$!
read -r word address <"$work/out" && [ "$word" = ready ] || die "no ready line"
export STELE_BOOTSTRAP=$address

# topics
gives 0 "" "$stele" topic create orders -p 3 --config retention.ms=86400000
gives 4 "exists already" "$stele" topic create orders
gives 0 "" "$stele" topic create orders --if-missing
gives 1 "nearest is 'retention.ms'" "$stele" topic create other --config retention.mss=1
gives 1 "the factor cannot be 2" "$stele" topic create other -r 2
json 'd["created"]' "$stele" topic create empty -r 1
gives 0 "" "$stele" topic list
grep -qE '^orders +3 ' "$work/said" || die "topic list"
json '[t["name"] for t in d["topics"]] == ["empty", "orders"] and d["topics"][1]["partitions"] == 3' "$stele" topic list
gives 0 "" "$stele" topic describe orders
grep -qE '^retention.ms +86400000$' "$work/said" && grep -qE '^ +2 +1 ' "$work/said" || die "topic describe"
json 'len(d["topics"]) == 1 and len(d["topics"][0]["partitions"]) == 3 and d["topics"][0]["partitions"][2]["leader"] == 1' "$stele" topic describe orders
json '[(p["high_watermark"], p["log_end_offset"], p["lag"], p["replica_states"][0]["synced_offset"] is not None) for p in d["topics"][0]["partitions"]] == [(0, 0, [0], True)] * 3' \
    "$stele" topic describe orders
json 'd["topics"] == []' "$stele" topic describe --ailing
gives 3 "missing" "$stele" topic describe orders missing
json 'd["altered"]' "$stele" topic alter orders -p 4 --config segment.bytes=20000 --unset retention.ms
json 'len(d["topics"][0]["partitions"]) == 4 and [s["name"] for s in d["topics"][0]["settings"]] == ["segment.bytes"]' "$stele" topic describe orders
gives 1 "" "$stele" topic alter orders -p 2
gives 0 "" "$stele" topic alter orders --check --config segment.bytes=30000
gives 2 "nothing to change" "$stele" topic alter orders
gives 3 "" "$stele" topic alter missing -p 2

# records in and out
seq 1 9000 >"$work/numbers"
json 'd == {"topic": "orders", "sent": 9000, "acknowledged": 9000, "failed": 0}' "$stele" produce orders -l "$work/numbers"
printf 'k\xff:a"\\\tb\n' | "$stele" produce empty -K :
json 'len(d) == 9000 and sorted(int(r["value"]) for r in d) == list(range(1, 9001)) and d[0]["key"] is None' "$stele" consume orders --to end
json 'd["key_base64"] == "a/8=" and d["value"] == "a\"\\\tb" and d["offset"] == 0 and d["headers"] == []' "$stele" consume empty --to end
[ "$("$stele" consume empty --from -1h --to end -f '%K %o')" = "2 0" ] || die "a relative time"
json '[(t["name"], sum(p["high_watermark"] for p in t["partitions"])) for t in d["topics"]] == [("empty", 1), ("orders", 9000)]' "$stele" topic describe
gives 3 "there is no topic" "$stele" consume missing
gives 3 "" bash -c "echo x | '$stele' produce missing"
gives 1 "ends at offset" "$stele" consume empty --from 99

# offsets by time: one record an hour ago and one now cannot be sent by lines, so it goes by what there is
sleep_until=$(($(date +%s%N) / 1000000 + 2))
while [ "$(($(date +%s%N) / 1000000))" -lt "$sleep_until" ]; do :; done
middle=$(($(date +%s%N) / 1000000))
seq 1 1000 | "$stele" produce orders
json 'sum(p["spans"][0]["offsets"] for p in d["partitions"]) == 9000 and sum(p["spans"][1]["offsets"] for p in d["partitions"]) == 1000' \
    "$stele" topic offsets orders --at "@$middle" beginning end
gives 0 "" "$stele" topic offsets orders "@$middle" --at beginning end
grep -qE '^ +total +9000 +1000$' "$work/said" || { cat "$work/said"; die "topic offsets"; }
gives 0 "" "$stele" topic offsets orders
gives 2 "no time" "$stele" topic offsets orders --at 17
gives 3 "" "$stele" topic offsets missing

# the oldest records go
end=$("$stele" topic offsets orders -o json | python3 -c 'import json, sys; print(max((p["spans"][0]["to"], p["partition"]) for p in json.load(sys.stdin)["partitions"])[1])')
json 'd["partitions"] == [{"partition": '"$end"', "start": 100}]' "$stele" topic trim "orders/$end" --before 100
[ "$("$stele" consume orders -p "$end" --to end -f '%o\n' | head -n 1)" = 100 ] || die "records below the trim are there"
gives 0 "records were deleted" "$stele" consume orders -p "$end" --from 5 --to end
gives 2 "write orders/PARTITION" "$stele" topic trim orders --before 100
gives 2 "--before PLACE is missing" "$stele" topic trim orders
gives 1 "" "$stele" topic trim "orders/$end" --before 99999999

# logs
gives 0 "" "$stele" log explain "orders/$end"
grep -q '^Segments' "$work/said" && grep -q 'segment.bytes reached' "$work/said" && grep -q 'retention.ms until' "$work/said" || { cat "$work/said"; die "log explain"; }
json 'len(d["logs"]) == 1 and d["logs"][0]["log_start_offset"] == 100 and d["logs"][0]["segments"][-1]["rolled_because"] == "" and len(d["logs"][0]["events"]) > 0' \
    "$stele" log explain "orders/$end"
json 'len(d["logs"]) == 4' "$stele" log explain orders
gives 3 "" "$stele" log explain missing
gives 3 "" "$stele" log explain orders/17
gives 2 "want TOPIC" "$stele" log explain orders/x
gives 0 "" "$stele" log stats orders --buckets
grep -qE '^record bytes ' "$work/said" && grep -q '####' "$work/said" && grep -q 'roll interval' "$work/said" || { cat "$work/said"; die "log stats"; }
json 'd["topics"][0]["partitions"] == 4 and {h["name"]: h for h in d["topics"][0]["histograms"]}["record bytes"]["count"] > 5000' "$stele" log stats orders
json '[t["topic"] for t in d["topics"]] == ["empty", "orders"]' "$stele" log stats --all
gives 2 "want TOPIC" "$stele" log stats

# settings
json 'any(s["name"] == "log.segment.bytes" and s["value"] == "200000" and s["origin"] == "start" and s["origin_detail"] == "--set" for s in d["settings"])' "$stele" config describe
json '[(s["name"], s["origin"]) for s in d["settings"]] == [("segment.bytes", "topic")]' "$stele" config describe --topic orders segment.bytes
json 'd["changed"]' "$stele" config set --topic orders retention.ms=3600000
json 'not d["changed"]' "$stele" config set --check --topic orders retention.ms=7200000
json 'd["settings"][0]["value"] == "3600000"' "$stele" config describe --topic orders retention.ms
json 'd["changed"]' "$stele" config set --cluster num.partitions=2
json 'd["changed"]' "$stele" config unset --topic orders retention.ms
json '[c["value"] for c in d["changes"] if c["name"] == "retention.ms"][-2:] == ["3600000", None]' "$stele" config history --topic orders
gives 0 "" "$stele" config history --cluster
grep -q 'num.partitions' "$work/said" || die "config history"
# what the measured rates say: of segments that rolled three times and more in this minute, of an index that was full, and of nothing
json 'd["settings"][0]["warning"].startswith("orders/") and "because they were full, more often than every 10 min" in d["settings"][0]["warning"]' \
    "$stele" config describe --topic orders segment.bytes
gives 0 "warning: segment.bytes: orders/" "$stele" config describe --topic orders segment.bytes
gives 0 "" "$stele" topic create narrow -p 1 --config segment.bytes=100000000 --config segment.index.bytes=24 --config index.interval.bytes=4096
for part in 1 2 3; do seq 1 200000 | "$stele" produce narrow; done
json '"narrow/0 an index is full after " in d["settings"][0]["warning"]' "$stele" config describe --topic narrow segment.index.bytes
json '[s["warning"] for s in d["settings"]] == [None]' "$stele" config describe --topic narrow segment.bytes
json '"rolls since the start were because an index was full" in d["settings"][0]["warning"]' "$stele" config describe log.index.size.max.bytes
json '[s["warning"] for s in d["settings"]] == [None] * 3' "$stele" config describe --topic empty segment.bytes segment.ms segment.index.bytes
gives 0 "" "$stele" topic delete narrow
gives 1 "nearest is" "$stele" config set --topic orders retention.mss=1
gives 2 "want one of --topic" "$stele" config set retention.ms=1
gives 2 "want one of --topic" "$stele" config set --cluster --node num.partitions=1
gives 2 "want NAME=VALUE" "$stele" config set --cluster num.partitions
gives 3 "" "$stele" config describe --topic missing

# bench
json 'd["records"] == 2000 and d["failed"] == 0 and d["latency"][0]["p50_us"] <= d["latency"][0]["p99_us"] <= d["latency"][0]["max_us"]' \
    "$stele" bench produce load --partitions 2 -n 2000 --size 100 -r 20000
json 'd["records"] == 2000 and d["bytes"] == 200000' "$stele" bench consume load
json 'd["records"] == 200 and d["latency"][0]["max_us"] > 0' "$stele" bench end-to-end load -n 200 -r 2000 --linger 0
gives 3 "there is no topic" "$stele" bench produce missing -n 1
gives 3 "there is no topic" "$stele" bench consume missing
gives 3 "there is no topic" "$stele" bench end-to-end missing -n 1
gives 2 "want one of 0|1|all" "$stele" bench produce load --acks 2
# a stall of the node shows in all the records that it held up: percentiles are from the intended times
sum_of_ends() { "$stele" topic offsets load end -o json | python3 -c 'import json, sys; print(sum(p["at"][0]["offset"] for p in json.load(sys.stdin)["partitions"]))'; }
before=$(sum_of_ends)
"$stele" bench produce load -s 2 -r 1000 --size 100 -o json >"$work/stalled" & bench=$!
until [ "$(sum_of_ends)" -gt "$before" ]; do kill -0 $bench || die "the bench ended early"; done
kill -STOP "$node"; sleep 0.5; kill -CONT "$node"
wait $bench || die "the bench gave $?"
python3 -c 'import json, sys; l = json.load(sys.stdin)["latency"][0]; sys.exit(not (l["max_us"] > 400000 and l["p90_us"] > 50000))' <"$work/stalled" ||
    { cat "$work/stalled"; die "the stall does not show"; }

# the node
gives 0 "" "$stele" node status --metrics
grep -qE '^partitions +' "$work/said" || { cat "$work/said"; die "node status"; }
json 'd["node_id"] == 1 and d["topics"] == 3 and d["directories"][0]["state"] == "well" and len(d["metrics"]) > 0' "$stele" node status --metrics
json '0 < len(d["requests"]) <= 5 and d["requests"][0]["total_us"] >= d["requests"][-1]["total_us"] and d["requests"][0]["reads"] in ("hot", "cold")' \
    "$stele" node slowlog -n 5
gives 0 "" "$stele" node slowlog

# files
json 'any(r["kind"] == "verified" and r["damages"] == 0 for r in (d if isinstance(d, list) else [d]))' "$stele" dump --verify "$work/data/empty-0"
gives 2 "FILE|DIR... is missing" "$stele" dump

gives 3 "there is no such thing" "$stele" dump --verify "$work/nowhere"
gives 3 "there is no such thing" "$stele" dump "$work/nowhere/00000000000000000000.log"
gives 1 "want a file named by its offset" "$stele" dump "$work/numbers"

# completion, help, wrong lines
"$stele" --complete topic describe o | grep -qx $'orders\ttopic' || die "completion of a topic"
"$stele" --complete log explain orders/ | grep -qx $'orders/3\tpartition' || die "completion of a partition"
"$stele" --complete config set --topic orders retention.m | grep -q '^retention.ms' || die "completion of a setting"
bash -c "source '$root/deploy/completion/stele.bash'; COMP_WORDS=('$stele' topic describe o); COMP_CWORD=3; _stele; [ \"\${COMPREPLY[*]}\" = orders ]" || die "completion in bash"
"$stele" --help | grep -q '^  topic create ' || die "--help"
"$stele" --manual | sed -n 's/^\.SS stele //p' | sed 's/\\//g' >"$work/commands"
while read -r command; do
    # shellcheck disable=SC2086
    "$stele" $command --help </dev/null | grep -q "^usage: stele $command" || die "stele $command --help"
done <"$work/commands"
[ "$(wc -l <"$work/commands")" = "$("$stele" --help | sed -n '/^commands:/,/^$/p' | grep -c '^  ')" ] || die "the manual and --help differ"
gives 2 "the nearest is 'topic create'" "$stele" topic craete x
gives 2 "the nearest is 'produce'" "$stele" prodcue x
gives 2 "the nearest is --partitions" "$stele" topic create x --partition 3
gives 2 "want a number from 1 to 100000" "$stele" topic create x -p 0
gives 2 "TOPIC is missing" "$stele" consume
gives 2 "commands:" "$stele" topic
gives 2 "usage: stele COMMAND" "$stele"
gives 2 "the nearest is --output" "$stele" topic list --otput json
gives 2 "want a number from" "$stele" topic create x -p ' 3'
gives 2 "want TOPIC/PARTITION=NODE,NODE..." "$stele" partition reassign orders/1
gives 2 "want TOPIC/PARTITION=NODE,NODE..." "$stele" partition reassign orders=1,2
gives 2 "want TOPIC/PARTITION=NODE,NODE..." "$stele" partition reassign orders/1=1,,2
gives 2 "want TOPIC/PARTITION;" "$stele" partition reassign --cancel orders/1=1,2
gives 2 "TOPIC/PARTITION is missing" "$stele" partition reassign --wait
gives 2 "name the partitions, or --all" "$stele" partition elect
gives 2 "name the partitions, or --all" "$stele" partition elect --unclean --all orders
gives 2 "want TOPIC or TOPIC/PARTITION" "$stele" partition elect orders/x
gives 2 "want TOPIC/PARTITION=DIRECTORY" "$stele" partition move orders/0=
gives 2 "TOPIC/PARTITION=DIRECTORY is missing" "$stele" partition move --wait
gives 1 "none of log.dirs" "$stele" partition move orders/0=/nowhere
json 'd["partitions"][0]["begun"]' "$stele" partition move "orders/0=$work/data"
json 'd["moves"] == []' "$stele" partition move
json 'len(d["replicas"]) == 4 and all(r["state"] == "online" and r["directory"].endswith("/data") for r in d["replicas"])' "$stele" node replicas orders
gives 2 "x is no NODE" "$stele" node unregister x
gives 2 "is no number of a node" "$stele" quorum add -1
gives 1 "is no directory id" "$stele" quorum add 1 --directory-id nonsense
gives 2 "want a number from" "$stele" topic create x -p +3
gives 5 "steled" "$stele" -b 127.0.0.1:1 topic list
gives 2 "names no node" "$stele" -b nonsense topic list
gives 2 "names no node" env STELE_BOOTSTRAP=127.0.0.1 "$stele" topic list
status=0
STELE_BOOTSTRAP='' "$stele" topic list >/dev/null 2>"$work/errors" || status=$? # as if it were not set: the usual port
[ "$status" != 2 ] || die "an empty STELE_BOOTSTRAP is refused"
gives 3 "has partitions 0 to 0, not 7" bash -c "echo x | '$stele' produce empty -p 7"
gives 3 "has partitions 0 to 0, not 7" "$stele" consume empty -p 7 --to end
# what could not be printed
for words in --help --version --manual "topic create --help" topic "topic list" "topic list -o json" "consume empty --to end" "dump --verify $work/data/empty-0"; do
    status=0
    # shellcheck disable=SC2086
    "$stele" $words >/dev/full 2>"$work/errors" || status=$?
    [ "$words" != topic ] || { [ "$status" = 2 ] || die "stele topic gave $status"; continue; }
    [ "$status" = 1 ] && grep -q "standard output: No space" "$work/errors" || { cat "$work/errors"; die "$words on a full disk gave $status"; }
done
[ "$("$stele" --version)" = "stele $("$bin/steled" --version | cut -d' ' -f2)" ] || die "--version"

# gone
json '[t["deleted"] for t in d["topics"]] == [True, True]' "$stele" topic delete orders load
gives 3 "" "$stele" topic delete orders
gives 0 "" "$stele" topic delete orders --if-there
json '[t["name"] for t in d["topics"]] == ["empty"]' "$stele" topic list
kill "$node"
wait "$node" || die "the stop gave $?"
node=
echo "cli: done"
