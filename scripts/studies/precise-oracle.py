#!/usr/bin/env python3
"""Compares the CPU time of the precise mode with an oracle, which is the minimum for the same lateness.

    scripts/studies/precise-oracle.py REPORT...         compare in reports of osjitter that contain the three subjects
    scripts/studies/precise-oracle.py --measure NAME    run the program tick-costs: new intervals from their first tick, and
                                                        intervals that live through all rounds at several quantiles; write
                                                        results/NAME, the index and the book
    scripts/studies/precise-oracle.py --publish NAME    the same without measuring
    scripts/studies/precise-oracle.py --test            check the arithmetic with distributions whose result is known

The oracle uses the algorithm of the precise mode with the best constant lead and an undisturbed spin: it wakes a lead before
the deadline and spins for the rest. Let W be the lateness of the plain interval and l the lead. A tick with W <= l is in time,
any other is late by W - l, and max(0, l - W) is spent spinning. The oracle uses the smallest lead with which a percentile of
the lateness is that of the precise mode in the same rounds: p90, or the quantile for which the interval is set. It is computed
with one lead for all rounds, and with a separate lead for each round. The precise mode follows the timer and can spin less than
the oracle with one lead.

Quiet rounds are those in which `spin` had a p90 of at most 200 ns.
"""

import argparse
import datetime
import gzip
import json
import math
import pathlib
import random
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_study  # noqa: E402

ROOT = pages.ROOT
TICKS = "ticks.json.gz"
NAMES = {"plain": "os-interval", "precise": "os-interval-precise", "spin": "spin"}
QUIET_NS = 200
Q = 0.9
RESAMPLES = 200
PERCENTILES = ("p50", "p90", "p99")
# Of `Spin` in osinterval.
DEFAULT_QUANTILE = 0.92


def nearest_rank(values, q):
    ordered = sorted(values)
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def minimum_lead(target, plain, q=Q):
    """Returns the smallest lead with which a quantile is the target: this share of wake-ups is late by at most target plus lead."""
    return max(0, nearest_rank(plain, q) - target)


def spin_ns(lead, plain):
    """Returns the time spent spinning per tick with a lead."""
    return sum(max(0, lead - w) for w in plain) / len(plain)


def load(path):
    content = pathlib.Path(path).read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def read_rounds(reports):
    """Returns the rounds in which all three subjects were measured, the period, and the last report."""
    rounds, period, report = [], None, None
    for path in reports:
        report = load(path)
        found = {}
        for kind, name in NAMES.items():
            matches = [s for s in report["subjects"] if s["name"] == name and not s.get("load")]
            if len(matches) != 1:
                sys.exit(f"{path}: expected one subject {name}, found {len(matches)}")
            found[kind] = matches[0]
        periods = {s["period_ns"] for s in found.values()} | ({period} if period else set())
        if len(periods) != 1:
            sys.exit(f"{path}: expected one period in all reports, found {len(periods)}")
        (period,) = periods
        by_index = {kind: {r["index"]: r for r in s["rounds"]} for kind, s in found.items()}
        for index in sorted(set.intersection(*(set(by.keys()) for by in by_index.values()))):
            parts = {kind: by[index] for kind, by in by_index.items()}
            if not all(part["lateness_ns"] and part["summary"] for part in parts.values()):
                continue
            rounds.append({kind: part["lateness_ns"] for kind, part in parts.items()} | {
                "cpu": {kind: part["summary"]["cpu_ns_per_tick"] for kind, part in parts.items()}})
    rounds = [r for r in rounds if None not in (r["cpu"]["precise"], r["cpu"]["plain"])]
    if not rounds:
        sys.exit("cannot compare: no round has samples and CPU time of all three subjects; measure without --no-samples")
    return rounds, period


def rounds_of(measurement, precise, plain):
    """Returns the rounds of two intervals in a measurement of tick-costs, with those of the spinning thread."""
    by_name = {contender["name"]: contender["rounds"] for contender in measurement["contenders"]}
    names = {"precise": precise, "plain": plain, "spin": "spin"}
    return [{kind: part["late_ns"] for kind, part in parts.items()} | {"cpu": {k: part["cpu_ns_per_tick"] for k, part in parts.items()}}
            for parts in (dict(zip(names, row)) for row in zip(*(by_name[name] for name in names.values())))]


def round_oracle_ns(r, q):
    """Returns the time spent spinning per tick by the oracle with the lead of this round."""
    if ("oracle", q) not in r:
        r["oracle", q] = spin_ns(minimum_lead(nearest_rank(r["precise"], q), r["plain"], q), r["plain"])
    return r["oracle", q]


def mean(values):
    return sum(values) / len(values)


