#!/usr/bin/env bash
# Progress of long work: on a terminal one line that fits into it and is gone at the end, whatever is said in between; elsewhere nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
work=$(mktemp -d)
node=
trap '[ -z "$node" ] || kill -KILL "$node" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_progress: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }

mkfifo "$work/out"
"$bin/steled" --data "$work/data-ä" --listen 127.0.0.1:0 >"$work/out" 2>"$work/steled.log" &
node=$!
read -r word address <"$work/out" && [ "$word" = ready ] || die "no ready line"
export STELE_BOOTSTRAP=$address
"$bin/stele" topic create numbers -p 2
"$bin/stele" topic create slow -p 1
seq 1 300000 >"$work/numbers"
"$bin/stele" produce numbers -l "$work/numbers"
cp -r "$work/data-ä" "$work/damaged"
log=$(ls -S "$work"/damaged/numbers-*/*.log | head -n 1)
printf 'xxxx' | dd of="$log" bs=1 seek=1000 conv=notrunc status=none

python3 - "$bin/stele" "$work" <<'PYTHON'
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time
stele, work = sys.argv[1:]
COLUMNS = 44
WIPE = b"\r\x1b[K"

def run(words, stdin=None, stdout=None, terminal="xterm", feed=None):
    """Runs it with a terminal as standard error; returns exit code, what the terminal got, and standard output."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    out = open(work + "/said", "w+b")
    process = subprocess.Popen([stele] + words, stdin=stdin or subprocess.DEVNULL, stdout=slave if stdout == "terminal" else out,
                               stderr=slave, env=dict(os.environ, TERM=terminal), preexec_fn=os.setsid)
    os.close(slave)
    got, began = b"", time.monotonic()
    while True:
        if select.select([master], [], [], 0.05)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            got += piece
        if feed is not None:
            feed(process, got)
        if time.monotonic() - began > 60:
            process.kill()
            sys.exit("test_progress: %s goes on and on" % words[:2])
    os.close(master)
    out.seek(0)
    return process.wait(), got, out.read()

def lines(got):
    """The lines of progress; each is wiped before the next thing is said, fits, and has no control characters."""
    shown, at = [], 0
    for part in got.split(WIPE)[1:]:
        line = part.decode()
        if "\n" in line:
            line = line[: line.index("\n")]
            assert line.startswith(("stele ", "damage ", "{")), repr(line)
            continue
        assert all(c >= " " for c in line), repr(line)
        assert sum(1 + (ord(c) > 127) for c in line) < COLUMNS, repr(line)
        if line:
            shown.append(line)
    return shown

def gone(got):
    """Nothing is left on the terminal but whole lines."""
    return re.sub(rb"[^\n]*\r\x1b\[K", b"", got.replace(b"\r\n", b"\n"))

# A long verification: the directory as often as it takes.
for times in (20, 80, 320, 1280):
    code, got, out = run(["dump", "--verify"] + [work + "/data-ä"] * times)
    assert code == 0 and out.count(b" 0 damages") == times, (code, out[-300:])
    if lines(got):
        break
shown = lines(got)
assert shown and all(re.match(r"\d+ files, [0-9.]+ \S+, \d+ records, 0 d", line) for line in shown), shown
assert gone(got) == b"", got
for more in (times, 4 * times, 16 * times, 64 * times):
    code, got, out = run(["dump", "--verify", "-o", "json"] + [work + "/damaged"] * more, stdout="terminal")
    text = gone(got).decode()
    assert code == 1 and text.count('"kind":"damage"') >= more and text.count('"kind":"verified"') == more, (code, text[-300:])
    if lines(got):
        break
assert lines(got)
assert run(["dump", "--verify"] + [work + "/data-ä"] * times, terminal="dumb")[1] == b""
plain = subprocess.run([stele, "dump", "--verify"] + [work + "/data-ä"] * times, capture_output=True)
assert plain.returncode == 0 and plain.stderr == b"", plain.stderr

# Records that come slowly: a producer shows how many went, a consumer how many came.
reader, writer = os.pipe()
state = {"next": 0, "done": False}
def feed(process, got):
    if not state["done"] and time.monotonic() >= state["next"]:
        state["next"] = time.monotonic() + 0.1
        os.write(writer, b"x\n")
        if lines(got):
            os.close(writer)
            state["done"] = True
code, got, out = run(["produce", "slow"], stdin=reader, feed=feed)
assert code == 0 and gone(got) == b"" and all(re.match(r"\d+ records, ", line) for line in lines(got)), (code, got)

code, got, out = run(["bench", "produce", "slow", "-s", "2", "-r", "100"])
assert code == 0 and gone(got) == b"" and lines(got), (code, got)
code, got, out = run(["bench", "produce", "slow", "-s", "1", "-r", "100", "-o", "json"])
assert code == 0 and out.startswith(b"{"), out
print("progress: %d lines of a verification" % len(shown))
PYTHON
kill "$node"
wait "$node" || die "the stop gave $?"
node=
