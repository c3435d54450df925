#!/usr/bin/env bash
# A disk that fills up: produces are refused with what to do about it, reads go on, and the node goes on by itself when there is room again. The
# disk is a small one in memory, in a mount namespace of this script's own.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
if [ -z "${STELE_FULL_DISK_INSIDE:-}" ]; then
    unshare --mount true 2>/dev/null || { echo "needs the right to mount"; exit 77; }
    STELE_FULL_DISK_INSIDE=1 exec unshare --mount "$0"
fi
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; umount -l "$work/disk" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_full_disk: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
mkdir "$work/disk"
mount -t tmpfs -o size=24m none "$work/disk"
start() {
    rm -f "$work/out"; mkfifo "$work/out"
    "$bin/steled" --data "$work/disk/data" --listen 127.0.0.1:0 "$@" >"$work/out" 2>>"$work/steled.log" &
    node=$!
    read -r word address <"$work/out" || die "no ready line"
    export STELE_BOOTSTRAP=$address
}
fills() { # TOPIC: a load that is larger than the disk is refused in the end, and says what to do
    # a client that retries would wait for room: it gives up after its delivery time-out or is ended here
    timeout -k 1 3 "$bin/stele" produce "$1" -l "$work/big" --report "$work/report" >"$work/said" 2>&1 && die "$1: a load larger than the disk went in"
    acked=$(awk 'NF == 3' "$work/report" | wc -l)
    [ "$acked" -gt 100 ] || die "$1: only $acked records were acknowledged"
}
seq 1 40000 | awk '{printf "%d %01000d\n", $1, 7}' >"$work/big"

# twice: refused by the reserve that votes and checkpoints need, and by the disk itself
for reserve in 4194304 0; do
    start --set log.dir.reserve.bytes=$reserve --set log.segment.bytes=1048576
    "$bin/stele" topic create "t$reserve" || die "create"
    fills "t$reserve"
    "$bin/stele" consume "t$reserve" --from beginning --to end | head -n "$acked" | cmp - <(head -n "$acked" "$work/big") || die "reads with a full disk"
    grep -q "make room" "$work/said" "$work/steled.log" || { cat "$work/said"; die "nobody says what to do"; }
    # room returns: the same node goes on, without a restart
    mount -o remount,size=128m "$work/disk"
    ok=
    for try in $(seq 1 50); do if echo more | timeout 10 "$bin/stele" produce "t$reserve" >/dev/null 2>&1; then ok=1; break; fi; done
    [ -n "$ok" ] || die "the node did not go on by itself"
    stop -TERM
    [ "$status" = 0 ] || die "stop gave exit code $status"
    "$bin/stele" dump --verify "$work/disk/data" >"$work/verified" || { cat "$work/verified"; die "verify"; }
    rm -rf "$work/disk/data"
    mount -o remount,size=24m "$work/disk"
done

# full at the start, full at the stop: it starts, serves reads, stops; nothing acknowledged is lost
start --set log.dir.reserve.bytes=0 --set log.segment.bytes=1048576
"$bin/stele" topic create t
fills t
stop -KILL
start --set log.dir.reserve.bytes=0 --set log.segment.bytes=1048576
"$bin/stele" consume t --from beginning --to end | head -n "$acked" | cmp - <(head -n "$acked" "$work/big") || die "reads after a start on a full disk"
stop -TERM
echo "full disk: done"
