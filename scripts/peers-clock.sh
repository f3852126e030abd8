#!/usr/bin/env bash
# Measures our clocks beside quanta, minstant and fastant on this machine: a table on standard error, and
# results/NAME/peers-clock.json.
#
#   scripts/peers-clock.sh NAME [--seconds N] [--reads N]
set -euo pipefail
cd "$(dirname "$0")/.."
directory=results/${1:?"which directory below results/?"}
shift
mkdir -p "$directory"
(cd scripts/peers && cargo build --release --locked --package peers-clock)
scripts/peers/target/release/peers-clock "$@" >"$directory/peers-clock.json.part"
mv "$directory/peers-clock.json.part" "$directory/peers-clock.json"
