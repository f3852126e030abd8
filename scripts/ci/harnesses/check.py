"""Gates a suite of each harness against itself with one benchmark ten times as long, and checks the verdict.

    check.py OSJITTER DIRECTORY [HARNESS]...

DIRECTORY has the built suites: `python`, `google`, `go.test`, `divan`, `jmh` and `hyperfine`. One that is missing is not checked.
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys

osjitter, built = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
THREADS = len(os.sched_getaffinity(0))
go_suffix = f"-{THREADS}" if THREADS > 1 else ""
work_command = "sh -c 'for i in $(seq $((50 * ${WORK:-100}))); do :; done'"

# Program, command, metrics, regressed benchmarks, other judged ones, and the reasons of those that are not judged.
SUITES = {
    "pytest-benchmark": (
        "python",
        f"{built}/python/bin/python -m pytest -q {HERE}/pytest",
        ["", ".ops"],
        {"test_suite.py::test_work"},
        {"test_suite.py::test_sort[100]", "test_suite.py::test_sort[1000]"},
        {"test_suite.py::test_planned": "failed"},
    ),
    "google-benchmark": (
        "google",
        f"{built}/google",
        ["", ".cpu_time"],
        {"BM_work"},
        {"BM_sort/100", "BM_sort/1000", "BM_median"},
        {"BM_gpu": "failed"},
    ),
    "go": (
        "go.test",
        f"{built}/go.test",
        [""],
        {f"BenchmarkWork{go_suffix}"},
        {f"BenchmarkSort{go_suffix}"},
        {f"BenchmarkOnlyRate{go_suffix}": "other-numbers"},
    ),
    "divan": (
        "divan",
        f"{built}/divan",
        ["", ".mean"],
        {"suite::work::t=1", "suite::work::t=2"},
        {"suite::sort::100", "suite::sort::1000"},
        {"suite::unused": "no-number"},
    ),
    "jmh": (
        "jmh",
        f"{built}/jmh",
        [""],
        {"suite.Suite.work avgt", "suite.Suite.work sample"},
        {"suite.Suite.sort:count=100", "suite.Suite.sort:count=1000"},
        {"suite.Suite.planned": "failed"},
    ),
    "hyperfine": (
        "hyperfine",
        f"{built}/hyperfine -N --runs 3 --command-name true --command-name work true {shlex.quote(work_command)}",
        [""],
        {"work"},
        {"true"},
        {},
    ),
}


def name_of_bench(metric):
    """The name of a metric without that of its number."""
    for number in (":ops", ":cpu_time", ":mean"):
        metric = metric.removesuffix(number)
    return metric


def gate(harness, command, metrics):
    words = [osjitter, "gate", "--base-cmd", command, "--candidate-cmd", f"env WORK=1000 {command}", "--format", "json"]
    for metric in metrics:
        words += ["--metric", harness + metric]
    ran = subprocess.run(words + ["--max-pairs", "50"], capture_output=True, text=True, timeout=600)
    if ran.returncode != 1:
        sys.exit(f"{harness}: exit code {ran.returncode} instead of 1\n{ran.stdout}\n{ran.stderr}")
    return json.loads(ran.stdout)["runs"]


def check(harness):
    program, command, metrics, slow, others, unjudged = SUITES[harness]
    if not (built / program).exists():
        print(f"{harness}: not installed")
        return
    runs = gate(harness, command, metrics)
    judged = {}
    for metric in runs["metrics"]:
        judged.setdefault(name_of_bench(metric["name"]), []).append(metric)
    # Equal benchmarks can look different on a busy machine, so only the slow ones have a known outcome.
    found = {name for name, metrics in judged.items() if metrics[0]["verdict"] == "regressed"}
    assert slow <= found, (harness, found)
    assert judged.keys() == slow | others, (harness, judged.keys())
    assert all(len(found) == len(metrics) for found in judged.values()), (harness, runs["metrics"])
    assert all(found[0]["unit"] == "ns" for found in judged.values()), (harness, runs["metrics"])
    reasons = {bench["name"]: bench["reason"] for bench in runs.get("unjudged", [])}
    assert reasons == unjudged, (harness, reasons)
    print(f"{harness}: {', '.join(sorted(slow))} regressed in {runs['pairs']} pairs; judged: {len(judged)}, not judged: {len(reasons)}")


for name in sys.argv[3:] or SUITES:
    check(name)
