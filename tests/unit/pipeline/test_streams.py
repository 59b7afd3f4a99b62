"""A stream beside a server of bytes: a new leader that does not have what was read, and brokers that forget a topic."""

import base64
import copy
import pickle
from typing import Any

import pytest

from actors.client.asks import Know
from actors.client.errors import ClientError
from actors.pipeline import streams
from actors.pipeline.query import query
from actors.pipeline.slices import DataLoss, RecordsLost
from actors.pipeline.streams import Stream
from actors.replay.columns.record_columns import schema
from actors.wire.messages import message
from tests.unit.client.listening import Listening

OFFSETS, EPOCHS = message("ListOffsetsResponse"), message("OffsetForLeaderEpochResponse")


def listed(high: int, epoch: int) -> Any:
    """Answers ListOffsets for a log of offsets 0 to `high`."""

    def answer(server: Any, version: int, request: Any) -> Any:
        rows = [
            OFFSETS.ListOffsetsPartitionResponse(
                partition_index=one.partition_index,
                offset=0 if one.timestamp == -2 else high,
                timestamp=-1,
                leader_epoch=epoch,
            )
            for one in request.topics[0].partitions
        ]
        return OFFSETS(topics=[OFFSETS.ListOffsetsTopicResponse(name="t", partitions=rows)])

    return answer


