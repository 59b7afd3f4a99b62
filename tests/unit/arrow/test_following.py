"""`rayft.follow` beside a server of bytes: time limits, damaged answers, Ctrl-C."""

import time
from typing import Any

import pytest

import rayft
from actors.arrow.reading import Partition
from actors.client.errors import ClientError
from actors.client.operations import fetching
from tests.unit.arrow.test_reading import offsets
from tests.unit.client.listening import Listening
from tests.unit.client.operations.test_fetching import Broker, batch, part, reply


@pytest.mark.timeout(20)
def test_a_time_limit_holds_while_no_partition_has_a_leader() -> None:
    with (
        Listening({"Fetch": Broker(), "ListOffsets": offsets(0)}, t=[1]) as server,
        rayft.follow(server.address, "t", config={"metadata.max.age.ms": 0}) as following,
    ):
        assert following.next_batch(0.3) is None
        server.topics["t"] = [-1]
        for _ in range(3):
            assert following.next_batch(0.5) is None


@pytest.mark.timeout(20)
def test_a_time_limit_holds_while_nobody_answers() -> None:
    with Listening({"Fetch": Broker(), "ListOffsets": offsets(0)}, t=[1]) as server:
        following = rayft.follow(server.address, "t", config={"metadata.max.age.ms": 0})
        assert following.next_batch(0.3) is None
    with following:
        assert following.next_batch(0.5) is None


@pytest.mark.timeout(20)
def test_what_takes_longer_than_the_time_limit_goes_on_in_the_next_call() -> None:
    answer = offsets(2)

    def slowly(server: Any, version: int, request: Any) -> Any:
        time.sleep(0.2)
        return answer(server, version, request)

    with (
        Listening({"Fetch": Broker(reply(part(0, batch(0)))), "ListOffsets": slowly}, t=[1]) as server,
        rayft.follow(server.address, "t", "earliest") as following,
    ):
        while (found := following.next_batch(0.01)) is None:
            pass
        assert found.num_rows == 2 and server.asked.count("ListOffsets") == 2


def test_what_cannot_be_read_ends_it_and_nothing_behind_it_is_given() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    broker = Broker(reply(part(0, bytes(damaged)), part(1, batch(0))), reply(part(0, batch(2))))
    answers: dict[str, Any] = {"Fetch": broker, "ListOffsets": offsets(9)}
    with (
        Listening(answers, t=[1, 1]) as server,
        rayft.follow(server.address, "t", "earliest") as following,
    ):
        given = [following.next_batch(10)]
        for _ in range(2):
            with pytest.raises(ClientError, match="partition t/0 behind offset 0"):
                given.append(following.next_batch(10))
        assert [one.column("partition").to_pylist() for one in given if one is not None] == [[1, 1]]
        assert following.positions == {("t", 0): 0, ("t", 1): 2}


@pytest.mark.parametrize("at", [(Partition, "batches"), (fetching, "Fetched")], ids=["decoded", "fetched"])
def test_nothing_is_left_out_behind_an_interruption(at: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    broker = Broker(reply(part(0, batch(0))), reply(part(0, batch(2))))
    with (
        Listening({"Fetch": broker, "ListOffsets": offsets(9)}, t=[1]) as server,
        rayft.follow(server.address, "t", "earliest") as following,
    ):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(*at, interrupted)
            following.next_batch(10)
        for _ in range(2):
            with pytest.raises(ClientError, match="interrupted"):
                following.next_batch(10)
        assert following.positions == {("t", 0): 0}
