"""Builds the programs that studies and recipes start, and returns their paths."""

import os
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
