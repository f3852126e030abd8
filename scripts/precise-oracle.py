#!/usr/bin/env python3
"""What the precise mode spends above the plain interval, beside an oracle that knows how late the timer wakes its task.

    scripts/precise-oracle.py REPORT...               of reports that hold the three subjects
    scripts/precise-oracle.py --measure DIRECTORY     measures os-interval, os-interval-precise and spin there, then the same
    scripts/precise-oracle.py --test                  holds the arithmetic against distributions whose answer is known

The oracle is the same algorithm with the best constant lead: it wakes a lead before the deadline and spins for the rest. With the
lateness W of the plain interval and the lead l, a tick whose W is at most l comes as late as `spin` does, any other W - l later
than its deadline, and max(0, l - W) is spent spinning. It takes the least lead whose p90 is that of the precise mode, in the same
rounds: once one lead for all of them (it knows the distribution), and once one for each (it knows each round's own).

Quiet rounds are those in which spin had a p90 of at most 200 ns; a bar is about these.
"""

import argparse
import bisect
import json
import math
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = {"plain": "os-interval", "precise": "os-interval-precise", "spin": "spin"}
QUIET_NS = 200
Q = 0.9
RESAMPLES = 200


def nearest_rank(values, q):
    ordered = sorted(values)
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def reaches(lead, target, plain, spins_in_time):
    """Whether this lead has a p90 of at most that; `plain` is sorted. A wake-up in time is as late as any spin."""
    in_time = bisect.bisect_right(plain, lead)
    late_within = bisect.bisect_right(plain, lead + target) - in_time
    return in_time * spins_in_time + max(0, late_within) >= Q * len(plain) - 1e-9


def spun_ns(lead, plain):
    """Spinning per tick."""
    return sum(max(0, lead - w) for w in plain) / len(plain)


def least_lead(target, plain, spin):
    """The least lead with that p90; None where none has it, since spin itself has not."""
    plain = sorted(plain)
    spins_in_time = sum(1 for e in spin if e <= target) / len(spin)
    # More lead turns a wake-up that is late by less than the target into a spin: where some spins miss it, that is no gain.
    # So what reaches is not one stretch, and every lead at which something changes is a candidate.
    candidates = sorted({0, *plain, *(max(0, w - target) for w in plain)})
    return next((lead for lead in candidates if reaches(lead, target, plain, spins_in_time)), None)


def rounds_of(reports):
    """Rounds in which all three were measured: their samples and CPU time a tick."""
    rounds, period = [], None
    for path in reports:
        report = json.loads(pathlib.Path(path).read_text())
        found = {}
        for kind, name in NAMES.items():
            of = [s for s in report["subjects"] if s["name"] == name and not s.get("load")]
            if len(of) != 1:
                sys.exit(f"{path}: {len(of)} subjects {name} where one is needed; measure with --measure")
            found[kind] = of[0]
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
    if not rounds:
        sys.exit("no round has samples of all three; measure without --no-samples")
    return rounds, period


def pooled(rounds, kind):
    return [ns for r in rounds for ns in r[kind]]


def own_oracle_ns(r):
    """What an oracle that knows this round spends in it."""
    if "oracle" not in r:
        own = least_lead(nearest_rank(r["precise"], Q), r["plain"], r["spin"])
        r["oracle"] = None if own is None else spun_ns(own, r["plain"])
    return r["oracle"]


