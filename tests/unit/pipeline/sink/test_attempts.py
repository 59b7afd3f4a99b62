"""How a task attempt ends that has failed."""

from typing import Any

import pytest

from actors.client.properties import client_config
from actors.host.client.blocking import Kafka
from actors.pipeline.sink import attempts
from actors.pipeline.sink.options import target

OPTIONS = {"kafka.bootstrap.servers": "localhost:9", "sinkId": "s"}


class Told:
    """Notes what is asked of it."""

    def __init__(self, told: list[str], name: str) -> None:
        self.told, self.name = told, name
        self.in_transaction = True

    def cancel(self) -> None:
        self.told.append(f"cancel {self.name}")

    def abort(self) -> str:
        return f"abort {self.name}"


@pytest.mark.parametrize("is_open", [True, False])
def test_rows_for_several_topics_are_given_up_before_their_transaction_is_aborted_once(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """What is still under way to another topic would begin a transaction anew behind the abort."""
    own = target(OPTIONS)
    kafka = Kafka(client_config({**own.settings, "transactional.id": "t"}))
    told: list[str] = []
    monkeypatch.setattr(kafka, "run", lambda asked, timeout_s=None: told.append(asked))
    task = attempts._Task(own, kafka)
    task._writings = {name: Told(told, name) for name in "abc"}  # type: ignore[misc]
    producer: Any = Told(told, "all")
    producer.in_transaction = is_open
    task._producer = producer
    task.give_up()
    kafka.close()
    assert told == ["cancel a", "cancel b", "cancel c"] + ["abort all"] * is_open
