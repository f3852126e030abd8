#!/usr/bin/env bash
# Every crate must be publishable by itself: packages it and builds what the package contains.
set -euo pipefail
cd "$(dirname "$0")/../.."
# A target directory of its own: cargo caches unpacked packages by registry path, and would find an older state of the
# same version. The dependencies are shared.
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
mkdir -p target/debug
ln -s "$PWD/target/debug" "$packages/debug"
CARGO_TARGET_DIR=$packages cargo package --workspace --exclude osjitter-manpages --locked --allow-dirty
