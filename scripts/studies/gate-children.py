#!/usr/bin/env python3
"""Gates hostile programs and checks that they leave no process and no file behind.

  scripts/studies/gate-children.py 200 [--osjitter target/debug/osjitter] [--jobs 5] [--name 2026-11-22-epyc-kvm-2cpu-children]

Each gate runs two of the programs below, chosen at random. Their processes are recognized by a word in their environment or
on their command line. Exits with 1 if anything is left behind, or if a gate has an unexpected exit code. Linux only; a gate
takes about two seconds.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, random, shutil, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "results"))
from pages import ROOT, index, machine  # noqa: E402, in scripts/results

# Writes a valid series, in which each tick is 20 us late.
SERIES = '{ echo osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS; yes 20000 | head -n "$OSJITTER_TICKS"; } >"$OSJITTER_OUT"'
# The commands of each program before it writes its series, and the expected exit code of a gate. NAP is a recognizable sleep.
PROGRAMS = {
    "stays in its group": ("NAP & (NAP &) & NAP &", 0),
    "forks twice": ("( ( NAP & ) & ); ( sh -c 'NAP & NAP &' & )", 0),
    "leaves its session": ("setsid NAP & setsid setsid sh -c 'NAP & NAP' & setsid sh -c 'setsid NAP &'", 0),
    "ignores signals": ("trap '' TERM HUP INT QUIT USR1; sh -c \"trap '' TERM HUP INT; while :; do NAP; done\" &", 0),
    "forgets who it was": ("env -i setsid NAP & (cd /; env -i NAP &)", 0),
    "starts its successor, over and over": ("printf 'exec 2>&-; : NAP; setsid sh \"$0\" &' >chain; setsid sh ./chain &", 0),
    "writes on": ("(while :; do echo x >>\"$OSJITTER_OUT.log\"; : NAP; done) & setsid sh -c 'while :; do : >on; : NAP; done' &", 0),
    "fills its outputs": ("yes NAP & yes NAP >&2 & head -c 3000000 /dev/zero >&2", 0),
    "closes its outputs": ("NAP & exec 2>&- ; NAP &", 0),
    "leaves files": ("mkdir -p \"$OSJITTER_OUT.d/deep/er\"; mkfifo \"$OSJITTER_OUT.fifo\"; ln -s / \"$OSJITTER_OUT.root\"; "
                     "head -c 100000 /dev/zero >\"$OSJITTER_OUT.d/deep/er/big\"; chmod 500 \"$OSJITTER_OUT.d\"", 0),
    "starts many": ("for n in 1 2 3 4 5 6 7 8 9 10 11 12; do NAP & setsid NAP & done", 0),
    "stops itself": ("sh -c 'kill -STOP $$; NAP' & setsid sh -c 'kill -STOP $$; NAP' &", 0),
    "hangs": ("NAP & setsid NAP & NAP", 4),
    "hangs behind a pipe": ("sh -c 'NAP | cat' | cat", 4),
    "interrupts the gate": ("setsid NAP & kill -INT $PPID; NAP", 4),
    "ends the gate": ("NAP & kill -TERM $PPID; NAP", 4),
    "hangs up on the gate": ("NAP & kill -HUP $PPID; NAP", 4),
    "fails": ("NAP & setsid NAP & exit 7", 4),
    "is killed": ("setsid NAP & kill -KILL $$", 4),
    "writes garbage": ("NAP & echo garbage >\"$OSJITTER_OUT\"; exit 0", 4),
    "leaves a pipe": ("setsid NAP & mkfifo \"$OSJITTER_OUT\"; exit 0", 4),
}


def find_processes(word):
    """Returns the processes that have the word in their environment or command line."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in text and int(process.name) != os.getpid():
            found.append(text[-200:].replace(b"\0", b" ").decode(errors="replace").strip())
    return found