def figures(rounds, q=Q):
    """Returns the figures of a set of rounds together, with the oracle for a quantile."""
    found = {"rounds": len(rounds)}
    pooled = {kind: [ns for r in rounds for ns in r[kind]] for kind in NAMES}
    for kind, values in pooled.items():
        found |= {f"{kind}_p{100 * each:.0f}_ns": nearest_rank(values, each) for each in (0.5, 0.9, 0.99)}
    lead = minimum_lead(nearest_rank(pooled["precise"], q), pooled["plain"], q)
    return found | {
        "cpu_ns": mean([r["cpu"]["precise"] for r in rounds]),
        "cpu_above_plain_ns": mean([r["cpu"]["precise"] - r["cpu"]["plain"] for r in rounds]),
        "oracle_lead_ns": lead,
        "oracle_cpu_ns": spin_ns(lead, pooled["plain"]),
        "oracle_of_each_round_cpu_ns": mean([round_oracle_ns(r, q) for r in rounds]),
    }


def ratios(f):
    return {name: f[a] / f[b] if f[b] else None for name, a, b in (
        ("p50_against_spin", "precise_p50_ns", "spin_p50_ns"), ("p90_against_spin", "precise_p90_ns", "spin_p90_ns"),
        ("cpu_against_oracle", "cpu_above_plain_ns", "oracle_cpu_ns"),
        ("cpu_against_oracle_of_each_round", "cpu_above_plain_ns", "oracle_of_each_round_cpu_ns"))}


def intervals(rounds, resamples, q=Q):
    """Returns 95 % intervals of the ratios, by resampling rounds."""
    if len(rounds) < 10:
        return {}
    generator = random.Random(1)
    samples = [ratios(figures(generator.choices(rounds, k=len(rounds)), q)) for _ in range(resamples)]
    found = {}
    for name in samples[0]:
        values = sorted(sample[name] for sample in samples if sample[name] is not None)
        if len(values) > resamples * 0.9:
            found[name] = [values[int(0.025 * len(values))], values[min(len(values) - 1, int(0.975 * len(values)))]]
    return found


def format_time(ns):
    return f"{ns / 1e3:.3g} us" if abs(ns) >= 1e3 else f"{ns:.0f} ns"


def format_tables(title, f, ci, period):
    def format_cost(ns):
        return f"{format_time(ns)} | {100 * ns / period:.2f} %"

    def format_ratio(name):
        value = ratios(f)[name]
        if value is None:
            return "-"
        low_high = f" [{ci[name][0]:.2f}, {ci[name][1]:.2f}]" if name in ci else ""
        return f"{value:.2f}{low_high}"

    lateness = [f"| `{NAMES[kind]}` | {' | '.join(format_time(f[f'{kind}_{p}_ns']) for p in PERCENTILES)} |" for kind in ("precise", "spin", "plain")]
    return "\n".join([
        f"{title}: {f['rounds']}.", "", "| Lateness | p50 | p90 | p99 |", "|---|---:|---:|---:|", *lateness,
        f"| precise / spin | {format_ratio('p50_against_spin')} | {format_ratio('p90_against_spin')} | |", "",
        "| CPU above the plain interval | a tick | of a core | precise / oracle |", "|---|---:|---:|---:|",
        f"| `os-interval-precise` | {format_cost(f['cpu_above_plain_ns'])} | |",
        f"| oracle, one lead of {format_time(f['oracle_lead_ns'])} | {format_cost(f['oracle_cpu_ns'])} | {format_ratio('cpu_against_oracle')} |",
        f"| oracle, a lead for each round | {format_cost(f['oracle_of_each_round_cpu_ns'])} | {format_ratio('cpu_against_oracle_of_each_round')} |"])


def test():
    generator = random.Random(7)
    uniform = [100 * i + 50 for i in range(1000)]
    # Uniform from 0 to 100 us: 90 % are within 90 us, and the spinning is l^2 / 2 / 100 us, which is 40.5 us.
    lead = minimum_lead(50, uniform)
    assert abs(lead - 90_000) <= 100, lead
    assert abs(spin_ns(lead, uniform) - 40_500) < 100, spin_ns(lead, uniform)
    # A target of 10 us needs a lead that is 10 us shorter. A plain interval that reaches the target needs no lead.
    assert abs(minimum_lead(10_000, uniform) - 80_000) <= 100
    assert minimum_lead(95_000, uniform) == 0
    # The p90 of the ticks of the oracle is its target.
    exponential = [int(generator.expovariate(1 / 20_000)) for _ in range(20_000)]
    lead = minimum_lead(100, exponential)
    oracle_ticks = [50 if w <= lead else max(w - lead, 50) for w in exponential]
    assert nearest_rank(oracle_ticks, Q) <= 100 < nearest_rank([50 if w <= lead - 200 else w - lead + 200 for w in exponential], Q)
    # If the precise mode is the oracle, the ratio of their costs is 1.
    rounds = []
    for _ in range(20):
        plain = [int(generator.expovariate(1 / 20_000)) for _ in range(250)]
        rounds.append({"plain": plain, "spin": [50] * 250, "precise": [50 if w <= lead else w - lead for w in plain],
                       "cpu": {"plain": 10_000.0, "spin": 5e5, "precise": 10_000.0 + spin_ns(lead, plain)}})
    found = ratios(figures(rounds))["cpu_against_oracle"]
    assert 0.95 < found < 1.05, found
    print("the arithmetic is correct")


