#!/usr/bin/env python3
"""Checks pages of reports with axe-core in headless Chromium, so that people with impairments can read them.

    scripts/studies/page-accessibility.py REPORT.HTML...

Each page is checked wide, narrow and dark. Fails on any violation and names the element. Needs chromium, and npm to fetch
axe-core.
"""

import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile

AXE = "axe-core@4.14.1"
VIEWS = {
    "wide": ["--window-size=1280,1600"],
    "narrow": ["--window-size=400,1600"],
    "dark": ["--window-size=1280,1600", "--force-dark-mode", "--blink-settings=preferredColorScheme=0"],
}
# Runs after the pictures are drawn. Undecidable rules, such as the contrast of text in a picture, are not reported.
PROBE = """
addEventListener("load", () => setTimeout(() => axe.run(document, { resultTypes: ["violations"] }).then((found) => {
  const result = document.createElement("pre");
  result.id = "axe";
  result.textContent = JSON.stringify({
    passes: found.passes.length,
    violations: found.violations.flatMap((v) => v.nodes.map((n) => `${v.impact}, ${v.id}: ${v.help}: ${n.html.slice(0, 120)}`)),
  });
  document.body.append(result);
}), 1500));
"""


def main(pages):
    failed = False
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=home, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["tar", "xzf", *home.glob("*.tgz")], cwd=home, check=True)
        axe = (home / "package/axe.min.js").read_text().replace("</script", "<\\/script")
        for page in pages:
            text = pathlib.Path(page).read_text()
            page_with_axe = home / "page.html"
            page_with_axe.write_text(text.replace("</body>", f"<script>{axe}</script><script>{PROBE}</script></body>"))
            for view, flags in VIEWS.items():
                chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
                completed = subprocess.run([*chromium, *flags, "--dump-dom", page_with_axe.as_uri()], capture_output=True, text=True)
                result = re.search(r'<pre id="axe">(.*?)</pre>', completed.stdout, re.S)
                if not result:
                    sys.exit(f"{page}, {view}: cannot read the result of axe-core: {completed.stderr.strip()[-400:]}")
                found = json.loads(html.unescape(result[1]))
                failed |= bool(found["violations"])
                print(f"{page}, {view}: {found['passes']} rules passed, {len(found['violations'])} violations")
                print("".join(f"  {violation}\n" for violation in found["violations"]), end="")
    sys.exit(failed)


if len(sys.argv) < 2:
    sys.exit(__doc__)
main(sys.argv[1:])
