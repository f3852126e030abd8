"""A fleet that does not exist, written as osjitter.bins/1, and what engines that are not ours find in it.

python fleet.py WORK OSJITTER [clickhouse] [spark]: DuckDB and DataFusion, and the others where asked for. The counts must be equal, each
percentile that of the exact values up to the width of a bin, and a roll-up must give the answers that its source gave."""
import bisect, csv, gzip, math, random, subprocess, sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parents[3] / "deploy/fleet"
sys.path.insert(0, str(HERE))
import fleet
from arguments import QUESTIONS, question, statements

work, osjitter, engines = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
HOSTS, RACKS, STARTS, TICKS = 200, 10, ["2026-11-22T05:20", "2026-11-22T05:40", "2026-11-22T06:00"], 400
NOISY = {f"web-{n}" for n in (17, 42, 101, 163)}
SUBJECTS = {"os-interval": (10_000_000, "current-thread", 60_000), "control-loop": (1_000_000, "", 250_000)}
KEY = "host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version"
FACTS = "ticks,delivered,coalesced,skipped,missed,early,max_ns,cpu_ns,steal_ns,run_queue_ns,throttled_ns"
random.seed(7)


def bin_of(value):
    """The format's rule, written a second time."""
    if value < 0:
        return -(10**18), -1
    width = 1 << max(0, value.bit_length() - 8)
    lower = value // width * width
    return lower, lower + width - 1


