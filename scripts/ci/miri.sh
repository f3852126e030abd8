#!/usr/bin/env bash
# Miri finds undefined behaviour and data races that no test notices.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Runs the tests of busypoll and tickmeter that need no operating system, and those of tach's timeline, which threads share.
# Miri does not support sockets, signals and timerfd, so waiting uses the timeout of epoll instead. Tests run a hundredth of
# their usual iterations, because Miri is a thousand times slower.
#
# With the argument SEEDS, the tests with several threads are repeated with that many schedules and outcomes of weakly ordered
# memory (64 take half an hour).
. scripts/ci/common.sh
use_nightly miri rust-src
export CARGO_TARGET_DIR=$PWD/target/miri CARGO_INCREMENTAL=0 PROPTEST_CASES=${PROPTEST_CASES:-3}
flags=-Zmiri-disable-isolation
miri=(rustup run "$nightly" cargo miri test --quiet --locked)
busypoll=("${miri[@]}" --package busypoll --no-default-features)
tickmeter=("${miri[@]}" --package tickmeter --no-default-features --features stacks --lib)
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
