#!/usr/bin/env bash
# root.sh DIR PROGRAM...: lays out in DIR what an image needs in which these programs run and nothing else does: them, stripped, the libraries that
# the loader finds for them with their licences, a user, and a directory for data. Called by deploy/Dockerfile.
set -euo pipefail
dir=$1
shift
for program in "$@"; do
    mkdir -p "$dir/usr/bin"
    strip -o "$dir/usr/bin/$(basename "$program")" "$program"
done
ldd "$@" | grep -oE '(=> |^\s+)/[^ ]+' | grep -oE '/.*' | sort -u | while read -r library; do
    install -D -m 755 "$library" "$dir$library"
    # The directories at the top are links into /usr: a package may know either name.
    package=$({ dpkg -S "$library" || dpkg -S "$(realpath "$library")" || dpkg -S "${library#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1)
    install -D -m 644 "/usr/share/doc/$package/copyright" "$dir/usr/share/doc/$package/copyright"
done
install -D -m 644 "$(dirname "${BASH_SOURCE[0]}")/../LICENSE" "$dir/usr/share/doc/stele/copyright"
mkdir -p "$dir/etc"
echo 'stele:x:7835:7835:Stele:/var/lib/stele:/usr/bin/steled' >"$dir/etc/passwd"
echo 'stele:x:7835:' >"$dir/etc/group"
install -d -o 7835 -g 7835 "$dir/var/lib/stele"
