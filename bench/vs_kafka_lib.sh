# What the scripts share that measure Kafka and Stele beside each other; sourced by them after they set `name`, `usage_of` (a file), `nodes`
# (how many of each), and the defaults rounds, mb, seconds. Options are taken, the directory `work` is made and goes at the end.
bin=${STELE_BIN:-$root/build/release/bin}
kafka=$root/cluster-tests/kafka/kafka.sh
dir=''

die() { printf '%s: %s\n' "$name" "$*" >&2; exit 1; }
say() { printf '%s: %s\n' "$name" "$*" >&2; }

while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2; shift ;;
        --mb) mb=$2; shift ;;
        --seconds) seconds=$2; shift ;;
        --kills) kills=$2; shift ;;
        --dir) dir=$2; shift ;;
        --only) only=$2; shift ;;
        *) sed -n '2,${/^#/!q; s/^# \{0,1\}//; p}' "$usage_of"; exit 2 ;;
    esac
    shift
done
[ -x "$bin/steled" ] && [ -x "$bin/bench_bare" ] || die "make build first"
records=$((mb * 1000000 / 1024))
work=$(mktemp -d "${dir:-${TMPDIR:-/tmp}}/$name.XXXXXX")
[ "$(df -Pm "$work" | awk 'NR == 2 {print $4}')" -gt $((4 * nodes * mb + 4000)) ] || { rmdir "$work"; die "not enough room on the disk"; }
stele_pids=() # of node i at i

export KAFKA_PEER=${KAFKA_PEER:-$root/build/kafka-peer} KAFKA_NODES=$work
kafka_client() { KAFKA_HEAP=512m "$kafka" tool "$@" 2>>"$work/client.log"; }

stop_stele() {
    local pid
    for pid in "${stele_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${stele_pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    stele_pids=()
}
clean_up() {
    local status=$?
    [ "$status" = 0 ] || tail -n 5 "$work/client.log" >&2 || true # what a client of Kafka said last
    stop_stele
    "$kafka" stop || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
are_free() { # PORT: it, and what both need above it
    local i
    is_free "$1" || return 1
    for ((i = 1; i <= nodes; i++)); do
        is_free $(($1 + i)) && is_free $(($1 + 10000 + i)) && is_free $(($1 + 100 + i)) && is_free $(($1 + 200 + i)) || return 1
    done
}
port=$((15000 + RANDOM % 6000))
until are_free $port; do port=$((15000 + RANDOM % 6000)); done
export KAFKA_PORT=$port
servers=127.0.0.1:$((port + 1))

# note KEY VALUE: one turn's figure, told at once, so that a run that breaks leaves what it had. median KEY: of all turns.
note() { [ "${turn:-1}" -eq 0 ] || { echo "$2" >>"$work/figure.$1"; say "$1 $2"; }; }
quantile() { sort -n "$work/figure.$1" | awk -v q="$2" '{v[NR] = $1} END {at = q * (NR - 1) + 1; low = int(at); print v[low] + (at - low) * (v[low < NR ? low + 1 : NR] - v[low])}'; }
median() { quantile "$1" 0.5; }

pids_of() {  # kafka | stele
    local i
    if [ "$1" = stele ]; then echo "${stele_pids[@]}"; return; fi
    for ((i = 1; i <= nodes; i++)); do "$kafka" pid $i; done
}
# CPU ticks of all threads of all nodes, those that ended too. The name, which may hold blanks, ends with the last bracket.
ticks() { local pid; for pid in $(pids_of "$1"); do sed 's/.*) //' "/proc/$pid/stat"; done | awk '{sum += $12 + $13} END {print sum}'; }
cpu_a_gb() { awk -v t="$1" -v hz="$(getconf CLK_TCK)" -v bytes="$((records * 1024))" 'BEGIN {printf "%.3f", t / hz / (bytes / 1e9)}'; }
# Of the largest node.
rss_mib() { local pid; for pid in $(pids_of "$1"); do awk '/^VmRSS/ {printf "%.1f\n", $2 / 1024}' "/proc/$pid/status"; done | sort -n | tail -n 1; }
# field EXPRESSION: of the bench's answer.
field() { python3 -c "import json, sys; answer = json.load(sys.stdin); print($1)"; }

# What is dirty now would be written while the other one is measured.
settle() { sync -f "$work"; sleep 1; }
mbs() { awk -v r="$1" 'BEGIN {printf "%.0f", r * 1024 / 1e6}'; }
# wait_small DIRECTORY...: until the files of what was deleted are gone, whose removal would be measured otherwise. A file may go between its
# listing and its count.
wait_small() {
    local until=$((SECONDS + 60))
    while [ "$(du -scm "$@" 2>/dev/null | tail -n 1 | cut -f1)" -gt $((100 * nodes)) ]; do
        [ $SECONDS -lt $until ] || die "files of deleted topics stay in $*"
        sleep 0.5
    done
}

row() { printf '%-56s %9s %9s %9s   %s\n' "$@"; }
ms() { awk -v us="$(median "$1")" 'BEGIN {printf "%.2f", us / 1000}'; }
f2() { printf '%.2f' "$(median "$1")"; }
f0() { printf '%.0f' "$(median "$1")"; }
machine() { echo "$(date -u +%F), $(nproc) CPUs: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r | cut -d. -f1,2)"; }
