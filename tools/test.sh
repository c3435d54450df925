#!/usr/bin/env bash
# Every check, in order of how soon it can fail; ends with what was skipped and one line of totals.
# STELE_SKIPS_FAIL=1: a skipped check fails the run, unless it found that Maven Central, where Kafka comes from, does not answer.
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
tests() { build "$1" && ctest --preset "$1" -LE 'fuzz|sim|long' -j "$jobs"; }

check format bash -c "git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror"
check release-build make build
check floors tools/floors.sh build/release
check clang-build build clang
check asan tests asan
check tsan bash -c "cmake --preset tsan && cmake --build build/tsan -j $jobs --target steled stele host_vfs_posix cluster-tests_vfs && ctest --preset tsan -R 'host_|_vfs' -j $jobs"
check tsan-shards cluster-tests/process/test_shards.sh "$PWD/build/tsan/bin"
check tsan-http cluster-tests/process/test_http.sh "$PWD/build/tsan/bin"
check sim bash -c "cmake --preset dev && cmake --build build/dev -j $jobs && ctest --preset dev -L sim -V -j $jobs"
check fuzz bash -c "cmake --preset fuzz && cmake --build build/fuzz -j $jobs && ctest --preset fuzz -j $jobs"
for script in cluster-tests/process/test_*.sh cluster-tests/kafka/test_*.sh cluster-tests/golden/test_*.sh docs/test_*.sh; do
    [ -f "$script" ] && check "$(basename "$script" .sh)" "$script"
done

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
