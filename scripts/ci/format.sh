#!/usr/bin/env bash
# All code is formatted by rustfmt, so that no review is about spaces.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo fmt --all --check
