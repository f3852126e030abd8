"""Reads each text format with a program that is not exported, and compares what it read with the report itself."""
import json, re, sys
from pathlib import Path

import duckdb
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families

work, reference = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
report = json.loads((work / "report.json").read_text())
subjects = {s["id"]: s for s in report["subjects"]}
lateness = {id: sorted(v for r in s["rounds"] for v in r["lateness_ns"]) for id, s in subjects.items()}
assert subjects and all(lateness.values())


def nearest_rank(values, percent):
    return values[max(0, -(-percent * len(values) // 100) - 1)]


# hlog and hgrm: the Python HdrHistogram reads the log, and every line of the distribution is compared with it.
for n, (id, values) in enumerate(lateness.items()):
    total = HdrHistogram(1, 2**62, 3)
    log = HistogramLogReader(str(work / "run.hlog"), HdrHistogram(1, 2**62, 3))
    while (interval := log.get_next_interval_histogram()) is not None:
        if interval.get_tag() == id:
            total.add(interval)
    assert total.get_total_count() == len(values), (id, total.get_total_count(), len(values))
    for percent in (50, 90, 99):
        exact, read = nearest_rank(values, percent), total.get_value_at_percentile(percent)
        assert abs(read - exact) <= max(2, exact / 500), (id, percent, exact, read)
    # Each line must be between the values one rank below and one rank above, because the two programs round ranks differently.
    lines = [line.split() for line in (work / f"{n}.hgrm").read_text().splitlines()]
    rows = [[float(x) for x in row[:3]] for row in lines if row and row[0][0].isdigit()]
    assert len(rows) > 10 and rows[-1][1:] == [1.0, len(values)], id
    for us, q, _ in rows:
        low, high = (total.get_value_at_percentile(100 * min(1, max(0, q + d / len(values)))) / 1e3 for d in (-1, 1))
        assert low * 0.999 <= us <= high * 1.001, (id, q, us, low, high)
print("hlog, hgrm: the Python HdrHistogram reads every tick and finds the same distribution")

# The Java HdrHistogram, whose reader defines the format: it has read the log into java.json (ReadLogs.java), where Java is installed.
log = (work / "run.hlog").read_text()
if (work / "java.json").exists():
    tags = json.loads((work / "java.json").read_text())["run.hlog"]
    assert set(tags) == set(lateness), (set(tags), set(lateness))
    for id, values in lateness.items():
        found = tags[id]
        assert found["count"] == len(values) and found["intervals"] == len(subjects[id]["rounds"]), (id, found)
        for key, exact in (("p50", nearest_rank(values, 50)), ("p99", nearest_rank(values, 99)), ("max", values[-1])):
            assert 0 <= found[key] - max(exact, 0) <= max(2, exact / 500), (id, key, exact, found)
    print("hlog: the Java HdrHistogram reads every tick")

# What the C implementation demands of a log: the version and a legend after the comments, comments that fit its buffer, and then only
# intervals, whose numbers have no sign and no exponent.
header, legend, body = log.partition('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
comments = header.splitlines()
assert legend and all(line.startswith("#") and len(line) < 127 for line in comments), header
assert any(re.fullmatch(r"#\[Histogram log format version 1\.[0-3]\]", line) for line in comments), header
line = re.compile(r"(?:Tag=[^,\s]+,)?(\d+\.\d+),(\d+\.\d+),(\d+\.\d+),(HIST[A-Za-z0-9+/=]+)")
rows = [line.fullmatch(row) for row in body.splitlines()]
assert rows and all(rows), body[:200]
# The third column is in milliseconds, as everyone writes it.
latest = max(values[-1] for values in lateness.values())
assert abs(max(float(row[3]) for row in rows) - latest / 1e6) <= 0.001 + latest / 5e8, latest
print("hlog: header, columns and units are those of other implementations")

# openmetrics, with Prometheus's own parser, which is strict about order, units and the end.
metrics = {m.name: m for m in text_string_to_metric_families((work / "run.om").read_text())}
ticks = {s.labels["id"]: s.value for s in metrics["osjitter_ticks"].samples}
assert ticks == {id: s["summary"]["ticks"] for id, s in subjects.items()}, ticks
p50 = {s.labels["id"]: s.value for s in metrics["osjitter_lateness_seconds"].samples if s.labels.get("quantile") == "0.5"}
for id, s in subjects.items():
    assert abs(p50[id] * 1e9 - s["summary"]["lateness_ns"]["p50"]) < 0.5, (id, p50)
print("openmetrics: Prometheus's own parser finds the same values")

# csv, gab and bmf: DuckDB reads the tables and the JSON of the trackers.
db = duckdb.connect()
query = lambda sql, *args: db.execute(sql, list(args)).fetchall()
for id, n, maximum in query("select id, count(*), max(lateness_ns) from read_csv(?) group by id", str(work / "samples.csv")):
    assert (n, maximum) == (len(lateness[id]), lateness[id][-1]), id
summaries = dict(query("select id, p50_ns from read_csv(?)", str(work / "summary.csv")))
assert summaries == {id: s["summary"]["lateness_ns"]["p50"] for id, s in subjects.items()}, summaries
gab = query("select name, value, unit from read_json(?) where name like '% lateness p50'", str(work / "run.gab"))
assert dict((n, v) for n, v, _ in gab) == {f"{id} lateness p50": p50 for id, p50 in summaries.items()}, gab
assert {unit for _, _, unit in gab} == {"ns"}
for id, s in subjects.items():
    (value,), = query("select json_extract(content, ?) from read_text(?)", f'$."{id}".lateness_p50_ns.value', str(work / "run.bmf"))
    assert int(value) == summaries[id], (id, value)
# Bencher requires a value for every metric, accepts a lower and an upper limit, and all of them must be numbers.
for measures in json.loads((work / "run.bmf").read_text()).values():
    for name, metric in measures.items():
        assert len(name) <= 64 and set(metric) <= {"value", "lower_value", "upper_value"}, (name, metric)
        assert all(type(v) in (int, float) for v in metric.values())
        assert metric.get("lower_value", metric["value"]) <= metric["value"] <= metric.get("upper_value", metric["value"])
print("csv, gab, bmf: DuckDB finds the same values")

# parquet, if the program was built with it: DuckDB finds every tick, and its percentiles equal those of the report.
if (work / "samples.parquet").exists():
    samples, summary = str(work / "samples.parquet"), str(work / "summary.parquet")
    for id, values in lateness.items():
        (found,) = query("select count(*), min(lateness_ns), max(lateness_ns), quantile_disc(lateness_ns, [0.5, 0.9, 0.99]), count(distinct round) from read_parquet(?) where id = ?", samples, id)
        assert found[:3] == (len(values), values[0], values[-1]), (id, found)
        reported = subjects[id]["summary"]["lateness_ns"]
        assert found[3] == [reported["p50"], reported["p90"], reported["p99"]], (id, found, reported)
        assert found[4] == len({r["index"] for r in subjects[id]["rounds"]}), (id, found)
        (row,) = query("select ticks, p50_ns, p90_ns, p99_ns, p99_9_ns, max_ns, p50_low_ns, p50_high_ns, cpu_ns_per_tick from read_parquet(?) where id = ?", summary, id)
        interval = reported["ci95"].get("p50", [None, None])
        s = subjects[id]["summary"]
        percentiles = [reported[key] for key in ("p50", "p90", "p99", "p99_9", "max")]
        assert row == (s["ticks"], *percentiles, *interval, s["cpu_ns_per_tick"]), (id, row)
    ticks = sum(map(len, lateness.values()))
    assert query("select count(*), count(distinct id) from read_parquet(?)", samples) == [(ticks, len(lateness))]
    # As in the report, the time is null for a tick without a park of its own.
    stamps = sum(v is not None for s in subjects.values() for r in s["rounds"] for v in r.get("until_unpark_ns") or [])
    assert query("select count(until_unpark_ns) from read_parquet(?)", samples) == [(stamps,)]
    print("parquet: DuckDB finds every tick and the percentiles of the report")


# cyclictest-json: contains every key that cyclictest writes, with the same type; DuckDB adds up the bins.
def find_missing(value, expected, path=""):
    """Returns the keys that are missing or have another type, and invalid keys of a histogram."""
    if isinstance(expected, dict) and path.endswith(".histogram"):
        invalid = [k for k, v in value.items() if not (k.lstrip("-").isdigit() and isinstance(v, int))]
        return [f"{path}.{k}" for k in invalid]
    if isinstance(expected, dict):
        return [missing for k, v in expected.items()
                for missing in ([f"{path}.{k}"] if k not in value else find_missing(value[k], v, f"{path}.{k}"))]
    return [] if type(value) is type(expected) or {type(value), type(expected)} <= {int, float} else [path]


file = work / "run.cyclictest"
exported = json.loads(file.read_text())
if reference:
    assert not (missing := find_missing(exported, json.loads(Path(reference).read_text()))), missing
# Parsers of KernelCI and Linaro print min, avg and max of each thread as microseconds, whatever the file says about its resolution.
assert exported["resolution_in_ns"] == 0 and int(exported["num_threads"]) == len(lateness)
for n, (id, values) in enumerate(lateness.items()):
    (total,), = query("select list_sum(map_values(from_json(json_extract(content, ?), '\"MAP(VARCHAR, BIGINT)\"'))) from read_text(?)", f'$.thread."{n}".histogram', str(file))
    thread = exported["thread"][str(n)]
    us = [max(value, 0) // 1000 for value in values]
    assert total == thread["cycles"] == len(values) and (thread["min"], thread["max"]) == (us[0], us[-1]), id
    assert abs(thread["avg"] - sum(values) / len(values) / 1000) < 1.1, (id, thread["avg"])
    bins = {int(k): n for k, n in thread["histogram"].items()}
    assert list(bins) == sorted(bins), "bins ascend, as cyclictest's do"
    assert bins == {value: us.count(value) for value in set(us)}, id
print("cyclictest-json: DuckDB reads it, in microseconds;", "its keys and types are cyclictest's own" if reference else "no cyclictest here to compare with")
