"""Runs docs/notebook/ticks.ipynb on a report, as somebody would: notebook.py REPORT OSJITTER [--write]

The notebook itself holds the percentiles against the report's. `--write` keeps what it prints and draws in the notebook, as it is
committed: with a report of results/. Needs duckdb, matplotlib, nbclient and ipykernel."""
import os, re, sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

report, osjitter = (str(Path(given).resolve()) for given in sys.argv[1:3])
file = Path(__file__).resolve().parents[3] / "docs/notebook/ticks.ipynb"
os.environ |= {"OSJITTER_REPORT": report, "OSJITTER": osjitter}
notebook = nbformat.read(file, as_version=4)
for cell in notebook.cells:
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
NotebookClient(notebook, timeout=120, record_timing=False).execute()

outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
said = "".join(output.text for output in outputs if output.output_type == "stream")
(agree,) = re.findall(r"(\d+) subjects: every percentile is the report's", said)
pictures = sum("image/png" in output.data for output in outputs if output.output_type == "display_data")
assert int(agree) >= 1 and pictures >= 2, (agree, pictures)
print(f"notebook: {agree} subjects, {pictures} pictures, {said.count('│')} cells of tables; every percentile is the report's")
if "--write" in sys.argv:
    for output in outputs:
        # What it printed is no one's path, and a picture's name in memory is no part of it.
        if output.output_type == "display_data":
            output.data.pop("text/plain", None)
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, file)