def figures(rounds):
    """One set of rounds taken together."""
    plain, precise, spin = (pooled(rounds, kind) for kind in ("plain", "precise", "spin"))
    target = nearest_rank(precise, Q)
    lead = least_lead(target, plain, spin)
    each = [own_oracle_ns(r) for r in rounds]
    above = [r["cpu"]["precise"] - r["cpu"]["plain"] for r in rounds if None not in (r["cpu"]["precise"], r["cpu"]["plain"])]
    # A round whose p90 no spinning reaches has no oracle; its price is taken out of both sides.
    both = [(r["cpu"]["precise"] - r["cpu"]["plain"], o) for r, o in zip(rounds, each)
            if o is not None and None not in (r["cpu"]["precise"], r["cpu"]["plain"])]
    return {
        "rounds": len(rounds),
        "precise_p50_ns": nearest_rank(precise, 0.5), "precise_p90_ns": target,
        "spin_p50_ns": nearest_rank(spin, 0.5), "spin_p90_ns": nearest_rank(spin, Q),
        "plain_p50_ns": nearest_rank(plain, 0.5), "plain_p90_ns": nearest_rank(plain, Q),
        "cpu_above_plain_ns": sum(above) / len(above) if above else None,
        "oracle_lead_ns": lead,
        "oracle_cpu_ns": None if lead is None else spun_ns(lead, plain),
        "oracle_of_each_round_cpu_ns": sum(o for _, o in both) / len(both) if both else None,
        "rounds_with_an_oracle": len(both),
        "cpu_above_plain_in_those_ns": sum(a for a, _ in both) / len(both) if both else None,
    }


def ratio(a, b):
    return a / b if a is not None and b else None


def ratios(f):
    return {
        "p50_against_spin": ratio(f["precise_p50_ns"], f["spin_p50_ns"]),
        "p90_against_spin": ratio(f["precise_p90_ns"], f["spin_p90_ns"]),
        "cpu_against_oracle": ratio(f["cpu_above_plain_ns"], f["oracle_cpu_ns"]),
        "cpu_against_oracle_of_each_round": ratio(f["cpu_above_plain_in_those_ns"], f["oracle_of_each_round_cpu_ns"]),
    }


def intervals(rounds, resamples):
    """95 % intervals of the ratios, by resampling rounds."""
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
    if ns is None:
        return "-"
    return f"{ns / 1e3:.3g} us" if abs(ns) >= 1e3 else f"{ns:.0f} ns"


def show(title, f, ci, period):
    def core(ns):
        return "-" if ns is None else f"{100 * ns / period:.2f} % of a core"

    def times(name):
        value = ratios(f)[name]
        if value is None:
            return "-"
        low_high = f" [{ci[name][0]:.2f}, {ci[name][1]:.2f}]" if name in ci else ""
        return f"{value:.2f}{low_high}"

    print(f"\n{title}: {f['rounds']} rounds\n")
    print("| | p50 | p90 |\n|---|---|---|")
    for kind in ("precise", "spin", "plain"):
        print(f"| {NAMES[kind]} | {time(f[kind + '_p50_ns'])} | {time(f[kind + '_p90_ns'])} |")
    print(f"| precise / spin | {times('p50_against_spin')} | {times('p90_against_spin')} |")
    print("\n| CPU above the plain interval | per tick | | precise / oracle |\n|---|---|---|---|")
    print(f"| os-interval-precise | {time(f['cpu_above_plain_ns'])} | {core(f['cpu_above_plain_ns'])} | |")
    lead = "no lead has its p90" if f["oracle_lead_ns"] is None else f"oracle, one lead of {time(f['oracle_lead_ns'])}"
    print(f"| {lead} | {time(f['oracle_cpu_ns'])} | {core(f['oracle_cpu_ns'])} | {times('cpu_against_oracle')} |")
    n = f["rounds_with_an_oracle"]
    print(f"| oracle, a lead for each round ({n} of {f['rounds']} have one) | {time(f['oracle_of_each_round_cpu_ns'])} | "
          f"{core(f['oracle_of_each_round_cpu_ns'])} | {times('cpu_against_oracle_of_each_round')} |")


