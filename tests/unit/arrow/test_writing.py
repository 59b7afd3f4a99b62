"""What a write makes of the metadata while it goes on."""

import pytest

from actors.arrow.writing import Writing
from actors.client.errors import ClientError
from actors.client.metadata import Topic
from actors.client.operations.producing import Producer
from actors.host.client.blocking import Kafka, settings
from actors.wire.messages import ZERO_UUID

ONE, OTHER = b"1" * 16, b"2" * 16


@pytest.mark.parametrize(
    ("before", "now", "is_other"),
    [
        (ONE, ONE, False), (ONE, OTHER, True), (ONE, None, False),
        (ZERO_UUID, ONE, False),  # the cluster has got topic ids meanwhile, as its last broker was upgraded
        (ONE, ZERO_UUID, False), (ZERO_UUID, ZERO_UUID, False),
    ],
)  # fmt: skip
def test_a_topic_is_another_one_if_both_ids_are_known_and_differ(
    before: bytes, now: bytes | None, is_other: bool
) -> None:
    with Kafka(settings("127.0.0.1:1", None)) as kafka:
        writing = Writing(kafka, Producer(kafka.config), "t")
        writing._id = before
        if now is not None:
            kafka.metadata.topics["t"] = Topic("t", now, False, {}, 0)
        if not is_other:
            return writing._look()
        with pytest.raises(ClientError, match="topic t was deleted and made anew while it was written"):
            writing._look()
