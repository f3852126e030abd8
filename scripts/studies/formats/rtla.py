"""Writes histograms in the layouts that rtla has had since Linux 5.17.   rtla.py DIRECTORY

rtla needs a kernel with its tracers, which few machines have, so this prints random samples as the functions *_print_stats of
tools/tracing/rtla/src do in each version. Prints the values of each column as JSON lines; a column counts in microseconds, or in
nanoseconds with -n.
"""
import json
import random
import sys
from pathlib import Path

out = Path(sys.argv[1])


class Column:
    def __init__(self, head, name, samples):
        self.head, self.name, self.samples = head, name, samples

    def buckets(self, width, entries):
        rows, over = {}, 0
        for sample in self.samples:
            if sample // width < entries:
                rows[sample // width] = rows.get(sample // width, 0) + 1
            else:
                over += 1
        return rows, over


def draw(seed, scale, count, largest):
    rng = random.Random(seed)
    return [int(scale / 2 + rng.random() * scale) for _ in range(count - 1)] + [largest]


def cell(value):
    return f"{value:>9} "


def lines_of_figures(columns, mean, has_dash):
    def value(column, compute):
        return cell(compute(column.samples)) if column.samples else cell("-" if has_dash else 0)

    yield "count:" + "".join(cell(len(column.samples)) for column in columns)
    yield "min:  " + "".join(value(column, min) for column in columns)
    yield "avg:  " + "".join(value(column, mean) for column in columns)
    yield "max:  " + "".join(value(column, max) for column in columns)


def write(name, tool, columns, mean, *, unit="us", width=1, entries=256, has_dash=True, has_total=False, zeros=False, duration="0 00:00:10"):
    """Prints a histogram like one version of rtla."""
    long_unit = {"us": "microseconds", "ns": "nanoseconds"}[unit]
    text = [f"# RTLA {tool} histogram", f"# Time unit is {long_unit} ({unit})", f"# Duration:   {duration}"]
    text.append("Index" + "".join(f"   {column.head}" for column in columns))
    tables = [column.buckets(width, entries) for column in columns]
    for bucket in range(entries):
        counts = [rows.get(bucket, 0) for rows, _ in tables]
        if any(counts) or zeros:
            text.append(f"{bucket * width:<6}" + "".join(cell(count) for count in counts))
    text.append("over: " + "".join(cell(over) for _, over in tables))
    text += lines_of_figures(columns, mean, has_dash)
    if has_total:
        stages = sorted({column.head.split("-")[0] for column in columns}, key=["IRQ", "Thr", "Usr"].index)
        merged = [Column(stage, stage, [s for c in columns if c.head.startswith(stage) for s in c.samples]) for stage in stages]
        text.append("ALL:  " + "".join(f"{stage:>9} " for stage in stages))
        text += lines_of_figures(merged, mean, has_dash)
    (out / name).write_text("\n".join(text) + "\n")
    scale = {"us": 1_000, "ns": 1}[unit]
    for column in columns:
        ordered = sorted(column.samples)
        found = {"name": name, "subject": column.name, "scale": scale, "step": width, "count": len(ordered)}
        if ordered:
            found |= {"min": ordered[0], "max": ordered[-1], "mean": sum(ordered) / len(ordered), "p50": ordered[(len(ordered) + 1) // 2 - 1]}
        print(json.dumps(found))


def timerlat(seed, cpus, stages="IRQ Thr", count=2_000, scale=6, largest=90, unused=()):
    names = {"IRQ": "irq", "Thr": "thread", "Usr": "user"}
    columns = []
    for cpu in cpus:
        for i, stage in enumerate(stages.split()):
            samples = [] if (cpu, stage) in unused else draw(f"{seed}-{cpu}-{stage}", scale * (i + 1), count, largest + 7 * i)
            columns.append(Column(f"{stage}-{cpu:03}", f"timerlat-{names[stage]}/cpu-{cpu}", samples))
    return columns


def osnoise(seed, cpus, count=700, scale=8, largest=41):
    return [Column(f"CPU-{cpu:03}", f"osnoise/cpu-{cpu}", draw(f"{seed}-{cpu}", scale, count, largest)) for cpu in cpus]


def whole(samples):
    return sum(samples) // len(samples)


def decimals(samples):
    return f"{sum(samples) / len(samples):.2f}"


# 5.17 to 6.2: no user threads; the mean of osnoise is divided by the number of samples twice.
write("rtla-5.17-timerlat.txt", "timerlat", timerlat("a", range(2)), whole, has_dash=False)
write("rtla-5.17-osnoise.txt", "osnoise", osnoise("b", range(2)), lambda samples: whole(samples) // len(samples))
# 6.3: the mean of osnoise has decimals.
write("rtla-6.3-osnoise.txt", "osnoise", osnoise("c", range(4), largest=300), decimals)
write("rtla-6.3-osnoise-ns.txt", "osnoise", osnoise("d", [1], scale=4_000, largest=60_000), decimals, unit="ns", width=100)
# 6.6: user threads, of which some took no sample. 6.10: a summary of all CPUs.
write("rtla-6.6-timerlat-user.txt", "timerlat", timerlat("e", [0, 12], "IRQ Thr Usr", unused=[(12, "Usr")]), whole)
write("rtla-6.10-timerlat-all.txt", "timerlat", timerlat("f", range(3), "IRQ Thr Usr"), whole, has_total=True)
write("rtla-6.12-timerlat-ns.txt", "timerlat", timerlat("g", [3], scale=5_000, largest=210_000), whole, unit="ns", width=1_000,
      entries=64, has_total=True, duration="1 02:03:04")
# With --no-irq, and with --with-zeros.
write("rtla-6.12-timerlat-no-irq.txt", "timerlat", timerlat("h", range(2), "Thr"), whole, has_total=True)
write("rtla-6.12-timerlat-zeros.txt", "timerlat", timerlat("i", [0]), whole, entries=60, zeros=True, has_total=True)
