#!/usr/bin/env bash
# Real Kafka reads what we wrote. Its kafka-dump-log finds nothing wrong with our logs, indexes, snapshots and transaction
# indexes of every kind, after a clean stop and after recovery, and prints the lines that `stele dump` prints.
# Needs the jars of kafka.sh (Maven Central, or what Maven has of it); without them it is skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
bin=$root/build/bin
write_logs=${WRITE_LOGS:-$root/build/release/bin/write_logs}
work=$(mktemp -d)
export KAFKA_PEER=${KAFKA_PEER:-$work/peer} KAFKA_HEAP=512m LC_ALL=C.UTF-8
node=
stop_node() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; node=; fi; }
trap 'stop_node -KILL; "$here/kafka.sh" stop; rm -rf "$work"' EXIT
die() { echo "test_kafka_agrees: $*"; exit 1; }
step() { echo "$((SECONDS)) s: $*"; }

[ -d "$KAFKA_PEER/libs" ] || timeout 600 "$here/kafka.sh" install >"$work/install" 2>&1 || {
    # Only an unreachable repository excuses; whatever else is wrong with the set-up is a failure.
    cat "$work/install"
    grep -qE 'Could not transfer|Unknown host|Connection (refused|timed out|reset)|Network is unreachable|offline' "$work/install" ||
        die "kafka.sh install failed"
    echo "Maven Central does not answer, and the jars of Kafka are not cached"
    exit 77
}

# dump_agrees DIR...: every file of these directories.
dump_agrees() {
    local files=() base
    mapfile -t files < <(find "$@" -type f \( -name '*.log' -o -name '*.index' -o -name '*.timeindex' -o -name '*.txnindex' -o -name '*.snapshot' \) | sort)
    "$here/kafka.sh" dump-log --deep-iteration --print-data-log --files "$(IFS=,; echo "${files[*]}")" >"$work/want" 2>"$work/complaints" ||
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
dump_agrees "$work/clean" "$work/recovered"
