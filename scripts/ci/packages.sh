#!/usr/bin/env bash
# Every crate must be publishable alone, so each one is packaged and built from its package.
set -euo pipefail
cd "$(dirname "$0")/../.."
# cargo caches unpacked packages by registry path and would use an older state of the same version, so this step has a separate
# target directory. The dependencies are shared.
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
mkdir -p target/debug
ln -s "$PWD/target/debug" "$packages/debug"
CARGO_TARGET_DIR=$packages cargo package --workspace --exclude osjitter-manpages --locked --allow-dirty
