#!/usr/bin/env bash
# minimal.sh DIR: a minimal Debian in DIR, of the release that this machine runs, made with debootstrap from where this machine has its packages;
# with this machine's way to packages (/etc/apt, keys, certificates) and nothing else of it. Takes about a minute, root's rights, and the network.
set -euo pipefail
dir=$1
die() { echo "minimal.sh: $*" >&2; exit 1; }
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ "$(id -u)" = 0 ] || die "needs root's rights"
command -v debootstrap >/dev/null || die "needs debootstrap: tools/deps.sh long"

mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | awk -v release="$release" '$1 == release {print $2; exit}')
[ -n "$mirror" ] || die "apt-get knows no packages of '$release': is this Debian, after apt-get update?"
debootstrap --variant=minbase "$release" "$dir" "$mirror" >"$dir.log" 2>&1 || { tail -n 20 "$dir.log" >&2; die "debootstrap"; }
rm -f "$dir.log"

# The way to packages: sources, options, keys wherever the sources say they lie, names of hosts, certificates for https.
rm -rf "$dir/etc/apt/sources.list"*
cp -rT /etc/apt "$dir/etc/apt"
{ grep -rhoE 'signed-by *[:=] *[^] ]+' -i /etc/apt/sources.list* 2>/dev/null | grep -oE '/[^ ,]+' || true; } | sort -u | while read -r key; do
    [ ! -f "$key" ] || install -D -m 644 "$key" "$dir$key"
done
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [ ! -f "$file" ] || { rm -f "$dir$file"; install -D -m 644 "$file" "$dir$file"; }
done
