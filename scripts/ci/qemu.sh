#!/usr/bin/env bash
# Runs the suites on other processors under qemu; on 32 bits, a plan must give the same random order as here.
# shellcheck disable=SC2086  # the emulator has arguments
set -euo pipefail
cd "$(dirname "$0")/../.."
# Argument: aarch64 or i686.
. scripts/ci/targets.sh
native=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$PWD/target/cross
case ${1-} in
  aarch64)
    target=aarch64-unknown-linux-gnu
    install_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    ;;
  i686)
    target=i686-unknown-linux-gnu
    install_packages gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
    emulator="qemu-i386 -L /usr/i686-linux-gnu"
    ;;
  *) echo "usage: scripts/ci/qemu.sh aarch64|i686" >&2 && exit 2 ;;
esac

# Some tests only run natively: an emulated counter and an emulated clock are not two clocks of one machine, an emulated process
# cannot start another one, and some tests do not depend on the platform but need a minute here. Property tests run fewer cases
# than natively.
build_tests $target "${LIBRARIES[@]}" | PROPTEST_CASES=64 run_tests "$emulator" \
  --skip cancelled_sends_ --skip hundred_thousand_tasks --skip long_token_chain \
  --skip os_clock_within_bound --skip os_clock_round_trip --skip own_process:: --skip millions_of \
  --skip very_many_live_tasks --skip killed_meters --skip measured_process --skip meter_is_selected --skip unclear_request --skip finite_process \
  --skip clock_stays_within_error_bound --skip hostile_files --skip concurrent_snapshots
[ "$1" = i686 ] || exit 0

echo "-- a plan gives the same order and phases as natively"
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
$emulator "$CARGO_TARGET_DIR/$target/debug/osjitter" run --quiet --plan "$out/plan.toml" --out "$out/emulated" >/dev/null
"$native/debug/osjitter" run --quiet --plan "$out/plan.toml" --out "$out/native" >/dev/null
python3 - "$out" <<'PY'
import json, sys
def read_order(side):
    report = json.load(open(f"{sys.argv[1]}/{side}/report.json"))
    return [[(s["id"], r["index"], r["slot"], r["phase_ns"]) for r in s["rounds"]] for s in report["subjects"]]
native, emulated = read_order("native"), read_order("emulated")
assert native == emulated, "the orders or phases differ"
assert len({r[2] for r in native[0]}) > 1 and len({r[3] for r in native[0]}) > 1, "neither order nor phase is random"
print(f"order: {sum(map(len, native))} rounds with equal slots and phases")
PY
