"""Checks the files in deploy/ with the programs that use them: python deploy.py OSJITTER

promtool checks and runs the rules, Grafana's own models read the dashboard, kubernetes-validate checks every key of the manifests,
systemd verifies the unit, and osjitter accepts the flags in manifests and unit.
"""
import json, re, shlex, subprocess, sys, tempfile
from pathlib import Path

import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
KUBERNETES = "1.34"
osjitter = str(Path(sys.argv[1]).resolve())


def run(*args, fails=False):
    completed = subprocess.run([str(a) for a in args], text=True, capture_output=True)
    if (completed.returncode != 0) != fails:
        sys.exit(f"{shlex.join(map(str, args))}: exit code {completed.returncode}\n{completed.stdout}{completed.stderr}")
    return completed.stdout + completed.stderr


def edited_copy(path, old, new):
    """Returns a copy of a file with a change, for example a mistake that a check must find."""
    text = path.read_text()
    assert old in text, (path, old)
    copy = Path(scratch) / path.name
    copy.write_text(text.replace(old, new, 1))
    return copy


scratch = tempfile.mkdtemp()
rules = DEPLOY / "prometheus/osjitter.rules.yml"
run("promtool", "check", "rules", rules)
run("promtool", "check", "rules", edited_copy(rules, "histogram_quantile(", "histogram_quantil("), fails=True)
run("promtool", "test", "rules", DEPLOY / "prometheus/osjitter.rules.test.yml")
print("promtool: the rules are valid, and their tests pass")

scrape = DEPLOY / "prometheus/scrape.yml"
run("promtool", "check", "config", scrape)
run("promtool", "check", "config", edited_copy(scrape, "static_configs", "static_config"), fails=True)
print("promtool: the scrape configuration is valid")

run(sys.executable, DEPLOY / "grafana/dashboard.py", "--check")
plugins.register_default_plugins()


def find_differences(written, read, path=""):
    """Returns the keys that Grafana's models drop, and the values that they read differently."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [x for k, v in written.items() for x in (find_differences(v, read[k], f"{path}.{k}") if k in read else [f"{path}.{k}"])]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [x for i, pair in enumerate(zip(written, read)) for x in find_differences(*pair, f"{path}[{i}]")]
    return [] if written == read else [f"{path}: {written!r} is read as {read!r}"]


def read_by_grafana(dashboard):
    return json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))


dashboard = json.loads((DEPLOY / "grafana/osjitter.json").read_text())
assert not (differences := find_differences(dashboard, read_by_grafana(dashboard))), differences
wrong = json.loads(json.dumps(dashboard).replace('"gridPos"', '"gridpos"'))
assert find_differences(wrong, read_by_grafana(wrong)), "a misspelled key was not found"
exprs = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
plain = [re.sub(r'"\$\w+"', '".*"', expr.replace("$__rate_interval", "5m")) for expr in exprs]
as_rules = {"groups": [{"name": "panels", "rules": [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(plain)]}]}
(Path(scratch) / "panels.yml").write_text(yaml.safe_dump(as_rules))
run("promtool", "check", "rules", Path(scratch) / "panels.yml")
print(f"Grafana's models accept every key of the dashboard, and promtool its {len(exprs)} queries")

manifests = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
validate = [Path(sys.executable).with_name("kubernetes-validate"), "--strict", "-k", KUBERNETES]
run(*validate, *manifests)
run(*validate, edited_copy(manifests[0], "restartPolicy:", "restartpolicy:"), fails=True)
print(f"kubernetes-validate: {len(manifests)} manifests are strictly valid for {KUBERNETES}")

unit = DEPLOY / "systemd/osjitter-monitor.service"
# systemd requires that the program exists.
local_unit = edited_copy(unit, "/usr/local/bin/osjitter", osjitter)
warnings = run("systemd-analyze", "verify", local_unit)
assert not warnings.strip(), warnings
exposure = run("systemd-analyze", "security", "--offline=true", "--threshold=20", local_unit)
(start,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.M)
print("systemd: the unit is valid;", exposure.strip().splitlines()[-1].strip("→ "))

commands = [shlex.split(start)[1:]]
for manifest in manifests:
    commands += [c["args"] for c in yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]["containers"]]
known_commands = re.findall(r"^  (\w+)", run(osjitter, "--help"), re.M)
for command in commands:
    assert command[0] != "monitor" or "--keep" in command, f"a log that grows until its disk is full: {command}"
    if command[0] in known_commands:
        # With --help, the flags before it are parsed, but nothing runs.
        run(osjitter, *command, "--help")
        run(osjitter, *command, "--no-such-flag", "--help", fails=True)
        print("osjitter accepts the flags of:", shlex.join(command))
    else:
        print("NOT CHECKED, because this build lacks the command:", shlex.join(command))
