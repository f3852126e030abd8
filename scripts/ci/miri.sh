#!/usr/bin/env bash
# Miri finds undefined behaviour and data races that no test notices.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Runs the suites of busypoll and tickmeter as far as they need no system, and the line of tach that threads share. Sockets,
# signals and timerfd are out of Miri's reach: waiting uses epoll's own limit there. Counts are a hundredth of the usual
# ones, since Miri needs a thousand times as long.
#
# Argument SEEDS: then repeats the tests that cross threads under that many schedules and choices of what a weakly ordered
# memory may show (64 take half an hour).
. scripts/ci/common.sh
use_nightly miri rust-src
export CARGO_TARGET_DIR=$PWD/target/miri CARGO_INCREMENTAL=0 PROPTEST_CASES=${PROPTEST_CASES:-3}
flags=-Zmiri-disable-isolation
miri=(rustup run "$nightly" cargo miri test --quiet --locked)
busypoll=("${miri[@]}" --package busypoll --no-default-features)
tickmeter=("${miri[@]}" --package tickmeter --no-default-features --lib)
tach=("${miri[@]}" --package osjitter-tach --lib -- timeline::tests::threads)
MIRIFLAGS=$flags "${tickmeter[@]}"
MIRIFLAGS=$flags "${busypoll[@]}" --lib --test tasks --test wakers --test channels --test cancel --test resources \
  --test shutdown
MIRIFLAGS=$flags "${tach[@]}"
[ $# -gt 0 ] || exit 0
seeds="$flags -Zmiri-many-seeds=0..$1"
MIRIFLAGS=$seeds "${tach[@]}"
MIRIFLAGS=$seeds "${tickmeter[@]}" -- thread
MIRIFLAGS=$seeds "${busypoll[@]}" --test channels --test wakers --test cancel -- thread last_sender spsc mpsc