def nearest_rank(values, per, of):
    return values[max(0, -(-len(values) * per // of) - 1)]


def lateness(median, noisy):
    if random.random() < (0.2 if noisy else 0.004):
        return int(median * 10 * random.paretovariate(1.3))
    value = int(random.lognormvariate(math.log(median), 0.5))
    return -random.randrange(1, 500) if random.random() < 0.001 else min(value, 10**12)


# The files of each host, and all values by rack, hour and subject.
exact, by_host, p99s, intervals, rows = defaultdict(list), defaultdict(list), defaultdict(list), 0, 0
logs = work / "logs"
for n in range(HOSTS):
    host, rack = f"web-{n}", f"r{n % RACKS}"
    bins, facts = [KEY + ",binning,lower_ns,upper_ns,count"], [KEY + "," + FACTS]
    for subject, (period, runtime, median) in SUBJECTS.items():
        median *= 1 + n % RACKS / 20
        for start in STARTS:
            values = sorted(lateness(median, host in NOISY) for _ in range(TICKS))
            key = f"{host},{subject},{period},{runtime},rack={rack};zone=z{n % 3},{start}:00.000000Z,1200000000000,run-{n},1"
            group = rack, start[:13], subject
            exact[group] += values
            by_host[group[0], host, subject] += values
            p99s[group].append(nearest_rank(values, 99, 100))
            counted = defaultdict(int)
            for value in values:
                counted[bin_of(value)] += 1
            bins += [f"{key},hdr2,{low},{up},{count}" for (low, up), count in sorted(counted.items())]
            early = bisect.bisect_left(values, 0)
            missed = 2 + TICKS - bisect.bisect_left(values, period)
            facts.append(f"{key},{TICKS + 2},{TICKS},0,2,{missed},{early},{values[-1]},123456,,,0")
            intervals += 1
    day = logs / "2026-11-22"
    day.mkdir(parents=True, exist_ok=True)
    # Some as they grow, some as they are kept.
    packed = n % 4 == 0
    for kind, lines in (("bins", bins), ("intervals", facts)):
        text = ("\n".join(lines) + "\n").encode()
        name = f"{host}.20261122T052000Z.{kind}.csv"
        (day / (name + ".gz")).write_bytes(gzip.compress(text)) if packed else (day / name).write_bytes(text)
    rows += len(bins) - 1
for values in [*exact.values(), *by_host.values()]:
    values.sort()


class DuckDb:
    def __init__(self, where):
        self.db = fleet.opened(where)

    def ask(self, question):
        return self.db.execute(question).fetchall()


class DataFusion:
    def __init__(self, where):
        import datafusion, pyarrow
        below = "datafusion.execution.listing_table_ignore_subdirectory"
        self.db = datafusion.SessionContext(datafusion.SessionConfig().set(below, "false"))
        columns = {"bins": KEY + ",binning,lower_ns,upper_ns,count", "intervals": KEY + "," + FACTS}
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
        for statement in statements("datafusion", BINS="bins_files", INTERVALS="intervals_files", LABEL="rack", LIMIT_NS=1_000_000):
            self.db.sql(statement).collect()

    def ask(self, question):
        columns = [(batch.num_rows, [column.to_pylist() for column in batch.columns]) for batch in self.db.sql(question).collect()]
        return [row for n, batch in columns if n for row in zip(*batch)]


class ClickHouse:
    def __init__(self, where):
        from chdb import session
        self.db = session.Session()
        columns = {"BINS": "bins", "INTERVALS": "intervals"}
        text = lambda names: ", ".join(f"`{name}` Nullable(String)" for name in names.split(","))
        structure = {"bins": text(KEY + ",binning,lower_ns,upper_ns,count"), "intervals": text(KEY + "," + FACTS)}
        has = lambda kind: any(where.glob(f"**/*.{kind}.csv*"))
        none = lambda kind: f"(SELECT * FROM null('{structure[kind]}'))"
        read = lambda kind: f"file('{where}/**/*.{kind}.csv*', CSVWithNames, '{structure[kind]}')" if has(kind) else none(kind)
        self.db.query("CREATE DATABASE IF NOT EXISTS fleet")
        self.db.query("USE fleet")
        for statement in statements("clickhouse", LABEL="rack", LIMIT_NS=1_000_000, **{name: read(kind) for name, kind in columns.items()}):
            self.db.query(statement)

    def ask(self, question):
        import json
        answer = json.loads(str(self.db.query(question + "\nSETTINGS output_format_json_quote_64bit_integers = 0", "JSONCompact")))
        return [tuple(row) for row in answer["data"]]


class Spark:
    """A cluster of two workers on this machine, each a process of its own."""

    def __init__(self, where):
        import spark
        from pyspark.sql import SparkSession
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("osjitter fleet")
        self.db = spark.opened(builder.config("spark.ui.enabled", "false").getOrCreate(), where)

    def ask(self, question):
        return list(map(tuple, self.db.sql(question).collect()))


def plain(rows):
    return [tuple(int(v) if isinstance(v, int) or (not isinstance(v, (str, float)) and v is not None) else v for v in row) for row in rows]


def answers(engine):
    return {name: plain(engine.ask(question(name))) for name in QUESTIONS}


def check_percentiles(rows):
    assert len(rows) == len(exact) == RACKS * 2 * len(SUBJECTS), len(rows)
    worst = 0.0
    for rack, hour, subject, period, runtime, came, *percentiles in rows:
        values = exact[rack, hour, subject]
        assert (came, period, runtime) == (len(values), *SUBJECTS[subject][:2]), (rack, hour, subject, came, len(values))
        for (per, of), found in zip([(5, 10), (9, 10), (99, 100), (999, 1000), (1, 1)], percentiles):
            want = nearest_rank(values, per, of)
            assert found == bin_of(want)[1], (rack, hour, subject, per, of, found, want)
            worst = max(worst, (found - want) / want)
    assert 0 < worst < 1 / 128, worst
    return worst


def check_others(found):
    assert {row[1] for row in found["outliers"]} == NOISY, found["outliers"]
    for rack, host, subject, _, _, p99, came, later, share in found["outliers"]:
        values = by_host[rack, host, subject]
        above = len(values) - bisect.bisect_right(values, p99)
        assert (came, later) == (len(values), above) and abs(share - above / len(values)) < 1e-12, (host, came, later, above)
    for rack, hour, subject, _, _, came, least, most in found["within"]:
        values = exact[rack, hour, subject]
        low, up = bin_of(1_000_000)
        assert least == bisect.bisect_left(values, low) <= bisect.bisect_right(values, 1_000_000) <= most == bisect.bisect_right(values, up)
    for rack, hour, subject, period, _, hosts, planned, skipped, missed, early, latest in found["ticks"]:
        values = exact[rack, hour, subject]
        assert (hosts, skipped, latest) == (HOSTS // RACKS, planned - len(values), values[-1]), (rack, hour, subject)
        assert missed == skipped + len(values) - bisect.bisect_left(values, period) and early == bisect.bisect_left(values, 0)


chosen = {"DuckDB": DuckDb, "DataFusion": DataFusion, "ClickHouse": ClickHouse, "Spark": Spark}
chosen = {name: engine for name, engine in chosen.items() if name in ("DuckDB", "DataFusion") or name.lower() in engines}
first = None
for name, engine in chosen.items():
    found = answers(engine(logs))
    worst = check_percentiles(found["percentiles"])
    check_others(found)
    # The roll-up, written back, is asked the same.
    again = work / f"rollup-{name}"
    again.mkdir()
    with open(again / "fleet.bins.csv", "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow((KEY + ",binning,lower_ns,upper_ns,count").split(","))
        writer.writerows(found["rollup"])
    second = answers(engine(again))
    for asked in ("percentiles", "within", "rollup"):
        assert second[asked] == found[asked], (name, asked)
    first = first or found
    assert found == first, f"{name} and DuckDB disagree"
    print(f"{name}: {intervals} intervals of {HOSTS} hosts in {rows} rows; {len(exact)} groups with equal counts, percentiles at most "
          f"{worst:.2%} above the exact ones; the roll-up of {len(found['rollup'])} rows gives equal answers")

# The runner, as a stranger runs it.
run = lambda *args: subprocess.run([sys.executable, str(HERE / "fleet.py"), *map(str, args)], text=True, capture_output=True)
table = run(logs).stdout.splitlines()
assert len(table) == 1 + len(exact) and table[0].split()[:3] == ["label", "hour", "subject"], table[:2]
written = work / "runner" / "fleet.bins.csv"
written.parent.mkdir()
assert run(logs, "rollup", "--out", written).returncode == 0
assert run(written).stdout.splitlines() == table and run(written.parent).stdout.splitlines() == table
nothing = work / "nothing"
nothing.mkdir()
for args in ([nothing], [work / "nowhere"], [logs, "--label", "a'b"], [logs, "--limit", "soon"]):
    refused = run(*args)
    assert refused.returncode != 0 and "error: " in refused.stderr and "Traceback" not in refused.stderr, refused.stderr

# osjitter finds in the same files what the engines find, and reads what they wrote.
import json
ours = lambda *args: subprocess.run([osjitter, *map(str, args)], text=True, capture_output=True, check=True)
whole = {s: sorted(v for (_, _, subject), values in exact.items() if subject == s for v in values) for s in SUBJECTS}
for where in (logs, written):
    for subject in json.loads(ours("report", where, "--format", "json").stdout)["subjects"]:
        values, late = whole[subject["name"]], subject["summary"]["lateness_ns"]
        for key, per, of in (("p50", 5, 10), ("p90", 9, 10), ("p99", 99, 100), ("p99_9", 999, 1000)):
            assert late[key] == bin_of(nearest_rank(values, per, of))[1], (where, subject["name"], key)
        assert subject["histogram"]["count"] == len(values)
        assert late["max"] == (values[-1] if where == logs else bin_of(values[-1])[1])
(work / "merged").mkdir()
ours("merge", logs, "--out", work / "merged" / "all.bins.csv")
merged = DuckDb(work / "merged").ask("SELECT label, subject, sum(n) FROM bins GROUP BY label, subject")
assert {row[:2]: int(row[2]) for row in merged} == {(f"r{r}", s): HOSTS // RACKS * len(STARTS) * TICKS for r in range(RACKS) for s in SUBJECTS}
print("osjitter: reads the same files and the engines' roll-up, finds the same percentiles; DuckDB finds every tick in its merge")

# Why percentiles must not be averaged: the mean of the intervals' p99, relative to the p99 of all their ticks.
ratios = sorted(sum(p99s[group]) / len(p99s[group]) / nearest_rank(values, 99, 100) for group, values in exact.items())
noisy_racks = {f"r{int(host[4:]) % RACKS}" for host in NOISY}
of = lambda which: [sum(p99s[g]) / len(p99s[g]) / nearest_rank(v, 99, 100) for g, v in exact.items() if which(g)]
quiet, noisy = of(lambda g: g[0] not in noisy_racks), of(lambda g: g[0] in noisy_racks)
mean = lambda values: sum(values) / len(values)
highest = max(max(p99s[g]) / nearest_rank(v, 99, 100) for g, v in exact.items())
figures = f"{mean(noisy):.2f}", f"{mean(quiet):.2f}", f"{highest:.1f}"
page = " ".join((HERE.parents[1] / "docs/src/fleets.md").read_text().split())
for words, figure in zip(("is {} of the p99", "and {} of it in the others", "up to {} times the truth"), figures):
    assert words.format(figure) in page, f"docs/src/fleets.md should say {words.format(figure)!r}"
print(f"the mean of the intervals' p99 is {mean(noisy):.2f} of the p99 of their ticks in racks with a noisy host, {mean(quiet):.2f} in the "
      f"others (all: {ratios[0]:.2f} to {ratios[-1]:.2f}); the largest of them is up to {highest:.1f} times it")
