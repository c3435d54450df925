#!/usr/bin/env bash
# Every data directory that an earlier version wrote is opened, read, written to, stopped and verified by this one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
work=$(mktemp -d)
. "$root/cluster-tests/golden/golden_lib.sh"
trap 'stop -KILL; rm -rf "$work"' EXIT
die() { echo "test_golden: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
verify() { # STATE DIRECTORY WHEN
    local disk disks=("$2")
    case $1 in cluster-*) disks=("$2"/[123]);; esac
    for disk in "${disks[@]}"; do "$bin/stele" dump --verify "$disk" >"$work/said" || { cat "$work/said"; die "$1 of $2: verify $3"; }; done
}
count=0
for golden in "$root"/cluster-tests/golden/v*.tar.zst; do
    version=$(basename "$golden" .tar.zst)
    mkdir "$work/$version"
    tar -C "$work/$version" --zstd -xf "$golden"
    for expected in "$work/$version"/expected/*; do
        state=$(basename "$expected") data=$work/$version/$(basename "$expected")
        verify "$state" "$data" before
        case $state in
        cluster-*) start_three "$data" ;;
        *) start "$data" ;;
        esac || die "$version/$state: no ready line"
        topics | cmp - "$expected/topics" || die "$version/$state: topics"
        while read -r topic; do records "$topic" | cmp - "$expected/$topic" || die "$version/$state: $topic"; done <"$expected/topics"
        echo more | "$bin/stele" produce many || die "$version/$state: produce"
        stop -TERM
        [ "$failed" = 0 ] || die "$version/$state: $failed nodes failed as they stopped"
        verify "$state" "$data" after
        count=$((count + 1))
    done
done
[ "$count" -gt 0 ] || die "there is no golden directory"
echo "golden: $count directories of earlier versions"
