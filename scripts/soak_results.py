"""Puts a soak into the book and the index of results/: `soak_results.py NAME`, after `scripts/soak.sh HOURS NAME`."""

import json
import sys

sys.dont_write_bytecode = True
import published  # noqa: E402, beside this script

name = sys.argv[1]
of = json.loads((published.ROOT / "results" / name / "soak.json").read_text())
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
