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

cargo build --release --locked
if $measure; then
  mkdir -p "$directory"
  target/release/osjitter bench timeout --out "$directory" >/dev/null
fi
target/release/osjitter report "$directory/timeout.json" --reference --out "$directory/timeout.txt"
target/release/osjitter report "$directory/timeout.json" --format svg --out "$directory"

python3 - "$directory" <<'PY'
import json, re, sys
directory = sys.argv[1]
report = json.load(open(f"{directory}/timeout.json"))
text = open(f"{directory}/timeout.txt").read()
host = report["host"]
machine = f"{host['cpu_model']}, {host['cpus_online']} CPUs, {host['virtualisation'] or 'no hypervisor'}, kernel {host['kernel']}"
table = next(block for block in text.split("\n\n") if block.startswith("channel-current-thread"))
block = f"""![Price of a timeout that does not fire]({directory}/timeout-channel-current-thread_10s.svg)

```text
{text.split(chr(10) * 2)[0]}

{table}
```

From [`{directory}/timeout.json`]({directory}/timeout.json), all workloads and the published figures of
bench-tokio-timeout in [`timeout.txt`]({directory}/timeout.txt): {machine}, {report['started_utc'][:10]}."""

page = open("README.md").read()
begin, end = "<!-- timeout run -->", "<!-- end of timeout run -->"
page, n = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{block}\n{end}", page, flags=re.S)
assert n == 1, "README.md has no block for it"
open("README.md", "w").write(page)
name = directory.split("/")[-1]
index = open("results/README.md").read()
line = f"| [`{name}`]({name}/timeout.txt) | {machine} | `osjitter bench timeout` |"
if f"[`{name}`]" in index:
    index = re.sub(rf"^\| \[`{re.escape(name)}`\].*$", lambda _: line, index, flags=re.M)
else:
    index = index.rstrip("\n") + "\n" + line + "\n"
open("results/README.md", "w").write(index)
PY
