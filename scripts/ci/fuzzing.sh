#!/usr/bin/env bash
# Mutates the inputs of every reader for a while; most defects of readers were found this way.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Argument: minutes or executions, like the first one of fuzz/run.sh [default: 10m].
bash fuzz/run.sh "${1:-10m}"
