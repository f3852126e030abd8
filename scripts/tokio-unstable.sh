#!/usr/bin/env bash
# Measures tokio's interval with its alternative timer and its eager driver hand-off, which a build with --cfg tokio_unstable
# has, beside tokio as it is, interleaved. Writes results/NAME/tokio-unstable.json and a table.
#
#   scripts/tokio-unstable.sh NAME            measure, then the table
#   scripts/tokio-unstable.sh --short NAME    two rounds of each: to see that it runs, for no figure
set -euo pipefail
cd "$(dirname "$0")/.."
short=()
if [ "${1:-}" = --short ]; then short=(--short); shift; fi
directory=results/${1:?"which directory below results/?"}
json=$directory/tokio-unstable.json
mkdir -p "$directory"

# A build of its own: the flag concerns every crate.
(cd scripts/peers && RUSTFLAGS="--cfg tokio_unstable" cargo build --release --locked --package peers-osinterval \
  --target-dir target/tokio-unstable)
scripts/peers/target/tokio-unstable/release/peers-osinterval "${short[@]}" tokio_unstable >"$json.part"
mv "$json.part" "$json"

python3 - "$json" scripts/peers/Cargo.lock >"$directory/tokio-unstable.md" <<'PY'
import json, platform, re, sys
found = json.load(open(sys.argv[1]))["tokio_unstable"]
tokio = re.search(r'name = "tokio"\nversion = "([^"]+)"', open(sys.argv[2]).read()).group(1)
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
def us(ns):
    return f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"
print(f"# tokio {tokio} behind `tokio_unstable`\n\n`tokio::time::Interval` on {found['threads']} threads, medians of "
      f"{found['rounds']} rounds, interleaved. On {cpu}, kernel {platform.release()}; made by `scripts/tokio-unstable.sh`.\n")
print("| Period | runtime | lateness p50 | p90 | p99 | CPU per tick |\n|---|---|---|---|---|---|")
for period, variants in found.items():
    if isinstance(variants, dict):
        for name, v in variants.items():
            print(f"| {period} | {name} | {us(v['p50_ns'])} | {us(v['p90_ns'])} | {us(v['p99_ns'])} | {us(v['cpu_ns_per_tick'])} |")
PY
echo "$directory/tokio-unstable.md"
