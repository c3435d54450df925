#!/usr/bin/env bash
# Installs what is missing on a Debian machine:  deps.sh build|test|long|docker
# build: what compiling and running needs. test: sanitizers, clang, and a JDK with Maven for Kafka's own tools. long: valgrind and debootstrap too.
# docker: what deploy/test.sh needs, and nothing else.
set -euo pipefail

build=(gcc make cmake ninja-build pkg-config libevent-dev protobuf-c-compiler libprotobuf-c-dev libcmocka-dev libisal-dev
    zlib1g-dev liblz4-dev libzstd-dev libsnappy-dev uthash-dev libcjson-dev python3 zstd)
test=(clang clang-format libclang-rt-14-dev binutils tar)

want=("${build[@]}")
[ "${1:-build}" != long ] || want+=(valgrind debootstrap)
if [ "${1:-build}" = docker ]; then
    want=(debootstrap)
    command -v dockerd >/dev/null || want+=(docker.io)
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || want+=(docker-compose)
elif [ "${1:-build}" != build ]; then
    want+=("${test[@]}")
    command -v javac >/dev/null || want+=(openjdk-17-jdk-headless)
    command -v mvn >/dev/null || want+=(maven)
fi

missing=()
for package in "${want[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "deps.sh: run as root, or install: ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