class Epochs:
    """Answers OffsetForLeaderEpoch with one end, and keeps the epochs that were asked for."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.asked: list[int] = []

    def __call__(self, server: Any, version: int, request: Any) -> Any:
        self.asked.append(request.topics[0].partitions[0].leader_epoch)
        row = EPOCHS.EpochEndOffset(partition=0, leader_epoch=self.asked[-1], end_offset=self.end)
        return EPOCHS(topics=[EPOCHS.OffsetForLeaderTopicResult(topic="t", partitions=[row])])


def stream(server: Any, **options: str) -> Stream:
    given = {"kafka.bootstrap.servers": server.address, "subscribe": "t", "kafka.default.api.timeout.ms": "9000"}
    return Stream(query({**given, **options}, True))


def with_epoch(server: Any, epoch: int) -> None:
    """Let the leader have an epoch."""
    told = server._answer("Metadata", 12, None)
    told.topics[0].partitions[0].leader_epoch = epoch
    server.server.answers["Metadata"] = told


@pytest.mark.parametrize(("end", "lost"), [(12, False), (10, False), (7, True)])
def test_a_new_leader_that_does_not_have_what_was_read_is_a_loss(end: int, lost: bool) -> None:
    epochs = Epochs(end)
    with Listening({"ListOffsets": listed(20, 5), "OffsetForLeaderEpoch": epochs}, t=[1]) as server:
        with_epoch(server, 5)
        start = {"t": {"0": 10}, "@t": {"epochs": {"0": 3}}}
        strict, lenient = stream(server), stream(server, failOnDataLoss="false")
        if lost:
            with pytest.raises(DataLoss, match="offsets 7 to 9 were read, and a new leader does not have them"):
                strict.latest(start)
            with pytest.warns(RecordsLost, match="truncated"):
                found = lenient.latest(start)
        else:
            found = strict.latest(start)
        assert found["t"] == {"0": 20} and found["@t"]["epochs"] == {"0": 5}
        assert set(epochs.asked) == {3}
        strict.latest(found)
        assert set(epochs.asked) == {3}, "the leader is the one that was seen"
        for one in (strict, lenient):
            one.close()


def test_the_leader_epoch_of_a_position_is_kept_while_the_position_stays() -> None:
    with Listening({"ListOffsets": listed(20, 5)}, t=(5, [1, 1])) as server:
        one = stream(server, maxOffsetsPerTrigger="1")
        found = one.latest({"t": {"0": 10, "1": 10}, "@t": {"epochs": {"0": 5, "1": 5}}})
        assert sorted(found["t"].values()) == [10, 11]
        stays = next(number for number, offset in found["t"].items() if offset == 10)
        assert found["@t"]["epochs"] == {stays: 5}, "the epoch of offset 10 was seen, that of 11 was not"
        one.close()


def test_a_log_that_ends_in_front_of_a_position_was_truncated_and_a_query_goes_on_from_its_end() -> None:
    with Listening({"ListOffsets": listed(6, 5)}, t=[1]) as server:
        start = {"t": {"0": 10}}
        strict, lenient = stream(server), stream(server, failOnDataLoss="false")
        with pytest.raises(DataLoss, match="t/0: the log ends at 6, below 10: it was truncated"):
            strict.latest(start)
        with pytest.warns(RecordsLost, match="below 10"):
            back = lenient.latest(start)
        assert back["t"] == {"0": 6} and lenient.slices(start, back) == [], "what comes behind 6 is not missed"
        with pytest.raises(DataLoss, match="the log ends at 6 and offset 11 was seen"):
            strict.slices(start, {"t": {"0": 12}})
        for one in (strict, lenient):
            one.close()


def test_a_broker_that_does_not_know_a_topic_yet_is_not_believed_at_once() -> None:
    with Listening({"ListOffsets": listed(6, 5)}, t=[1]) as server:
        known = server._answer("Metadata", 12, None)
        asked = []

        def metadata(server_: Any, version: int, request: Any) -> Any:
            asked.append(1)
            kind = message("MetadataResponse")
            unknown = kind.MetadataResponseTopic(name="t", error_code=3)
            return known if len(asked) > 2 else kind(brokers=known.brokers, controller_id=1, topics=[unknown])

        server.server.answers["Metadata"] = metadata
        one = stream(server)
        assert one.latest({"t": {"0": 1}})["t"] == {"0": 6}
        assert len(asked) == 3
        one.close()


def test_tasks_are_sent_a_stream_without_its_client() -> None:
    with Listening({"ListOffsets": listed(6, 5)}, t=[1]) as server:
        one = stream(server)
        one.beginning()
        sent = pickle.loads(pickle.dumps(one))
        assert sent.query == one.query and sent._kafka is None
        one.close()
        server.until_open(0)


class Forgetful:
    """Answers Metadata: the first `times` answers have only the first partition of topic t, or no topic at all."""

    def __init__(self, server: Any, times: int, topic: bool = False) -> None:
        self.full = server._answer("Metadata", 12, None)
        self.fewer = copy.deepcopy(self.full)
        self.fewer.topics = [] if topic else self.fewer.topics
        for one in self.fewer.topics:
            one.partitions = one.partitions[:1]
        self.times = times
        self.asked = 0

    def __call__(self, server: Any, version: int, request: Any) -> Any:
        self.asked += 1
        return self.fewer if self.asked <= self.times else self.full


QUICK = {"kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "2"}
ID = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")


def with_id(server: Any) -> None:
    """Let topic t have the id ID."""
    told = server._answer("Metadata", 12, None)
    told.topics[0].topic_id = bytes(range(16))
    server.server.answers["Metadata"] = told


@pytest.mark.parametrize("more", [{}, {"@t": {"id": ID}}])
def test_a_broker_that_does_not_know_of_new_partitions_yet_is_not_believed_at_once(more: dict[str, Any]) -> None:
    with Listening({"ListOffsets": listed(6, 5)}, t=[1, 1]) as server:
        with_id(server)
        server.server.answers["Metadata"] = Forgetful(server, 2)
        one = stream(server, **QUICK)
        assert one.latest({"t": {"0": 1, "1": 5}, **more})["t"] == {"0": 6, "1": 6}
        one.close()


def test_a_partition_that_no_broker_tells_of_keeps_its_position() -> None:
    """Topics do not lose partitions: a position that was forgotten would be read again from the first record."""
    with Listening({"ListOffsets": listed(6, 5)}, t=[1, 1]) as server:
        with_id(server)
        server.server.answers["Metadata"] = Forgetful(server, 99)
        strict, lenient = stream(server, **QUICK), stream(server, failOnDataLoss="false", **QUICK)
        start = {"t": {"0": 1, "1": 5}, "@t": {"id": ID}}
        with pytest.raises(DataLoss, match="partition t/1: it is gone, and what came behind 5 was not read"):
            strict.latest(start)
        with pytest.warns(RecordsLost, match="t/1: it is gone"):
            found = lenient.latest(start)
        assert found["t"] == {"0": 6, "1": 5} and len(lenient.slices(start, found)) == 1
        for one in (strict, lenient):
            one.close()


def test_a_query_that_goes_on_without_a_topic_asks_for_it_patiently_once() -> None:
    with Listening({"ListOffsets": listed(6, 5)}, t=[1]) as server:
        server.server.answers["Metadata"] = metadata = Forgetful(server, 99, topic=True)
        one = stream(server, failOnDataLoss="false", **QUICK)
        start = {"t": {"0": 1}}
        one.freeze()
        with pytest.warns(RecordsLost, match="t/0: it is gone"):
            assert one.latest(start) == start
        assert one.now() == {}
        before = metadata.asked
        with pytest.warns(RecordsLost, match="t/0: it is gone"):
            assert one.latest(start) == start
        assert one.slices(start, start) == [] and metadata.asked == before + 2
        metadata.times = 0
        assert one.latest(start)["t"] == {"0": 1}, "what came behind the freeze is left"
        one.close()
        strict = stream(server, **QUICK)
        metadata.times, metadata.asked = 99, 0
        with pytest.raises(ClientError, match="topic t does not exist"):
            strict.freeze()
        strict.close()


def test_the_newest_position_is_that_which_the_last_turn_saw() -> None:
    with Listening({"ListOffsets": listed(20, 5)}, t=[1]) as server:
        one = stream(server, maxOffsetsPerTrigger="3")
        assert one.now()["t"] == {"0": 20}
        assert one.latest({"t": {"0": 10}})["t"] == {"0": 13}
        before = len(server.asked)
        assert one.now()["t"] == {"0": 20} and len(server.asked) == before
        one.close()


def test_a_group_is_not_told_of_partitions_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[Any, Any]] = []

    def commit(group: str, values: dict[Any, Any]) -> Any:
        told.append(values)
        yield Know(())
        return dict.fromkeys(values)

    monkeypatch.setattr(streams.groups, "commit", commit)
    with Listening({"ListOffsets": listed(6, 5)}, t=[1, 1]) as server:
        with_id(server)
        server.server.answers["Metadata"] = Forgetful(server, 99)
        one = stream(server, failOnDataLoss="false", **{"kafka.group.id": "g"}, **QUICK)
        with pytest.warns(RecordsLost, match="t/1: it is gone"):
            found = one.latest({"t": {"0": 1, "1": 5}, "@t": {"id": ID}})
        one.commit(found)
        assert [list(values) for values in told] == [[("t", 0)]]
        one.close()


def test_before_pyspark_4_2_what_was_lost_since_the_last_run_is_told() -> None:
    """latestOffset is asked before the position of the checkpoint is known."""
    spark = pytest.importorskip("actors.pipeline.spark_streams", reason="PySpark is not installed")
    types = pytest.importorskip("pyspark.sql.pandas.types")
    with Listening({"ListOffsets": listed(6, 5)}, t=[1]) as server:
        with_id(server)
        other = base64.urlsafe_b64encode(bytes(16 * [7])).decode().rstrip("=")
        fits = types.from_arrow_schema(schema(("key",)))
        for start, words in (
            ({"t": {"0": 2}, "@t": {"id": other}}, "deleted and made again"),
            ({"t": {"0": 9}, "@t": {"id": ID}}, "the log ends at 6, below 9: it was truncated"),
        ):
            one = spark._Unlimited(stream(server).query, fits)
            end = one.latestOffset()
            with pytest.raises(DataLoss, match=words):
                one.partitions(start, end)
            one.stop()
        one = spark._Unlimited(stream(server).query, fits)
        end, asked = one.latestOffset(), len(server.asked)
        assert len(one.partitions({"t": {"0": 2}, "@t": {"id": ID}}, end)) == 1
        told = len(server.asked) - asked
        assert one.latestOffset() == end
        asked = len(server.asked)
        assert len(one.partitions({"t": {"0": 2}, "@t": {"id": ID}}, end)) == 1
        assert len(server.asked) - asked < told, "once"
        one.stop()
