"""Makes variants of a log, or of a result of jitterdebugger, as other versions write them.   variants.py DIRECTORY [jitterdebugger]"""
import json
import sys
from pathlib import Path

out = Path(sys.argv[1])
if sys.argv[2:] == ["jitterdebugger"]:
    # 0.1 has neither a version nor a description of the system; 0.2 to 0.3.1 have the first version.
    result = json.loads((out / "jitterdebugger-0.3.1+git.json").read_text())
    for name, head in (("0.1", {}), ("0.3", {"version": 1})):
        (out / f"jitterdebugger-{name}.json").write_text(json.dumps({**head, "cpu": result["cpu"]}, indent=2) + "\n")
    sys.exit()
lines = (out / "java-2.2.2.hlog").read_text().splitlines(keepends=True)
header, intervals = lines[:4], lines[4:]
legend = '"StartTimestamp","EndTimestamp","Interval_Max","Interval_Compressed_Histogram"\n'


def write(name, *parts):
    (out / name).write_text("".join("".join(part) for part in parts))


# The C implementation: the end of an interval, here as time since the start of the machine, and the largest value itself.
c = []
for i, line in enumerate(intervals):
    _, _, most, data = line.strip().split(",")
    c.append(f"{292_663 + i}.125,{292_664 + i}.125,{float(most) * 1e6:.0f}.0,{data}\n")
write("c-end-timestamps.hlog", "#[Logged by a service in C]\n#[Histogram log format version 1.2]\n", legend, c)
write("out-of-order.hlog", header, reversed(intervals))
write("byte-order-mark.hlog", "\ufeff", header, (line.replace("\n", "\r\n") for line in intervals), "\r\n")
# A writer that was killed within a line.
write("cut-off.hlog", header, intervals[:2], intervals[2][:40])
