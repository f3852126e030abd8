#!/usr/bin/env bash
# Runs the suites of the libraries on other processors under qemu.
# shellcheck disable=SC2086  # the emulator has arguments
set -euo pipefail
cd "$(dirname "$0")/../.."
# Argument: aarch64 or riscv64.
. scripts/ci/targets.sh
export CARGO_TARGET_DIR=$PWD/target/cross
case ${1-} in
  aarch64)
    target=aarch64-unknown-linux-gnu
    install_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    ;;
  riscv64)
    target=riscv64gc-unknown-linux-gnu
    install_packages gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user
    export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc
    emulator="qemu-riscv64 -L /usr/riscv64-linux-gnu"
    ;;
  *) echo "usage: scripts/ci/qemu.sh aarch64|riscv64" >&2 && exit 2 ;;
esac

# Some tests only run natively: an emulated counter and an emulated clock are not two clocks of one machine, an emulated process
# cannot start another one, and some tests do not depend on the platform but need a minute here. Property tests run fewer cases
# than natively.
build_tests $target "${LIBRARIES[@]}" | PROPTEST_CASES=64 run_tests "$emulator" \
  --skip cancelled_sends_ --skip hundred_thousand_tasks --skip long_token_chain \
  --skip os_clock_within_bound --skip os_clock_round_trip --skip own_process:: \
  --skip very_many_live_tasks --skip killed_meters --skip measured_process --skip meter_is_selected --skip unclear_request --skip finite_process \
  --skip clock_stays_within_error_bound --skip hostile_files --skip concurrent_snapshots --skip file_size_limit_is_survived
