#!/usr/bin/env bash
# The table of scenarios (docs/scenarios.md) has a row for each number, and every check that it names is there and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 - <<'PYTHON'
import glob, os, re, subprocess, sys

table = open("docs/scenarios.md").read()
cmake = "".join(open(name).read() for name in glob.glob("*/CMakeLists.txt"))
checks = open("tools/test.sh").read() + open("tools/test-long.sh").read() + cmake
sources = {}
for name in glob.glob("*/**/*.c", recursive=True) + glob.glob("*/**/*.sh", recursive=True):
    sources.setdefault(os.path.basename(name), []).append(name)
wrong = []


def look(number, name):
    """What is named so, or why not."""
    if match := re.fullmatch(r"(\w+\.c):(test_\w+)", name):
        paths = sources.get(match[1], [])
        if len(paths) != 1:
            return f"there are {len(paths)} of {match[1]}"
        text = open(paths[0]).read()
        if not re.search(rf"^static void {match[2]}\(", text, re.M):
            return f"{paths[0]} has no {match[2]}"
        if len(re.findall(rf"\b{match[2]}\b", text)) < 2:
            return f"{paths[0]} does not run {match[2]}"
        if not re.search(rf"\b{match[1]}\b", cmake):
            return f"{paths[0]} is not built"
    elif re.fullmatch(r"[sb]\d\d-[\w-]+", name):
        path = f"cluster-tests/sim/scenarios/{name}.script"
        if not os.path.exists(path):
            return f"there is no {path}"
        if number not in re.findall(r"[SB]\d+", "".join(line for line in open(path) if line.startswith("#"))):
            return f"{path} does not say that it is about {number}"
        if f'"{name} ' not in cmake:
            return f"{path} is not run"
    elif name.endswith(".sh"):
        paths = sources.get(name, [])
        runs = [path for path in paths if name in checks or f"{os.path.dirname(path)}/test_*.sh" in checks]
        if len(paths) != 1 or not runs:
            return f"there is no {name}, or nobody runs it"
    elif not re.search(rf"\b{name}\b", cmake):
        return f"there is no {name}"
    return None


rows = {}
for line in table.splitlines():
    if match := re.match(r"\| ([SB]\d+)(?:-[SB](\d+))? \|(.*)\|$", line):
        cells = [cell.strip() for cell in match[3].split("|")]
        for number in range(int(match[1][1:]), int(match[2] or match[1][1:]) + 1):
            rows[match[1][0] + str(number)] = cells
        for name in re.findall(r"`([^`]+)`", cells[-1]):
            if why := look(match[1], name):
                wrong.append(f"{match[1]}: {why}")
        if len(cells) != 3 or not ("`" in cells[-1] or cells[-1].startswith("not of this ")):
            wrong.append(f"{match[1]}: no check, and no reason why not")
for number in [f"S{i}" for i in range(1, 43)] + [f"B{i}" for i in range(1, 73)]:
    if number not in rows:
        wrong.append(f"{number} has no row")
for path in glob.glob("cluster-tests/sim/scenarios/*.script"):
    if f"`{os.path.basename(path)[:-7]}`" not in table:
        wrong.append(f"{path} is in no row")
print("\n".join(wrong) if wrong else f"{len(rows)} scenarios, each with its checks")
sys.exit(bool(wrong))
PYTHON
