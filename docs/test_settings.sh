#!/usr/bin/env bash
# The settings page and the example file are those that the program prints.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/build/bin/steled" --settings-reference | cmp - "$root/docs/settings.md"
"$root/build/bin/steled" --settings-example | cmp - "$root/deploy/steled.conf.example"
"$root/build/bin/steled" --check --config "$root/deploy/steled.conf.example"
