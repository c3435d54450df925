#!/usr/bin/env bash
# The tour of the README as its reader takes it: every line of it in one shell, in this directory, which has build/bin, and what each line must
# print or leave behind. A line that nothing is expected of here fails it.  tour.sh README [SKIP...]: lines that are not run
set -eo pipefail
readme=$1
shift
said=$(mktemp) node_said=$(mktemp)
tour_node=
trap '[ -z "$tour_node" ] || { kill -KILL "$tour_node"; wait "$tour_node"; } 2>/dev/null || true; rm -f "$said" "$node_said"' EXIT
die() { echo "tour: $*"; sed 's/^/    /' "$said" "$node_said"; exit 1; }
serves() { (exec 3<>/dev/tcp/127.0.0.1/7835) 2>/dev/null; }
# prints PATTERN...: each is in a line of what was said
prints() { local pattern; for pattern; do grep -qE -- "$pattern" "$said" || die "'$line' does not print '$pattern'"; done; }
silent() { [ ! -s "$said" ] || die "'$line' prints something"; }

expect() {
    case ${line%%  #*} in
        "make build") [ -x build/bin/steled ] && [ -x build/bin/stele ] || die "no programs" ;;
        "export PATH="*) [ "$(command -v stele)" = "$PWD/build/bin/stele" ] || die "$(command -v stele) comes first" ;;
        "steled &"*)
            tour_node=$!
            until grep -qx "ready 127.0.0.1:7835" "$node_said"; do kill -0 $tour_node || die "steled ended"; done # nobody types as fast
            [ -d stele-data ] || die "no ./stele-data" ;;
        "stele topic create greetings -p 3"*) silent ;;
        "printf"*) silent ;;
        "stele topic list"*) prints '^greetings +3 ' ;;
        "stele consume greetings"*)
            [ "$(wc -l <"$said")" = 3 ] || die "not three records"
            prints '^1/0 de says hallo$' '^0/0 it says ciao$' '^0/1 it says buongiorno$' ;;
        "stele topic offsets"*) prints '^ +total +3$' ;;
        "stele log explain"*) prints '^Segments$' '^FROM ' 'active' ;;
        "stele log stats"*) prints '^partitions +3$' '^record bytes +3 ' ;;
        "stele config set"*) [ "$(stele config describe --topic greetings retention.ms -o json | grep -c '"3600000"')" -ge 1 ] || die "not set" ;;
        "stele config describe"*) prints '^retention.ms +3600000 +topic ' ;;
        "stele bench end-to-end"*) prints '^records +2000$' '^failed +0$' ' P50 .* P99 ' ;;
        "stele node slowlog"*) prints '^TIME ' 'hot|cold' ;;
        "stele topic delete"*) ! stele topic describe scratch >/dev/null 2>&1 || die "it is there still" ;;
        "kill %1") wait "$tour_node" || die "the stop gave $?"; ! serves || die "it serves still"; tour_node= ;;
        "stele dump --verify"*) prints '0 damages' ;;
        "stele dump"*) prints '^Dumping stele-data/greetings-0/' '^Log starting offset: 0$' '^baseOffset: 0 lastOffset: 1 count: 2 ' ;;
        *) die "nothing says what '$line' must do" ;;
    esac
}

! serves || die "something else serves on 127.0.0.1:7835"
unset STELE_BOOTSTRAP
programs='(make|steled?|export|printf|kill)'
mapfile -t lines < <(sed -n '/^## Five minutes/,/^## The house/p' "$readme" | sed -nE "s/^    ($programs( .*)?)\$/\1/p")
[ ${#lines[@]} -ge 16 ] || die "the tour is gone from $readme"
for line in "${lines[@]}"; do
    for skip; do [ "$line" != "$skip" ] || continue 2; done
    echo "    $line"
    : >"$said"
    out=$said
    case $line in "steled &"*) out=$node_said ;; esac # it goes on to speak
    eval "$line" >"$out" 2>&1 || die "'$line' gave $?"
    expect
done
echo "tour: ${#lines[@]} lines"
