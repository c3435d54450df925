# Sourced by test.sh and test-long.sh: runs checks one after another and sums them up.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)
passed=0 failed=0 skipped=0 unexcused=0 failures=() skips=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
began=$SECONDS

# check NAME COMMAND...: exit 0 passes, 77 is skipped (the last line says why), anything else fails.
check() {
    local name=$1 log=$work/log from=$SECONDS status
    shift
    "$@" >"$log" 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        printf 'ok    %-28s %4d s   %s\n' "$name" $((SECONDS - from)) "$(grep -E '^[0-9]+% tests passed' "$log" | tail -n 1)"
        grep -oE 'reached: .*' "$log" | sed 's/^/      /'
    elif [ $status -eq 77 ]; then
        skipped=$((skipped + 1))
        skips+=("$name: $(tail -n 1 "$log")")
        tail -n 1 "$log" | grep -q '^Maven Central does not answer' || unexcused=$((unexcused + 1))
        printf 'skip  %-28s\n' "$name"
    else
        failed=$((failed + 1))
        failures+=("$name")
        printf 'FAIL  %-28s %4d s\n' "$name" $((SECONDS - from))
        tail -n 60 "$log" | sed 's/^/      /'
    fi
}

build() { cmake --preset "$1" && cmake --build "build/$1" -j "$jobs"; }

# The last line of a script; its status is that of the run.
summary() {
    echo
    if [ ${#skips[@]} -gt 0 ]; then
        echo "skipped:"
        printf '  %s\n' "${skips[@]}"
    else
        echo "skipped: nothing"
    fi
    [ ${#failures[@]} -eq 0 ] || { echo "failed:"; printf '  %s\n' "${failures[@]}"; }
    echo "took $((SECONDS - began)) s"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed -eq 0 ] && { [ $unexcused -eq 0 ] || [ -z "${STELE_SKIPS_FAIL:-}" ]; }
}
