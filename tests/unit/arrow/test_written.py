"""What was written is told: offsets, counts, and the row that is to blame."""

import numpy as np
import pytest

from actors.arrow.written import Span, Written, refused
from actors.client.errors import ClientError
from actors.client.operations.producing import Placed
from fastpath.arrow.columns_to_batches import Closed


def test_batches_add_up() -> None:
    written = Written("t")
    assert str(written) == "nothing was written to t"
    written.add(3, 1, Placed(7, -1))
    assert str(written) == "1 row was written to t (partition 3: 1 at offsets 7 to 7)"
    written.add(3, 10, Placed(20, -1))
    written.add(1, 5, Placed(0, -1, 9))
    assert written.partitions == {3: Span(7, 29, 11), 1: Span(0, 9, 5)} and written.count == 16
    assert (
        str(written)
        == "16 rows were written to t (partition 1: 5 at offsets 0 to 9, partition 3: 11 at offsets 7 to 29)"
    )


def test_offsets_that_nobody_knows_are_not_told() -> None:
    written = Written("t")
    written.add(0, 4, Placed(-1, -1))
    assert written.partitions == {0: Span(-1, -1, 4)}
    assert str(written) == "4 rows were written to t (partition 0: 4)"


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_one_batch_at_an_unknown_place_leaves_both_ends_open(unknown: int) -> None:
    written = Written("t")
    for number in range(3):
        written.add(0, 4, Placed(-1 if number == unknown else 4 * number, -1))
    assert written.partitions == {0: Span(-1, -1, 12)}
    assert str(written) == "12 rows were written to t (partition 0: 12)"


def test_many_partitions_are_counted() -> None:
    written = Written("t")
    for number in range(8):
        written.add(number, 1, Placed(0, -1))
    assert str(written).endswith("partition 4: 1 at offsets 0 to 0 and 3 more partitions)")


def test_rows_that_are_to_blame() -> None:
    batch = Closed(0, memoryview(b""), 3, np.array([4, 9, 17]))
    error = ClientError("it is too large", 10)
    assert (str(refused(batch, error, 1)), refused(batch, error, 1).row) == ("row 9: it is too large", 9)
    assert str(refused(batch, error, None)) == "3 rows from 4 to 17: it is too large"
    assert refused(batch, error, 3).row is None and refused(batch, error, 3).code == 10
    assert str(refused(Closed(0, memoryview(b""), 1, np.array([4])), error, None)) == "row 4: it is too large"
