"""Partitions in trouble, against the twin that looks at them one by one."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors.metadata.image import Image
from fastpath.image import troubled_rows
from tests.reference import troubled_rows as twin
from tests.reference.image import SlowImage
from tests.unit.metadata.test_image_twin import written_ops


@pytest.mark.long
@settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip
@given(st.lists(written_ops, max_size=40))
def test_the_rows_are_those_of_the_twin(ops):
    image, slow = Image(), SlowImage()
    for op in ops:
        try:
            slow.replay(slow.next_offset, op)
        except ValueError:
            continue
        image.replay(image.next_offset, op)
        image.commit(image.next_offset)
    keys = lambda rows: [(image.topic_id(image.topic_of(row)), image.number(row)) for row in rows.tolist()]  # noqa: E731
    found = troubled_rows.troubled(image.view())
    assert [set(keys(rows)) for rows in found] == list(twin.troubled(slow.state["partitions"]))
    assert all(np.all(np.diff(rows) > 0) for rows in found)
    every = np.array([row for row in range(image.row_end) if image.is_partition(row)], dtype=np.int64)
    topics, numbers, firsts = troubled_rows.places(image.view(), every)
    assert topics.tolist() == [image.topic_of(row) for row in every.tolist()]
    assert numbers.tolist() == [image.number(row) for row in every.tolist()]
    assert firsts.tolist() == [image.replicas(row)[0] for row in every.tolist()]
    rows, brokers = troubled_rows.missing(image.view(), every)
    pairs = list(zip(keys(rows), brokers.tolist(), strict=True))
    assert set(pairs) == twin.missing(slow.state["partitions"]) and len(pairs) == len(set(pairs))


def test_rows_that_are_not_there_are_refused():
    for row in (-1, 0, 1 << 40):
        with pytest.raises(IndexError):
            troubled_rows.missing(Image().view(), np.array([row], dtype=np.int64))
        with pytest.raises(IndexError):
            troubled_rows.places(Image().view(), np.array([row], dtype=np.int64))
