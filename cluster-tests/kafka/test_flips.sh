#!/usr/bin/env bash
# Flips bytes of the files that real Kafka wrote (samples.tar.zst), one after another: the verifier must find each, but for those that
# undetectable-flips.txt lists with their reasons, and none of those. Takes about 15 s; `ctest -L long` has the bytes that are left out here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
flips=${FLIPS:-$here/../../build/release/bin/flips}
samples=$(dirname "$(dirname "$flips")")/samples
"$here/unpack.sh" "$samples"
"$flips" "$samples" "$here/undetectable-flips.txt" quick
