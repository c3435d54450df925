#!/usr/bin/env bash
# Every check, in order of how soon it can fail; ends with what was skipped and one line of totals.
# STELE_SKIPS_FAIL=1: a skipped check fails the run, unless it found that Maven Central, where Kafka comes from, does not answer.
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"

tests() { build "$1" && ctest --preset "$1" -LE 'fuzz|sim|long' -j "$jobs"; }

check format bash -c "git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror"
check release-build make build
check floors tools/floors.sh build/release
check clang-build build clang
check asan tests asan
host_tests=$(for test in host/test/test_*.c; do basename "${test/test_/host_}" .c; done | tr '\n' ' ')
check tsan bash -c "cmake --preset tsan && cmake --build build/tsan -j $jobs --target steled stele $host_tests cluster-tests_vfs && ctest --preset tsan -R 'host_|_vfs' -j $jobs"
check tsan-shards cluster-tests/process/test_shards.sh "$PWD/build/tsan/bin"
check tsan-http cluster-tests/process/test_http.sh "$PWD/build/tsan/bin"
check tsan-listeners cluster-tests/process/test_listeners.sh "$PWD/build/tsan/bin"
check tsan-failover cluster-tests/process/test_failover.sh "$PWD/build/tsan/bin"
check sim bash -c "cmake --preset dev && cmake --build build/dev -j $jobs && ctest --preset dev -L sim -V -j $jobs"
check fuzz bash -c "cmake --preset fuzz && cmake --build build/fuzz -j $jobs && ctest --preset fuzz -j $jobs"
for script in cluster-tests/process/test_*.sh cluster-tests/kafka/test_*.sh cluster-tests/golden/test_*.sh docs/test_*.sh; do
    [ -f "$script" ] && check "$(basename "$script" .sh)" "$script"
done

summary
