"""Gives files of this system, chosen at random, to `osjitter report`, and checks that it refuses each of them in the same way.

    foreign_files.py OSJITTER COUNT SEED

Prints how many files of each kind were refused. A file that is a result of a supported tool may be read.
"""
import collections
import os
import random
import re
import subprocess
import sys
import time

osjitter, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DIRECTORIES = ("/usr", "/etc", "/var")
# The longest time for any file, on a busy machine.
TIMEOUT_SECONDS = 30
# Reasons for which a file is refused. Anything else names a format that the file does not have.
REASONS = {
    "unknown format": r"unknown format: ",
    "unknown schema": r"schema .* is not known",
    "UTF-16": r": is in UTF-16",
    "not text": r": is not text: line \d+ column \d+",
    "damaged or large gzip": r"gzip|unpack|inflate|decompress",
    "too large": r"too large|larger than|at most \d+ .?B",
    "not readable": r"cannot read .*: (Permission denied|No such)",
}
# Packages with results of these tools as documentation or tests.
RESULTS = re.compile(r"/(rt-tests|jitterdebugger|rtla|osjitter|hdrhistogram)")


def list_files():
    for top in DIRECTORIES:
        for directory, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield path


def find_problem(path):
    """Returns the reason for which a file was refused, and what is wrong with that, if anything."""
    start = time.monotonic()
    try:
        done = subprocess.run([osjitter, "report", path], capture_output=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return None, "it hangs"
    slowest.append((time.monotonic() - start, path))
    error = done.stderr.decode(errors="replace").strip()
    if "panicked" in error or done.returncode not in (0, 2):
        return None, f"exit code {done.returncode}: {error[:300]}"
    if done.returncode == 0:
        return "read", None if RESULTS.search(path) else "it is read, although it is no result"
    if not error.startswith("error: ") or len(error.splitlines()) != 1 or done.stdout:
        return None, f"expected one message: {error[:300]!r}"
    for reason, pattern in REASONS.items():
        if re.search(pattern, error):
            return reason, None
    return None, f"wrong format or reason: {error[:300]}"


def choose(files):
    """Chooses half of the files from all, and half by their endings in turn, since most files of a system are of a few kinds."""
    rng = random.Random(seed)
    chosen = rng.sample(files, min(count // 2, len(files)))
    kinds = collections.defaultdict(list)
    for path in rng.sample(files, len(files)):
        kinds[os.path.splitext(path)[1].lower()].append(path)
    names = rng.sample(sorted(kinds), len(kinds))
    by_turns = [kinds[name][turn] for turn in range(count) for name in names if turn < len(kinds[name])]
    return list(dict.fromkeys(chosen + by_turns))[:count]


files = list(list_files())
chosen = choose(files)
slowest = []
reasons, problems = collections.Counter(), []
for path in chosen:
    reason, problem = find_problem(path)
    reasons[reason or "problem"] += 1
    if problem:
        problems.append(f"{path}: {problem}")
seconds, path = max(slowest)
print(f"{len(chosen)} of {len(files)} files, seed {seed}: " + ", ".join(f"{n} {reason}" for reason, n in reasons.most_common()))
print(f"slowest: {seconds:.2f} s for {path}")
print("\n".join(problems))
sys.exit(1 if problems else 0)
