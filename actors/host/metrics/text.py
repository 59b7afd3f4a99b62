"""Metrics as text, as Prometheus reads it: the format of version 0.0.4, and OpenMetrics 1.0.

This file alone writes them, and decides what of a name reaches the page: one with a zero is left out with its numbers, since
Prometheus would take nothing of the page; what is no UTF-8 becomes a question mark. A page may have a hundred thousand
numbers of partitions, which come as columns: these are written a column at a time, without an object for each.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from actors.node.metrics.family import COUNTER, SUMMARY, Family, Sample, Summary
from actors.node.metrics.partitions import FAMILIES, FOLLOWERS, LAG, Columns

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TOTAL = "_total"
WHOLE = 1 << 53
"""Below it a float64 has every whole number; Prometheus keeps float64."""
NAMES_KEPT = 2048
"""Names, with their labels, whose text is kept from one page to the next."""


def chosen(accept: str) -> str:
    """The format that an Accept header asks for: the first that is known, by its order; the plain one if none is."""
    for part in accept.split(","):
        kind, _, rest = part.strip().partition(";")
        parameters = {one.strip() for one in rest.split(";")}
        if kind == "application/openmetrics-text" and not any(
            one.startswith("version=") and one != "version=1.0.0" for one in parameters
        ):
            if "q=0" not in parameters:
                return OPEN
        elif kind in ("text/plain", "text/*", "*/*"):
            return PLAIN
    return PLAIN


def written(parts: Sequence[Sample | Columns], kind: str, names: Collection[str] = ()) -> bytes:
    """The page in that format. `names`: only the families of these names; empty: all."""
    grouped: dict[str, list[Sample]] = {}
    columns = []
    for one in parts:
        if isinstance(one, Sample):
            grouped.setdefault(one.family.name, []).append(one)
        else:
            columns.append(one)
    lines: list[str] = []
    for name, samples in grouped.items():
        if not names or name in names:
            lines += _head(samples[0].family, kind)
            for sample in samples:
                lines += _lines(sample)
    if columns:
        lines += _of_columns(columns, kind, names)
    if kind == OPEN:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode(errors="replace") if lines else b""


@lru_cache(NAMES_KEPT)
def _head(family: Family, kind: str) -> tuple[str, str]:
    name = family.name.removesuffix(TOTAL) if kind == OPEN and family.kind == COUNTER else family.name
    told = f"{family.help} ({family.source})" if family.source else family.help
    help = told.replace("\\", "\\\\").replace("\n", "\\n")
    if kind == OPEN:
        help = help.replace('"', '\\"')
    return f"# HELP {name} {help}", f"# TYPE {name} {family.kind}"


class _Names(NamedTuple):
    """Texts of one sample, each up to a number."""

    alone: str
    quantile: str
    """Up to the share, which is the last label."""
    total: str
    times: str


@lru_cache(NAMES_KEPT)
def _names(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> _Names | None:
    """What stands before the numbers of one sample. None: a label has a zero, and the sample is left out."""
    if any("\0" in text for text in values):
        return None
    pairs = [f'{label}="{escaped(text)}"' for label, text in zip(labels, values, strict=False)]
    braced = f"{{{','.join(pairs)}}}" if pairs else ""
    quantile = ",".join([*pairs, 'quantile="'])
    return _Names(f"{name}{braced} ", f"{name}{{{quantile}", f"{name}_sum{braced} ", f"{name}_count{braced} ")


def _lines(sample: Sample) -> list[str]:
    family, value = sample.family, sample.value
    names = _names(family.name, family.labels, sample.labels)
    if names is None:
        return []
    if not isinstance(value, Summary):
        assert family.kind != SUMMARY, family.name
        return [names.alone + number(value)]
    lines = [f'{names.quantile}{share}"}} {number(quantile)}' for share, quantile in value.quantiles]
    if value.total is not None:
        lines.append(names.total + number(value.total))
    lines.append(f"{names.times}{value.times}")
    return lines


def _of_columns(columns: Sequence[Columns], kind: str, names: Collection[str]) -> list[str]:
    places = [
        [f'topic="{escaped(one.topic)}",partition="{one.number}"}} ' for one in part.partitions] for part in columns
    ]
    lines: list[str] = []
    for column, family in FAMILIES.items():
        if names and family.name not in names:
            continue
        lines += _head(family, kind)
        for part, labelled in zip(columns, places, strict=True):
            before = family.name + "{"
            lines += _joined(
                [f"{before}{label}{value}" for label, value in zip(labelled, part.of(column), strict=True)]
            )
    if names and LAG.name not in names:
        return lines
    lines += _head(LAG, kind)
    for part, labelled in zip(columns, places, strict=True):
        before = f'{LAG.name}{{clientId="{FOLLOWERS}",'
        lines += _joined(
            [f"{before}{label}{value}" for label, value in zip(labelled, part.of("lag"), strict=True) if value >= 0]
        )
    return lines


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines as one text, so that all of the page are never joined in one go, in which the node could not take its turn."""
    return ["\n".join(lines)] if lines else []


def escaped(text: str) -> str:
    """A value of a label between its quotes."""
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def number(value: float) -> str:
    """A number as both formats have it."""
    if type(value) is int and -WHOLE < value < WHOLE:
        return str(value)
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < WHOLE else repr(float(value))
