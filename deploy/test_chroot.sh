#!/usr/bin/env bash
# A new user's first minutes on a new machine: a minimal Debian in a directory, with this machine's way to packages (/etc/apt) and nothing else of
# it; there `make demo`, then the tour of the README. Takes six minutes or more, root's rights to mount, and the network.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ "$(id -u)" = 0 ] && unshare --mount --pid --fork true 2>/dev/null || { echo "needs root's right to mount"; exit 77; }
command -v debootstrap >/dev/null || { echo "needs debootstrap: tools/deps.sh long"; exit 77; }
work=$(mktemp -d)
# What is mounted is so in the namespaces of the parts below alone, which end with their processes.
trap 'rm -rf --one-file-system "$work"' EXIT
die() { echo "test_chroot: $*"; exit 1; }

from=$SECONDS
"$root/deploy/minimal.sh" "$work/os" || die "minimal.sh"
echo "a minimal Debian: $((SECONDS - from)) s"

# The checkout: what is committed.
mkdir -p "$work/os/root/stele"
git -C "$root" archive HEAD | tar -x -C "$work/os/root/stele"

# inside COMMAND: in the directory as root, with a /proc and devices, and without this shell's variables.
inside() {
    unshare --mount --pid --fork --kill-child bash -c '
        set -e
        mount -t proc none "$0/proc"
        mount --rbind /dev "$0/dev"
        exec chroot "$0" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
            ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} bash -c "cd /root/stele && $1"' "$work/os" "$1" </dev/null
}
from=$SECONDS
inside "apt-get update && apt-get install -y --no-install-recommends make" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; die "apt-get install make"; }
inside "make demo" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; die "make demo"; }
grep -qx 'demo: done' "$work/log" || { tail -n 40 "$work/log"; die "make demo does not end well"; }
echo "make demo, on a machine that had only make: $((SECONDS - from)) s"
from=$SECONDS
# The tour serves on the default port, which is this machine's too: one at a time.
exec 9>"${TMPDIR:-/tmp}/stele-tour.lock"
flock -w 120 9
inside "docs/tour.sh README.md" 9>&-
echo "the tour: $((SECONDS - from)) s"
