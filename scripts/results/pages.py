"""Puts figures into the marked blocks of README and book, and into the index of results/.

A block starts with the comment `<!-- NAME -->` and ends with `<!-- end of NAME -->`. A script
replaces the text between them. The text links files as `results/NAME/FILE`, and pictures as
`pictures/RECIPE/FILE`.
"""

import html
import os
import pathlib
import platform
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/osjitter/osjitter"
# mdBook copies only files of its own directory.
PICTURES = ROOT / "docs/src/pictures"


def machine(host):
    """Describes the machine of a report in one line."""
    return (f"{host['cpu_model']}, {host['cpus_online']} CPUs, "
            f"{host['virtualisation'] or 'no hypervisor'}, kernel {host['kernel']}")


def read_cpuinfo():
    """Reads the fields of the last CPU in /proc/cpuinfo. Linux only."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)


def this_machine():
    """Describes this machine like the `host` of a report, for scripts that write no report."""
    cpuinfo = read_cpuinfo()
    return {"cpu_model": cpuinfo.get("model name", platform.machine()), "cpus_online": os.cpu_count(),
            "kernel": platform.release(),
            "virtualisation": "hypervisor" if "hypervisor" in cpuinfo.get("flags", "") else None}


def picture(file):
    """Shows a picture of the book, with its own title for readers who do not see it."""
    title = re.search("<title>(.*?)</title>", (PICTURES / file).read_text(), re.S)[1]
    text = html.unescape(title).replace("\n", " ").replace("[", "\\[").replace("]", "\\]")
    return f"![{text}](pictures/{file})"


def put(block, text):
    """Replaces a block in the only page that contains it: the README, a page of the book, or the README of a crate."""
    begin, end = f"<!-- {block} -->", f"<!-- end of {block} -->"
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/src").glob("*.md")),
             *sorted(ROOT.glob("lib/*/README.md"))]
    matches = [page for page in pages if begin in page.read_text()]
    assert len(matches) == 1, f"expected the block {block} in one page, found {len(matches)}"
    file = matches[0]
    if file.parts[-2] == "src":
        # The built book does not contain the results.
        results, pictures = f"{REPOSITORY}/blob/main/results/", "pictures/"
    else:
        to_root = "../" * (len(file.relative_to(ROOT).parts) - 1)
        results, pictures = f"{to_root}results/", f"{to_root}docs/src/pictures/"
    text = text.replace("](results/", f"]({results}").replace("](pictures/", f"]({pictures}")
    page, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", file.read_text(),
                          flags=re.S)
    assert count == 1, f"{file.name} lacks the end of the block {block}"
    file.write_text(page)


def index(name, files, host, command):
    """Replaces or appends the line of a run; `files` are (text, file) pairs. The other files of the run follow them."""
    others = sorted(path.name for path in (ROOT / "results" / name).iterdir())
    others = [(f"`{other}`", other) for other in others if other not in {file for _, file in files}]
    links = [f"[{text}]({name}/{file})" for text, file in [*files, *others]]
    line = f"| {', '.join(links)} | {machine(host)} | {command} |"
    file = ROOT / "results/README.md"
    lines = file.read_text().splitlines()
    matches = [number for number, old in enumerate(lines) if old.startswith(f"| [`{name}`]")]
    if matches:
        lines[matches[0]] = line
    else:
        lines.append(line)
    file.write_text("\n".join(lines) + "\n")
