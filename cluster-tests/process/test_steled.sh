#!/usr/bin/env bash
# steled and stele as scripts use them: the ready line, exit codes, refusals, stop and restart, the tour of the README, garbage on the port.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; rm -rf "$work"' EXIT
die() { echo "test_steled: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
start() {
    rm -f "$work/out"; mkfifo "$work/out"
    "$bin/steled" --data "$work/data" --listen 127.0.0.1:0 "$@" >"$work/out" 2>>"$work/steled.log" &
    node=$!
    read -r word address <"$work/out" || die "no ready line"
    [ "$word" = ready ] || die "said '$word'"
    export STELE_BOOTSTRAP=$address
}
refused() { # TEXT COMMAND...: fails and says TEXT
    local text=$1; shift
    if "$@" >"$work/said" 2>&1; then die "$* succeeded"; fi
    grep -q -- "$text" "$work/said" || { cat "$work/said"; die "$* does not say '$text'"; }
}
exits() { # CODE TEXT COMMAND...: fails like that
    local code=$1 text=$2 got=0; shift 2
    "$@" >"$work/said" 2>&1 || got=$?
    grep -q -- "$text" "$work/said" || { cat "$work/said"; die "$* does not say '$text'"; }
    [ "$got" = "$code" ] || die "$* gave exit code $got, not $code"
}

"$bin/steled" --check || die "--check refuses the defaults"
refused "nearest is 'log.retention.ms'" "$bin/steled" --set log.retention.mss=1
refused "between" "$bin/steled" --set num.io.threads=0
refused "KEY=VALUE" "$bin/steled" --set nonsense
refused "names no directory" "$bin/steled" --data ''
refused "names no directory" "$bin/steled" --check --set log.dirs=' , '
refused "nearest is 'log.dirs'" env STELED_LOG_DIR=x "$bin/steled" --check
refused "between" env STELED_NUM_IO_THREADS=0 "$bin/steled" --check
STELED_NUM_IO_THREADS=0 "$bin/steled" --check --set num.io.threads=1 2>/dev/null && die "a wrong variable was let through" || true
refused "nearest is 'log.retention.ms'" "$bin/steled" --check --config <(echo log.retention.mss=1) # a pipe has no size
refused "cannot be read: Is a directory" "$bin/steled" --check --config "$work"
touch "$work/plain"
exits 3 "plain is no directory" "$bin/steled" --data "$work/plain" --listen 127.0.0.1:0
exits 3 "plain/x cannot be used" "$bin/steled" --data "$work/plain/x" --listen 127.0.0.1:0
exits 2 "names .*twice" "$bin/steled" --data "$work/twice,$work/twice" --listen 127.0.0.1:0
exits 3 "or log.dirs names it twice" "$bin/steled" --data "$work/twice,$work/./twice" --listen 127.0.0.1:0
# what Kubernetes tells every container of a service that is called steled is no setting
STELED_PORT=tcp://10.0.0.1:7835 STELED_PORT_7835_TCP_ADDR=10.0.0.1 STELED_SERVICE_HOST=10.0.0.1 STELED_SERVICE_PORT_CLIENTS=7835 "$bin/steled" --check || die "a service of its own name stops it"
refused "no node setting 'port'" env STELED_PORT=7835 "$bin/steled" --check

start
refused "in use by another process" "$bin/steled" --data "$work/data" --listen 127.0.0.1:0
refused "there is no topic" "$bin/stele" consume missing
refused "no legal topic name" "$bin/stele" topic create 'a/b'
refused "nearest is 'retention.ms'" "$bin/stele" topic create t --config retention.mss=1

# the tour
"$bin/stele" topic create greetings -p 3
refused "exists already" "$bin/stele" topic create greetings
printf 'fr:salut\nde:hallo\nfr:bonjour\n' | "$bin/stele" produce greetings -K : --report "$work/report"
"$bin/stele" topic list | grep -qE '^greetings +3 ' || die "topic list"
[ "$("$bin/stele" consume greetings --from beginning --to end -f '%k says %s\n' | sort | tr '\n' ,)" = "de says hallo,fr says bonjour,fr says salut," ] || die "consume"
[ "$("$bin/stele" consume greetings --from beginning --to end -f '%k %s\n' | grep '^fr' | tr '\n' ,)" = "fr salut,fr bonjour," ] || die "order of one key"
[ "$(wc -l <"$work/report")" = 3 ] || die "report"

# every codec comes back as it went in
seq 1 20000 >"$work/numbers"
for codec in none gzip snappy lz4 zstd; do
    "$bin/stele" topic create "c-$codec"
    "$bin/stele" produce "c-$codec" --compression "$codec" -l "$work/numbers"
    "$bin/stele" consume "c-$codec" --from beginning --to end | cmp - "$work/numbers" || die "codec $codec"
done
[ "$("$bin/stele" consume c-gzip --from 19999 --to end)" = 20000 ] || die "consume from an offset"
"$bin/stele" topic create synced --config flush.before.ack=true
"$bin/stele" produce synced -l "$work/numbers"

# strangers on the port are shut out, and nobody else notices
exec 3<>"/dev/tcp/${STELE_BOOTSTRAP%:*}/${STELE_BOOTSTRAP##*:}"
(printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' >&3) 2>/dev/null || true # it may be shut before the second line
[ -z "$(timeout 10 cat <&3)" ] || die "an HTTP request was answered"
exec 3>&-
grep -q "an HTTP request" "$work/steled.log" || die "the log does not say what was met"
head -c 100000 /dev/urandom >"/dev/tcp/${STELE_BOOTSTRAP%:*}/${STELE_BOOTSTRAP##*:}" 2>/dev/null || true
"$bin/stele" topic list >/dev/null || die "the node was harmed"

# a clean stop, then a start that scans nothing, then a SIGKILL and a start that recovers
stop -TERM
[ "$status" = 0 ] || die "SIGTERM gave exit code $status"
[ -f "$work/data/.kafka_cleanshutdown" ] || die "no clean-shutdown marker"
"$bin/stele" dump --verify "$work/data" >"$work/verified" || { cat "$work/verified"; die "verify after a clean stop"; }
start
"$bin/stele" consume c-zstd --from beginning --to end | cmp - "$work/numbers" || die "after a clean stop"
"$bin/stele" produce c-zstd -l "$work/numbers"
stop -KILL
"$bin/stele" dump --verify "$work/data" >"$work/verified" || { cat "$work/verified"; die "verify after SIGKILL"; }
start
[ "$("$bin/stele" consume c-zstd --from beginning --to end | wc -l)" = 40000 ] || die "after SIGKILL"
stop -TERM

# a real Kafka's directory is refused untouched
tar -C "$work" --zstd -xf "$root/cluster-tests/kafka/samples.tar.zst" clean
before=$(cd "$work/clean" && find . -type f ! -name .lock -exec sha256sum {} + | sort | sha256sum)
refused "left untouched" "$bin/steled" --data "$work/clean" --listen 127.0.0.1:0
[ "$before" = "$(cd "$work/clean" && find . -type f ! -name .lock -exec sha256sum {} + | sort | sha256sum)" ] || die "Kafka's directory was changed"
echo "steled: done"
