#!/usr/bin/env bash
# Checks what threads share in the libraries, and their unsafe code.
#
#   scripts/sanitize.sh loom [CRATE...]    every schedule of the protocols between threads, on stable
#   scripts/sanitize.sh asan [CRATE...]    the suites with AddressSanitizer: memory out of bounds, after its end, lost
#   scripts/sanitize.sh tsan [CRATE...]    the suites with ThreadSanitizer: data races
#   scripts/sanitize.sh miri               the suites of busypoll and tickmeter in Miri as far as they need no system, and
#                                          tach's line shared by threads: undefined behaviour, data races included
#   scripts/sanitize.sh miri SEEDS         then the tests that cross threads again, under so many schedules and choices of
#                                          what a weakly ordered memory may show (64 take half an hour)
#
# All but loom take the nightly toolchain below; it is installed with rustup where it is missing. For ThreadSanitizer the
# standard library is built, too: it has to see how that synchronises.
# In Miri, counts are a hundredth of the usual ones, since it takes a thousand times as long. Sockets, signals and timerfd
# are beyond it: there, waiting is limited by epoll's own limit.
set -euo pipefail
cd "$(dirname "$0")/.."

nightly=nightly-2026-05-20
# The same under another name.
built=2026-05-19
crates=(osjitter-tach osjitter-cadence tickmeter idletimeout osinterval busypoll)

pin() {
  rustup run "$nightly" rustc --version >/dev/null 2>&1 || {
    if rustup run nightly rustc --version 2>/dev/null | grep -q "$built"; then
      nightly=nightly
    else
      rustup toolchain install "$nightly" --profile minimal
    fi
  }
  rustup component add --toolchain "$nightly" miri rust-src
}

loom() {
  export RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom
  local asked=("$@")
  [ ${#asked[@]} -gt 0 ] || asked=(busypoll tickmeter)
  for crate in "${asked[@]}"; do
    cargo test --package "$crate" --lib --release --locked
  done
}

# sanitized NAME CARGO_FLAGS RUSTC_FLAGS CRATE...
sanitized() {
  local name=$1 flags=$2 asked=("${@:4}") host
  [ ${#asked[@]} -gt 0 ] || asked=("${crates[@]}")
  host=$(rustup run "$nightly" rustc -vV | sed -n 's/^host: //p')
  export CARGO_TARGET_DIR=target/$name CARGO_INCREMENTAL=0 RUSTFLAGS="-Zsanitizer=$name $3"
  for crate in "${asked[@]}"; do
    # Documentation is compiled by rustdoc, which has flags of its own. A test of what a program allocates, of which system
    # calls it makes, or of what a call costs, finds the sanitizer's.
    # shellcheck disable=SC2086 # several flags, or none
    rustup run "$nightly" cargo test $flags --target "$host" --locked --package "$crate" --all-features --lib --tests \
      -- --skip allocat --skip system_call --skip parity --skip some_readings
    echo "$name: $crate is clean"
  done
}

asan() {
  ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} sanitized address "" "" "$@"
}

tsan() {
  local options="halt_on_error=1 suppressions=$PWD/scripts/tsan-suppressions.txt"
  TSAN_OPTIONS=${TSAN_OPTIONS:-$options} sanitized thread -Zbuild-std "--cfg tsan" "$@"
}

miri() {
  export CARGO_TARGET_DIR=$PWD/target/miri CARGO_INCREMENTAL=0 PROPTEST_CASES=${PROPTEST_CASES:-3}
  local flags=-Zmiri-disable-isolation
  local run=(rustup run "$nightly" cargo miri test --quiet --locked)
  local busypoll=("${run[@]}" --package busypoll --no-default-features)
  MIRIFLAGS=$flags "${run[@]}" --package tickmeter --no-default-features --lib
  MIRIFLAGS=$flags "${busypoll[@]}" --lib --test tasks --test wakers --test channels --test cancel --test resources \
    --test shutdown
  MIRIFLAGS=$flags "${run[@]}" --package osjitter-tach --lib -- timeline::tests::threads
  if [ $# -gt 0 ]; then
    local seeds="$flags -Zmiri-many-seeds=0..$1"
    MIRIFLAGS=$seeds "${run[@]}" --package osjitter-tach --lib -- timeline::tests::threads
    MIRIFLAGS=$seeds "${run[@]}" --package tickmeter --no-default-features --lib -- thread
    MIRIFLAGS=$seeds "${busypoll[@]}" --test channels --test wakers --test cancel -- thread last_sender spsc mpsc
  fi
}

case ${1-} in
  loom) "$@" ;;
  asan | tsan | miri) pin && "$@" ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
