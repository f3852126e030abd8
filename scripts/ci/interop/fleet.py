"""Writes a synthetic fleet as osjitter.bins/1, and checks the results of database engines: fleet.py WORK OSJITTER [clickhouse] [spark]

DuckDB and DataFusion are always checked, the other engines if they are named. Counts must be equal, each percentile must equal that
of the exact values up to the width of a bin, and a roll-up must give the same results as its source.
"""
import bisect, csv, gzip, math, random, subprocess, sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parents[3] / "deploy/fleet"
sys.path.insert(0, str(HERE))
import fleet
from arguments import QUESTIONS, read_question, read_statements

work, osjitter, engines = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
HOSTS, RACKS, STARTS, TICKS = 200, 10, ["2026-11-22T05:20", "2026-11-22T05:40", "2026-11-22T06:00"], 400
NOISY = {f"web-{n}" for n in (17, 42, 101, 163)}
SUBJECTS = {"os-interval": (10_000_000, "current-thread", 60_000), "control-loop": (1_000_000, "", 250_000)}
KEY = "host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version"
INTERVAL_COLUMNS = "ticks,delivered,coalesced,skipped,missed,early,max_ns,cpu_ns,steal_ns,run_queue_ns,throttled_ns"
random.seed(7)


def bin_bounds(value):
    """Returns the bounds of the bin of a value; an implementation of the format that is independent of osjitter."""
    if value < 0:
        return -(10**18), -1
    width = 1 << max(0, value.bit_length() - 8)
    lower = value // width * width
    return lower, lower + width - 1


