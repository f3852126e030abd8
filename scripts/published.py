"""What the scripts have in common that publish results: the blocks of the README and the book, and the index of results/."""

import os
import pathlib
import platform
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def machine(host):
    """One line on the machine a report is of."""
    return (f"{host['cpu_model']}, {host['cpus_online']} CPUs, {host['virtualisation'] or 'no hypervisor'}, "
            f"kernel {host['kernel']}")


def this_machine():
    """What `machine` needs of this one, for scripts that write no report; on Linux."""
    facts = dict(map(str.strip, line.split(":", 1)) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    return {"cpu_model": facts.get("model name", platform.machine()), "cpus_online": os.cpu_count(), "kernel": platform.release(),
            "virtualisation": "hypervisor" if "hypervisor" in facts.get("flags", "") else None}


def put(block, text):
    """Replaces what stands between the two comments of that name, in the README, the page of the book or the crate's README that has them."""
    begin, end = f"<!-- {block} -->", f"<!-- end of {block} -->"
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/src").glob("*.md")), *sorted(ROOT.glob("lib/*/README.md"))]
    having = [page for page in pages if begin in page.read_text()]
    assert len(having) == 1, f"the block {block} is in {len(having)} pages"
    file = having[0]
    text = text.replace("](results/", f"]({'../' * (len(file.relative_to(ROOT).parts) - 1)}results/")
    page, n = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", file.read_text(), flags=re.S)
    assert n == 1, f"{file.name} has no end of the block {block}"
    file.write_text(page)


def index(name, files, host, command):
    """Adds or replaces the line of a run; `files` are (text, file) pairs, the first of them under the run's name."""
    links = [f"[{text}]({name}/{file})" for text, file in files]
    line = f"| {', '.join(links)} | {machine(host)} | {command} |"
    file = ROOT / "results/README.md"
    kept = [old for old in file.read_text().splitlines() if not old.startswith(f"| [`{name}`]")]
    file.write_text("\n".join([*kept, line]) + "\n")
