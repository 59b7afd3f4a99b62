"""The dashboards and the alert rules of `ops/`: made of one list, in the forms of Grafana and Prometheus, with names that
nodes show."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from actors.command.by_address import exporter
from ops.make import HERE, dashboard, files
from ops.watched import ALERTS, DASHBOARDS
from tests.metrics_page import ALL, series

NAME = re.compile(r"\b(?:kafka|rayft|process|python)_[a-z0-9_]+")
LABELS = re.compile(r"([a-zA-Z_]+)\s*(?:=~|!~|!=|=)\s*\"")
USUAL = {"job", "instance", "quantile"}
EXPRESSIONS = [query[0] for page in DASHBOARDS for panel in page.panels for query in panel.queries]

PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "datasource", "gridPos", "targets", "fieldConfig"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["stat", "timeseries", "table"]},
        "title": {"type": "string", "minLength": 1},
        "gridPos": {
            "type": "object",
            "required": ["x", "y", "w", "h"],
            "properties": {
                "x": {"minimum": 0, "maximum": 23}, "w": {"minimum": 1, "maximum": 24}, "y": {"minimum": 0},
                "h": {"minimum": 1},
            },
        },
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["refId", "expr", "legendFormat", "datasource"]},
        },
    },
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "uid": {"type": "string", "pattern": "^[a-z-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 5, "items": PANEL},
        "templating": {"type": "object", "required": ["list"]},
    },
}
RULES = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "properties": {
                    "rules": {
                        "type": "array",
                        "minItems": 10,
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr", "for", "labels", "annotations"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^[A-Z][A-Za-z]+$"},
                                "expr": {"type": "string"},
                                "for": {"type": "string", "pattern": "^[0-9]+[smh]$"},
                                "labels": {"type": "object"},
                                "annotations": {"type": "object"},
                            },
                        },
                    }
                },
            },
        }
    },
}


def test_the_files_are_those_that_the_list_makes() -> None:
    for path, text in files().items():
        assert path.read_text() == text, "python -m ops.make writes it anew"
    made = {path.name for path in files()}
    assert {path.name for path in (HERE / "grafana").iterdir()} <= made


@pytest.mark.parametrize("expr", [*EXPRESSIONS, *(alert.expr for alert in ALERTS)])
def test_names_and_labels_are_those_that_nodes_show(expr: str) -> None:
    names = NAME.findall(expr)
    assert [name for name in names if name not in series() | {one.name for one in exporter.EVERY}] == []
    assert names or "up{" in expr
    labels = {
        label
        for one in (*ALL, *exporter.EVERY)
        if any(name.startswith(one.name) for name in names)
        for label in one.labels
    }
    assert set(LABELS.findall(expr)) <= labels | USUAL
    assert expr.count("(") == expr.count(")") and expr.count("{") == expr.count("}")


@pytest.mark.parametrize("page", DASHBOARDS, ids=[page.uid for page in DASHBOARDS])
def test_dashboards_have_grafanas_form_and_panels_do_not_overlap(page: Any) -> None:
    made = json.loads(json.dumps(dashboard(page)))
    jsonschema.validate(made, SCHEMA)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells
        taken |= cells
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])


def test_rules_have_prometheus_form() -> None:
    text = (HERE / "prometheus" / "rules.yml").read_text()
    jsonschema.validate(yaml.safe_load(text), RULES)
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    assert yaml.safe_load((HERE / "prometheus" / "prometheus.yml").read_text())["rule_files"] == ["rules.yml"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus) in PATH")
def test_promtool_takes_the_rules_and_every_expression(tmp_path: Path) -> None:
    rules = HERE / "prometheus" / "rules.yml"
    assert subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, timeout=30).returncode == 0
    recorded = {"groups": [{"name": "all", "rules": [
        {"record": f"panel_{number}", "expr": re.sub(r"\$__rate_interval", "1m", expr)}
        for number, expr in enumerate(EXPRESSIONS)
    ]}]}  # fmt: skip
    (tmp_path / "panels.yml").write_text(yaml.safe_dump(recorded))
    said = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "panels.yml")], capture_output=True, text=True, timeout=30
    )
    assert said.returncode == 0, said.stderr
