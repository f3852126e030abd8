#!/usr/bin/env bash
# tach must keep its contract in Node, in which its clock is Performance.now().
set -euo pipefail
cd "$(dirname "$0")/../.."
# The wasm-bindgen program is built unless WASM_BINDGEN names one.
. scripts/ci/targets.sh
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR=$PWD/target/cross
command -v node >/dev/null || install_packages nodejs
version=$(sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
if [ -z "${WASM_BINDGEN:-}" ]; then
  cargo install --quiet --locked wasm-bindgen-cli --version "$version" --root "$CARGO_TARGET_DIR/tools"
  WASM_BINDGEN=$CARGO_TARGET_DIR/tools/bin/wasm-bindgen
fi
# Debian's compiler has no linker for wasm.
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(rust_lld)
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER
cargo_for $target std,panic_abort build --package osjitter-tach --example self_check
"$WASM_BINDGEN" --target nodejs --out-dir "$CARGO_TARGET_DIR/node" "$CARGO_TARGET_DIR/$target/debug/examples/self_check.wasm"
# A panic throws an exception, which makes Node exit with a failure.
node "$CARGO_TARGET_DIR/node/self_check.js"
echo "tach keeps its contract in Node"
