#!/usr/bin/env bash
# Proves that the libraries are what they claim on platforms that this machine is not:
#   run     Windows under Wine (both timers), aarch64 and 32-bit Linux under qemu; there, too, a plan draws its order
#   check   every other target, with the real types of its system
# Needs root for Debian packages, or a machine that has them. The standard library of a target comes from rustup; where there
# is none it is built from rustup's sources, or Debian's, for several targets at a time: its crates wait for one another, so
# that one target alone leaves the other cores idle.
#
#   scripts/cross-check.sh            everything
#   scripts/cross-check.sh TARGET...  only these
set -euo pipefail
cd "$(dirname "$0")/.."
native=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$PWD/target/cross CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
suite=(--package osinterval --package osjitter-cadence --package osjitter-tach --package busypoll --package tickmeter)

windows=x86_64-pc-windows-gnu
aarch64=aarch64-unknown-linux-gnu
i686=i686-unknown-linux-gnu
with_binary=(aarch64-apple-darwin x86_64-unknown-freebsd)
libraries=(x86_64-apple-darwin aarch64-apple-ios aarch64-pc-windows-msvc x86_64-unknown-netbsd x86_64-unknown-openbsd
  aarch64-linux-android)
# No threads there, thus nobody to wake a runtime that is parked: not a place for busypoll.
without_threads=(wasm32-wasip1 wasm32-wasip2)
clock_alone=(riscv64gc-unknown-linux-gnu loongarch64-unknown-linux-gnu wasm32-unknown-unknown)

known=" $windows $aarch64 $i686 ${with_binary[*]} ${libraries[*]} ${without_threads[*]} ${clock_alone[*]} "
for target in "$@"; do
  [[ $known == *" $target "* ]] || { echo "cross-check: unknown target '$target'; known:$known" >&2; exit 2; }
done
chosen=" ${*:-$known} "
# Those of the targets given that were asked for.
asked() {
  for target in "$@"; do [[ $chosen != *" $target "* ]] || echo "$target"; done
}

