#!/usr/bin/env bash
# The bill of materials must match the lock file, and no dependency may have a known vulnerability.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/ci/common.sh
for target in x86_64-unknown-linux-gnu x86_64-pc-windows-msvc aarch64-apple-darwin; do
  python3 scripts/release/sbom.py "$target" | python3 -c '
import json, sys, tomllib
lock = tomllib.load(open("Cargo.lock", "rb"))["package"]
locked = {(p["name"], p["version"]): p.get("checksum") for p in lock}
bom = json.load(sys.stdin)
for crate in [bom["metadata"]["component"], *bom["components"]]:
    key = crate["name"], crate["version"]
    hashes = [entry["content"] for entry in crate.get("hashes", [])]
    expected = [locked[key]] if locked[key] else []
    assert hashes == expected, f"{key}: the checksum differs from that of Cargo.lock"
listed = {crate["bom-ref"] for crate in [bom["metadata"]["component"], *bom["components"]]}
for entry in bom["dependencies"]:
    assert {entry["ref"], *entry["dependsOn"]} <= listed, entry["ref"] + " depends on a crate that is not listed"
print(len(listed), "crates match Cargo.lock")'
done
command -v cargo-deny >/dev/null || cargo install --quiet --locked cargo-deny || skip "cargo-deny cannot be installed"
cargo deny --all-features check bans licenses sources
cargo deny fetch db || skip "the advisories of RustSec are not reachable; licences, sources and duplicates were checked"
cargo deny --all-features check advisories