def run_gate(osjitter, number, kinds):
    """Runs a gate of two kinds of programs. Returns its result, with everything that it left behind, and its verdict."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="children-"))
    # The path of the directory and the duration of the sleep identify the processes.
    nap = f"sleep 600.{os.getpid()}{number:04}"
    (home / "tmp").mkdir(), (home / "work").mkdir()
    sides = []
    for side, kind in zip("ab", kinds):
        file = home / f"{side}.sh"
        file.write_text(f"{PROGRAMS[kind][0].replace('NAP', nap)}\n{SERIES}\n")
        sides.append(f"sh {file}")
    command = [osjitter, "gate", "--quiet", "--base-cmd", sides[0], "--candidate-cmd", sides[1], "--period", "100us",
               "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24", "--floor", "100ms", "--seed", str(number),
               "--max-round-time", "2s", "--out", str(home / "out")]
    start = time.monotonic()
    completed = subprocess.run(command, cwd=home / "work", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                               env={**os.environ, "TMPDIR": str(home / "tmp"), "GATE_DIRECTORY": str(home)}, check=False)
    duration = time.monotonic() - start
    # Checked immediately, before a process can end on its own.
    remaining = find_processes(str(home)) + find_processes(nap.split()[1])
    files = sorted(p.name for p in (home / "tmp").iterdir())
    expected = max(PROGRAMS[kind][1] for kind in kinds)
    verdict = json.loads((home / "out/verdict.json").read_text()) if (home / "out/verdict.json").exists() else None
    reason = (verdict or {}).get("failure") or completed.stderr[-300:]
    wrong = [f"exit code {completed.returncode}, expected {expected}: {reason}"] if completed.returncode != expected else []
    wrong += [f"process: {p}" for p in remaining] + [f"file: {f}" for f in files] + ([] if verdict else ["no verdict"])
    subprocess.run(["chmod", "-R", "u+w", str(home)], check=False)
    shutil.rmtree(home)
    return {"gate": number, "programs": kinds, "exit": completed.returncode, "seconds": round(duration, 1), "wrong": wrong}, verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gates", type=int)
    parser.add_argument("--osjitter", default=str(ROOT / "target/release/osjitter"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="number of gates at the same time")
    parser.add_argument("--name", help="keep the report as results/NAME")
    args = parser.parse_args()
    osjitter, generator = os.path.abspath(args.osjitter), random.Random(args.seed)
    gates, host = [], None
    # The first program of the gates takes turns, the second one is random.
    kinds = [[list(PROGRAMS)[n % len(PROGRAMS)], generator.choice(list(PROGRAMS))] for n in range(args.gates)]
    for pair in kinds:
        generator.shuffle(pair)
    pool = concurrent.futures.ThreadPoolExecutor(args.jobs)
    for gate, verdict in pool.map(lambda number: run_gate(osjitter, number, kinds[number]), range(args.gates)):
        gates.append(gate)
        host = (verdict or {}).get("host") or host
        if gate["wrong"]:
            print(f"gate {gate['gate']} {gate['programs']}: {gate['wrong']}", flush=True)
    wrong = sum(bool(gate["wrong"]) for gate in gates)
    program_counts = collections.Counter(kind for gate in gates for kind in gate["programs"])
    found = {
        "gates": len(gates), "gates_with_something_left_or_another_exit": wrong,
        "processes_left": sum(w.startswith("process") for g in gates for w in g["wrong"]),
        "files_left": sum(w.startswith("file") for g in gates for w in g["wrong"]),
        "exits": dict(collections.Counter(str(g["exit"]) for g in gates)),
        "longest_gate_seconds": max(g["seconds"] for g in gates), "programs": dict(program_counts), "each": gates,
    }
    print(json.dumps({key: value for key, value in found.items() if key != "each"}, indent=1))
    if args.name:
        directory = ROOT / "results" / args.name
        directory.mkdir(exist_ok=True)
        (directory / "children.json").write_text(json.dumps(found, indent=1) + "\n")
        index(args.name, [(f"`{args.name}`", "children.json")], host, f"`scripts/studies/gate-children.py {args.gates} --jobs {args.jobs}`")
        print(f"{machine(host)}: results/{args.name}/children.json")
    sys.exit(wrong > 0)


main()
