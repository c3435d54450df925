#!/usr/bin/env bash
# base-image.sh [NAME]: makes the image that deploy/Dockerfile begins with, debian:bookworm-slim by default, where no image registry is reachable:
# debootstrap fetches a minimal Debian from where this machine has its packages. Does nothing when the image is there. Takes about a minute, root's
# rights, a running docker, and debootstrap (tools/deps.sh docker).
set -euo pipefail
name=${1:-debian:bookworm-slim}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "base-image.sh: $*" >&2; exit 1; }
docker version >/dev/null 2>&1 || die "docker does not answer: start it, or put yourself into its group"
! docker image inspect "$name" >/dev/null 2>&1 || exit 0
case $name in *"$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"*) ;; *) die "this machine has not the packages of $name" ;; esac
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
"$here/minimal.sh" "$work/os"
rm -rf "$work/os/var/cache/apt"/*.bin "$work/os/var/cache/apt/archives"/*.deb "$work/os/var/lib/apt/lists"/* "$work/os/usr/share/man" "$work/os/usr/share/locale"
find "$work/os/usr/share/doc" -type f ! -name copyright -delete
tar -C "$work/os" -c . | docker import --change 'CMD ["bash"]' - "$name" >/dev/null
echo "$name: $(docker image inspect --format '{{.Size}}' "$name" | awk '{printf "%.0f MB", $1 / 1e6}')"