def nearest_rank(values, numerator, denominator):
    return values[max(0, -(-len(values) * numerator // denominator) - 1)]


def random_lateness(median, noisy):
    if random.random() < (0.2 if noisy else 0.004):
        return int(median * 10 * random.paretovariate(1.3))
    value = int(random.lognormvariate(math.log(median), 0.5))
    return -random.randrange(1, 500) if random.random() < 0.001 else min(value, 10**12)


# The files of each host, and all values by rack, hour and subject.
exact, by_host, p99s, intervals, rows = defaultdict(list), defaultdict(list), defaultdict(list), 0, 0
logs = work / "logs"
for n in range(HOSTS):
    host, rack = f"web-{n}", f"r{n % RACKS}"
    bins, interval_rows = [KEY + ",binning,lower_ns,upper_ns,count"], [KEY + "," + INTERVAL_COLUMNS]
    for subject, (period, runtime, median) in SUBJECTS.items():
        median *= 1 + n % RACKS / 20
        for start in STARTS:
            values = sorted(random_lateness(median, host in NOISY) for _ in range(TICKS))
            key = f"{host},{subject},{period},{runtime},rack={rack};zone=z{n % 3},{start}:00.000000Z,1200000000000,run-{n},1"
            group = rack, start[:13], subject
            exact[group] += values
            by_host[group[0], host, subject] += values
            p99s[group].append(nearest_rank(values, 99, 100))
            counted = defaultdict(int)
            for value in values:
                counted[bin_bounds(value)] += 1
            bins += [f"{key},hdr2,{low},{up},{count}" for (low, up), count in sorted(counted.items())]
            early = bisect.bisect_left(values, 0)
            missed = 2 + TICKS - bisect.bisect_left(values, period)
            interval_rows.append(f"{key},{TICKS + 2},{TICKS},0,2,{missed},{early},{values[-1]},123456,,,0")
            intervals += 1
    day = logs / "2026-11-22"
    day.mkdir(parents=True, exist_ok=True)
    # Every fourth host has compressed files.
    compressed = n % 4 == 0
    for kind, lines in (("bins", bins), ("intervals", interval_rows)):
        text = ("\n".join(lines) + "\n").encode()
        name = f"{host}.20261122T052000Z.{kind}.csv"
        (day / (name + ".gz")).write_bytes(gzip.compress(text)) if compressed else (day / name).write_bytes(text)
    rows += len(bins) - 1
for values in [*exact.values(), *by_host.values()]:
    values.sort()


class DuckDb:
    def __init__(self, where):
        self.db = fleet.open_database(where)

    def query(self, sql):
        return self.db.execute(sql).fetchall()


class DataFusion:
    def __init__(self, where):
        import datafusion, pyarrow
        option = "datafusion.execution.listing_table_ignore_subdirectory"
        self.db = datafusion.SessionContext(datafusion.SessionConfig().set(option, "false"))
        columns = {"bins": KEY + ",binning,lower_ns,upper_ns,count", "intervals": KEY + "," + INTERVAL_COLUMNS}
        for kind, names in columns.items():
            schema = pyarrow.schema([(name, pyarrow.string()) for name in names.split(",")])
            parts = []
            for ending, compression in ((f".{kind}.csv", None), (f".{kind}.csv.gz", "gzip")):
                if not list(where.glob("**/*" + ending)):
                    continue
                table = f"{kind}_{compression or 'plain'}"
                self.db.register_csv(table, str(where) + "/", schema=schema, has_header=True, file_extension=ending, file_compression_type=compression)
                parts.append(f"SELECT * FROM {table}")
            if not parts:
                self.db.from_pydict({name: [""][:0] for name in names.split(",")}, name=f"{kind}_none")
                parts = [f"SELECT * FROM {kind}_none"]
            self.db.sql(f"CREATE VIEW {kind}_files AS {' UNION ALL '.join(parts)}").collect()
        for statement in read_statements("datafusion", BINS="bins_files", INTERVALS="intervals_files", LABEL="rack", LIMIT_NS=1_000_000):
            self.db.sql(statement).collect()

    def query(self, sql):
        columns = [(batch.num_rows, [column.to_pylist() for column in batch.columns]) for batch in self.db.sql(sql).collect()]
        return [row for n, batch in columns if n for row in zip(*batch)]


class ClickHouse:
    def __init__(self, where):
        from chdb import session
        self.db = session.Session()
        columns = {"BINS": "bins", "INTERVALS": "intervals"}
        text_columns = lambda names: ", ".join(f"`{name}` Nullable(String)" for name in names.split(","))
        structure = {"bins": text_columns(KEY + ",binning,lower_ns,upper_ns,count"), "intervals": text_columns(KEY + "," + INTERVAL_COLUMNS)}
        has_files = lambda kind: any(where.glob(f"**/*.{kind}.csv*"))
        empty_table = lambda kind: f"(SELECT * FROM null('{structure[kind]}'))"
        table_function = lambda kind: f"file('{where}/**/*.{kind}.csv*', CSVWithNames, '{structure[kind]}')" if has_files(kind) else empty_table(kind)
        self.db.query("CREATE DATABASE IF NOT EXISTS fleet")
        self.db.query("USE fleet")
        for statement in read_statements("clickhouse", LABEL="rack", LIMIT_NS=1_000_000, **{name: table_function(kind) for name, kind in columns.items()}):
            self.db.query(statement)

    def query(self, sql):
        import json
        result = json.loads(str(self.db.query(sql + "\nSETTINGS output_format_json_quote_64bit_integers = 0", "JSONCompact")))
        return [tuple(row) for row in result["data"]]


class Spark:
    """A cluster of two workers on this machine, each in a separate process."""

    def __init__(self, where):
        import spark
        from pyspark.sql import SparkSession
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("osjitter fleet")
        self.db = spark.create_views(builder.config("spark.ui.enabled", "false").getOrCreate(), where)

    def query(self, sql):
        return list(map(tuple, self.db.sql(sql).collect()))


def plain_rows(rows):
    """Converts the integer types of an engine to int."""
    return [tuple(int(v) if isinstance(v, int) or (not isinstance(v, (str, float)) and v is not None) else v for v in row) for row in rows]


def run_queries(engine):
    return {name: plain_rows(engine.query(read_question(name))) for name in QUESTIONS}


def check_percentiles(rows):
    assert len(rows) == len(exact) == RACKS * 2 * len(SUBJECTS), len(rows)
    worst = 0.0
    for rack, hour, subject, period, runtime, came, *percentiles in rows:
        values = exact[rack, hour, subject]
        assert (came, period, runtime) == (len(values), *SUBJECTS[subject][:2]), (rack, hour, subject, came, len(values))
        for (numerator, denominator), found in zip([(5, 10), (9, 10), (99, 100), (999, 1000), (1, 1)], percentiles):
            expected = nearest_rank(values, numerator, denominator)
            assert found == bin_bounds(expected)[1], (rack, hour, subject, numerator, denominator, found, expected)
            worst = max(worst, (found - expected) / expected)
    assert 0 < worst < 1 / 128, worst
    return worst


def check_others(found):
    assert {row[1] for row in found["outliers"]} == NOISY, found["outliers"]
    for rack, host, subject, _, _, p99, came, later, share in found["outliers"]:
        values = by_host[rack, host, subject]
        above = len(values) - bisect.bisect_right(values, p99)
        assert (came, later) == (len(values), above) and abs(share - above / len(values)) < 1e-12, (host, came, later, above)
    for rack, hour, subject, _, _, came, at_least, at_most in found["within"]:
        values = exact[rack, hour, subject]
        low, up = bin_bounds(1_000_000)
        assert at_least == bisect.bisect_left(values, low) <= bisect.bisect_right(values, 1_000_000) <= at_most == bisect.bisect_right(values, up)
    for rack, hour, subject, period, _, hosts, planned, skipped, missed, early, latest in found["ticks"]:
        values = exact[rack, hour, subject]
        assert (hosts, skipped, latest) == (HOSTS // RACKS, planned - len(values), values[-1]), (rack, hour, subject)
        assert missed == skipped + len(values) - bisect.bisect_left(values, period) and early == bisect.bisect_left(values, 0)


all_engines = {"DuckDB": DuckDb, "DataFusion": DataFusion, "ClickHouse": ClickHouse, "Spark": Spark}
selected = {name: engine for name, engine in all_engines.items() if name in ("DuckDB", "DataFusion") or name.lower() in engines}
first = None
for name, engine in selected.items():
    found = run_queries(engine(logs))
    worst = check_percentiles(found["percentiles"])
    check_others(found)
    # The same queries on the roll-up must give the same results.
    rollup = work / f"rollup-{name}"
    rollup.mkdir()
    with open(rollup / "fleet.bins.csv", "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow((KEY + ",binning,lower_ns,upper_ns,count").split(","))
        writer.writerows(found["rollup"])
    found_in_rollup = run_queries(engine(rollup))
    for question in ("percentiles", "within", "rollup"):
        assert found_in_rollup[question] == found[question], (name, question)
    first = first or found
    assert found == first, f"{name} and DuckDB disagree"
    print(f"{name}: {intervals} intervals of {HOSTS} hosts in {rows} rows; {len(exact)} groups with equal counts, percentiles at most "
          f"{worst:.2%} above the exact ones; the roll-up of {len(found['rollup'])} rows gives equal results")

# The runner as users call it.
run = lambda *args: subprocess.run([sys.executable, str(HERE / "fleet.py"), *map(str, args)], text=True, capture_output=True)
table = run(logs).stdout.splitlines()
assert len(table) == 1 + len(exact) and table[0].split()[:3] == ["label", "hour", "subject"], table[:2]
written = work / "runner" / "fleet.bins.csv"
written.parent.mkdir()
assert run(logs, "rollup", "--out", written).returncode == 0
assert run(written).stdout.splitlines() == table and run(written.parent).stdout.splitlines() == table
dotted = run(logs, "--label", "r.ck").stdout.splitlines()
assert len(dotted) == 1 + len(exact) // RACKS, "a dot in --label must match only a dot"
empty = work / "nothing"
empty.mkdir()
for args in ([empty], [work / "nowhere"], [logs, "--label", "a'b"], [logs, "--limit", "soon"]):
    failed = run(*args)
    assert failed.returncode != 0 and "error: " in failed.stderr and "Traceback" not in failed.stderr, failed.stderr

# osjitter must find the same values in these files as the engines, and read the files that they wrote.
import json
run_osjitter = lambda *args: subprocess.run([osjitter, *map(str, args)], text=True, capture_output=True, check=True)
all_values = {s: sorted(v for (_, _, subject), values in exact.items() if subject == s for v in values) for s in SUBJECTS}
for where in (logs, written):
    for subject in json.loads(run_osjitter("report", where, "--format", "json").stdout)["subjects"]:
        values, lateness = all_values[subject["name"]], subject["summary"]["lateness_ns"]
        for key, numerator, denominator in (("p50", 5, 10), ("p90", 9, 10), ("p99", 99, 100), ("p99_9", 999, 1000)):
            assert lateness[key] == bin_bounds(nearest_rank(values, numerator, denominator))[1], (where, subject["name"], key)
        assert subject["histogram"]["count"] == len(values)
        assert lateness["max"] == (values[-1] if where == logs else bin_bounds(values[-1])[1])
(work / "merged").mkdir()
run_osjitter("merge", logs, "--out", work / "merged" / "all.bins.csv")
merged = DuckDb(work / "merged").query("SELECT label, subject, sum(n) FROM bins GROUP BY label, subject")
assert {row[:2]: int(row[2]) for row in merged} == {(f"r{r}", s): HOSTS // RACKS * len(STARTS) * TICKS for r in range(RACKS) for s in SUBJECTS}
print("osjitter: finds the same percentiles in these files and in the roll-up of the engines; DuckDB finds every tick in its merge")

# Percentiles must not be averaged. The figures of the book show the mean of the intervals' p99, relative to the p99 of all ticks.
ratios = sorted(sum(p99s[group]) / len(p99s[group]) / nearest_rank(values, 99, 100) for group, values in exact.items())
noisy_racks = {f"r{int(host[4:]) % RACKS}" for host in NOISY}
ratios_if = lambda condition: [sum(p99s[g]) / len(p99s[g]) / nearest_rank(v, 99, 100) for g, v in exact.items() if condition(g)]
quiet, noisy = ratios_if(lambda g: g[0] not in noisy_racks), ratios_if(lambda g: g[0] in noisy_racks)
mean = lambda values: sum(values) / len(values)
highest = max(max(p99s[g]) / nearest_rank(v, 99, 100) for g, v in exact.items())
figures = f"{mean(noisy):.2f}", f"{mean(quiet):.2f}", f"{highest:.1f}"
page = " ".join((HERE.parents[1] / "docs/src/fleets.md").read_text().split())
for words, figure in zip(("is {} of the p99", "and {} of it in the others", "up to {} times the truth"), figures):
    assert words.format(figure) in page, f"docs/src/fleets.md lacks {words.format(figure)!r}"
print(f"the mean of the intervals' p99 is {mean(noisy):.2f} of the p99 of their ticks in racks with a noisy host, {mean(quiet):.2f} in the "
      f"others (all: {ratios[0]:.2f} to {ratios[-1]:.2f}); the largest of them is up to {highest:.1f} times it")
