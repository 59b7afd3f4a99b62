"""Makes Grafana's dashboards and Prometheus' rules of the list in `watched.py`: `python -m ops.make`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ops.watched import ALERTS, DASHBOARDS, Alert, Dashboard, Panel

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTHS = {"stat": (4, 4), "timeseries": (8, 8), "table": (12, 8)}
"""(columns of 24, rows) that a panel takes, by its kind."""


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "refresh": 2,
        "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expr, "legendFormat": legend or "__auto",
            "instant": table, "range": not table, "format": "table" if table else "time_series",
        }
        for index, (expr, legend) in enumerate(panel.queries)
    ]  # fmt: skip
    options: dict[str, Any] = {
        "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none"},
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "table": {"showHeader": True},
    }
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.about, "datasource": SOURCE,
        "gridPos": place, "targets": targets, "options": options[panel.kind],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
    }  # fmt: skip


def _places(panels: tuple[Panel, ...]) -> Iterator[dict[str, int]]:
    """Where panels stand: side by side, as wide as their kind is, and a new row where there is no room."""
    x = y = height = 0
    for panel in panels:
        width, rows = WIDTHS[panel.kind]
        if x + width > 24 or (x and rows != height):
            x, y = 0, y + height
        height = rows
        yield {"x": x, "y": y, "w": width, "h": rows}
        x += width


def dashboard(page: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana imports it."""
    panels = [
        _panel(number, panel, place)
        for number, (panel, place) in enumerate(zip(page.panels, _places(page.panels), strict=True), 1)
    ]
    return {
        "uid": page.uid, "title": page.title, "tags": ["rayft", "kafka"], "schemaVersion": 39, "version": 1,
        "editable": True, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            _variable("job", "label_values(kafka_server_raftmetrics_current_epoch, job)"),
            _variable("instance", 'label_values(kafka_server_raftmetrics_current_epoch{job=~"$job"}, instance)'),
        ]},
        "panels": panels,
    }  # fmt: skip


def _rule(alert: Alert, lasts: str | None) -> Iterator[str]:
    yield f"      - alert: {alert.name}"
    yield f"        expr: {json.dumps(alert.expr)}"
    yield f"        for: {alert.lasts if lasts is None else lasts}"
    yield "        labels:"
    yield f"          severity: {alert.severity}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(alert.says)}"
    yield f"          description: {json.dumps(alert.then)}"


def rules(lasts: str | None = None, window: str = "5m") -> str:
    """The alert rules as Prometheus reads them. `lasts` in place of every rule's own, and `window` in place of the five
    minutes over which changes are looked for: for tests, which do not wait."""
    lines = ["# made by `python -m ops.make` out of ops/watched.py", "groups:", "  - name: rayft", "    rules:"]
    for alert in ALERTS:
        lines += _rule(alert._replace(expr=alert.expr.replace("[5m]", f"[{window}]")), lasts)
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Every file that is made, by its path."""
    found = {HERE / "grafana" / f"{page.uid}.json": json.dumps(dashboard(page), indent=2) + "\n" for page in DASHBOARDS}
    return found | {HERE / "prometheus" / "rules.yml": rules()}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