def test():
    draw = random.Random(7)
    uniform = [100 * i + 50 for i in range(1000)]
    spin = [50] * 10
    # Uniform from 0 to 100 us: 90 % are within 90 us; then l^2 / 2 / 100 us is spent, which is 40.5 us.
    lead = least_lead(50, uniform, spin)
    assert abs(lead - 90_000) <= 100, lead
    assert abs(spun_ns(lead, uniform) - 40_500) < 100, spun_ns(lead, uniform)
    # What may be 10 us late needs a lead that is 10 us shorter.
    assert abs(least_lead(10_000, uniform, spin) - 80_000) <= 100
    # A plain interval that is good enough needs none, and a spin that is not has none.
    assert least_lead(95_000, uniform, spin) == 0
    assert least_lead(49, uniform, spin) is None
    # Half of the spins miss the target: the other half would have to be 90 % of the ticks.
    assert least_lead(50, uniform, [50, 500]) is None
    # 5 % miss it: 0.9 / 0.95 of the wake-ups have to be in time.
    some = [50] * 19 + [500]
    assert abs(least_lead(50, uniform, some) - 100_000 * 0.9 / 0.95) <= 200
    # The oracle's own ticks, played, have the p90 that was asked for.
    exponential = [int(draw.expovariate(1 / 20_000)) for _ in range(20_000)]
    lead = least_lead(100, exponential, spin)
    played = [50 if w <= lead else max(w - lead, 50) for w in exponential]
    assert nearest_rank(played, Q) <= 100 < nearest_rank([50 if w <= lead - 200 else w - lead + 200 for w in exponential], Q)
    # A precise mode that is the oracle spends what the oracle spends.
    rounds = []
    for _ in range(20):
        plain = [int(draw.expovariate(1 / 20_000)) for _ in range(250)]
        rounds.append({"plain": plain, "spin": spin * 25,
                       "precise": [50 if w <= lead else w - lead for w in plain],
                       "cpu": {"plain": 10_000.0, "spin": 5e5, "precise": 10_000.0 + spun_ns(lead, plain)}})
    found = ratios(figures(rounds))["cpu_against_oracle"]
    assert 0.95 < found < 1.05, found
    print("the arithmetic holds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", help="report.json, or the directory it is in")
    parser.add_argument("--measure", metavar="DIRECTORY", help="measure into this directory first")
    parser.add_argument("--ticks", default="20000", help="with --measure [20000]")
    parser.add_argument("--period", default="500us", help="with --measure [500us]")
    parser.add_argument("--binary", help="osjitter to measure with [a release build]")
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--test", action="store_true")
    args = parser.parse_args()
    if args.test:
        return test()
    reports = list(args.reports)
    if args.measure:
        binary = args.binary
        if not binary:
            subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "osjitter"], cwd=ROOT, check=True)
            binary = str(ROOT / "target/release/osjitter")
        subjects = [word for name in NAMES.values() for word in ("--subject", name)]
        ran = subprocess.run([binary, "run", *subjects, "--period", args.period, "--ticks", args.ticks, "--quiet",
                              "--out", args.measure], stdout=subprocess.DEVNULL)
        if ran.returncode:
            sys.exit(f"osjitter ended with {ran.returncode}")
        reports.append(args.measure)
    if not reports:
        parser.error("name a report, or --measure DIRECTORY")
    reports = [pathlib.Path(r) / "report.json" if pathlib.Path(r).is_dir() else pathlib.Path(r) for r in reports]
    missing = [str(r) for r in reports if not r.is_file()]
    if missing:
        parser.error(f"there is no {missing[0]}")
    rounds, period = rounds_of(reports)
    sets = [("all rounds", rounds)]
    sets.append((f"quiet rounds (spin's p90 at most {QUIET_NS} ns)",
                 [r for r in rounds if nearest_rank(r["spin"], Q) <= QUIET_NS]))
    answer = {}
    for title, of in sets:
        if not of:
            print(f"\n{title}: none", file=sys.stderr if args.json else sys.stdout)
            continue
        f, ci = figures(of), intervals(of, args.resamples)
        answer[title.split(" ")[0]] = f | ratios(f) | {"ci95": ci, "period_ns": period}
        if not args.json:
            show(title, f, ci, period)
    if args.json:
        print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
