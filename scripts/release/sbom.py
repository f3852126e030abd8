#!/usr/bin/env python3
"""Writes the bill of materials of a binary as CycloneDX 1.6, so that users can check what they install.

  scripts/release/sbom.py TARGET > osjitter.cdx.json

It lists every crate that `cargo metadata` resolves for the target, with its licence and the checksum of the lock file. Crates that
only the build or the tests use are omitted.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEATURES = "parquet"


def resolve_crates(target):
    """Returns the resolved crates of a build for a target."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--features", FEATURES, "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def linked_crates(resolved):
    """Returns the crates in the program with their dependencies, but without build and test dependencies."""
    nodes = {node["id"]: node for node in resolved["resolve"]["nodes"]}
    dependencies = {}
    pending = [resolved["resolve"]["root"]]
    while pending:
        crate = pending.pop()
        if crate in dependencies:
            continue
        linked = [dep["pkg"] for dep in nodes[crate]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        dependencies[crate] = sorted(linked)
        pending += linked
    return dependencies


def make_component(package, checksums, kind="library"):
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    entry = {"type": kind, "bom-ref": purl, "name": package["name"], "version": package["version"], "purl": purl}
    if package["description"]:
        entry["description"] = " ".join(package["description"].split())
    if package["license"]:
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((package["name"], package["version"])):
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def make_bom(target):
    resolved = resolve_crates(target)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}
    packages = {package["id"]: package for package in resolved["packages"]}
    dependencies = linked_crates(resolved)
    root = resolved["resolve"]["root"]
    ref = {crate: f"pkg:cargo/{packages[crate]['name']}@{packages[crate]['version']}" for crate in dependencies}
    libraries = sorted((crate for crate in dependencies if crate != root), key=ref.get)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": make_component(packages[root], checksums, "application"),
            "properties": [{"name": "target", "value": target}, {"name": "features", "value": FEATURES}],
        },
        "components": [make_component(packages[crate], checksums) for crate in libraries],
        "dependencies": [{"ref": ref[crate], "dependsOn": [ref[n] for n in dependencies[crate]]} for crate in [root, *libraries]],
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    json.dump(make_bom(sys.argv[1]), sys.stdout, indent=1)
    print()
