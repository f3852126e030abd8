#!/usr/bin/env bash
# Runs busypoll in Miri, which reports undefined behaviour, data races included: in the slab of tasks and the ring of the
# channel of many senders, which are all the unsafe code of the crate, and, with the whole executor around them, in what it
# asks of the crates below.
# Counts are a hundredth of the usual ones, since Miri takes a thousand times as long. Sockets, signals and timerfd are
# beyond it: there, waiting is limited by epoll's own limit.
#
#   scripts/busypoll-sanitize.sh             everything: about two minutes on two cores
#   scripts/busypoll-sanitize.sh SEEDS       the threaded suites again under so many schedules each
#   scripts/busypoll-sanitize.sh loom        not Miri, but loom: every schedule of the protocols between threads, on stable
#
# Miri needs a nightly toolchain, which is installed with rustup.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1-}" = loom ]; then
  RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom cargo test --package busypoll --lib --release --locked
  exit
fi

rustup run nightly cargo miri --version >/dev/null 2>&1 ||
  rustup toolchain install nightly --profile minimal --component miri --component rust-src
export CARGO_TARGET_DIR=$PWD/target/miri CARGO_INCREMENTAL=0
export MIRIFLAGS=-Zmiri-disable-isolation
miri=(rustup run nightly cargo miri test --quiet --package busypoll --no-default-features)

if [ $# -gt 0 ]; then
  MIRIFLAGS="$MIRIFLAGS -Zmiri-many-seeds=0..$1" "${miri[@]}" --test wakers --test channels
else
  "${miri[@]}" --lib --test tasks --test wakers --test channels --test cancel --test resources --test shutdown
fi