step() { printf '\n-- %s (after %d s)\n' "$*" "$SECONDS"; }
need() {
  local missing=()
  for package in "$@"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Those of the targets given that rustup has, or can get.
installed() {
  [ -n "$*" ] && command -v rustup >/dev/null || return 0
  local had
  had=$(rustup target list --installed)
  for target in "$@"; do
    if [[ $'\n'$had$'\n' == *$'\n'$target$'\n'* ]] || timeout 120 rustup target add "$target" >/dev/null 2>&1; then
      echo "$target"
    fi
  done
}

# --target for each.
flags() { printf -- '--target %s ' "$@"; }

# cargo for several targets: build_for "TARGET..." PARTS-OF-STD SUBCOMMAND ARGUMENT...
build_for() {
  local parts=$2 ready others
  ready=$(installed $1)
  others=$(comm -23 <(printf '%s\n' $1 | sort) <(printf '%s\n' $ready | sort))
  shift 2
  [ -z "$ready" ] || cargo "$@" $(flags $ready) --locked
  if [ -z "$others" ]; then
    return
  elif command -v rustup >/dev/null && timeout 120 rustup component add rust-src >/dev/null 2>&1; then
    RUSTC_BOOTSTRAP=1 cargo "$@" -Zbuild-std="$parts" $(flags $others) --locked
  else
    need rustc-web cargo-web rust-web-src
    RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 \
      /usr/bin/cargo "$@" -Zbuild-std="$parts" $(flags $others) --locked
  fi
}

# Builds the test programs of targets and prints the paths of all.
test_programs() {
  build_for "$1" std,test,panic_unwind,proc_macro test --no-run --message-format=json "${suite[@]}" |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("executable") and message["profile"]["test"]:
        print(message["executable"])'
}

# run_all TARGET RUNNER [ARGUMENT FOR EACH PROGRAM]...: those of the programs on stdin that are the target's.
run_all() {
  local target=$1 runner=$2 programs code said
  said=$(mktemp)
  shift 2
  programs=$(grep -F "/$target/") || { echo "no test program was built" >&2; return 1; }
  for program in $programs; do
    echo "$program"
    code=0
    # Wine and qemu are slow, and nothing in the suites depends on time; but none may hang.
    timeout 300 $runner "$program" --quiet "$@" </dev/null 2>"$said" || code=$?
    cat "$said" >&2
    # Wine's own server goes now and then, and its programs with it: that says nothing about them.
    if [ $code != 0 ] && grep -q '^wine client error' "$said"; then
      echo "again: Wine's server ended"
      code=0
      timeout 300 $runner "$program" --quiet "$@" </dev/null || code=$?
    fi
    [ $code = 0 ] || { echo "cross-check: $program ended with $code" >&2; return 1; }
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
  # One server for all programs, which goes a minute after the last: one that is just leaving breaks the connection of the next.
  wineserver -p60 </dev/null >/dev/null 2>&1 || true
  WINEPATH=$(WINEPREFIX=$WINEPREFIX winepath -w "$shim" 2>/dev/null)
  export WINEPATH
}

under_wine() {
  local out wrapper
  step "$windows: the suites under Wine, on the high-resolution timer"
  run_all $windows wine <"$programs"
  step "$windows: osjitter under Wine"
  out=$(mktemp -d)
  wine "$CARGO_TARGET_DIR/$windows/debug/osjitter.exe" run --period 2ms --ticks 100 --out "$(winepath -w "$out")" 2>/dev/null
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
  step "$windows: osinterval under Wine, on the thread pool's timer"
  # That is a matter of osinterval alone.
  (
    suite=(--package osinterval)
    wrapper=$(bash scripts/cfg-wrapper.sh osinterval_force_threadpool)
    RUSTC_WORKSPACE_WRAPPER=$wrapper test_programs $windows | run_all $windows wine
  )
}

under_qemu() {
  local target=$1 runner=$2
  step "$target: the suites under $runner"
  # Tested natively only: an emulated counter and an emulated clock are not two clocks of one machine; an emulated
  # process cannot start another; and what says nothing about a platform but takes a minute there. Properties are tried on
  # fewer cases than natively.
  PROPTEST_CASES=64 run_all "$target" "$runner" \
    --skip sends_that_are_given_up --skip a_hundred_thousand_tasks --skip a_long_line_of_tokens \
    --skip within_the_bound --skip there_and_back_to_the_os_clock --skip own_process:: --skip millions_of \
    --skip very_many_live_tasks --skip of_a_process_that_is_killed --skip a_process_that_is_measured \
    --skip on_the_line_that_it_continues --skip hostile_file_harms --skip comes_and_goes <"$programs"
}

# One plan, here and on a machine of 32 bits: every round has the same place in the order, and the same phase.
same_order() {
  local target=$1 runner=$2 out plan
  step "$target: one plan draws the same order and phases as here"
  CARGO_TARGET_DIR=$native cargo build --locked --bin osjitter
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
  "$native/debug/osjitter" run --quiet --plan "$plan" --out "$out/here" >/dev/null
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

# One after the other, each as it can be run here.
suites_of() {
  for target in "$@"; do
    case $target in
      "$windows") under_wine ;;
      "$aarch64") under_qemu "$target" "qemu-aarch64 -L /usr/aarch64-linux-gnu" ;;
      "$i686")
        under_qemu "$target" "qemu-i386 -L /usr/i686-linux-gnu"
        same_order "$target" "qemu-i386 -L /usr/i686-linux-gnu"
        ;;
    esac
  done
}

run_suites() {
  local targets binary lane
  targets=$(asked $windows $aarch64 $i686)
  [ -n "$targets" ] || return 0
  mkdir -p "$CARGO_TARGET_DIR"
  for target in $targets; do
    case $target in
      "$windows") wine_ready ;;
      "$aarch64")
        need gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        ;;
      "$i686")
        need gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user
        export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
        ;;
    esac
  done
  step "Building the suites for" $targets
  programs=$CARGO_TARGET_DIR/programs
  test_programs "$targets" >"$programs"
  binary=$(asked $windows $i686)
  if [ -n "$binary" ]; then
    step "Building osjitter for" $binary
    build_for "$binary" std,test,panic_unwind,proc_macro build --package osjitter --bin osjitter
  fi
  # In two lanes, since programs wait more than they compute there. What the second one prints comes when both have ended.
  # Both in the background: what fails in a lane ends it only where nobody asks for its exit code at once.
  local second=$CARGO_TARGET_DIR/second-lane lanes=() code=0
  suites_of "$(asked $aarch64)" &
  lanes+=($!)
  suites_of "$(asked $windows)" "$(asked $i686)" >"$second" 2>&1 &
  lanes+=($!)
  for lane in "${lanes[@]}"; do wait "$lane" || code=$?; done
  cat "$second"
  return $code
}

# check "TARGET..." PACKAGES...
check() {
  local targets=$1
  shift
  [ -n "$targets" ] || return 0
  step "Types for" $targets
  build_for "$targets" std,panic_abort check "$@"
}

run_suites
check "$(asked "${with_binary[@]}")" "${suite[@]}" --package osjitter
check "$(asked "${libraries[@]}")" "${suite[@]}"
check "$(asked "${without_threads[@]}")" --package osinterval --package osjitter-cadence --package osjitter-tach
check "$(asked "${clock_alone[@]}")" --package osjitter-tach
