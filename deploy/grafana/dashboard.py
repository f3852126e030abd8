#!/usr/bin/env python3
"""Writes the dashboard osjitter.json from the definition below: python3 dashboard.py [--check]

Every percentile is computed from summed histograms: native ones if the server keeps them, classic buckets otherwise."""
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

OUT = Path(__file__).with_name("osjitter.json")
WIDTH = 24
ALL = 'rack=~"$rack", instance=~"$instance", subject=~"$subject"'
LOOP = "subject, meter, period, runtime"


@dataclass
class Query:
    expr: str
    legend: str = "{{subject}}{{meter}}"
    # "heatmap" if the query returns buckets, from which Grafana draws a heatmap.
    format: str = "time_series"


@dataclass
class Panel:
    title: str
    description: str
    unit: str
    queries: list[Query]
    kind: str = "timeseries"
    width: int = 12
    stacked: bool = False
    log: bool = False


@dataclass
class Variable:
    name: str
    query: str


@dataclass
class Dashboard:
    uid: str
    title: str
    panels: list[Panel]
    variables: list[Variable] = field(default_factory=list)


def quantile_query(q: float, by: str) -> str:
    native = f"histogram_quantile({q}, sum by ({by}) (rate(osjitter_lateness_seconds{{{ALL}}}[$__rate_interval])))"
    classic = f"histogram_quantile({q}, sum by ({by}, le) (rate(osjitter_lateness_seconds_bucket{{{ALL}}}[$__rate_interval])))"
    return f"{native} or {classic}"


def heatmap_query() -> str:
    native = f"sum(rate(osjitter_lateness_seconds{{{ALL}}}[$__rate_interval]))"
    classic = f"sum by (le) (rate(osjitter_lateness_seconds_bucket{{{ALL}}}[$__rate_interval]))"
    return f"{native} or ({classic} unless on () {native})"


def rate_query(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{ALL}}}[$__rate_interval]))"


DASHBOARD = Dashboard(
    uid="osjitter",
    title="osjitter: lateness of ticks",
    variables=[
        Variable("rack", "label_values(osjitter_ticks_total, rack)"),
        Variable("instance", 'label_values(osjitter_ticks_total{rack=~"$rack"}, instance)'),
        Variable("subject", "label_values(osjitter_ticks_total, subject)"),
    ],
    panels=[
        Panel("Lateness", "All ticks of the selected hosts by lateness.", "s",
              [Query(heatmap_query(), "{{le}}", "heatmap")], kind="heatmap", width=WIDTH),
        Panel("p99 of the fleet", "Computed from summed histograms; averages of percentiles would be wrong.", "s", [Query(quantile_query(0.99, LOOP))], log=True),
        Panel("p99 of each host", "A line far above the others is a host to investigate.", "s",
              [Query(quantile_query(0.99, f"instance, {LOOP}"), "{{instance}} {{subject}}{{meter}}")], log=True),
        Panel("Maximum", "Maximum lateness in the last closed interval of each host.", "s",
              [Query(f"max by (instance, {LOOP}) (osjitter_lateness_max_seconds{{{ALL}}})", "{{instance}} {{subject}}{{meter}}")], log=True),
        Panel("Ticks missed", "Share of ticks that had not come when the next was due.", "percentunit",
              [Query(f"{rate_query('osjitter_missed_ticks_total', LOOP)} / {rate_query('osjitter_ticks_total', LOOP)}")]),
        Panel("Ticks skipped", "Share of ticks that never came. No percentile shows them.", "percentunit",
              [Query(f"{rate_query('osjitter_skipped_ticks_total', LOOP)} / {rate_query('osjitter_ticks_total', LOOP)}")]),
        Panel("CPU time of osjitter", "CPU time of the monitor as a share of a core.", "percentunit",
              [Query('sum by (instance) (rate(osjitter_cpu_seconds_total{rack=~"$rack", instance=~"$instance"}[$__rate_interval]))', "{{instance}}")],
              stacked=True),
    ],
)

SOURCE = {"type": "prometheus", "uid": "${source}"}


def target_json(i: int, query: Query) -> dict:
    return {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend, "format": query.format, "range": True}


def options_json(panel: Panel) -> dict:
    if panel.kind == "heatmap":
        return {"calculate": False, "yAxis": {"unit": panel.unit}, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64}}
    return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}, "tooltip": {"mode": "multi", "sort": "desc"}}


def custom_json(panel: Panel) -> dict:
    if panel.kind == "heatmap":
        return {}
    scale = {"type": "log", "log": 10} if panel.log else {"type": "linear"}
    return {"scaleDistribution": scale, "stacking": {"mode": "normal" if panel.stacked else "none"}, "fillOpacity": 30 if panel.stacked else 0}


def place_panels(panels: list[Panel]):
    """Yields the JSON of each panel, placed from left to right and from top to bottom."""
    x = y = 0
    for n, panel in enumerate(panels):
        if x + panel.width > WIDTH:
            x, y = 0, y + 8
        yield {
            "id": n + 1, "type": panel.kind, "title": panel.title, "description": panel.description, "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": 8},
            "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom_json(panel)}, "overrides": []},
            "options": options_json(panel), "targets": [target_json(i, query) for i, query in enumerate(panel.queries)],
        }
        x += panel.width


def variable_json(v: Variable) -> dict:
    return {"name": v.name, "type": "query", "datasource": SOURCE, "query": v.query, "refresh": 2, "multi": True,
            "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}


def dashboard_json(dashboard: Dashboard) -> dict:
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": dashboard.uid, "title": dashboard.title, "tags": ["osjitter"], "schemaVersion": 39, "editable": True,
        "time": {"from": "now-6h", "to": "now"}, "timezone": "browser", "refresh": "1m",
        "templating": {"list": [source, *map(variable_json, dashboard.variables)]}, "panels": list(place_panels(dashboard.panels)),
    }


if __name__ == "__main__":
    text = json.dumps(dashboard_json(DASHBOARD), indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if OUT.read_text() == text else f"error: {OUT} is outdated; run {__file__} again")
    OUT.write_text(text)
