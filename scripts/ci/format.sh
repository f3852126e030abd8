#!/usr/bin/env bash
# One style, applied by rustfmt, so that no review is about spaces.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo fmt --all --check
