#!/usr/bin/env bash
# Measures the price of timeouts on this machine for results/, and puts it into the README: table and picture come from
# the run, never from a keyboard.
#
#   scripts/timeout-run.sh NAME             measure into results/NAME, then as below
#   scripts/timeout-run.sh --readme NAME    only the table, the pictures, the README and the index, from results/NAME/timeout.json
set -euo pipefail
cd "$(dirname "$0")/.."

measure=true
if [ "${1:-}" = --readme ]; then measure=false; shift; fi
name=${1:?"which directory below results/?"}
directory=results/$name

cargo build --release --locked --features quanta
if $measure; then
  mkdir -p "$directory"
  target/release/osjitter bench timeout --clock tokio --clock tach --clock quanta --out "$directory" >/dev/null
fi
target/release/osjitter report "$directory/timeout.json" --reference --out "$directory/timeout.txt"
target/release/osjitter report "$directory/timeout.json" --format svg --out "$directory"

PYTHONPATH=scripts PYTHONDONTWRITEBYTECODE=1 python3 - "$directory" <<'PY'
import json, sys
from published import index, machine, put
directory = sys.argv[1]
report = json.load(open(f"{directory}/timeout.json"))
blocks = open(f"{directory}/timeout.txt").read().split("\n\n")
table = next(block for block in blocks if block.startswith("channel-current-thread"))
put("timeout run", f"""![Price of a timeout that does not fire]({directory}/timeout-channel-current-thread_10s.svg)

```text
{blocks[0]}

{table}
```

From [`{directory}/timeout.json`]({directory}/timeout.json), all workloads and the published figures of
bench-tokio-timeout in [`timeout.txt`]({directory}/timeout.txt): {machine(report["host"])}, {report['started_utc'][:10]}.""")
name = directory.split("/")[-1]
results = next(w for w in report["workloads"] if w["id"] == "channel-current-thread@10s")["results"]
of = {(r["variant"], r["clock"]): r for r in results}
SHOWN = {
    ("timeout", "tokio"): "`tokio::time::timeout`", ("reused-sleep", "tokio"): "one `Sleep`, reset", ("idle-timeout", "tach"): "`IdleTimeout`",
    ("idle-timeout", "tokio"): "`IdleTimeout`, on tokio's clock", ("idle-timeout-slack", "tach"): "`IdleTimeout::slack(0.1)`",
}
def row(key):
    over = of[key]["overhead"]
    return f"| {SHOWN[key]} | {over['ns']:.1f} | {over['ns_ci95'][0]:.1f} to {over['ns_ci95'][1]:.1f} |"
control = of["control", "none"]["ns_per_message"]["p50"]
put("timeout figures", f"""A loop over a channel on a current-thread runtime takes {control:.0f} ns a message without a timeout. A timeout of 10 s adds:

| | ns per message | 95 % interval |
|---|---:|---:|
""" + "\n".join(map(row, SHOWN)) + f"""

tokio {report['host']['versions']['tokio']} on {machine(report['host'])}, clock source {report['host']['clock_source']}; from
[`timeout.txt`](results/{name}/timeout.txt), which has more workloads. `osjitter bench timeout` measures it on your machine.""")
index(name, [(f"`{name}`", "timeout.txt")], report["host"], "`scripts/timeout-run.sh`")
PY