def measure(directory, args):
    completed = subprocess.run([build_study("tick-costs"), "precise", args.rounds, args.period_us], stdout=subprocess.PIPE, check=True)
    measurement = json.loads(completed.stdout) | {"host": pages.this_machine(), "date": datetime.date.today().isoformat()}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / TICKS).write_bytes(gzip.compress(json.dumps(measurement, separators=(",", ":")).encode(), 9, mtime=0))


def format_curve(measurement):
    """Returns the table of quantiles: lateness, and CPU time per tick."""
    period = measurement["period_ns"]
    names = [c["name"] for c in measurement["contenders"] if c["name"].startswith("precise 0.")]
    rows = [(name.split()[1], figures(rounds_of(measurement, name, "plain"))) for name in names]
    default = figures(rounds_of(measurement, "precise", "plain"))
    rows = sorted([*rows, (f"{DEFAULT_QUANTILE}, the default", default)])
    lines = ["| `Spin::with_quantile` | p50 | p90 | p99 | CPU per tick | of a core | above the plain interval |", "|---|" + "---:|" * 6]
    for label, f in rows:
        lines.append(f"| {label} | {' | '.join(format_time(f[f'precise_{p}_ns']) for p in PERCENTILES)} | {format_time(f['cpu_ns'])} | "
                     f"{100 * f['cpu_ns'] / period:.1f} % | {format_time(f['cpu_above_plain_ns'])} |")
    plain_cpu = default["cpu_ns"] - default["cpu_above_plain_ns"]
    for label, kind, cpu in (("`OsInterval`, not precise", "plain", plain_cpu), ("a thread that spins", "spin", period)):
        lines.append(f"| {label} | {' | '.join(format_time(default[f'{kind}_{p}_ns']) for p in PERCENTILES)} | {format_time(cpu)} | {100 * cpu / period:.1f} % | |")
    return "\n".join(lines)


def publish(name, resamples):
    measurement = load(ROOT / "results" / name / TICKS)
    period = measurement["period_ns"]
    pairs = (("Rounds of 250 ticks of new intervals, from the first tick", "precise, cold", "plain, cold"), ("Rounds of intervals that live through all of them", "precise", "plain"))
    tables = []
    for title, precise, plain in pairs:
        rounds = rounds_of(measurement, precise, plain)
        tables.append(format_tables(title, figures(rounds), intervals(rounds, resamples), period))
    curve = format_curve(measurement)
    origin = f"{pages.machine(measurement['host'])}, {measurement['date']}"
    (ROOT / "results" / name / "oracle.md").write_text(
        f"# The precise mode and an oracle\n\n{origin}; a period of {format_time(period)}; written by `scripts/studies/precise-oracle.py` from [`{TICKS}`]({TICKS}).\n\n"
        + "\n\n".join([*tables, curve]) + "\n")
    source = f"Source: [`{TICKS}`](results/{name}/{TICKS}), at a period of {format_time(period)}. {origin}."
    pages.put("precise mode", "\n\n".join([*tables, source]))
    pages.put("precise quantiles", f"{curve}\n\n{source}")
    pages.index(name, [(f"`{name}`", "oracle.md")], measurement["host"], "`scripts/studies/precise-oracle.py`")
    print("\n\n".join([*tables, curve]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", help="report.json, or its directory")
    parser.add_argument("--measure", metavar="NAME", help="measure into results/NAME and publish the result")
    parser.add_argument("--publish", metavar="NAME", help="publish the existing measurement in results/NAME")
    parser.add_argument("--rounds", default="40", help="number of rounds with --measure [default: 40]")
    parser.add_argument("--period-us", default="500", help="period in microseconds with --measure [default: 500]")
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--json", action="store_true", help="print the figures of reports as JSON")
    parser.add_argument("--test", action="store_true")
    args = parser.parse_args()
    if args.test:
        return test()
    if args.measure:
        measure(ROOT / "results" / args.measure, args)
    if name := args.measure or args.publish:
        return publish(name, args.resamples)
    if not args.reports:
        parser.error("expected a report or --measure NAME")
    reports = [pathlib.Path(r) / "report.json" if pathlib.Path(r).is_dir() else pathlib.Path(r) for r in args.reports]
    missing = [str(r) for r in reports if not r.is_file()]
    if missing:
        parser.error(f"{missing[0]} does not exist")
    rounds, period = read_rounds(reports)
    quiet = [r for r in rounds if nearest_rank(r["spin"], Q) <= QUIET_NS]
    round_sets = {"all": ("All rounds", rounds), "quiet": (f"Quiet rounds, in which the p90 of `spin` was at most {QUIET_NS} ns", quiet)}
    results, tables = {}, []
    for key, (title, selected) in round_sets.items():
        if selected:
            f, ci = figures(selected), intervals(selected, args.resamples)
            results[key] = f | ratios(f) | {"ci95": ci, "period_ns": period}
            tables.append(format_tables(title, f, ci, period))
    print(json.dumps(results, indent=1) if args.json else "\n\n".join(tables))


if __name__ == "__main__":
    main()
