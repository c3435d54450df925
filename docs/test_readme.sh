#!/usr/bin/env bash
# Every command of the README and the docs is run by some check: the tour here, on what `make install` installs (deploy/test_chroot.sh takes it on
# a new machine), the others where the table says, which is held against the files it names.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "test_readme: $*"; exit 1; }

# COMMAND | FILE | what the file must hold: the command is run there.  COMMAND | - | REASON: no check runs it. '*' stands for anything.
cat >"$work/table" <<'TABLE'
make demo | cluster-tests/process/test_demo.sh | deploy/demo.sh
make test | - | this is part of it
make test-long | - | takes hours; it calls the next
.ci/run | - | calls make test
tools/test-long.sh | - | takes hours
make bench* | - | measurements; the tests labelled bench run each of ours shortly
bench/*.sh* | - | what those call
chrt -f 10 | - | the same
stele bench produce* | cluster-tests/process/test_cli.sh | "$stele" bench produce
stele bench consume | cluster-tests/process/test_cli.sh | "$stele" bench consume
make install PREFIX=* | cluster-tests/process/test_install.sh | make -s -C "$root" install PREFIX=
cc produce.c $(pkg-config --cflags --libs stele) | cluster-tests/process/test_install.sh | $(pkg-config --cflags --libs stele)
tools/test.sh | Makefile | @tools/test.sh
tools/floors.sh* | tools/test.sh | tools/floors.sh build/release
cluster-tests/process/test_*.sh | tools/test.sh | cluster-tests/process/test_*.sh
cluster-tests/kafka/test_*.sh | tools/test.sh | cluster-tests/kafka/test_*.sh
cluster-tests/sim/test_mutations.sh* | cluster-tests/CMakeLists.txt | sim/test_mutations.sh
cluster-tests/golden/test_*.sh | tools/test.sh | cluster-tests/golden/test_*.sh
docs/test_*.sh | tools/test.sh | docs/test_*.sh
deploy/test_chroot.sh | tools/test-long.sh | deploy/test_chroot.sh
deploy/test.sh | tools/test-long.sh | deploy/test.sh
deploy/base-image.sh | deploy/test.sh | "$here/base-image.sh"
docker build -f deploy/Dockerfile -t stele . | deploy/test.sh | docker build -f "$here/Dockerfile" -t "$STELE_IMAGE" "$root"
docker run --detach * stele | deploy/test.sh | docker run --detach
docker run --rm --network stele_default * | deploy/test.sh | --network "${project}_default"
docker exec stele stele topic list | deploy/test.sh | docker exec "$project" stele topic list
docker compose -p stele -f deploy/compose.yaml * | deploy/test.sh | "${how[@]}" -p "$project" -f "$here/compose.yaml"
docker stop | deploy/test.sh | docker stop
docker ps | deploy/test.sh | .State.Health.Status
stele quorum status | deploy/test.sh | stele quorum status
stele -b 127.0.0.1:7841,127.0.0.1:7842,127.0.0.1:7843 quorum status | deploy/test.sh | from_here quorum status
cmake --preset asan * | tools/test.sh | check asan tests asan
ctest --preset dev -L sim -V | tools/test.sh | ctest --preset dev -L sim -V
ctest --preset dev -L long | tools/test-long.sh | ctest --preset dev -L long
ctest --preset fuzz | tools/test.sh | ctest --preset fuzz
build/dev/bin/sim_log_crash --seed N --verbose | docs/test_readme.sh | sim_log_crash" --seed 7 --verbose
build/bin/stele-sim --seed 7 --verbose | docs/test_readme.sh | stele-sim" --seed 7 --verbose
build/bin/stele-sim --seed 7 --script-out 7.script | docs/test_readme.sh | stele-sim" --seed 7 --script-out
build/bin/stele-sim --seed 7 --shrink | docs/test_readme.sh | stele-sim" --seed 7 --shrink
build/bin/stele-sim --one-node --seed N --verbose | docs/test_readme.sh | stele-sim" --one-node --seed 7 --verbose
build/bin/stele-sim --one-node --seed 1000000 --seeds * | docs/test_readme.sh | stele-sim" --one-node --seed 1000000 --seeds 20
build/dev/bin/quorum_world --first * | docs/test_readme.sh | quorum_world" --first 1 --seeds 5
build/dev/bin/partition_sim --seeds * | docs/test_readme.sh | partition_sim" --seeds 1 5
stele-sim --one-node* | docs/test_readme.sh | stele-sim" --one-node --seed 7 --verbose
build/bin/stele-sim --config * --seeds 100 | docs/test_readme.sh | stele-sim" --config "$root/cluster-tests/sim/example.conf" --seeds 2
build/bin/stele-sim --seed 1000000 --seeds * | docs/test_readme.sh | stele-sim" --seed 1000000 --seeds 3
apt-cache dumpavail | deploy/demo.sh | apt-cache dumpavail
steled --settings-reference | docs/test_settings.sh | --settings-reference
steled --metrics-reference | docs/test_observe.sh | --metrics-reference
steled --help | docs/test_readme.sh | steled" --help
stele COMMAND --help | docs/test_readme.sh | stele" "$command" --help
stele cluster status* | cluster-tests/process/test_admin.sh | "$stele" cluster status
stele cluster level * | cluster-tests/process/test_admin.sh | "$stele" cluster level
stele quorum status | cluster-tests/process/test_admin.sh | "$stele" quorum status
stele quorum readmit * | cluster-tests/process/test_admin.sh | "$stele" quorum readmit
stele quorum add * | cluster-tests/process/test_admin.sh | "$stele" quorum add
stele quorum remove * | cluster-tests/process/test_admin.sh | "$stele" quorum remove
stele -b HOST:PORT quorum status --local | cluster-tests/process/test_admin.sh | quorum status --local
stele -b HOST:PORT cluster status --local | cluster-tests/process/test_admin.sh | cluster status --local
stele topic describe --ailing | cluster-tests/process/test_admin.sh | "$stele" topic describe --ailing
stele topic describe orders | cluster-tests/process/test_cli.sh | "$stele" topic describe orders
stele topic create | cluster-tests/process/test_cli.sh | "$stele" topic create
stele partition reassign --wait * | cluster-tests/process/test_admin.sh | "$stele" partition reassign --wait
stele partition reassign --cancel * | cluster-tests/process/test_admin.sh | "$stele" partition reassign --cancel
stele partition reassign* | cluster-tests/process/test_admin.sh | "$stele" partition reassign
stele partition move --wait * | cluster-tests/process/test_moves.sh | "$stele" partition move --wait
stele partition move* | cluster-tests/process/test_moves.sh | "$stele" partition move
stele node replicas* | cluster-tests/process/test_moves.sh | "$stele" node replicas
stele partition elect --all | cluster-tests/process/test_admin.sh | "$stele" partition elect --all
stele partition elect --unclean * | cluster-tests/process/test_admin.sh | "$stele" partition elect --unclean
stele partition elect * | cluster-tests/process/test_admin.sh | "$stele" partition elect m
stele node unregister * | cluster-tests/process/test_admin.sh | "$stele" node unregister
stele config set * --cluster | cluster-tests/process/test_cli.sh | "$stele" config set --cluster
stele config set * --topic * | cluster-tests/process/test_cli.sh | "$stele" config set --topic
stele config unset * --topic * | cluster-tests/process/test_cli.sh | "$stele" config unset --topic
ctest -R sim_scenario* | tools/test.sh | ctest --preset dev -L sim -V
stele topic trim | cluster-tests/process/test_cli.sh | "$stele" topic trim
stele config set --cluster * | cluster-tests/process/test_cli.sh | "$stele" config set --cluster
stele node status | cluster-tests/process/test_cli.sh | "$stele" node status
stele node slowlog | docs/tour.sh | stele node slowlog
stele log explain | docs/tour.sh | stele log explain
stele log stats | docs/tour.sh | stele log stats
stele dump* | docs/tour.sh | stele dump
TABLE

# What is a command: an indented line, or words between backticks, of which the first is a program of ours, a file of the tree that can be run, or
# a program that this machine finds when it is more than a name alone.
python3 - "$root" "$work/table" <<'PYTHON'
import fnmatch, glob, os, re, shutil, sys
root, table = sys.argv[1:]
ours = {"make", "stele", "steled", "stele-sim", "cc", "cmake", "ctest", "export", "printf", "kill", "apt-cache", "docker"}
rows = [[part.strip() for part in line.split(" | ", 2)] for line in open(table)]
pages = [root + "/README.md"] + sorted(glob.glob(root + "/docs/*.md"))
bad, found, used = [], {}, set()

def is_command(text, is_line):
    words = text.split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    if not words or words[0] in ("struct",):
        return False
    path = os.path.join(root, words[0])
    if "/" in words[0] and (words[0].startswith("build/") or (os.path.isfile(path) and os.access(path, os.X_OK))):
        return is_line or words[0] != "build/kafka-peer"
    if words[0] in ours:
        return is_line or len(words) > 1
    # not a row of numbers under a program's name
    return len(words) > 1 and not words[1][0].isdigit() and re.fullmatch(r"[a-z][a-z0-9+.-]*", words[0]) and shutil.which(words[0])

readme = open(pages[0], encoding="utf-8").read()
tour = re.search(r"^## Five minutes$.*?^## The house$", readme, re.M | re.S)
toured = re.findall(r"^    (\S.*)$", tour.group(0), re.M) if tour else []
for page in pages:
    name = os.path.basename(page)
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        texts = [(text, False) for text in re.findall(r"`([^`]+)`", line)]
        if re.match(r"    \S", line):
            texts.append((re.sub(r"\s+#.*", "", line.strip()), True))
        for text, is_line in texts:
            if is_command(text, is_line):
                found.setdefault(text, "%s:%d" % (name, number))
for fence in [page for page in pages if "```" in open(page, encoding="utf-8").read()]:
    bad.append("%s has a fenced block: indent it, or look into it here" % fence)
plain = {re.sub(r"\s+#.*", "", line) for line in toured}
for command, place in sorted(found.items()):
    if command in plain:
        continue
    rows_of = [row for row in rows if fnmatch.fnmatchcase(command, row[0].replace("[", "[[]"))]
    if not rows_of:
        bad.append("%s: no check runs '%s'" % (place, command))
    used.update(row[0] for row in rows_of)
for pattern, file, text in rows:
    if pattern not in used:
        bad.append("nobody speaks of '%s' any more: take its row out" % pattern)
    if file != "-" and text not in open(os.path.join(root, file), encoding="utf-8").read().split("TABLE\n")[-1]:
        bad.append("%s does not run '%s'" % (file, text))
print("\n".join(bad) or "%d commands, %d lines of them in the tour, %d rows are exceptions" % (len(found), len(plain), sum(row[1] == "-" for row in rows)))
sys.exit(bool(bad))
PYTHON

# The tour, on installed programs.
make -s -C "$root" install PREFIX="$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; die "make install fails"; }
mkdir -p "$work/home/build"
ln -s "$work/prefix/bin" "$work/home/build/bin"
exec 9>"${TMPDIR:-/tmp}/stele-tour.lock" # it serves on the default port: one at a time
flock -w 120 9
(cd "$work/home" && timeout 120 "$root/docs/tour.sh" "$root/README.md" "make build" 9>&-)

# What it says of --help.
bin=$work/prefix/bin
"$bin/steled" --help | grep -q -- '--listen' || die "steled --help"
for command in $("$bin/stele" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort -u); do
    "$bin/stele" "$command" --help | grep -q "^usage: stele $command" || die "stele $command --help"
done
"$bin/stele" topic create --help | grep -q '^usage: stele topic create' || die "stele topic create --help"

# What it says of a seed.
"$root/build/bin/stele-sim" --one-node --seed 7 --verbose | tail -n 1 | grep -q '^reached: 1 runs' || die "stele-sim --one-node --seed"
"$root/build/bin/stele-sim" --one-node --seed 1000000 --seeds 20 | tail -n 1 | grep -q '^reached: ' || die "stele-sim --one-node --seeds"
"$root/build/bin/stele-sim" --seed 7 --verbose | tail -n 1 | grep -q '^seed 7: hash' || die "stele-sim --seed"
"$root/build/bin/stele-sim" --seed 7 --script-out "$work/7.script" >"$work/7.drawn"
"$root/build/bin/stele-sim" --script "$work/7.script" | cmp - "$work/7.drawn" || die "stele-sim --script: not what was drawn"
"$root/build/bin/stele-sim" --seed 7 --shrink >"$work/7.shrunk" && grep -q . "$work/7.shrunk" || die "stele-sim --shrink"
"$root/build/bin/stele-sim" --config "$root/cluster-tests/sim/example.conf" --seeds 2 | grep -q '^acknowledged a seed: ' || die "stele-sim --config"
"$root/build/bin/stele-sim" --seed 1000000 --seeds 3 | grep -q '^acknowledged a seed: ' || die "stele-sim --seeds"
[ ! -x "$root/build/dev/bin/quorum_world" ] || "$root/build/dev/bin/quorum_world" --first 1 --seeds 5 >/dev/null || die "quorum_world"
[ ! -x "$root/build/dev/bin/partition_sim" ] || "$root/build/dev/bin/partition_sim" --seeds 1 5 >/dev/null || die "partition_sim"
[ ! -x "$root/build/dev/bin/sim_log_crash" ] || "$root/build/dev/bin/sim_log_crash" --seed 7 --verbose | grep -q '^RESTARTED_AT' || die "sim_log_crash"
