"""Computes the values in files of other tools from the figures that the tools print themselves.   expected.py DIRECTORY FOUND...

FOUND are JSON lines of the programs that write percentile distributions and histograms of rtla, with the values that these find.
Prints one JSON object for each subject of each file, in nanoseconds. A missing value is not printed by the tool.
"""
import json
import re
import sys
from pathlib import Path

US, MS = 1_000, 1_000_000


def rank(bins, total, q):
    """Returns the value at the nearest rank of ascending bins; None above the last bin."""
    wanted, seen = max(1, -(-total * q // 100)), 0
    for value, count in bins:
        seen += count
        if seen >= wanted:
            return value
    return None


def scaled(value, scale):
    return None if value is None else value * scale


def entry(name, subject, scale, count, low, high, mean, bins=(), tolerance=None):
    bins = sorted(bins)
    found = {"name": name, "subject": subject, "count": count, "min": scaled(low, scale), "max": scaled(high, scale),
             "mean": scaled(mean, scale), "p50": scaled(rank(bins, count, 50), scale)}
    # Means are printed as whole numbers or with two digits.
    return {**found, "tolerance": scale if tolerance is None else tolerance}


def cyclictest_text(name, text):
    scale = 1 if "-ns" in name else US
    figures = {label: [int(n) for n in re.search(rf"^# {label}:(.*)$", text, re.M)[1].split()]
               for label in ("Total", "Min Latencies", "Avg Latencies", "Max Latencies", "Histogram Overflows")
               if re.search(rf"^# {label}:", text, re.M)}
    if "Total" in figures:
        rows = [[int(n) for n in line.split()] for line in text.splitlines() if re.fullmatch(r"\d+(\s+\d+)+", line.strip())]
        for thread, low in enumerate(figures["Min Latencies"]):
            bins = [(row[0], row[thread + 1]) for row in rows if row[thread + 1]]
            total = figures["Total"][thread] + figures["Histogram Overflows"][thread]
            yield entry(name, f"thread-{thread}", scale, total, low, figures["Max Latencies"][thread], figures["Avg Latencies"][thread], bins)
        return
    values = re.findall(r"^ *(\d+): {1,}(\d+): {1,}(\d+)\s*$", text, re.M)
    if values:
        for thread in sorted({int(v[0]) for v in values}):
            of_thread = [int(v[2]) for v in values if int(v[0]) == thread]
            counts = [(value, of_thread.count(value)) for value in set(of_thread)]
            yield entry(name, f"thread-{thread}", scale, len(of_thread), min(of_thread), max(of_thread), sum(of_thread) / len(of_thread), counts)
        return
    line = re.compile(r"T: *(\d+) .* C: *(\d+) Min: *(\d+) Act: *\d+ Avg: *(\d+) Max: *(\d+)")
    threads = {m[1]: [int(n) for n in m.groups()] for m in line.finditer(text)}
    for thread, count, low, mean, high in threads.values():
        yield entry(name, f"thread-{thread}", scale, count, low, high, mean)


def thread_json(name, key, subject, thread, scale, count):
    bins = [(int(value), n) for value, n in thread.get("histogram", {}).items()]
    return entry(name, subject.format(key), scale, count, thread["min"], thread["max"], thread["avg"], bins)


def rt_tests_json(name, data):
    for key, thread in data["thread"].items():
        if "cycles" in thread:
            scale = 1 if data["resolution_in_ns"] else US
            yield thread_json(name, key, "thread-{}", thread, scale, thread["cycles"])
            continue
        # oslat: labels are upper edges of bins, which end at the largest value.
        labels = thread["histogram"]
        unit = 1 if any("." in label for label in labels) else US
        low, high = thread["min"] * unit, thread["max"] * unit
        bins = [(min(max(float(label) * US, low), high), count) for label, count in labels.items()]
        mean = thread["avg"] * US
        # A mean of narrow bins with an overflow is wrong in all versions.
        is_wrong = unit == 1 and max(float(label) * US for label in labels) < high
        possible = low <= mean <= high and not is_wrong
        yield entry(name, f"cpu-{thread['cpu']}", 1, sum(labels.values()), low, high, mean if possible else None, bins, US)


def oslat_text(name, text):
    def columns(label):
        return [float(n) for n in re.search(rf"^ *{label}:\t (.*?) *(\(|$)", text, re.M)[1].split()]

    cpus = [int(n) for n in columns("Core")]
    rows = [(float(m[1]), [int(n) for n in m[2].split()]) for m in re.finditer(r"^ *([\d.]+) \(us\):\t ([\d ]+?) *(\(|$)", text, re.M)]
    for i, cpu in enumerate(cpus):
        low, high, mean = (columns(label)[i] for label in ("Minimum", "Maximum", "Average"))
        bins = [(min(max(label, low), high), counts[i]) for label, counts in rows]
        total = sum(counts[i] for _, counts in rows)
        is_wrong = any(label % 1 for label, _ in rows) and max(label for label, counts in rows if counts[i]) < high
        possible = low <= mean <= high and not is_wrong
        yield entry(name, f"cpu-{cpu}", US, total, low, high, mean if possible else None, bins, US)


def jitterdebugger_json(name, data):
    scale = data.get("sysinfo", {}).get("resolution_in_ns", US)
    for key, cpu in data["cpu"].items():
        yield thread_json(name, key, "cpu-{}", cpu, scale, cpu["count"])


def hwlatdetect_text(name, text):
    largest = re.search(r"^Max Latency: (\d+)us", text, re.M)
    if largest:
        recorded = int(re.search(r"^Samples recorded: (\d+)", text, re.M)[1])
        yield entry(name, "hwlatdetect", US, recorded, None, int(largest[1]), None)


def found_values(line):
    """Converts a line of a program that writes distributions or histograms."""
    found = json.loads(line)
    if "subject" in found:
        step = found["step"] * found["scale"]
        found = {key: value if key in ("name", "subject", "count") else scaled(value, found["scale"])
                 for key, value in found.items() if key not in ("scale", "step")}
        return {**found, "tolerance": step}
    scale = MS / found.pop("scale")
    assert found.pop("unit") == "ms"
    values = {key: round(value * scale) if key not in ("name", "count") else value for key, value in found.items()}
    if "-csv" in found["name"]:
        # Without the lines below the table.
        values["mean"] = None
    # The last row may be above the largest value; both are printed with three decimals, and bins have three digits.
    return {**values, "subject": "distribution", "p99_at_least": values.pop("p99"), "tolerance": 1_000 + values["max"] // 1_000}


def values(path):
    text = path.read_text()
    name = path.name
    if path.suffix == ".json":
        data = json.loads(re.sub(r"-?\bnan\b", "null", text))
        return jitterdebugger_json(name, data) if name.startswith("jitterdebugger") else rt_tests_json(name, data)
    reader = {"cyclictest": cyclictest_text, "oslat": oslat_text, "hwlatdetect": hwlatdetect_text}[name.split("-")[0]]
    return reader(name, text)


out = Path(sys.argv[1])
lines = [json.dumps(found_values(line)) for file in sys.argv[2:] for line in Path(file).read_text().splitlines()]
for path in sorted(out.iterdir()):
    if path.name.split("-")[0] in ("cyclictest", "oslat", "hwlatdetect", "jitterdebugger") and "report" not in path.name:
        lines += [json.dumps(found) for found in values(path)]
print("[\n" + ",\n".join(lines) + "\n]")
