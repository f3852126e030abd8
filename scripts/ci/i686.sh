#!/usr/bin/env bash
# Runs the suites of the libraries as 32-bit programs; a plan must give the same random order as with 64 bits.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/targets.sh
target=i686-unknown-linux-gnu
native=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$PWD/target/cross
# The cross compiler is the linker, since gcc-multilib conflicts with those of other steps. The last two packages run the programs.
install_packages gcc-i686-linux-gnu libc6-dev-i386-cross libc6-i386 lib32gcc-s1
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
/lib/ld-linux.so.2 --version >/dev/null 2>&1 || skip "this kernel does not run 32-bit programs"

build_tests $target "${LIBRARIES[@]}" --package idletimeout --package jitterstat | run_tests ""

echo "-- a plan gives the same order and phases as with 64 bits"
cargo_for $target std build --package osjitter --bin osjitter
CARGO_TARGET_DIR=$native cargo build --locked --bin osjitter
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cat >"$out/plan.toml" <<'TOML'
[run]
seed = 20261121
[[scenario]]
subject = ["scripted", "scripted-b", "scripted-c"]
period = ["300us", "7ms"]
ticks = 2000
round-ticks = 20
TOML
export OSJITTER_SCRIPT=$out/script.json
echo '{"scripted": {"lateness_ns": [1]}, "scripted-b": {"lateness_ns": [2]}, "scripted-c": {"lateness_ns": [3]}}' >"$OSJITTER_SCRIPT"
"$CARGO_TARGET_DIR/$target/debug/osjitter" run --quiet --plan "$out/plan.toml" --out "$out/32" >/dev/null
"$native/debug/osjitter" run --quiet --plan "$out/plan.toml" --out "$out/64" >/dev/null
python3 - "$out" <<'PY'
import json, sys
def read_order(bits):
    report = json.load(open(f"{sys.argv[1]}/{bits}/report.json"))
    return [[(s["id"], r["index"], r["slot"], r["phase_ns"]) for r in s["rounds"]] for s in report["subjects"]]
long, short = read_order(64), read_order(32)
assert long == short, "the orders or phases differ"
assert len({r[2] for r in long[0]}) > 1 and len({r[3] for r in long[0]}) > 1, "neither order nor phase is random"
print(f"order: {sum(map(len, long))} rounds with equal slots and phases")
PY
