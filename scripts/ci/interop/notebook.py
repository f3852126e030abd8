"""Runs docs/notebook/ticks.ipynb on a report, like a user: notebook.py REPORT OSJITTER [--write]

The notebook itself compares its percentiles with those of the report. `--write` stores the outputs in the notebook; the committed
one has those of a report in results/. Needs duckdb, matplotlib, nbclient and ipykernel.
"""
import os, re, sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

report, osjitter = (str(Path(argument).resolve()) for argument in sys.argv[1:3])
file = Path(__file__).resolve().parents[3] / "docs/notebook/ticks.ipynb"
os.environ |= {"OSJITTER_REPORT": report, "OSJITTER": osjitter}
notebook = nbformat.read(file, as_version=4)
for cell in notebook.cells:
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
NotebookClient(notebook, timeout=120, record_timing=False).execute()

outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
text = "".join(output.text for output in outputs if output.output_type == "stream")
(agreeing,) = re.findall(r"(\d+) subjects: every percentile equals that of the report", text)
pictures = sum("image/png" in output.data for output in outputs if output.output_type == "display_data")
assert int(agreeing) >= 1 and pictures >= 2, (agreeing, pictures)
print(f"notebook: {agreeing} subjects, {pictures} pictures, {text.count('│')} cells of tables; every percentile equals that of the report")
if "--write" in sys.argv:
    for output in outputs:
        # The text of a picture is its address in memory, which differs between runs.
        if output.output_type == "display_data":
            output.data.pop("text/plain", None)
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, file)
