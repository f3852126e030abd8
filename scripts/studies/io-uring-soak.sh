#!/usr/bin/env bash
# Counts waits in io_uring_enter that end more than 100 ms late, to decide whether busypoll may rely on it.
#
#   scripts/studies/io-uring-soak.sh TICKS [CPU]     with CPU, on this CPU only
#
# Waits TICKS times, first on a bare thread, then in busypoll's parking. Ten million ticks take 20 minutes. Exits with 1 if there
# was a long wait.
set -euo pipefail
cd "$(dirname "$0")/../.."
ticks=${1:?"how many ticks? 10000000 is a soak, 10000 a try"}
bound=()
if [ $# -gt 1 ]; then bound=(taskset -c "$2"); fi
case $ticks in *[!0-9]* | 0*) echo "invalid TICKS '$ticks': expected a number of at least 1" >&2; exit 2 ;; esac

cargo build --release --locked --quiet --bin osjitter
cargo build --release --locked --quiet -p busypoll --example park-soak
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Rounds take a second. A stall of 100 ms at 100 us is one long wait and many late ticks, so waits are counted.
"${bound[@]}" target/release/osjitter run --subject io-uring-wait --subject nanosleep --period 100us --ticks "$ticks" \
  --round-ticks "$((ticks < 10000 ? ticks : 10000))" --quiet --out "$out" >"$out/table" || { cat "$out/table"; exit 4; }
cat "$out/table"
python3 - "$out/report.json" <<'PY' && bare=0 || bare=1
import json, sys
LONG_NS = 100_000_000
report = json.load(open(sys.argv[1]))
found = 0
for subject in report["subjects"]:
    long = 0
    for part in subject["rounds"]:
        ticks = part.get("tick") or range(part["first_tick"], part["first_tick"] + len(part["lateness_ns"]))
        came = None
        for tick, late in zip(ticks, part["lateness_ns"]):
            now = tick * subject["period_ns"] + late
            due = tick * subject["period_ns"]
            # The wait for a tick starts right after the previous tick.
            waited_late = now - max(due, came if came is not None else due)
            long += waited_late > LONG_NS
            came = now
    early = subject["summary"]["early"]
    print(f"{subject['id']}: {subject['summary']['ticks']} waits, {long} more than 100 ms late, {early} early")
    if subject["name"] == "io-uring-wait":
        found = long + early
sys.exit(1 if found else 0)
PY
echo "busypoll, parked on a ring:"
"${bound[@]}" target/release/examples/park-soak "$ticks" && parked=0 || parked=$?
if [ "$parked" -gt 1 ]; then exit "$parked"; fi
exit $((bare | parked))
