#!/usr/bin/env bash
# `make install` into a prefix that is moved afterwards: what is there, what the library shows, and the example programs,
# built outside of the tree with pkg-config and with CMake, shared and static, against a running node.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; node=; fi; }
trap 'stop; rm -rf "$work"' EXIT
die() { echo "test_install: $*"; exit 1; }

make -s -C "$root" install PREFIX="$work/first" >"$work/install.log" 2>&1 || { cat "$work/install.log"; die "make install fails"; }
mv "$work/first" "$work/prefix"
prefix=$work/prefix
lib=$(dirname "$(find "$prefix" -name libstele.a)")
for file in bin/steled bin/stele include/stele.h share/doc/stele/examples/produce.c share/doc/stele/steled.conf.example; do
    [ -f "$prefix/$file" ] || die "$file is not installed"
done
for file in "$root"/docs/man/*.1; do
    [ ! -f "$file" ] || [ -f "$prefix/share/man/man1/$(basename "$file")" ] || die "$(basename "$file") is not installed"
done
[ "$(find "$prefix/include" -type f | wc -l)" = 1 ] || die "more headers than one"

# The library shows what its header declares, each name with its version, and nothing else.
nm -D --defined-only "$lib/libstele.so" | awk '$2 != "A" {print $3}' | sort >"$work/shown"
grep -vE '^stele_[a-z_]+@@STELE_[0-9.]+$' "$work/shown" && die "the library shows names without version or prefix"
grep -oE '^ +stele_[a-z_]+;' "$root/deploy/libstele.map" | tr -d ' ;' | sort >"$work/listed"
gcc -E -P -I"$prefix/include" "$prefix/include/stele.h" | tr '\n' ' ' | tr ';' '\n' | grep visibility |
    grep -oE '\bstele_[a-z_]+\(' | tr -d '(' | sort -u >"$work/declared"
sed 's/@@.*//' "$work/shown" | diff - "$work/listed" || die "the library and libstele.map differ"
diff "$work/declared" "$work/listed" || die "stele.h and libstele.map differ"
nm "$lib/libstele.a" | awk 'NF == 3 && $2 ~ /[A-Z]/ {print $3}' | grep -v '^stele_' && die "the archive shows other names"
[ "$(nm "$lib/libstele.a" | awk 'NF == 3 && $2 == "T"' | wc -l)" = "$(wc -l <"$work/listed")" ] || die "the archive shows other names"
objdump -p "$lib/libstele.so" | grep -q 'SONAME *libstele.so.0' || die "no soname"

examples=$work/examples
cp -r "$prefix/share/doc/stele/examples" "$examples"
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
warn="-std=c11 -D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror"
for example in produce consume own_loop; do
    # shellcheck disable=SC2046,SC2086
    gcc $warn "$examples/$example.c" $(pkg-config --cflags --libs stele) -o "$work/$example.pc"
done
# shellcheck disable=SC2046,SC2086
gcc $warn "$examples/produce.c" $(pkg-config --cflags stele) "$lib/libstele.a" $(pkg-config --static --libs stele | sed 's/-lstele//') -o "$work/produce.static"
if command -v g++ >/dev/null; then
    echo '#include <stele.h>
int main() { return stele_version()[0] == 0; }' >"$work/plus.cc"
    # shellcheck disable=SC2046
    g++ -Wall -Wextra -Wpedantic -Werror "$work/plus.cc" $(pkg-config --cflags --libs stele) -o "$work/plus"
    "$work/plus"
fi
cmake -S "$examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >"$work/cmake.log" ||
    { cat "$work/cmake.log"; die "the CMake package is not found"; }
cmake --build "$work/cmake" >>"$work/cmake.log" || { cat "$work/cmake.log"; die "the examples do not build with CMake"; }

mkfifo "$work/out"
"$prefix/bin/steled" --data "$work/data" --listen 127.0.0.1:0 >"$work/out" 2>"$work/steled.log" &
node=$!
read -r _ address <"$work/out"
export STELE_BOOTSTRAP=$address
seq 1 5000 >"$work/lines"
try() { # NAME PRODUCE CONSUME
    "$prefix/bin/stele" topic create "$1" -p 3
    [ "$("$2" "$address" "$1" <"$work/lines")" = "5000 acknowledged, 0 failed" ] || die "$2 does not say 5000 acknowledged"
    "$3" "$address" "$1" | awk '{print $3}' | sort -n | diff -q - "$work/lines" || die "$3 reads other lines"
}
try shared "$work/produce.pc" "$work/consume.pc"
try package "$work/cmake/produce" "$work/cmake/consume"
try static "$work/cmake/produce_static" "$work/cmake/consume_static"
try archive "$work/produce.static" "$work/cmake/consume"
"$prefix/bin/stele" topic create loop -p 1
# The input comes slowly: the loop waits for it and for the node by turns.
(for part in 1 2 3 4; do sed -n "$((part * 50 - 49)),$((part * 50))p" "$work/lines"; sleep 0.05; done) |
    "$work/own_loop.pc" "$address" loop >"$work/said" || die "own_loop fails"
seq 0 199 | sed 's/^/partition 0 offset /' | diff -q - "$work/said" || die "own_loop says other offsets"
"$work/consume.pc" "$address" loop | awk '{print $3}' | diff -q - <(head -n 200 "$work/lines") || die "own_loop's lines are others"
if "$work/consume.pc" "$address" missing 2>"$work/said"; then die "consume of no topic succeeds"; fi
grep -q "no topic 'missing'" "$work/said" || die "consume of no topic does not say so"
echo "test_install: $(wc -l <"$work/listed") names, 7 programs"
