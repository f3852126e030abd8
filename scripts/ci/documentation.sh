#!/usr/bin/env bash
# Documentation must build without a warning or a broken link.
set -euo pipefail
cd "$(dirname "$0")/../.."
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features --locked
