#!/usr/bin/env bash
# Makes a report of a million ticks in ten subjects and writes it in every format there is, with the time and the peak
# memory of each; fails if one takes more than 5 s or 1 GB. Arguments: another number of ticks, and the features to
# build with, parquet being one of them: with it there is every format.
# Needs python3, to read what a child used.
set -euo pipefail
cd "$(dirname "$0")/.."
ticks=${1:-1000000}
features=${2:-parquet}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --locked --features "$features" --bin osjitter --example million-ticks
target/release/examples/million-ticks "$work/report.json" "$ticks"
python3 - target/release/osjitter "$work" "$ticks" <<'PY'
import os, re, subprocess, sys, time

osjitter, work, ticks = sys.argv[1:]
report = os.path.join(work, "report.json")
MOST_SECONDS, MOST_MB = 5.0, 1000.0
asked = subprocess.run([osjitter, "report", report, "--format", "?"], capture_output=True, text=True).stderr
formats = re.search(r"possible values: ([^\]]+)\]", asked).group(1).split(", ")
more = {"hgrm": ["--subject", "subject-9"]}
ways = [(name, ["--format", name, *more.get(name, [])]) for name in formats]
ways += [("table --histogram", ["--histogram"]), ("csv --samples", ["--format", "csv", "--samples"])]
ways += [("parquet --samples", ["--format", "parquet", "--samples"])]
print(f"{ticks} ticks, {os.path.getsize(report) / 1e6:.0f} MB of JSON")
print(f"{'format':<20} {'seconds':>8} {'peak MB':>8} {'MB out':>8}")
slow = []
for name, args in ways:
    out = os.path.join(work, name.replace(" ", "_"))
    begin = time.monotonic()
    child = subprocess.Popen([osjitter, "report", report, *args, "--out", out], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    assert status == 0, f"{name}: exit status {status}"
    peak = used.ru_maxrss * 1024 / 1e6
    files = [os.path.join(out, f) for f in os.listdir(out)] if os.path.isdir(out) else [out]
    size = sum(os.path.getsize(f) for f in files) / 1e6
    print(f"{name:<20} {seconds:>8.2f} {peak:>8.0f} {size:>8.1f}")
    if seconds > MOST_SECONDS or peak > MOST_MB:
        slow.append(name)
if slow:
    sys.exit(f"more than {MOST_SECONDS:.0f} s or {MOST_MB:.0f} MB: {', '.join(slow)}")
PY
