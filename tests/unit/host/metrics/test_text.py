"""Metrics as text, read back by Prometheus' own parsers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.host.metrics.text import OPEN, PLAIN, chosen, written
from actors.node.metrics.family import COUNTER, GAUGE, SUMMARY, Family, Sample, Summary
from actors.node.metrics.partitions import Columns
from fastpath.meters.partition_numbers import COLUMNS

parser = pytest.importorskip("prometheus_client.parser")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")

TIMES = Family("kafka_times", SUMMARY, 'How "long",\nand \\why.', ("request",), "kafka:type=X")
BYTES = Family("kafka_bytes_total", COUNTER, "Bytes.", ("topic",))
SAMPLES = [
    Sample(TIMES, ('a"b\\c\nd',), Summary(3, 4.5, ((0.5, 1.0), (0.999, 2.25)))),
    Sample(BYTES, (), 7),
    Sample(BYTES, ("t",), 5),
    Sample(Family("kafka_meter", SUMMARY, "Events."), (), Summary(9)),
    Sample(Family("kafka_gauge", GAUGE, "A number."), (), float("inf")),
    Sample(Family("kafka_large", GAUGE, "A number."), (), (1 << 60)),
]


def read(kind: str, parts: Any) -> dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    text = written(parts, kind).decode()
    found = (openmetrics if kind == OPEN else parser).text_string_to_metric_families(text)
    return {one.name: {(s.name, tuple(sorted(s.labels.items()))): s.value for s in one.samples} for one in found}


@pytest.mark.parametrize("kind", [PLAIN, OPEN])
def test_prometheus_reads_what_was_written(kind: str) -> None:
    found = read(kind, SAMPLES)
    of = ("request", 'a"b\\c\nd')
    assert found["kafka_times"] == {
        ("kafka_times", (("quantile", "0.5"), of)): 1.0,
        ("kafka_times", (("quantile", "0.999"), of)): 2.25,
        ("kafka_times_sum", (of,)): 4.5,
        ("kafka_times_count", (of,)): 3.0,
    }
    assert found["kafka_bytes"] == {
        ("kafka_bytes_total", ()): 7.0,
        ("kafka_bytes_total", (("topic", "t"),)): 5.0,
    }
    assert found["kafka_meter"] == {("kafka_meter_count", ()): 9.0}
    assert found["kafka_gauge"] == {("kafka_gauge", ()): float("inf")}
    assert found["kafka_large"] == {("kafka_large", ()): float(1 << 60)}


@pytest.mark.parametrize("kind", [PLAIN, OPEN])
def test_a_family_stands_in_one_place_though_it_comes_in_several_parts(kind: str) -> None:
    text = written([SAMPLES[1], SAMPLES[3], SAMPLES[2]], kind).decode()
    assert text.count("# TYPE") == 2 and read(kind, [SAMPLES[1], SAMPLES[3], SAMPLES[2]])


@pytest.mark.parametrize("kind", [PLAIN, OPEN])
def test_names_that_clients_choose_spoil_no_page(kind: str) -> None:
    """Prometheus takes a zero for the end of the page, and a page with such a name for broken."""
    names = ["a\0", "a\x01\r\u2028\x85\x7f", "\\n", '",b="', "", "a\ufffd", "/a\udc80"]
    found = written([Sample(BYTES, (name,), 5) for name in names], kind)
    assert b"\0" not in found
    text = found.decode()
    parsed = [*(openmetrics if kind == OPEN else parser).text_string_to_metric_families(text)]
    assert [s.labels["topic"] for one in parsed for s in one.samples] == [*names[1:-1], "/a?"]


@pytest.mark.parametrize("kind", [PLAIN, OPEN])
def test_columns_of_partitions(kind: str) -> None:
    some = [SimpleNamespace(topic="t", number=0), SimpleNamespace(topic='u"', number=7)]
    table = np.arange(2 * len(COLUMNS), dtype=np.int64).reshape(2, -1)
    table[1, COLUMNS.index("lag")] = -1
    found = read(kind, [Columns(some, table), Columns([], table[:0])])
    sizes = {labels: value for (_, labels), value in found["kafka_log_log_size"].items()}
    assert sizes == {
        (("partition", "0"), ("topic", "t")): 0.0,
        (("partition", "7"), ("topic", 'u"')): float(len(COLUMNS)),
    }
    lag = found["kafka_server_fetcherlagmetrics_consumerlag"]
    assert list(lag.values()) == [float(COLUMNS.index("lag"))], "the other one follows nobody"
    one = written([Columns(some, table)], kind, ("kafka_log_log_size",)).decode()
    assert one.count("# TYPE") == 1 and "consumerlag" not in one


def test_where_a_name_comes_from_stands_behind_its_help_in_brackets() -> None:
    lines = written([*SAMPLES, Sample(Family("kafka_brokers", GAUGE, "Brokers.", (), "kafka_exporter"), (), 1)], PLAIN)
    heads = [line for line in lines.decode().splitlines() if line.startswith("# HELP")]
    assert heads[0] == '# HELP kafka_times How "long",\\nand \\\\why. (kafka:type=X)'
    assert (
        heads[1] == "# HELP kafka_bytes_total Bytes." and heads[-1] == "# HELP kafka_brokers Brokers. (kafka_exporter)"
    )


def test_nothing_is_an_empty_page() -> None:
    assert written([], PLAIN) == b"" and written([], OPEN) == b"# EOF\n"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html, */*;q=0.1", PLAIN),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain",
            OPEN,
        ),
        ("application/openmetrics-text; version=0.0.1, text/plain;version=0.0.4", PLAIN),
        ("text/plain;version=0.0.4, application/openmetrics-text", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text", OPEN),
        (";;;,,,", PLAIN),
    ],
)
def test_the_format_is_the_first_that_is_known(accept: str, kind: str) -> None:
    assert chosen(accept) == kind
