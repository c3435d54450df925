#!/usr/bin/env bash
# The main job on real input: the package list of this machine (`apt-cache dumpavail`, tens of megabytes) goes into a topic as keyed records
# and comes out again, byte for byte; then once more with a SIGKILL in the middle of the load.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$PWD/build/bin
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; node=; fi; }
trap 'stop -KILL; rm -rf "$work"' EXIT

start() { # starts steled on a free port with the data in $work/data; sets STELE_BOOTSTRAP
    rm -f "$work/out"; mkfifo "$work/out"
    "$bin/steled" --data "$work/data" --listen 127.0.0.1:0 >"$work/out" 2>>"$work/steled.log" &
    node=$!
    read -r word address <"$work/out" || { cat "$work/steled.log" >&2; exit 1; }
    [ "$word" = ready ] || { echo "demo: steled said '$word'" >&2; exit 1; }
    export STELE_BOOTSTRAP=$address
    echo "   steled serves on $address"
}
seconds() { awk -v from="$1" -v to="$(date +%s.%N)" 'BEGIN {printf "%.3f", to - from}'; }
rate() { awk -v bytes="$1" -v s="$2" 'BEGIN {printf "%.1f MB in %.2f s, %.0f MB/s", bytes / 1e6, s, bytes / 1e6 / s}'; }

echo "1. The input: apt-cache dumpavail, one record a package, the package's name as key"
apt-cache dumpavail >"$work/avail" 2>/dev/null || true
[ "$(stat -c %s "$work/avail")" -gt 10000000 ] || { apt-get update -qq >/dev/null 2>&1 || true; apt-cache dumpavail >"$work/avail"; }
# A stanza becomes one line "name TAB stanza", with its line ends as the unit separator so that it stays one record.
awk 'BEGIN {RS = ""; FS = "\n"} {name = $1; sub(/^Package: /, "", name); gsub(/\n/, "\037"); print name "\t" $0}' "$work/avail" >"$work/in"
bytes=$(stat -c %s "$work/in") records=$(wc -l <"$work/in")
echo "   $records records, $bytes bytes"

echo "2. In and out"
start
"$bin/stele" topic create packages
from=$(date +%s.%N); "$bin/stele" produce packages -K $'\t' -l "$work/in"; echo "   produced: $(rate "$bytes" "$(seconds "$from")")"
from=$(date +%s.%N); "$bin/stele" consume packages --from beginning --to end -f '%k\t%s\n' >"$work/back"; echo "   consumed: $(rate "$bytes" "$(seconds "$from")")"
cmp "$work/in" "$work/back"
awk 'BEGIN {FS = "\t"} {sub(/^[^\t]*\t/, ""); gsub(/\037/, "\n"); print $0 "\n"}' "$work/back" >"$work/avail.back"
cmp "$work/avail" "$work/avail.back"
echo "   byte for byte the same: $(sha256sum <"$work/back" | cut -c1-16)"

echo "3. SIGKILL in the middle of a load, then a restart"
"$bin/stele" topic create again
"$bin/stele" produce again -K $'\t' -l "$work/in" --report "$work/report" 2>"$work/produce.log" &
producer=$!
third=$((records / 3))
while kill -0 "$producer" 2>/dev/null && [ "$( (wc -l <"$work/report") 2>/dev/null || echo 0)" -lt "$third" ]; do :; done
stop -KILL
kill -KILL "$producer" 2>/dev/null || true; wait "$producer" 2>/dev/null || true
start
"$bin/stele" consume again --from beginning --to end -f '%p %o %k\t%s\n' >"$work/after"
# Every whole line of the report names an input line and where it must be found.
python3 - "$work" <<'PY'
import sys
work = sys.argv[1]
lines = open(work + "/in", "rb").read().split(b"\n")
found = {}
for row in open(work + "/after", "rb").read().split(b"\n")[:-1]:
    partition, offset, record = row.split(b" ", 2)
    found[int(partition), int(offset)] = record
text = open(work + "/report", "rb").read()
acked = [row.split() for row in text[: text.rfind(b"\n") + 1].split(b"\n") if row]
if not acked:
    sys.exit("demo: nothing was acknowledged before the kill")
for number, partition, offset in acked:
    if found.get((int(partition), int(offset))) != lines[int(number) - 1]:
        sys.exit("demo: line %d was acknowledged at partition %d offset %d and is not there" % (int(number), int(partition), int(offset)))
print("   %d of %d records were acknowledged before the kill; all of them are there, %d records in the log" % (len(acked), len(lines) - 1, len(found)))
PY
stop -TERM
echo "demo: done"
