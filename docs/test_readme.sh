#!/usr/bin/env bash
# Every command of the README and the docs is run by some check. The tour of the README is run here, line by line in one shell, as its
# reader would; the other commands are in the list below with the check that runs them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
# The tour serves on the default port: one at a time.
exec 9>"${TMPDIR:-/tmp}/stele-tour.lock"
flock -w 120 9
trap '[ ! -f "$work/pid" ] || kill -KILL "$(cat "$work/pid")" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_readme: $*"; exit 1; }
serves() { (exec 3<>/dev/tcp/127.0.0.1/7835) 2>/dev/null; }

# run_elsewhere COMMAND: true when another check runs it.
run_elsewhere() {
    case $1 in
        "make build" | "make test" | "make demo") ;; # release-build, this run, test_demo
        "make install PREFIX="*) ;;                  # test_install
        "make bench"* | bench/*) ;;                   # measurements are no part of the checks
        "make test-long" | tools/test-long.sh) ;;    # takes hours
        "steled --settings-reference") ;;            # test_settings
        "steled --metrics-reference") ;;             # test_observe
        tools/test.sh | tools/floors.sh*) ;;         # this run, floors
        cluster-tests/process/test_*.sh | cluster-tests/kafka/test_*.sh | cluster-tests/golden/test_*.sh | docs/test_*.sh) [ -x "$root/$1" ] ;; # tools/test.sh runs all of these
        "cmake --preset asan "* | "ctest --preset "*) ;; # asan, sim, fuzz
        "build/dev/bin/sim_log_crash "* | "build/bin/stele-sim "*) ;; # seeds of what sim runs
        "steled --help" | "stele COMMAND --help") ;;     # below
        "stele node status" | "stele node slowlog" | "stele log explain" | "stele log stats") ;; # test_cli
        "stele bench produce"* | "stele bench consume") ;; # test_cli
        "stele dump" | "stele dump --verify") ;;         # the same, spoken of
        *) return 1 ;;
    esac
}

# The commands: indented lines that begin with a program, and such spans between backticks.
programs='(make|steled?|export|printf|kill|cmake|ctest|build/[a-z/_]+|(tools|bench|docs|cluster-tests)/[a-z/_]+\.sh)'
sed -n '/^## Five minutes/,/^## The house/p' "$root/README.md" | grep -E "^    $programs( |\$)" | sed -E 's/^    //' >"$work/tour"
[ "$(wc -l <"$work/tour")" -ge 8 ] || die "the tour of the README is gone"
{
    cat "$root/README.md" "$root"/docs/*.md | grep -E "^    $programs( |\$)" | sed -E 's/^    //; s/ +#.*//'
    cat "$root/README.md" "$root"/docs/*.md | grep -oE "\`$programs( [^\`]*)?\`" | tr -d '\`' | grep -vxE 'steled?|make|build/kafka-peer'
} | sort -u >"$work/commands"
sed -E 's/ +#.*//' "$work/tour" | sort -u >"$work/toured"
while read -r command; do
    run_elsewhere "$command" || die "no check runs '$command'"
done < <(comm -23 "$work/commands" "$work/toured")

# The tour. Its build is that of the checks before this one.
[ -x "$root/build/bin/steled" ] || die "make build first"
! serves || die "something else serves on 127.0.0.1:7835"
mkdir "$work/home"
ln -s "$root/build" "$work/home/build"
{
    echo "set -eo pipefail; cd '$work/home'"
    while read -r line; do
        [ "$line" != "make build" ] || continue
        printf '%s\n' "$line"
        case ${line%%#*} in
            steled*'&'*) echo "echo \$! >'$work/pid'; until (exec 3<>/dev/tcp/127.0.0.1/7835) 2>/dev/null; do kill -0 \$!; done" ;; # nobody types as fast
            kill*) echo "wait" ;;
        esac
    done <"$work/tour"
} >"$work/script"
unset STELE_BOOTSTRAP
timeout 60 bash "$work/script" >"$work/said" 2>"$work/errors" 9>&- || { cat "$work/said" "$work/errors"; die "the tour failed"; }
grep -qE '^greetings +3 ' "$work/said" || { cat "$work/said"; die "no list of topics"; }
[ "$(grep -oE '[a-z]+ says [a-z]+' "$work/said" | grep '^fr' | paste -sd ,)" = "fr says salut,fr says bonjour" ] || { cat "$work/said"; die "not the records in their order"; }
grep -q '^Log starting offset: 0' "$work/said" || die "no dump"
grep -q '0 damages' "$work/said" || die "no verdict"

# What it says of --help.
"$root/build/bin/steled" --help | grep -q -- '--listen' || die "steled --help"
for command in $("$root/build/bin/stele" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    "$root/build/bin/stele" "$command" --help | grep -q "^usage: stele $command" || die "stele $command --help"
done
"$root/build/bin/stele" topic create --help | grep -q '^usage: stele topic create' || die "stele topic create --help"
echo "$(wc -l <"$work/commands") commands, $(wc -l <"$work/tour") of them in the tour"
