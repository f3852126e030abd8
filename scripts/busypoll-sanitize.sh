#!/usr/bin/env bash
# Checks what threads share in busypoll, and its unsafe code: the slab of tasks and the ring of the channels between threads.
#
#   scripts/busypoll-sanitize.sh miri          the suites in Miri, once: undefined behaviour, data races included
#   scripts/busypoll-sanitize.sh miri SEEDS    then the tests that cross threads again, under so many schedules and choices
#                                              of what a weakly ordered memory may show (64 take an hour or more)
#   scripts/busypoll-sanitize.sh loom          every schedule of the protocols between threads, on stable
#
# In Miri, counts are a hundredth of the usual ones, since it takes a thousand times as long. Sockets, signals and timerfd
# are beyond it: there, waiting is limited by epoll's own limit. It needs a nightly toolchain with `miri` and `rust-src`,
# which is installed with rustup where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

loom() {
  RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom cargo test --package busypoll --lib --release --locked
}

miri() {
  rustup run nightly cargo miri --version >/dev/null 2>&1 ||
    rustup toolchain install nightly --profile minimal --component miri --component rust-src
  export CARGO_TARGET_DIR=$PWD/target/miri CARGO_INCREMENTAL=0
  local flags=-Zmiri-disable-isolation
  local run=(rustup run nightly cargo miri test --quiet --locked --package busypoll --no-default-features)
  MIRIFLAGS=$flags "${run[@]}" --lib --test tasks --test wakers --test channels --test cancel --test resources --test shutdown
  if [ $# -gt 0 ]; then
    MIRIFLAGS="$flags -Zmiri-many-seeds=0..$1" "${run[@]}" --test channels --test wakers --test cancel -- thread last_sender spsc mpsc
  fi
}

case ${1-} in
  loom) loom ;;
  miri) shift && miri "$@" ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
