#!/usr/bin/env python3
"""Compares the CPU time of the precise mode with an oracle that knows how late each wake-up is: how much could be saved?

    scripts/studies/precise-oracle.py REPORT...         reports that contain the three subjects
    scripts/studies/precise-oracle.py --measure NAME    measure os-interval, os-interval-precise and spin into results/NAME,
                                                        write the tables there, into the index and into the book
    scripts/studies/precise-oracle.py --publish NAME    the same without measuring
    scripts/studies/precise-oracle.py --test            check the arithmetic with distributions whose answer is known

The oracle uses the algorithm of the precise mode with the best constant lead and an undisturbed spin: it wakes a lead before
the deadline and spins for the rest. Let W be the lateness of the plain interval and l the lead. A tick with W <= l is in time,
any other is late by W - l, and max(0, l - W) is spent spinning. The oracle takes the least lead whose p90 is that of the
precise mode in the same rounds: once one lead for all rounds, and once one for each round.

Quiet rounds are those in which `spin` had a p90 of at most 200 ns.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
import pages  # noqa: E402, in scripts/results
from programs import build_osjitter  # noqa: E402

ROOT = pages.ROOT
NAMES = {"plain": "os-interval", "precise": "os-interval-precise", "spin": "spin"}
QUIET_NS = 200
Q = 0.9
RESAMPLES = 200


def nearest_rank(values, q):
    ordered = sorted(values)
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def least_lead(target, plain):
    """Returns the least lead with that p90: 90 % of the wake-ups are late by at most target plus lead."""
    return max(0, nearest_rank(plain, Q) - target)


def spun_ns(lead, plain):
    """Returns the time that a lead spends spinning, per tick."""
    return sum(max(0, lead - w) for w in plain) / len(plain)


def read_rounds(reports):
    """Returns the rounds in which all three were measured, the period, and the last report."""
    rounds, period, report = [], None, None
    for path in reports:
        report = json.loads(pathlib.Path(path).read_text())
        found = {}
        for kind, name in NAMES.items():
            matches = [s for s in report["subjects"] if s["name"] == name and not s.get("load")]
            if len(matches) != 1:
                sys.exit(f"{path}: {len(matches)} subjects {name} where one is needed; measure with --measure")
            found[kind] = matches[0]
        periods = {s["period_ns"] for s in found.values()} | ({period} if period else set())
        if len(periods) != 1:
            sys.exit(f"{path}: several periods; give reports of one")
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
        sys.exit("no round has samples and CPU time of all three; measure without --no-samples")
    return rounds, period, report


def own_oracle_ns(r):
    """Returns the spinning per tick of an oracle that knows this round."""
    if "oracle" not in r:
        r["oracle"] = spun_ns(least_lead(nearest_rank(r["precise"], Q), r["plain"]), r["plain"])
    return r["oracle"]


def mean(values):
    return sum(values) / len(values)


def figures(rounds):
    """Returns the figures of a set of rounds together."""
    found = {"rounds": len(rounds)}
    pooled = {kind: [ns for r in rounds for ns in r[kind]] for kind in NAMES}
    for kind, values in pooled.items():
        found |= {f"{kind}_p50_ns": nearest_rank(values, 0.5), f"{kind}_p90_ns": nearest_rank(values, Q)}
    lead = least_lead(found["precise_p90_ns"], pooled["plain"])
    return found | {
        "cpu_above_plain_ns": mean([r["cpu"]["precise"] - r["cpu"]["plain"] for r in rounds]),
        "oracle_lead_ns": lead,
        "oracle_cpu_ns": spun_ns(lead, pooled["plain"]),
        "oracle_of_each_round_cpu_ns": mean([own_oracle_ns(r) for r in rounds]),
    }


def ratios(f):
    return {name: f[a] / f[b] if f[b] else None for name, a, b in (
        ("p50_against_spin", "precise_p50_ns", "spin_p50_ns"), ("p90_against_spin", "precise_p90_ns", "spin_p90_ns"),
        ("cpu_against_oracle", "cpu_above_plain_ns", "oracle_cpu_ns"),
        ("cpu_against_oracle_of_each_round", "cpu_above_plain_ns", "oracle_of_each_round_cpu_ns"))}


def intervals(rounds, resamples):
    """Returns 95 % intervals of the ratios, by resampling rounds."""
    if len(rounds) < 10:
        return {}
    draw = random.Random(1)
    drawn = [ratios(figures(draw.choices(rounds, k=len(rounds)))) for _ in range(resamples)]
    found = {}
    for name in drawn[0]:
        values = sorted(d[name] for d in drawn if d[name] is not None)
        if len(values) > resamples * 0.9:
            found[name] = [values[int(0.025 * len(values))], values[min(len(values) - 1, int(0.975 * len(values)))]]
    return found


def time(ns):
    return f"{ns / 1e3:.3g} us" if abs(ns) >= 1e3 else f"{ns:.0f} ns"


def shown(title, f, ci, period):
    def core(ns):
        return f"{time(ns)} | {100 * ns / period:.2f} %"

    def times(name):
        value = ratios(f)[name]
        if value is None:
            return "-"
        low_high = f" [{ci[name][0]:.2f}, {ci[name][1]:.2f}]" if name in ci else ""
        return f"{value:.2f}{low_high}"

    lateness = [f"| `{NAMES[kind]}` | {time(f[kind + '_p50_ns'])} | {time(f[kind + '_p90_ns'])} |" for kind in ("precise", "spin", "plain")]
    return "\n".join([
        f"{title}: {f['rounds']}.", "", "| Lateness | p50 | p90 |", "|---|---:|---:|", *lateness,
        f"| precise / spin | {times('p50_against_spin')} | {times('p90_against_spin')} |", "",
        "| CPU above the plain interval | a tick | of a core | precise / oracle |", "|---|---:|---:|---:|",
        f"| `os-interval-precise` | {core(f['cpu_above_plain_ns'])} | |",
        f"| oracle, one lead of {time(f['oracle_lead_ns'])} | {core(f['oracle_cpu_ns'])} | {times('cpu_against_oracle')} |",
        f"| oracle, a lead for each round | {core(f['oracle_of_each_round_cpu_ns'])} | {times('cpu_against_oracle_of_each_round')} |"])


def test():
    draw = random.Random(7)
    uniform = [100 * i + 50 for i in range(1000)]
    # Uniform from 0 to 100 us: 90 % are within 90 us; then l^2 / 2 / 100 us is spent, which is 40.5 us.
    lead = least_lead(50, uniform)
    assert abs(lead - 90_000) <= 100, lead
    assert abs(spun_ns(lead, uniform) - 40_500) < 100, spun_ns(lead, uniform)
    # A target of 10 us needs a lead that is 10 us shorter; a plain interval that is good enough needs none.
    assert abs(least_lead(10_000, uniform) - 80_000) <= 100
    assert least_lead(95_000, uniform) == 0
    # The ticks of the oracle have the p90 that was its target.
    exponential = [int(draw.expovariate(1 / 20_000)) for _ in range(20_000)]
    lead = least_lead(100, exponential)
    played = [50 if w <= lead else max(w - lead, 50) for w in exponential]
    assert nearest_rank(played, Q) <= 100 < nearest_rank([50 if w <= lead - 200 else w - lead + 200 for w in exponential], Q)
    # A precise mode that is the oracle spends what the oracle spends.
    rounds = []
    for _ in range(20):
        plain = [int(draw.expovariate(1 / 20_000)) for _ in range(250)]
        rounds.append({"plain": plain, "spin": [50] * 250, "precise": [50 if w <= lead else w - lead for w in plain],
                       "cpu": {"plain": 10_000.0, "spin": 5e5, "precise": 10_000.0 + spun_ns(lead, plain)}})
    found = ratios(figures(rounds))["cpu_against_oracle"]
    assert 0.95 < found < 1.05, found
    print("the arithmetic holds")


def measure(directory, args):
    subjects = [word for name in NAMES.values() for word in ("--subject", name)]
    ran = subprocess.run([build_osjitter(), "run", *subjects, "--period", args.period, "--ticks", args.ticks,
                          "--quiet", "--out", directory], stdout=subprocess.DEVNULL)
    if ran.returncode:
        sys.exit(f"osjitter ended with {ran.returncode}")
    # The page with 20,000 ticks of three subjects is large, and no page links it.
    (directory / "report.html").unlink()


def publish(name, report, tables):
    directory = ROOT / "results" / name
    origin = f"{pages.machine(report['host'])}, {report['started_utc'][:10]}"
    (directory / "oracle.md").write_text(f"# The precise mode and an oracle\n\n{origin}; written by `scripts/studies/precise-oracle.py` from "
                                         f"[`report.json`](report.json).\n\n" + "\n\n".join(tables) + "\n")
    pages.put("precise mode", f"{tables[0]}\n\nFrom [`report.json`](results/{name}/report.json): {origin}.")
    pages.index(name, [(f"`{name}`", "oracle.md")], report["host"], "`scripts/studies/precise-oracle.py`")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", help="report.json, or the directory it is in")
    parser.add_argument("--measure", metavar="NAME", help="measure into results/NAME and publish that")
    parser.add_argument("--publish", metavar="NAME", help="publish what was measured into results/NAME")
    parser.add_argument("--ticks", default="20000", help="with --measure [20000]")
    parser.add_argument("--period", default="500us", help="with --measure [500us]")
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--test", action="store_true")
    args = parser.parse_args()
    if args.test:
        return test()
    name = args.measure or args.publish
    if args.measure:
        measure(ROOT / "results" / name, args)
    reports = [*args.reports, *([ROOT / "results" / name] if name else [])]
    if not reports:
        parser.error("name a report, or --measure NAME")
    reports = [pathlib.Path(r) / "report.json" if pathlib.Path(r).is_dir() else pathlib.Path(r) for r in reports]
    missing = [str(r) for r in reports if not r.is_file()]
    if missing:
        parser.error(f"cannot find {missing[0]}")
    rounds, period, report = read_rounds(reports)
    quiet = [r for r in rounds if nearest_rank(r["spin"], Q) <= QUIET_NS]
    sets = {"all": ("All rounds", rounds), "quiet": (f"Quiet rounds, in which the p90 of `spin` was at most {QUIET_NS} ns", quiet)}
    answer, tables = {}, []
    for key, (title, chosen) in sets.items():
        if chosen:
            f, ci = figures(chosen), intervals(chosen, args.resamples)
            answer[key] = f | ratios(f) | {"ci95": ci, "period_ns": period}
            tables.append(shown(title, f, ci, period))
    print(json.dumps(answer, indent=1) if args.json else "\n\n".join(tables))
    if name:
        publish(name, report, tables)


if __name__ == "__main__":
    main()
