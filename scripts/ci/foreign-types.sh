#!/usr/bin/env bash
# Code for other platforms must compile with the real types of their systems.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Arguments: the targets [default: all].
. scripts/ci/targets.sh
PROGRAM=(x86_64-pc-windows-gnu aarch64-apple-darwin x86_64-unknown-freebsd)
LIBRARIES_ONLY=(x86_64-apple-darwin aarch64-apple-ios aarch64-pc-windows-msvc x86_64-unknown-netbsd x86_64-unknown-openbsd
  aarch64-linux-android)
# Without threads, nothing can wake a parked runtime, so busypoll does not support these targets.
WITHOUT_THREADS=(wasm32-wasip1 wasm32-wasip2)
# The last two have no 64-bit atomics.
CLOCK_ONLY=(riscv64gc-unknown-linux-gnu loongarch64-unknown-linux-gnu wasm32-unknown-unknown armv5te-unknown-linux-gnueabi
  powerpc-unknown-linux-gnu)

known=" ${PROGRAM[*]} ${LIBRARIES_ONLY[*]} ${WITHOUT_THREADS[*]} ${CLOCK_ONLY[*]} "
for target in "$@"; do
  [[ $known == *" $target "* ]] || { echo "error: unknown target '$target': expected one of$known" >&2; exit 2; }
done
chosen=" ${*:-$known} "

# Checks packages for those of the targets that were chosen: check "PACKAGES" TARGET...
check() {
  local packages=$1 target targets=()
  shift
  for target in "$@"; do [[ $chosen != *" $target "* ]] || targets+=("$target"); done
  [ ${#targets[@]} -gt 0 ] || return 0
  echo "-- ${targets[*]}"
  # shellcheck disable=SC2086  # packages are split on purpose
  cargo_for "${targets[*]}" std,panic_abort check $packages
}
check "${LIBRARIES[*]} --package osjitter" "${PROGRAM[@]}"
check "${LIBRARIES[*]}" "${LIBRARIES_ONLY[@]}"
check "--package osinterval --package osjitter-cadence --package osjitter-tach" "${WITHOUT_THREADS[@]}"
check "--package osjitter-tach" "${CLOCK_ONLY[@]}"
