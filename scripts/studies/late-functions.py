#!/usr/bin/env python3
"""Makes programs late in known functions, and counts the late ticks for which `run --why` names them.

  python3 scripts/studies/late-functions.py OSJITTER SERVICE [OUT]

SERVICE is the program late-service of this workspace, a service on tokio that is late for four causes. A program in C and, if go is
installed, one in Go are built from late-functions/. A tick is named if one of its functions is that of its cause; it is named as a
caller if a library's function comes first. Rounds with and without the sampling form pairs, which show whether it moves the median
lateness of the program. OUT is a file for the figures as JSON. Exits with 1 if a wrong function was named for more than one tick
of a program.
"""
import json, os, shutil, subprocess, sys, tempfile
from pathlib import Path

OSJITTER, SERVICE = (str(Path(path).resolve()) for path in sys.argv[1:3])
SOURCES = Path(__file__).parent / "late-functions"
CAUSES = ["parse_orders", "rebuild_index", "compress_log", "Session"]
home = Path(tempfile.mkdtemp(prefix="late-functions-"))


def is_named(text, functions):
    return any(function in text for function in functions)


def measure(name, program, functions, threshold, **environment):
    """Runs twelve pairs of rounds of a program, and returns the figures of its late ticks."""
    out = home / name.replace(" ", "-")
    command = [OSJITTER, "run", "--quiet", "--why", "--why-threshold", threshold, "--period", "10ms", "--ticks", "480", "--round-ticks",
               "40", "--subject", "os-interval", "--out", out, "--", program]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    subjects = json.loads((out / "report.json").read_text())["subjects"]
    why = next(subject["why"] for subject in subjects if subject["name"] == Path(program).name)
    counts = {"named": 0, "as_caller": 0, "wrong": 0}
    for function in why["code"]["functions"]:
        key = "named" if is_named(function["function"], functions) else "as_caller" if is_named(
            " ".join(function["callers"]), functions) else "wrong"
        counts[key] += function["ticks"]
    return {"program": name, "late": why["late_ticks"], **counts, "coverage": why["code"]["coverage"], "samples": why["code"]["samples"],
            "missing": why["code"]["missing"], "pairs": len(why["rounds"]), "p50_ns": why["overhead_ns"]}


figures = [measure(f"tokio {cause}", SERVICE, [cause], "20ms", CAUSE=str(number)) for number, cause in enumerate(CAUSES)]
subprocess.run(["cc", "-O2", "-o", home / "loop", SOURCES / "loop.c"], check=True)
figures.append(measure("C", str(home / "loop"), ["checksum", "verify_image", "sort_queue"], "15ms"))
if shutil.which("go"):
    subprocess.run(["go", "build", "-o", home / "go-loop", SOURCES / "main.go"], check=True, env={**os.environ, "GO111MODULE": "off"})
    figures.append(measure("Go", str(home / "go-loop"), ["main.parseOrders", "main.hashBlocks"], "15ms"))
for figure in figures:
    print(json.dumps(figure), flush=True)
if len(sys.argv) > 3:
    Path(sys.argv[3]).write_text(json.dumps({"programs": figures, "load average": os.getloadavg()}, indent=1) + "\n")
shutil.rmtree(home)
sys.exit(any(figure["wrong"] > 1 for figure in figures))
