"""Puts what scripts/soak.sh or scripts/monitor-day.py wrote to results/NAME into the book and the index of results/:
`watched_results.py soak|day NAME`."""

import json
import sys

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script


def read(name, file):
    return json.loads((published.ROOT / "results" / name / file).read_text())


def soak(name):
    of = read(name, "soak.json")
    assert not of["failures"], of["failures"]

    def held(program):
        first, most, _ = of["held"][program]["own_kb"]
        return f"{first / 1_024:.1f} MB after two minutes and {most / 1_024:.1f} MB at most"

    gates = sum(of["gates"].values())
    low, high = of["clock_rate_error_ppb"]
    published.put("soak", (
        f"In {of['hours']:g} hours {of['ticks'] / 1e6:.1f} million ticks, each accounted for, {of['early'] or 'none'} early; "
        f"{of['runs']} runs and {gates} gates beside them, which left no process and no file. Of memory of its own the monitor had "
        f"{held('monitor')}, the service {held('service')}. The counter's rate was within {max(abs(low), abs(high)):.0f} ppb of the "
        f"kernel's clock ([the report](results/{name}/soak.json))."))
    published.index(name, [(f"`{name}`", "soak.json")], published.this_machine(), "`scripts/soak.sh`, other builds running")


def day(name):
    of = read(name, "day.json")
    assert all(of["checks"].values()), of["checks"]
    first, most = of["rss_kb"]["settled"], of["rss_kb"]["largest"]
    published.put("monitor day", (
        f"{sum(of['ticks'][whose] for whose in ('service', 'probes')) / 1e6:.1f} million ticks of {of['probes']} probes and a service in "
        f"{of['hours'] * 60:.0f} minutes: {of['intervals']} intervals, no tick lost, {most - first:,} kB of memory more than after the "
        f"first minute, {of['cores']:.0%} of a core, of {of['budget']:.0%} that it was allowed ([the report](results/{name}/day.json))."))
    published.index(name, [(f"`{name}`", "day.json")], published.this_machine(), "`scripts/monitor-day.py 0.7`, other builds running")


{"soak": soak, "day": day}[sys.argv[1]](sys.argv[2])
