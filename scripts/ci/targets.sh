# Builds for other targets. Sourced by the steps that need them, after they have changed to the root of the repository.
# shellcheck shell=bash disable=SC2086,SC2046  # lists of targets are split on purpose
. scripts/ci/common.sh

# shellcheck disable=SC2034  # the steps use it
LIBRARIES=(--package osinterval --package osjitter-cadence --package osjitter-tach --package busypoll --package tickmeter)

# Prints the targets whose standard library rustup has or can install: rustup_targets TARGET...
rustup_targets() {
  local target installed
  command -v rustup >/dev/null || return 0
  installed=$(rustup target list --installed)
  for target in "$@"; do
    if [[ $'\n'$installed$'\n' == *$'\n'$target$'\n'* ]] || timeout 120 rustup target add "$target" >/dev/null 2>&1; then
      echo "$target"
    fi
  done
}

# Runs cargo for targets: cargo_for "TARGET..." PARTS-OF-STD SUBCOMMAND ARGUMENT...
#
# The standard library comes from rustup if it has one for the target. Otherwise it is built from rustup's or Debian's sources,
# for several targets at once: its crates depend on each other, so the build of a single target would leave cores idle.
cargo_for() {
  local parts=$2 ready others target_flags
  ready=$(rustup_targets $1)
  others=$(comm -23 <(printf '%s\n' $1 | sort) <(printf '%s\n' $ready | sort))
  shift 2
  [ -z "$ready" ] || cargo "$@" $(printf -- '--target %s ' $ready) --locked
  [ -n "$others" ] || return 0
  target_flags=$(printf -- '--target %s ' $others)
  if command -v rustup >/dev/null && timeout 120 rustup component add rust-src >/dev/null 2>&1; then
    CARGO_TARGET_DIR=$PWD/target/cross RUSTC_BOOTSTRAP=1 cargo "$@" -Zbuild-std="$parts" $target_flags --locked
  else
    install_packages rustc-web cargo-web rust-web-src
    CARGO_TARGET_DIR=$PWD/target/cross RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 \
      /usr/bin/cargo "$@" -Zbuild-std="$parts" $target_flags --locked
  fi
}

# Prints the path of the linker for wasm that is part of rustup's toolchain.
rust_lld() {
  echo "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/host: //p')/bin/rust-lld"
}

# Builds the test programs of packages for a target and prints their paths: build_tests TARGET PACKAGES...
build_tests() {
  cargo_for "$1" std,test,panic_unwind,proc_macro test --no-run --message-format=json "${@:2}" |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    if message.get("executable") and message["profile"]["test"]:
        print(message["executable"])'
}

# Runs the test programs whose paths are on stdin: run_tests EMULATOR [ARGUMENT OF EACH PROGRAM]...
run_tests() {
  local emulator=$1 program programs code errors
  errors=$(mktemp)
  shift
  programs=$(grep .) || { echo "error: no test program was built" >&2; return 1; }
  for program in $programs; do
    echo "$program"
    code=0
    # The suites do not depend on time, so slow emulators are no problem, but a program that hangs is stopped.
    timeout 300 $emulator "$program" --quiet "$@" </dev/null 2>"$errors" || code=$?
    cat "$errors" >&2
    # Sometimes Wine's server ends and takes its programs with it. They are not the cause, so they are run again.
    if [ $code != 0 ] && grep -q '^wine client error' "$errors"; then
      echo "retry: Wine's server ended"
      code=0
      timeout 300 $emulator "$program" --quiet "$@" </dev/null || code=$?
    fi
    [ $code = 0 ] || { echo "error: $program exited with $code" >&2; return 1; }
  done
}
