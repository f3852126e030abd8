#!/usr/bin/env bash
# A committed build output would hide a missing build step, and every clone would carry it.
set -euo pipefail
cd "$(dirname "$0")/../.."
committed=$(git ls-files | grep -E "(^|/)target/") || exit 0
echo "error: build outputs are committed:" "${committed//$'\n'/ }"
exit 1
