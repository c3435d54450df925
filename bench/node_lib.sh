# What the scripts that measure a node share; sourced. They set `work`, a directory that goes with them, by node_begin.
bin=${STELE_BIN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../build/release/bin" && pwd)}
node_pid='' helper_pids=() data_number=0

die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

end_helpers() {
    [ ${#helper_pids[@]} -eq 0 ] || { kill "${helper_pids[@]}" && wait "${helper_pids[@]}"; } 2>/dev/null || true
    helper_pids=()
}
node_clean_up() {
    end_helpers
    [ -z "$node_pid" ] || node_stop KILL
    rm -rf "$work"
}
node_begin() {  # DIRECTORY
    work=$(mktemp -d "$1/stele-bench.XXXXXX")
    node_fresh
    trap node_clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkfifo "$work/ready"
    exec 7<>"$work/ready"
}

ms_since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN {printf "%.1f", (to - from) * 1000}'; }

# A directory of its own for what the next node holds. What the last one left goes at the end: ext4 looks for a free inode among those just
# given back one by one, so that files are made several times slower for a minute after thousands were removed.
node_fresh() { data=$work/node$((++data_number)); }

node_start() {  # [SETTING=VALUE]...: starts it on what is there; how long that took in start_ms
    local from=$EPOCHREALTIME setting arguments=()
    for setting in "$@"; do arguments+=(--set "$setting"); done
    "$bin/steled" --data "$data" --listen 127.0.0.1:0 --set log.segment.delete.delay.ms=1000 "${arguments[@]}" >&7 2>>"$work/steled.log" &
    node_pid=$!
    read -r -t 120 -u 7 word STELE_BOOTSTRAP && [ "$word" = ready ] || { cat "$work/steled.log" >&2; die "the node did not start"; }
    start_ms=$(ms_since "$from")
    export STELE_BOOTSTRAP
}
node_stop() {  # [SIGNAL]; how long it took in stop_ms
    local from=$EPOCHREALTIME pid=$node_pid status=0
    node_pid=''
    kill -"${1:-TERM}" "$pid"
    wait "$pid" 2>/dev/null || status=$?
    [ $status -eq 0 ] || [ "${1:-TERM}" = KILL ] || die "the node ended with $status"
    stop_ms=$(ms_since "$from")
}

# CPU seconds of all threads of the node.
node_cpu() { cat /proc/"$node_pid"/task/*/schedstat | awk '{sum += $1} END {printf "%.6f", sum / 1e9}'; }
# Times that its threads gave up a processor or lost it.
node_switches() { cat /proc/"$node_pid"/task/*/status | awk '/ctxt_switches/ {sum += $2} END {print sum}'; }
node_rss_mib() { awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' /proc/"$node_pid"/status; }
node_files() { ls /proc/"$node_pid"/fd | wc -l; }

# field NAME: a number out of a bench's answer as JSON; the first of that name.
field() { sed -n "s/.*\"$1\":[[:space:]]*\(-\{0,1\}[0-9.]*\).*/\1/p" | head -n 1; }
# Arithmetic with fractions: calc EXPRESSION [FORMAT].
calc() { awk "BEGIN {printf \"${2:-%.3f}\", $1}"; }
# note KEY VALUE keeps a round's figure; median KEY is of all.
note() { echo "$2" >>"$work/figure.$1"; }
median() { sort -n "$work/figure.$1" | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
# cell KEY FORMAT [FACTOR]: of a median.
cell() { awk -v value="$(median "$1")" -v factor="${3:-1}" "BEGIN {printf \"$2\", value * factor}"; }

machine() { echo "$(date -u +%F), $(nproc) CPUs: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r | cut -d. -f1,2), load $(cut -d' ' -f1 /proc/loadavg)"; }
