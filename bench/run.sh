#!/usr/bin/env bash
# Prints the table of every measurement that there is; `make bench` builds first.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/../build/release/bin/bench_timers"
