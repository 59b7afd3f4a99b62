"""Whether what another replica gives is the damaged batch; tests/simulator/test_scrubbing.py has whole clusters."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.log.scrubbing import Fault
from actors.node.roles.broker.log import batch_restoration
from actors.wire.messages import message
from tests.reference.batch import Row, build

BATCH = build([Row(b"key", b"value", 1_000), Row(b"other", b"value", 1_001)], base_offset=20, epoch=3)


def test_what_differs_and_whether_it_is_damaged() -> None:
    random = Random(3)
    for _ in range(300):
        new = random.randbytes(random.randint(1, 40))
        old = bytes(one ^ (random.random() < 0.1) for one in new)[: random.randint(0, 40)]
        differs = batch_restoration._differs(old, new)
        assert list(differs) == [old[place : place + 1] != new[place : place + 1] for place in range(len(new))]
        position = random.randint(0, 60)
        places = [(random.randint(0, 90), random.randint(1, 30)) for _ in range(2)]
        faults = [Fault("", begin, size, 0, 1, "") for begin, size in places]
        harmed = [
            place
            for place, one in enumerate(differs, position)
            if one and not any(begin <= place < begin + size for begin, size in places)
        ]
        assert batch_restoration._harms(differs, position, faults) is bool(harmed)


def given(records: bytes | None, error: int = 0) -> Any:
    kind = message("FetchResponse")
    part = kind.PartitionData(partition_index=0, error_code=error, high_watermark=99, records=records)
    return kind(responses=[kind.FetchableTopicResponse(topic_id=b"t" * 16, partitions=[part])])


def log(*, sparse: bool = False, epoch: int = 3, start: int = 0) -> Any:
    epochs = SimpleNamespace(epoch_at=lambda offset: epoch if offset >= start else -1)
    return SimpleNamespace(sparse=sparse, log_start_offset=start, epochs=epochs)


def test_the_first_batch_of_an_answer_is_taken_without_what_follows() -> None:
    found = batch_restoration._first(log(), given(BATCH + b"more of the next batch"), 20)
    assert found is not None
    header, data = found
    assert (header.base_offset, header.last_offset, bytes(data)) == (20, 21, BATCH)


@pytest.mark.parametrize(
    "reply", [None, given(None), given(b""), given(BATCH[:-1]), given(BATCH, error=1), given(BATCH[:-1] + b"?")]
)
def test_an_answer_without_a_sound_batch_gives_none(reply: Any) -> None:
    assert batch_restoration._first(log(), reply, 20) is None


def test_a_batch_of_another_leader_is_another_one() -> None:
    assert batch_restoration._first(log(epoch=4), given(BATCH), 20) is None


def test_a_later_batch_is_taken_only_where_offsets_may_be_missing() -> None:
    assert batch_restoration._first(log(), given(BATCH), 19) is None
    assert batch_restoration._first(log(), given(BATCH), 21) is None, "nor an earlier one"
    assert batch_restoration._first(log(sparse=True), given(BATCH), 19) is not None
    assert batch_restoration._first(log(sparse=True), given(BATCH), 21) is None


def test_the_epoch_of_a_batch_that_begins_below_the_start_is_that_of_the_start() -> None:
    assert batch_restoration._first(log(start=21), given(BATCH), 20) is not None


def test_damaged_bytes_say_themselves_which_batch_they_were() -> None:
    """Offset, length and epoch are not under the checksum; either half may have been damaged, not both."""
    body = bytearray(BATCH)
    body[70] ^= 1
    assert batch_restoration._same(body, BATCH), "the checksum is still there"
    head = bytearray(BATCH)
    head[18] ^= 1
    assert batch_restoration._same(head, BATCH), "all that it is of is still there"
    head[70] ^= 1
    assert not batch_restoration._same(head, BATCH)
    assert not batch_restoration._same(BATCH[:-1], BATCH)
