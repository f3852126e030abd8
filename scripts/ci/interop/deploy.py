"""Holds deploy/ against the programs that it is for: python deploy.py OSJITTER

promtool checks and runs the rules, Grafana's own models read the dashboard, kubernetes-validate knows every key of the manifests,
systemd verifies the unit, and osjitter knows the flags that they give it."""
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
    ran = subprocess.run([str(a) for a in args], text=True, capture_output=True)
    if (ran.returncode != 0) != fails:
        sys.exit(f"{shlex.join(map(str, args))}: {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def spoilt(path, old, new):
    """The file with a mistake in it: what accepts it checks nothing."""
    text = path.read_text()
    assert old in text, (path, old)
    copy = Path(scratch) / path.name
    copy.write_text(text.replace(old, new, 1))
    return copy


scratch = tempfile.mkdtemp()
rules = DEPLOY / "prometheus/osjitter.rules.yml"
run("promtool", "check", "rules", rules)
run("promtool", "check", "rules", spoilt(rules, "histogram_quantile(", "histogram_quantil("), fails=True)
run("promtool", "test", "rules", DEPLOY / "prometheus/osjitter.rules.test.yml")
print("promtool: the rules are valid, and fire where they should")

scrape = DEPLOY / "prometheus/scrape.yml"
run("promtool", "check", "config", scrape)
run("promtool", "check", "config", spoilt(scrape, "static_configs", "static_config"), fails=True)
print("promtool: the scrape configuration is valid")

run(sys.executable, DEPLOY / "grafana/dashboard.py", "--check")
plugins.register_default_plugins()


def lost(written, read, where=""):
    """What Grafana's models of the schema do not know, or know as something else."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [x for k, v in written.items() for x in (lost(v, read[k], f"{where}.{k}") if k in read else [f"{where}.{k}"])]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [x for i, pair in enumerate(zip(written, read)) for x in lost(*pair, f"{where}[{i}]")]
    return [] if written == read else [f"{where}: {written!r} is read as {read!r}"]


def through_grafana(dashboard):
    return json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))


dashboard = json.loads((DEPLOY / "grafana/osjitter.json").read_text())
assert not (unknown := lost(dashboard, through_grafana(dashboard))), unknown
wrong = json.loads(json.dumps(dashboard).replace('"gridPos"', '"gridpos"'))
assert lost(wrong, through_grafana(wrong)), "a misspelt key was not found"
exprs = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
plain = [re.sub(r'"\$\w+"', '".*"', expr.replace("$__rate_interval", "5m")) for expr in exprs]
as_rules = {"groups": [{"name": "panels", "rules": [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(plain)]}]}
(Path(scratch) / "panels.yml").write_text(yaml.safe_dump(as_rules))
run("promtool", "check", "rules", Path(scratch) / "panels.yml")
print(f"Grafana's models know every key of the dashboard; promtool its {len(exprs)} queries")

manifests = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
validate = [Path(sys.executable).with_name("kubernetes-validate"), "--strict", "-k", KUBERNETES]
run(*validate, *manifests)
run(*validate, spoilt(manifests[0], "restartPolicy:", "restartpolicy:"), fails=True)
print(f"kubernetes-validate: {len(manifests)} manifests are strictly valid for {KUBERNETES}")

unit = DEPLOY / "systemd/osjitter-monitor.service"
# systemd wants the program to be there.
here = spoilt(unit, "/usr/local/bin/osjitter", osjitter)
said = run("systemd-analyze", "verify", here)
assert not said.strip(), said
exposure = run("systemd-analyze", "security", "--offline=true", "--threshold=20", here)
(start,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.M)
print("systemd: the unit is valid;", exposure.strip().splitlines()[-1].strip("→ "))

commands = [shlex.split(start)[1:]]
for manifest in manifests:
    commands += [c["args"] for c in yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]["containers"]]
known = re.findall(r"^  (\w+)", run(osjitter, "--help"), re.M)
for command in commands:
    if command[0] in known:
        # Everything before --help is parsed, and nothing is run.
        run(osjitter, *command, "--help")
        run(osjitter, *command, "--no-such-flag", "--help", fails=True)
        print("osjitter knows the flags of:", shlex.join(command))
    else:
        print("NOT CHECKED, this build has no such command:", shlex.join(command))
