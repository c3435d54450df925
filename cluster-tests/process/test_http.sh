#!/usr/bin/env bash
# The http port: its pages, the numbers on them while clients are at work, what it refuses, how much it takes, start and stop.
#   test_http.sh [DIRECTORY OF THE PROGRAMS]     tools/test.sh runs it on the release and on the thread-sanitizer build.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
work=$(mktemp -d)
node=
pids=()
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_http: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; cat "$work"/race* 2>/dev/null || true; exit 1; }
export TSAN_OPTIONS="exitcode=66 log_path=$work/race"
begin() { # the node is on its way, its http port is there
    rm -f "$work/out"; mkfifo "$work/out"
    : >"$work/steled.log"
    "$bin/steled" --data "$work/data" --listen 127.0.0.1:0 --set num.network.threads=2 "$@" >"$work/out" 2>>"$work/steled.log" &
    node=$!
    exec 9<"$work/out"
}
finish() {
    read -r word address <&9 || die "no ready line"
    exec 9<&-
    [ "$word" = ready ] || die "said '$word'"
    export STELE_BOOTSTRAP=$address
}
http_port() {
    while ! port=$(grep -oE 'http port at 127\.0\.0\.1:[0-9]+' "$work/steled.log" | grep -oE '[0-9]+$'); do kill -0 "$node" || die "it ended"; done
}
answer=$work/answer
ask() { # BYTES: sends them as they are, as far as the node wants them; what it says is in $answer
    exec 3<>"/dev/tcp/127.0.0.1/$port" || die "no connection"
    { printf '%b' "$1" >&3; tr -d '\r' <&3 >"$answer"; } 2>/dev/null || true
    exec 3>&-
}
get() { ask "GET $1 HTTP/1.1\r\nHost: x\r\n\r\n"; }
says() { head -n 1 "$work/answer" | grep -qx "HTTP/1.1 $1" || { cat "$work/answer"; die "$2: not '$1'"; }; }
body() { sed '1,/^$/d' "$work/answer"; }
value() { body | awk -v name="$1" '$1 == name {print $2; found = 1} END {exit !found}' || die "no sample $1"; }

# off unless set; a wrong address is refused before anything is touched
begin; finish
grep -q "http port" "$work/steled.log" && die "there is a port although none was set"
stop -TERM
"$bin/steled" --check --set http.listener=nowhere >/dev/null 2>"$work/said" && die "a wrong address was taken"
grep -q "http.listener" "$work/said" || die "it does not name http.listener"

begin --set http.listener=0 --set metrics.topics.max=1; http_port
answers=0
until get /readyz; head -n 1 "$work/answer" | grep -q ' 200 '; do # from the first moment on there is an answer, and it says why
    says "503 Service Unavailable" "before it serves"
    body | grep -q '^it ' || die "no reason"
    answers=$((answers + 1))
done
finish
get /healthz; says "200 OK" healthz
ask "HEAD /healthz HTTP/1.0\r\n\r\n"; says "200 OK" HEAD
[ -z "$(body)" ] || die "a body after HEAD"
get /; says "404 Not Found" "unknown page"
ask 'POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi'; says "405 Method Not Allowed" POST
grep -qx "Allow: GET, HEAD" "$work/answer" || die "405 without Allow"
ask 'GET /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi'; says "413 Content Too Large" "a body"
ask '\x16\x03\x01\x02\x00\n\n'; says "400 Bad Request" garbage
ask "GET / HTTP/1.1\r\nX: $(head -c 5000 /dev/zero | tr '\0' a)"; says "431 Request Header Fields Too Large" "a large head"

# numbers, gathered while clients are at work on all shards
"$bin/stele" topic create one -p 4
"$bin/stele" topic create two -p 3
seq 1 20000 >"$work/in"
for topic in one two; do "$bin/stele" produce $topic -l "$work/in" & pids+=($!); done
for i in $(seq 1 20); do get /metrics; says "200 OK" "metrics under load"; done
for pid in "${pids[@]}"; do wait "$pid" || die "a client failed"; done
pids=()
"$bin/stele" consume one --from beginning --to end >/dev/null
get /metrics; says "200 OK" metrics
grep -qx "Content-Type: text/plain; version=0.0.4; charset=utf-8" "$work/answer" || die "content type"
body >"$work/metrics"
awk '
    function bad(why) { print why ": " $0; failed = 1; exit 1 }
    /^# HELP / { if ($3 in helped) bad("twice"); helped[$3]; name = $3; if (NF < 4) bad("no help"); next }
    /^# TYPE / { if ($3 != name) bad("not after its help"); if ($4 !~ /^(counter|gauge|histogram)$/) bad("type"); type = $4; next }
    !/^[a-z_]+(\{[a-z]+="([^"\\]|\\.)*"\})? -?[0-9]+(\.[0-9]+)?$/ { bad("format") }
    { sample = $1; sub(/\{.*/, "", sample); if (type == "histogram") sub(/_(bucket|sum|count)$/, "", sample); if (sample != name) bad("of another name"); if ($1 in seen) bad("twice"); seen[$1] }
    END { if (!failed && length(seen) < 150) { print "only " length(seen) " samples"; exit 1 } }' "$work/metrics" || die "the text"
[ "$(value 'stele_serving')" = 1 ] && [ "$(value 'stele_topics')" = 2 ] && [ "$(value 'stele_partitions')" = 7 ] || die "counts"
[ "$(value 'stele_requests_total{api="create_topic"}')" = 2 ] || die "requests"
[ "$(value 'stele_request_append_seconds_count')" -gt 0 ] || die "stages"
[ "$(value 'stele_process_resident_bytes')" -gt 1000000 ] && [ "$(value 'stele_memory_bytes')" -gt 100000 ] || die "memory"
[ "$(grep -c '^stele_topic_bytes{' "$work/metrics")" = 1 ] || die "topics"
value 'stele_loop_longest_stall_seconds' | awk '$1 > 0 {ok = 1} END {exit !ok}' || die "stall"

# 64 silent connections are all there may be; the next is closed at once, nobody else notices, and when they go there is room
silent=()
for i in $(seq 1 64); do exec {fd}<>"/dev/tcp/127.0.0.1/$port"; silent+=("$fd"); done
exec 3<>"/dev/tcp/127.0.0.1/$port"
timeout 5 cat <&3 >"$work/answer" 2>/dev/null || [ $? != 124 ] || die "a connection too many is kept"
[ ! -s "$work/answer" ] || die "a connection too many is answered"
exec 3>&-
"$bin/stele" topic create three >/dev/null || die "clients suffer"
for fd in "${silent[@]}"; do exec {fd}>&-; done
until exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /healthz HTTP/1.1\r\n\r\n' >&3 && grep -q alive <&3; do exec 3>&-; done
exec 3>&-

# a stop while somebody asks, and somebody is silent
for i in 1 2 3; do (answer=$work/answer.$i; while :; do get /metrics; done >/dev/null 2>&1) & pids+=($!); done
exec {fd}<>"/dev/tcp/127.0.0.1/$port"
get /metrics; says "200 OK" metrics
stop -TERM
[ "$status" = 0 ] || die "SIGTERM gave exit code $status"
kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; pids=()
if ls "$work"/race* >/dev/null 2>&1; then cat "$work"/race*; die "data races"; fi
echo "http: done, $answers answers before it served"
