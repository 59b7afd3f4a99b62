"""How partitions are spread over brokers, against a slow count."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.page.metadata import spread as module
from actors.page.metadata.slices import Wanted, chosen, rows
from actors.page.metadata.spread import left_out, spread
from actors.replay.columns.tables import SCHEMAS

BROKERS = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True)


@st.composite
def partitions(draw: Any) -> list[dict[str, Any]]:
    found = []
    for topic in draw(st.lists(st.sampled_from("abcdef"), unique=True)):
        for number in range(draw(st.integers(1, 4))):
            replicas = draw(BROKERS)
            isr = [one for one in replicas if draw(st.booleans())]
            leader = draw(st.sampled_from(isr)) if isr and draw(st.booleans()) else None
            found.append({"topic": topic, "partition": number, "leader": leader, "replicas": replicas, "isr": isr})
    return found


@given(partitions())
def test_a_row_for_each_topic_counts_what_each_broker_has(found: list[dict[str, Any]]) -> None:
    brokers, table = spread(pa.Table.from_pylist(found, SCHEMAS["partitions"]))
    assert brokers == sorted({one for row in found for one in row["replicas"]})
    expected = []
    for topic in dict.fromkeys(row["topic"] for row in found):
        mine = [row for row in found if row["topic"] == topic]
        cells = [
            [
                sum(row["leader"] == broker for row in mine),
                sum(broker in row["isr"] for row in mine),
                sum(broker in row["replicas"] and broker not in row["isr"] for row in mine),
            ]
            for broker in brokers
        ]
        missing = sum(len(row["replicas"]) - len(row["isr"]) for row in mine)
        expected.append([topic, len(mine), missing, sum(row["leader"] is None for row in mine), *cells])
    assert rows(table) == expected


def test_brokers_that_have_no_column_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BROKERS_MAX", 3)
    found = [
        {"topic": topic, "partition": 0, "leader": broker, "replicas": [broker, 9], "isr": [broker, 9]}
        for broker, topic in enumerate("abcd")
    ]
    brokers, table = spread(pa.Table.from_pylist(found, SCHEMAS["partitions"]))
    assert brokers == [0, 1, 2] and left_out(table) == 2
    assert left_out(chosen(table, Wanted("partitions = 1", "b", "-topic"))) == 2
    assert left_out(spread(SCHEMAS["partitions"].empty_table())[1]) == 0
