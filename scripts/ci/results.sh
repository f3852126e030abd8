#!/usr/bin/env bash
# Every file in results/ must be linked from a page, and all of them together small enough for a clone.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 - <<'PYTHON'
import pathlib, re, subprocess, sys

MAX_BYTES = 12_000_000
tracked = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True).stdout.split("\0")
tracked = [file for file in tracked if file and pathlib.Path(file).is_file()]
results = {file for file in tracked if file.startswith("results/") and file != "results/README.md"}
root, linked = pathlib.Path.cwd(), set()
for page in (pathlib.Path(file) for file in tracked if file.endswith(".md")):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            path = (root / page.parent / target).resolve()
            linked.add(str(path.relative_to(root)) if path.is_relative_to(root) else "")
sizes = {file: pathlib.Path(file).stat().st_size for file in results}
errors = [f"{file}: no page links it; link it, or remove it" for file in sorted(results - linked)]
if sum(sizes.values()) > MAX_BYTES:
    largest = sorted(results, key=sizes.get, reverse=True)[:5]
    errors.append(f"results/ has {sum(sizes.values()):,} bytes, and at most {MAX_BYTES:,} are allowed; the largest files: "
                  + ", ".join(f"{file} ({sizes[file]:,})" for file in largest))
print(*errors, sep="\n", file=sys.stderr)
print(f"{len(results)} files, {sum(sizes.values()):,} bytes, all linked" if not errors else f"{len(errors)} errors")
sys.exit(bool(errors))
PYTHON
