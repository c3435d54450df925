#!/usr/bin/env bash
# The README's main job as a test: the demo with its SIGKILLs.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../../deploy/demo.sh"
