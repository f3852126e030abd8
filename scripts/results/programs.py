"""Builds the programs that studies and recipes start, and returns their paths."""

import json
import os
import shutil
import subprocess

from pages import ROOT

STUDIES = ROOT / "scripts/studies"


def build_osjitter(*options):
    """Builds osjitter for release; the options can add features or examples."""
    build = ["cargo", "build", "--release", "--locked", "--bins", *options]
    subprocess.run(build, cwd=ROOT, check=True)
    return ROOT / "target/release/osjitter"


def build_study(name, package="studies", target="target", options=(), **environment):
    """Builds a program of the workspace scripts/studies."""
    build = ["cargo", "build", "--release", "--locked", "--package", package, "--bin", name, "--target-dir", target, *options]
    subprocess.run(build, cwd=STUDIES, check=True, env={**os.environ, **environment})
    return STUDIES / target / "release" / name


def build_peer(name, package=None, **settings):
    """Builds a program that measures other crates. Its package has the same name by default."""
    return build_study(name, package=package or name, **settings)


def build_criterion_suite(*features):
    """Builds the benchmarks of criterion-suite and returns the path of their executable."""
    command = ["cargo", "bench", "--no-run", "--locked", "--package", "criterion-suite", "--message-format", "json", *features]
    built = subprocess.run(command, cwd=STUDIES, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return next(m["executable"] for m in messages if m["reason"] == "compiler-artifact" and m["target"]["kind"] == ["bench"])


def build_criterion_sides(home):
    """Builds criterion-suite with and without its change, as base, same and slow in a directory.

    All paths have one length, since the length of a command line shifts the stack.
    """
    for features, names in (((), ("base", "same")), (("--features", "slowed"), ("slow",))):
        executable = build_criterion_suite(*features)
        for name in names:
            shutil.copy(executable, home / name)
