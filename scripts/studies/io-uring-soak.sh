#!/usr/bin/env bash
# Counts waits in io_uring_enter that end more than 100 ms late, to decide whether busypoll may rely on it.
#
#   scripts/studies/io-uring-soak.sh TICKS [CPU]     with CPU, runs only on this CPU
#
# Waits TICKS times, first on a bare thread, then in a parked busypoll. Ten million ticks take 20 minutes. Exits with 1 if a wait
# ended that late.
set -euo pipefail
cd "$(dirname "$0")/../.."
ticks=${1:?"expected TICKS, for example 10000000 for a soak or 10000 for a test"}
bound=()
if [ $# -gt 1 ]; then bound=(taskset -c "$2"); fi
case $ticks in *[!0-9]* | 0*) echo "invalid TICKS '$ticks': expected a number of at least 1" >&2; exit 2 ;; esac

cargo build --release --locked --quiet --bin osjitter
cargo build --release --locked --quiet -p busypoll --example park-soak
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A round takes a second. At 100 us, a stall of 100 ms is one long wait but many late ticks, so waits are counted.
"${bound[@]}" target/release/osjitter run --subject io-uring-wait --subject nanosleep --period 100us --ticks "$ticks" \
  --round-ticks "$((ticks < 10000 ? ticks : 10000))" --quiet --out "$out" >"$out/table" || { cat "$out/table"; exit 4; }
cat "$out/table"
python3 - "$out/report.json" <<'PY' && bare=0 || bare=1
import json, sys
LONG_NS = 100_000_000
report = json.load(open(sys.argv[1]))
failures = 0
for subject in report["subjects"]:
    long = 0
    for part in subject["rounds"]:
        ticks = part.get("tick") or range(part["first_tick"], part["first_tick"] + len(part["lateness_ns"]))
        previous_end = None
        for tick, lateness in zip(ticks, part["lateness_ns"]):
            due = tick * subject["period_ns"]
            end = due + lateness
            # The wait for a tick starts right after the previous tick.
            excess = end - max(due, previous_end if previous_end is not None else due)
            long += excess > LONG_NS
            previous_end = end
    early = subject["summary"]["early"]
    print(f"{subject['id']}: {subject['summary']['ticks']} waits, {long} more than 100 ms late, {early} early")
    if subject["name"] == "io-uring-wait":
        failures = long + early
sys.exit(1 if failures else 0)
PY
echo "busypoll, parked on a ring:"
"${bound[@]}" target/release/examples/park-soak "$ticks" && parked=0 || parked=$?
if [ "$parked" -gt 1 ]; then exit "$parked"; fi
exit $((bare | parked))
