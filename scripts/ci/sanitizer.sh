#!/usr/bin/env bash
# Runs the libraries' suites with a sanitizer, which sees memory errors and data races in unsafe code.
set -euo pipefail
cd "$(dirname "$0")/../.."
#   scripts/ci/sanitizer.sh address [CRATE]...    memory out of bounds, used after its end, or leaked
#   scripts/ci/sanitizer.sh thread [CRATE]...     data races; the standard library is built too, so that its synchronisation
#                                                 is seen
. scripts/ci/common.sh
name=${1-}
[[ $name == address || $name == thread ]] || { sed -n '5,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift
[ $# -gt 0 ] || set -- osjitter-tach osjitter-cadence tickmeter idletimeout osinterval busypoll
use_nightly rust-src
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1 suppressions=$PWD/scripts/ci/tsan-suppressions.txt}
export CARGO_TARGET_DIR=$PWD/target/$name CARGO_INCREMENTAL=0 RUSTFLAGS=-Zsanitizer=$name
cargo_flags=()
if [ "$name" = thread ]; then
  RUSTFLAGS+=' --cfg tsan'
  cargo_flags=(-Zbuild-std)
fi
host=$(rustup run "$nightly" rustc -vV | sed -n 's/^host: //p')
for crate in "$@"; do
  # Documentation tests are left out: rustdoc has flags of its own. A test of what a program allocates, of which system calls
  # it makes, or of what a call costs, would see the sanitizer's.
  rustup run "$nightly" cargo test "${cargo_flags[@]}" --target "$host" --locked --package "$crate" --all-features --lib \
    --tests -- --skip allocat --skip two_calls --skip no_call --skip after_delivery --skip parity --skip some_readings
  echo "$name: $crate is clean"
done
