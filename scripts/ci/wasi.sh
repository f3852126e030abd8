#!/usr/bin/env bash
# The libraries must work on wasm32-wasip1, which has neither threads nor native timers; Node runs the programs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/targets.sh
target=wasm32-wasip1
export CARGO_TARGET_DIR=$PWD/target/cross
command -v node >/dev/null || install_packages nodejs
if [ -z "$(rustup_targets $target)" ]; then
  # The standard library is built from its sources, without the C library, which Debian has.
  install_packages wasi-libc
  libc=/usr/lib/wasm32-wasi
  CARGO_TARGET_WASM32_WASIP1_LINKER=$(rust_lld)
  CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="-L native=$libc -C link-self-contained=no -C link-arg=$libc/crt1-command.o"
  export CARGO_TARGET_WASM32_WASIP1_LINKER CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cat >"$out/run.mjs" <<'JS'
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';
const [program, ...args] = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args: [program, ...args], env: process.env, returnOnExit: true });
const imports = { wasi_snapshot_preview1: wasi.wasiImport };
const { instance } = await WebAssembly.instantiate(await readFile(program), imports);
process.exitCode = wasi.start(instance);
JS
# Before version 20, Node needs a flag for WASI.
flag=--experimental-wasi-unstable-preview1
node $flag --eval 0 2>/dev/null || flag=
runtime="node --no-warnings $flag $out/run.mjs"

echo "-- the suite of cadence"
build_tests $target --package osjitter-cadence | run_tests "$runtime"
echo "-- tach keeps its contract"
cargo_for $target std,panic_abort build --package osjitter-tach --example self_check
$runtime "$CARGO_TARGET_DIR/$target/debug/examples/self_check.wasm"
echo "-- osinterval ticks, and follows a paused clock"
cargo_for $target std,panic_abort build --package osinterval --example heartbeat --example simulation
$runtime "$CARGO_TARGET_DIR/$target/debug/examples/heartbeat.wasm" 4
$runtime "$CARGO_TARGET_DIR/$target/debug/examples/simulation.wasm" 7
