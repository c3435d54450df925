#!/usr/bin/env bash
# The table of metrics is the one that the program prints.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
diff <("$root/build/bin/steled" --metrics-reference) <(sed -n '/^| metric |/,$p' "$root/docs/observe.md")
