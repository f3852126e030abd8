"""Checks the files of a run: run_files.py COMMAND DIRECTORY. All exist, and every tick of the command is counted once in the report.

Needs jsonschema.
"""
import json
import pathlib
import shlex
import sys
import xml.etree.ElementTree

import jsonschema

FILES = ("report.html", "report.json", "tradeoff.svg", "percentiles.svg", "over-time.svg")
SCHEMA = pathlib.Path(__file__).parents[3] / "lib/internal/files/schema/osjitter.report.1.json"

words, directory = shlex.split(sys.argv[1]), pathlib.Path(sys.argv[2])
ticks = int(words[words.index("--ticks") + 1])

for name in FILES:
    assert (directory / name).stat().st_size > 0, f"{name} is empty"
for picture in directory.glob("*.svg"):
    xml.etree.ElementTree.parse(picture)
page = (directory / "report.html").read_text()
assert page.lower().startswith("<!doctype html>") and page.rstrip().endswith("</html>"), "report.html is not a whole page"

report = json.loads((directory / "report.json").read_text())
jsonschema.validate(report, json.loads(SCHEMA.read_text()))
assert report["schema"] == "osjitter.report/1" and not report["partial"]
assert report["subjects"]
for subject in report["subjects"]:
    summary = subject["summary"]
    assert subject["status"] == {"state": "measured"}, subject["id"]
    assert summary["ticks"] == summary["delivered"] + summary["coalesced"] + summary["skipped"] == ticks, subject["id"]
    came = summary["ticks"] - summary["skipped"]
    assert subject["histogram"]["count"] == came, subject["id"]
    assert sum(len(r["lateness_ns"]) for r in subject["rounds"]) == came, subject["id"]
print(f"{', '.join(FILES)}: valid; each of {ticks} ticks of {len(report['subjects'])} subjects is counted once")
