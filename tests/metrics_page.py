"""The tables of docs/metrics.md, made from the tables of the source: `python -m tests.metrics_page` writes them anew."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from actors.command.by_address import exporter
from actors.host.loop import OF_SOCKETS
from actors.host.metrics.process import EVERY
from actors.node.metrics import families
from actors.node.metrics.family import SUMMARY, Family

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics.md"
NAMES = tomllib.loads((ROOT / "tests" / "golden" / "dashboard_names.toml").read_text())
ALL: list[Family] = [*families(), *OF_SOCKETS, *EVERY]
BEGIN, END = "<!-- made by tests/metrics_page.py: {} -->", "<!-- end -->"


def series() -> set[str]:
    """Every name that may stand on a node's page, those of a summary's count and sum among them."""
    return {one.name for one in ALL} | {
        one.name + end for one in ALL if one.kind == SUMMARY for end in ("_count", "_sum")
    }


def _all(of: Iterable[Family], source: str) -> Iterator[str]:
    yield f"| name | kind | labels | what it says | {source} |"
    yield "|---|---|---|---|---|"
    for one in sorted(of, key=lambda family: family.name):
        labels = ", ".join(f"`{label}`" for label in one.labels)
        source = f"`{one.source}`" if one.source else ""
        yield f"| `{one.name}` | {one.kind} | {labels} | {one.help} | {source.replace('|', chr(92) + '|')} |"


def _missing() -> Iterator[str]:
    yield "| MBean | why it is not there |"
    yield "|---|---|"
    for mbean, found in NAMES["documented"].items():
        if not found.startswith("="):
            yield f"| `{mbean.replace('|', chr(92) + '|')}` | {found} |"


def made(text: str) -> str:
    """The page with its tables as the source has them."""
    for name, lines in (
        ("all", _all(ALL, "in Apache Kafka")),
        ("groups", _all(exporter.EVERY, "from")),
        ("missing", _missing()),
    ):
        begin = BEGIN.format(name)
        before, _, rest = text.partition(begin)
        text = before + begin + "\n" + "\n".join(lines) + "\n" + END + rest.partition(END)[2]
    return text


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))
