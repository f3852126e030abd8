#!/usr/bin/env bash
# Runs the Windows suites with both timers under Wine, and the program itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/targets.sh
target=x86_64-pc-windows-gnu
install_packages wine wine64 gcc-mingw-w64-x86-64
export CARGO_TARGET_DIR=$PWD/target/cross WINEDEBUG=-all WINEPREFIX=$PWD/target/cross/wine
shim=$CARGO_TARGET_DIR/wine-shim
mkdir -p "$shim"
# Wine 8 lacks bcryptprimitives.dll, from which the standard library gets its random numbers.
cat >"$shim/prng.c" <<'C'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  return RtlGenRandom(data, (ULONG)size);
}
C
x86_64-w64-mingw32-gcc -shared -O2 -o "$shim/bcryptprimitives.dll" "$shim/prng.c" -ladvapi32
# One server is used for all programs and ends a minute after the last one. Otherwise a program could connect to a server that
# is about to end.
wineserver -p60 </dev/null >/dev/null 2>&1 || true
WINEPATH=$(winepath -w "$shim" 2>/dev/null)
export WINEPATH

echo "-- the suites with the high-resolution timer"
build_tests $target "${LIBRARIES[@]}" | run_tests wine
echo "-- the program"
cargo_for $target std build --package osjitter --bin osjitter
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
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
echo "-- osinterval with the timer of the thread pool"
RUSTC_WORKSPACE_WRAPPER=$(bash scripts/ci/cfg-wrapper.sh osinterval_force_threadpool)
export RUSTC_WORKSPACE_WRAPPER
build_tests $target --package osinterval | run_tests wine
