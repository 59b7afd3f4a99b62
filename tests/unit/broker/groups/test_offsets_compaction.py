"""What a coordinator writes once more is all that counts: a log that begins there says what the whole log says."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from actors.broker.groups import offsets_compaction
from actors.broker.groups.coordinator import Coordinator, Settings, Write
from actors.broker.groups.rebalance import JoinRequest, Policy
from actors.broker.groups.records import CommittedOffset, Record
from actors.ports import Now
from actors.wire.errors import ErrorCode

NOW = Now(1, 1_000_000)


def coordinator() -> Coordinator:
    return Coordinator(Settings(1, Policy(0, 10), 100, 60_000, 64, 1_000_000))


class Log:
    """A coordinator over a log in which every write lies at once; its end is told when a test says so."""

    def __init__(self) -> None:
        self.machine = coordinator()
        self.machine.gained(0, 1)
        self.machine.loaded(0, 1, NOW)
        self.records: list[Record] = []
        self.start = 0
        self.compacted = 0
        self._wanted = 0
        self._flying: list[Write] = []

    def append(self) -> None:
        """What was decided so far."""
        writes, self.machine.writes = self.machine.writes, []
        for write in writes:
            self.records.extend(write.records)
            self._flying.append(write)

    def tell(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest write has ended."""
        self.append()
        if self._flying:
            self.machine.written(self._flying.pop(0).token, error, NOW)
        self._end()

    def settle(self) -> None:
        """Everything has ended well."""
        while self._flying or self.machine.writes:
            self.tell()

    def compact(self) -> None:
        """From the end of what lies in the log by now."""
        self.append()
        end = len(self.records)
        if self.machine.compact(0):
            self._wanted = end
        self._end()

    def _end(self) -> None:
        self.append()
        for one in self.machine.compacted:
            if one.whole:
                self.start, self.compacted = self._wanted, self.compacted + 1
        self.machine.compacted.clear()

    def commit(self, group: str, partition: int, offset: int) -> None:
        self.machine.commit(group, [("t", partition, CommittedOffset(offset, -1, "", 7))], lambda error: None)

    def join(self, group: str) -> None:
        request = JoinRequest(3, "", None, "client", "/127.0.0.1", 30_000, 10_000, "consumer", [("range", b"x")], "m1")
        self.machine.join(group, 1, request, NOW)
        self.machine.sync(group, 2, "m1", None, 1, None, None, [("m1", b"all")], NOW)

    def state(self, start: int) -> dict[str, tuple[dict[tuple[str, int], CommittedOffset], object]]:
        """What another coordinator makes of the log from there."""
        other = coordinator()
        other.gained(0, 2)
        assert other.load(0, 2, self.records[start:]) == []
        other.loaded(0, 2, NOW)
        groups = {group.id: (group.generation, list(group.members)) for group in other.groups()}
        return {id: (dict(other.shards[0].offsets.get(id, {})), groups[id]) for id in groups}


def test_a_log_that_begins_behind_what_is_written_once_more_says_the_same() -> None:
    log = Log()
    for group in "abc":
        for partition in range(3):
            log.commit(group, partition, 10)
    log.join("d")
    log.settle()
    before = len(log.records)
    log.compact()
    log.settle()
    assert log.compacted == 1 and log.start == before
    assert log.state(log.start) == log.state(0) and len(log.state(0)) == 4
    assert len(log.records) - log.start == 10


def test_a_value_on_its_way_is_written_and_not_the_one_that_it_replaces() -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.settle()
    log.commit("g", 0, 20)
    log.compact()
    log.settle()
    assert log.state(log.start)["g"][0]["t", 0].offset == 20


def test_the_first_offset_of_a_group_counts_while_it_is_on_its_way() -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.compact()
    log.settle()
    assert log.compacted == 1 and log.state(log.start)["g"][0]["t", 0].offset == 10


def test_a_removal_on_its_way_stays_one() -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.commit("g", 1, 11)
    log.settle()
    log.machine.delete_offsets("g", [("t", 0)], lambda error: None)
    log.compact()
    log.settle()
    assert list(log.state(log.start)["g"][0]) == [("t", 1)]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_group_that_is_being_deleted_is_waited_for(error: ErrorCode) -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.commit("h", 0, 11)
    log.settle()
    log.machine.delete("g", lambda code: None)
    log.append()
    log.compact()
    assert not log.compacted
    log.tell(error)
    log.settle()
    assert log.compacted == 1
    assert set(log.state(log.start)) == ({"h"} if error is ErrorCode.NONE else {"h", "g"})


def test_a_group_that_is_deleted_between_two_pieces_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_compaction, "PIECE_BYTES", 1)
    log = Log()
    for partition in range(4):
        log.commit("g", partition, 10)
    log.settle()
    log.compact()
    log.tell()
    log.machine.delete("g", lambda code: None)
    log.settle()
    assert log.compacted == 1 and log.state(log.start) == {}


def test_a_value_whose_write_failed_is_not_taken_for_committed() -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.settle()
    log.commit("g", 0, 20)
    log.tell(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    log.compact()
    log.settle()
    assert log.state(log.start)["g"][0]["t", 0].offset == 10, "what the group was told"


def test_a_condensing_that_fails_leaves_the_log_as_it_is() -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.settle()
    log.compact()
    log.tell(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (log.compacted, log.start) == (0, 0)
    log.compact()
    log.settle()
    assert log.compacted == 1


def test_a_coordinator_that_is_deposed_while_it_condenses_writes_no_more() -> None:
    log = Log()
    log.commit("g", 0, 10)
    log.settle()
    log.compact()
    log.machine.lost(0)
    log.append()
    count = len(log.records)
    log.settle()
    assert len(log.records) == count and not log.compacted and not log.machine.compact(0)


GROUPS, PARTITIONS = st.sampled_from("abc"), st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), GROUPS, PARTITIONS),
        st.tuples(st.just("remove"), GROUPS, PARTITIONS),
        st.tuples(st.just("delete"), GROUPS),
        st.tuples(st.just("append")),
        st.tuples(st.just("tell")),
        st.tuples(st.just("tell")),
        st.tuples(st.just("compact")),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from([1, 60, 1 << 16]))
def test_whatever_happens_meanwhile(steps: list[tuple], piece_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offsets_compaction, "PIECE_BYTES", piece_bytes)
        log = Log()
        for number, (name, *args) in enumerate(steps):
            refused = args and log.machine.commit_error(args[0], "", None, -1, NOW) is not ErrorCode.NONE
            if refused:
                continue  # as the handlers do, while a group is being deleted
            if name == "commit":
                log.commit(*args, number)
            elif name == "remove":
                log.machine.delete_offsets(args[0], [("t", args[1])], lambda error: None)
            elif name == "delete":
                log.machine.delete(args[0], lambda error: None)
            else:
                getattr(log, name)()
            assert log.state(log.start) == log.state(0)
        log.settle()
        log.compact()
        log.settle()
        assert log.state(log.start) == log.state(0)
