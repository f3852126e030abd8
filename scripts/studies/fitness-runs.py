#!/usr/bin/env python3
"""Records runs on a quiet and on an overloaded machine, from which the limits of the fitness verdict are derived.

  scripts/studies/fitness-runs.py target/release/osjitter lib/internal/files/tests/fixtures/fitness.json

Each run is a short `osjitter run` with one handicap: busy neighbours, niced ones, a CPU quota, or a process that is stopped
repeatedly. Only the facts and the handicap are kept. `tests/fitness.rs` of osjitter-files checks the limits of the verdict with
them. The machine must be idle, so that "quiet" is true; the quota needs root.
"""
import argparse, json, os, pathlib, random, signal, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from handicaps import hogs, quota  # noqa: E402, in scripts/results

CPUS = len(os.sched_getaffinity(0))


def run(osjitter, out, enter=None, during=None):
    command = [osjitter, "run", "--quiet", "--ticks", "2000", "--subject", "os-interval", "--subject", "nanosleep",
               "--subject", "spin", "--no-samples", "--out", out]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=enter)
    if during:
        during(process)
    if process.wait() != 0:
        sys.exit(f"{' '.join(command)} exited with {process.returncode}")


def stop_and_go(process):
    """Stops the process for 50 ms out of every 250 ms."""
    while process.poll() is None:
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        process.send_signal(signal.SIGCONT)


def measure(osjitter, injected):
    """Returns the facts of a run with a handicap, and its host."""
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        kind, _, amount = injected.partition(":")
        if kind == "quiet":
            run(osjitter, out)
        elif kind == "busy":
            with hogs(int(amount) * CPUS):
                run(osjitter, out)
        elif kind == "niced":
            with hogs(CPUS, nice=19):
                run(osjitter, out)
        elif kind == "quota":
            with quota(float(amount)) as enter:
                run(osjitter, out, enter=enter)
        elif kind == "stopped":
            run(osjitter, out, during=stop_and_go)
        report = json.load(open(os.path.join(out, "report.json")))
    fitness = report["fitness"]
    reasons = [f"{r['cause']} {r['value']:.4f} {r['verdict']}" for r in fitness["reasons"]]
    print(f"{injected:10} {fitness['verdict']:6} {fitness['distrust_from']} {'; '.join(reasons)}", flush=True)
    return {"injected": injected, "cpus": report["host"]["cpus_online"], "distrust_from": fitness["distrust_from"],
            "facts": fitness["facts"]}, report["host"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("osjitter")
    parser.add_argument("file", help="file to write")
    parser.add_argument("--each", type=int, default=6, help="runs with each handicap [default: 6]")
    args = parser.parse_args()
    kinds = ["quiet", "quiet", "busy:1", "busy:2", "busy:3", "niced", "quota:0.2", "stopped"] * args.each
    random.Random(1).shuffle(kinds)
    runs, host = [], None
    for kind in kinds:
        record, host = measure(args.osjitter, kind)
        runs.append(record)
    machine = {key: host[key] for key in ("os", "kernel", "cpu_model", "cpus_online", "virtualisation")}
    runs.sort(key=lambda r: r["injected"])
    lines = ",\n    ".join(json.dumps(r) for r in runs)
    pathlib.Path(args.file).write_text('{\n  "machine": %s,\n  "runs": [\n    %s\n  ]\n}\n' % (json.dumps(machine), lines))


main()
