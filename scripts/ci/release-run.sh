#!/usr/bin/env bash
# The release build must measure and write a valid report whose ticks add up.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
cargo build --release --locked
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
make_python "$out/venv" jsonschema
target/release/osjitter run --period 500us --ticks 1000 --out "$out/run"
"$out/venv/bin/python" - "$out/run/report.json" <<'PY'
import json, jsonschema, sys
report = json.load(open(sys.argv[1]))
jsonschema.validate(report, json.load(open("lib/internal/files/schema/osjitter.report.1.json")))
assert report["schema"] == "osjitter.report/1" and not report["partial"]
assert report["subjects"]
for subject in report["subjects"]:
    summary = subject["summary"]
    assert subject["status"] == {"state": "measured"}, subject["id"]
    assert summary["ticks"] == summary["delivered"] + summary["coalesced"] + summary["skipped"] == 1000, subject["id"]
    came = summary["ticks"] - summary["skipped"]
    assert subject["histogram"]["count"] == came, subject["id"]
    assert sum(len(r["lateness_ns"]) for r in subject["rounds"]) == came, subject["id"]
print("report: valid; every tick is counted once")
PY
