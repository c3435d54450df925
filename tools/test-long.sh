#!/usr/bin/env bash
# What does not fit into `make test`: the tests labelled long, every fuzzer for ten minutes, ten times the crashes and seeds,
# the unit tests under valgrind, the README's tour on a new machine, a cluster of containers. About three hours on 2 cores; STELE_LONG_PERCENT=1 takes a hundredth of all that can be
# shortened. Inputs that fuzzers find lie in build/fuzz/corpus and stay. Arguments: only these checks (chroot compose long crashes
# seeds valgrind fuzz).
names=" $* "
. "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
percent=${STELE_LONG_PERCENT:-100}

# Each on what it found before and the committed seeds, as ctest gives them.
run_fuzz() {
    local seconds=$((600 * percent / 100))
    build fuzz || return 1
    ctest --test-dir build/fuzz -L fuzz --show-only=json-v1 | python3 -c '
import json, sys
for test in json.load(sys.stdin)["tests"]:
    program, *rest = test["command"]
    dirs = [word for word in rest if not word.startswith("-")]
    print("\t".join([test["name"], program] + dirs))' >"$work/fuzzers" || return 1
    export seconds work
    xargs -d '\n' -P "$jobs" -n 1 bash -c '
        IFS=$'"'\\t'"' read -r -a words <<<"$0"
        ASAN_OPTIONS=detect_leaks=1 "${words[1]}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
            -artifact_prefix=build/fuzz/ "${words[@]:2}" >"$work/${words[0]}" 2>&1 && exit 0
        echo "${words[0]}:"; tail -n 30 "$work/${words[0]}"; exit 1' <"$work/fuzzers"
}

# Ten stretches of seeds that `make test` does not reach, about 100,000 crashes each.
run_crashes() {
    seq 1 10 | xargs -P "$jobs" -I N bash -o pipefail -c "build/dev/bin/sim_log_crash --seed N0000 --runs $((1900 * percent / 100)) | tail -n 3"
}

run_seeds() {
    build/dev/bin/stele-sim --one-node --seed 1000000 --seeds $((20000 * percent / 100)) &&
        build/dev/bin/stele-sim --seed 1000000 --seeds $((20000 * percent / 100))
}

run_valgrind() {
    ctest --test-dir build/dev -L unit --show-only=json-v1 | python3 -c '
import json, os, sys
for test in json.load(sys.stdin)["tests"]:
    if os.path.basename(test["command"][0]) == test["name"]:
        print("\t".join(test["command"]))' >"$work/units" || return 1
    export work STELE_TEST_STRIDE=5
    # Our allocator's users are looked after by the tests; valgrind's look at leaks also sees the children of one, which end in the middle. The
    # other one needs registers as they were at a fault: a handler mends a page, and the read goes on.
    xargs -d '\n' -P "$jobs" -n 1 bash -c '
        IFS=$'"'\\t'"' read -r -a words <<<"$0"
        name=$(basename "${words[0]}") more=(--leak-check=full --errors-for-leak-kinds=definite)
        [ "$name" != host_vfs_posix ] || more=(--leak-check=no)
        case $name in *_vfs*) more+=(--vex-iropt-register-updates=allregs-at-mem-access) ;; esac
        timeout 900 valgrind -q --error-exitcode=9 "${more[@]}" "${words[@]}" >"$work/$name" 2>&1 && exit 0
        echo "$name: $?"; tail -n 30 "$work/$name"; echo "$name" >>"$work/bad"; exit 1' <"$work/units" && return 0
    echo "failed under valgrind: $(paste -sd " " "$work/bad")"
    return 1
}

wanted() { [ "$names" = "  " ] || [[ "$names" = *" $1 "* ]]; }

! wanted chroot || check chroot deploy/test_chroot.sh
! wanted compose || check compose deploy/test.sh
check dev-build build dev
! wanted long || check long ctest --preset dev -L long --output-on-failure
for name in crashes seeds valgrind fuzz; do
    ! wanted "$name" || check "$name" "run_$name"
done

summary
