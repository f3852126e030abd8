#!/usr/bin/env bash
# Runs the suites of the libraries with a sanitizer, which detects memory errors and data races in unsafe code.
set -euo pipefail
cd "$(dirname "$0")/../.."
#   scripts/ci/sanitizer.sh address [CRATE]...    detects accesses out of bounds or after free, and leaks
#   scripts/ci/sanitizer.sh thread [CRATE]...     detects data races; also builds the standard library, so that its
#                                                 synchronization is visible
. scripts/ci/common.sh
name=${1-}
[[ $name == address || $name == thread ]] || { sed -n '5,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift
[ $# -gt 0 ] || set -- osjitter-tach osjitter-cadence tickmeter idletimeout osinterval busypoll
use_nightly rust-src
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} LSAN_OPTIONS=suppressions=$PWD/scripts/ci/lsan-suppressions.txt
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1 suppressions=$PWD/scripts/ci/tsan-suppressions.txt}
export CARGO_TARGET_DIR=$PWD/target/$name CARGO_INCREMENTAL=0 RUSTFLAGS=-Zsanitizer=$name
cargo_flags=()
if [ "$name" = thread ]; then
  RUSTFLAGS+=' --cfg tsan'
  cargo_flags=(-Zbuild-std)
fi
host=$(rustup run "$nightly" rustc -vV | sed -n 's/^host: //p')
for crate in "$@"; do
  # Documentation tests are omitted, because rustdoc has separate flags. Tests that count allocations or system calls, or that
  # measure the cost of a call, would count those of the sanitizer. Its runtime also writes files, which a limit of 0 bytes forbids.
  rustup run "$nightly" cargo test "${cargo_flags[@]}" --target "$host" --locked --package "$crate" --all-features --lib \
    --tests -- --skip allocat --skip two_calls --skip no_call --skip after_delivery --skip parity --skip some_readings --skip file_size_limit
  echo "$name: $crate is clean"
done
