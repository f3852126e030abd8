#!/usr/bin/env bash
# tach must keep its contract in Node, in which its clock is Performance.now().
set -euo pipefail
cd "$(dirname "$0")/../.."
# Run this script by hand. It needs Node, builds the standard library from Debian's sources, and builds the wasm-bindgen program
# unless WASM_BINDGEN names one.
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR=$PWD/target/cross
version=$(sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
if [ -z "${WASM_BINDGEN:-}" ]; then
  cargo install wasm-bindgen-cli --version "$version" --root "$CARGO_TARGET_DIR/tools"
  WASM_BINDGEN=$CARGO_TARGET_DIR/tools/bin/wasm-bindgen
fi
linker=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/host: //p')/bin/rust-lld
RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker \
  /usr/bin/cargo build --locked --package osjitter-tach --example self_check -Zbuild-std=std,panic_abort --target $target
"$WASM_BINDGEN" --target nodejs --out-dir "$CARGO_TARGET_DIR/node" "$CARGO_TARGET_DIR/$target/debug/examples/self_check.wasm"
# A panic throws an exception, which makes Node exit with a failure.
node "$CARGO_TARGET_DIR/node/self_check.js"
echo "tach keeps its contract in Node"
