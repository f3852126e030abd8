#!/usr/bin/env bash
# Proves that the libraries are what they claim on platforms that this machine is not:
#   run     Windows under Wine (both timers), aarch64 and 32-bit Linux under qemu; there, too, a plan draws its order
#   check   every other target, with the real types of its system
# Needs root for Debian packages, or a machine that has them. A target that rustup has installed is used as it is; for
# the others the standard library is built from Debian's sources.
#
#   scripts/cross-check.sh            everything
#   scripts/cross-check.sh TARGET...  only these
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=$PWD/target/cross
suite=(--package osinterval --package osjitter-cadence --package osjitter-tach --package busypoll)

step() { printf '\n-- %s\n' "$*"; }
need() {
  local missing=()
  for package in "$@"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# cargo for a target: build_for TARGET PARTS-OF-STD SUBCOMMAND ARGUMENT...
build_for() {
  local target=$1 parts=$2
  shift 2
  if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    cargo "$@" --target "$target" --locked
  else
    need rustc-web cargo-web rust-web-src
    RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 \
      /usr/bin/cargo "$@" -Zbuild-std="$parts" --target "$target" --locked
  fi
}

# Builds the test programs of a target and prints their paths.
test_programs() {
  build_for "$1" std,test,panic_unwind,proc_macro test --no-run --message-format=json "${suite[@]}" |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("executable") and message["profile"]["test"]:
        print(message["executable"])'
}

# run_all RUNNER [ARGUMENT FOR EACH PROGRAM]...
run_all() {
  local runner=$1 programs
  shift
  programs=$(cat)
  [ -n "$programs" ] || { echo "no test program was built" >&2; return 1; }
  for program in $programs; do
    echo "$program"
    # Wine and qemu are slow, and nothing in the suites depends on time; but none may hang.
    timeout 300 $runner "$program" --quiet "$@"
  done
}

wine_ready() {
  need wine wine64 gcc-mingw-w64-x86-64
  export WINEDEBUG=-all WINEPREFIX=$CARGO_TARGET_DIR/wine
  local shim=$CARGO_TARGET_DIR/wine-shim
  mkdir -p "$shim"
  # Wine 8 has no bcryptprimitives.dll, where the standard library takes its random numbers from.
  cat >"$shim/prng.c" <<'C'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  return RtlGenRandom(data, (ULONG)size);
}
C
  x86_64-w64-mingw32-gcc -shared -O2 -o "$shim/bcryptprimitives.dll" "$shim/prng.c" -ladvapi32
  WINEPATH=$(WINEPREFIX=$WINEPREFIX winepath -w "$shim" 2>/dev/null)
  export WINEPATH
}

windows() {
  local target=x86_64-pc-windows-gnu out
  wine_ready
  step "$target: the suites under Wine, on the high-resolution timer"
  test_programs $target | run_all wine
  step "$target: osjitter under Wine"
  build_for $target std,panic_unwind build --package osjitter
  out=$(mktemp -d)
  wine "$CARGO_TARGET_DIR/$target/debug/osjitter.exe" run --period 2ms --ticks 100 --out "$(winepath -w "$out")" 2>/dev/null
  python3 - "$out/report.json" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
backends = {s["name"]: s["backend"] for s in report["subjects"]}
assert report["host"]["os"] == "windows" and backends["os-interval"] in ("waitable-timer", "threadpool-timer"), backends
for s in report["subjects"]:
    assert s["status"] == {"state": "measured"} and s["summary"]["ticks"] == 100 and s["summary"]["early"] == 0, s["id"]
print("report:", backends)
PY
  rm -rf "$out"
  step "$target: osinterval under Wine, on the thread pool's timer"
  # That is a matter of osinterval alone.
  (
    suite=(--package osinterval)
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS='--cfg osinterval_force_threadpool' test_programs $target | run_all wine
  )
}

linux() {
  local target=$1 compiler=$2 library=$3 qemu=$4 variable
  need "gcc-$compiler" "$library" qemu-user
  step "$target: the suites under $qemu"
  variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_LINKER
  export "$variable=$compiler-gcc"
  # Tested natively only: an emulated counter and an emulated clock are not two clocks of one machine; an emulated
  # process cannot start another; and what says nothing about a platform but takes a minute there.
  test_programs "$target" | run_all "$qemu -L /usr/$compiler" \
    --skip within_the_bound --skip there_and_back_to_the_os_clock --skip own_process:: --skip millions_of
}

# One plan, here and on a machine of 32 bits: every round has the same place in the order, and the same phase.
same_order() {
  local target=$1 runner=$2 out plan
  step "$target: one plan draws the same order and phases as here"
  build_for "$target" std,panic_unwind build --package osjitter --bin osjitter
  cargo build --locked --bin osjitter
  out=$(mktemp -d) plan=$out/plan.toml
  cat >"$plan" <<'TOML'
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
  $runner "$CARGO_TARGET_DIR/$target/debug/osjitter" run --quiet --plan "$plan" --out "$out/there" >/dev/null
  "$CARGO_TARGET_DIR/debug/osjitter" run --quiet --plan "$plan" --out "$out/here" >/dev/null
  python3 - "$out" <<'PY'
import json, sys
def drawn(where):
    report = json.load(open(f"{sys.argv[1]}/{where}/report.json"))
    return [[(s["id"], r["index"], r["slot"], r["phase_ns"]) for r in s["rounds"]] for s in report["subjects"]]
here, there = drawn("here"), drawn("there")
assert here == there, "another order or phase"
assert len({r[2] for r in here[0]}) > 1 and len({r[3] for r in here[0]}) > 1, "nothing is drawn"
print(f"order: {sum(map(len, here))} rounds, each with the same place and phase")
PY
  unset OSJITTER_SCRIPT
  rm -rf "$out"
}

check() {
  step "$1: type check"
  build_for "$1" std,panic_abort check "${@:2}"
}

one() {
  case $1 in
    x86_64-pc-windows-gnu) windows ;;
    aarch64-unknown-linux-gnu) linux "$1" aarch64-linux-gnu libc6-dev-arm64-cross qemu-aarch64 ;;
    i686-unknown-linux-gnu)
      linux "$1" i686-linux-gnu libc6-dev-i386-cross qemu-i386
      same_order "$1" "qemu-i386 -L /usr/i686-linux-gnu"
      ;;
    aarch64-apple-darwin | x86_64-unknown-freebsd) check "$1" "${suite[@]}" --package osjitter ;;
    riscv64gc-* | loongarch64-* | wasm32-unknown-unknown) check "$1" --package osjitter-tach ;;
    # No threads there, thus nobody to wake a runtime that is parked: not a place for busypoll.
    wasm32-wasip1) check "$1" --package osinterval --package osjitter-cadence --package osjitter-tach ;;
    *) check "$1" "${suite[@]}" ;;
  esac
}

targets=(
  x86_64-pc-windows-gnu aarch64-unknown-linux-gnu i686-unknown-linux-gnu
  aarch64-apple-darwin x86_64-apple-darwin aarch64-apple-ios
  x86_64-unknown-freebsd x86_64-unknown-netbsd x86_64-unknown-openbsd
  aarch64-linux-android wasm32-wasip1
  riscv64gc-unknown-linux-gnu loongarch64-unknown-linux-gnu wasm32-unknown-unknown
)
for target in "${@:-${targets[@]}}"; do one "$target"; done
