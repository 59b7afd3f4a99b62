"""The metadata at any moment: what the page says is what `rayft replay` says."""

import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from actors import replay
from actors.page.metadata import batch_times
from actors.page.metadata import recorded as module
from actors.page.metadata.recorded import Recorded
from actors.page.metadata.slices import Wanted, chosen
from actors.replay.columns import history
from actors.replay.logs.files import CorruptLog, NothingToRead
from actors.replay.timeline.history import History
from fastpath.records.scan import scan

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.3.1"
LOG = GOLDEN / "__cluster_metadata-0"
NAME = "00000000000000000000.log"
OFFSETS = 20


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded(LOG)


def test_each_table_at_random_offsets_is_that_of_replay(recorded: Recorded) -> None:
    end = recorded.extent().end
    for offset in [end, 1, *random.Random(46).sample(range(2, end), OFFSETS)]:
        moment = recorded.moment(str(offset))
        assert moment.offset == offset
        for name, table in replay.state(LOG, offset).items():
            if name != "controllers":  # who leads is told by quorum-state too
                assert recorded.table(name, moment).equals(table), (name, offset)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(), Wanted("isr contains 1"), Wanted(sort="-leader_epoch"), Wanted("leader = 1", "t", "-isr"), Wanted(q="1"),
        Wanted("under_replicated", sort="topic"), Wanted("topic_id > a", sort="-topic_id"), Wanted("leader is null"),
    ],
)  # fmt: skip
def test_slices_of_partitions_are_those_of_the_whole_table(recorded: Recorded, wanted: Wanted) -> None:
    end = recorded.extent().end
    for offset in [end, 1, *random.Random(47).sample(range(2, end), 8)]:
        moment = recorded.moment(str(offset))
        whole = chosen(replay.state(LOG, offset, ["partitions"])["partitions"], wanted)
        for first, n in ((0, 1_000), (1, 2), (len(whole), 5), (len(whole) // 2, 3), (0, 0)):
            found = recorded.slice("partitions", moment, wanted, first, n)
            assert found is not None and found[1] == len(whole)
            assert found[0].to_pylist() == whole.slice(first, n).to_pylist()
        names = ("leader", "topic", "adding")
        whole = replay.state(LOG, offset, ["partitions"])["partitions"].select(list(names))
        assert recorded.columns("partitions", moment, names).equals(whole)
    assert recorded.slice("topics", moment, wanted, 0, 1) is None


def test_a_time_means_what_it_means_to_replay(recorded: Recorded) -> None:
    extent = recorded.extent()
    for ms in range(extent.begun_ms, extent.ended_ms, (extent.ended_ms - extent.begun_ms) // 15):
        moment = recorded.moment(f"{replay_time(ms)}")
        for name in ("topics", "partitions", "brokers", "configs"):
            assert recorded.table(name, moment).equals(replay.state(LOG, replay_datetime(ms), [name])[name])


def replay_datetime(ms: int):  # type: ignore[no-untyped-def]
    from actors.replay.columns.as_of import time_of

    return time_of(ms)


def replay_time(ms: int) -> str:
    return str(replay_datetime(ms).isoformat())


def test_changes_are_those_of_replay(recorded: Recorded) -> None:
    import pyarrow as pa

    expected = pa.Table.from_batches(list(replay.changes(LOG)), history.SCHEMA)
    assert recorded.changes().combine_chunks().equals(expected.combine_chunks())


def test_changes_whose_making_fails_in_the_middle_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG", 0)
    found, whole = Recorded(LOG), Recorded(LOG).changes()
    make = History.changes

    def fails(*of: object) -> Iterator[pa.RecordBatch]:
        for batch in make(*of):  # type: ignore[arg-type]
            yield batch.slice(0, len(batch) // 2)
            raise CorruptLog(LOG, 0, "it has rotted")

    with monkeypatch.context() as patch:
        patch.setattr(History, "changes", fails)
        for _ in range(3):
            with pytest.raises(CorruptLog):
                found.changes()
    assert found.changes().equals(whole) and sum(found.flow(10).changes) == len(whole)


def test_a_moment_outside_the_log_is_refused_or_its_end(recorded: Recorded) -> None:
    extent = recorded.extent()
    assert recorded.moment("999999999").offset == extent.end
    assert recorded.moment("").is_now and recorded.moment("").offset == extent.end
    with pytest.raises(ValueError, match="is no moment"):
        recorded.moment("yesterday")
    with pytest.raises(ValueError, match="highest offset"):
        recorded.moment("9" * 30)
    snapshot = Recorded(GOLDEN / "snapshots")
    with pytest.raises(ValueError, match="the history begins at offset 2473"):
        snapshot.moment("12")
    assert "begins at offset 2473" in snapshot.notes()[0]


def test_what_happens_in_a_stretch_adds_up(recorded: Recorded) -> None:
    flow, extent = recorded.flow(100), recorded.extent()
    assert sum(flow.records) == extent.end and sum(flow.changes) == len(recorded.changes())
    assert flow.ends == sorted(flow.ends) and flow.ends[-1] == extent.end


def test_a_log_that_grows_is_read_on(tmp_path: Path) -> None:
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    cuts = [int(headers[at]["position"]) for at in (40, 41, 300, 301, 500)]
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(data[: cuts[0]])
    recorded = Recorded(directory)
    assert not recorded.refresh()
    for place in (*cuts[1:], cuts[-1] + 20, len(data)):  # one of them in the middle of a batch
        (directory / NAME).write_bytes(data[:place])
        grown = recorded.refresh()
        assert grown == (place != cuts[-1] + 20)
        fresh = Recorded(directory)
        assert recorded.extent()._replace(touched=0) == fresh.extent()._replace(touched=0)
        assert recorded.marks() == fresh.marks()
        assert recorded.changes().equals(fresh.changes())
        for name in ("partitions", "brokers", "topics", "configs"):
            assert recorded.table(name, recorded.moment("")).equals(replay.state(directory, tables=[name])[name])


def test_records_that_change_nothing_touch_nothing(tmp_path: Path) -> None:
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    changed = set(Recorded(LOG).changes()["offset"].to_pylist())
    (directory / NAME).write_bytes(data[: int(headers[900]["position"])])
    recorded, quiet = Recorded(directory), 0
    for at in range(901, 960):
        before = recorded.extent()
        (directory / NAME).write_bytes(data[: int(headers[at]["position"])])
        assert recorded.refresh()
        now = recorded.extent()
        if changed & set(range(before.end, now.end)):
            assert now.touched == now.end
        quiet += now.touched == before.touched
    assert quiet > 20, "most of these say that the controller is there, and no more"


def test_damage_is_skipped_and_told(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(LOG, directory)
    data = bytearray((directory / NAME).read_bytes())
    headers, _, _ = scan(memoryview(bytes(data)), 0, len(data), True)
    data[int(headers[len(headers) // 2]["position"]) + 70] ^= 0xFF
    (directory / NAME).write_bytes(data)
    recorded = Recorded(directory)
    notes = recorded.notes()
    assert notes[0].startswith("Damaged bytes were skipped") and NAME in notes[0] and "position" in notes[0]
    assert len(notes) <= 4, "not a sentence for each of many places"
    assert recorded.extent().end == 1237


def test_a_directory_that_is_deleted_leaves_what_was_read_and_a_sentence(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(LOG, directory)
    recorded = Recorded(directory)
    before = recorded.table("partitions", recorded.moment(""))
    shutil.rmtree(directory)
    assert recorded.refresh() and not recorded.refresh(), "it is told once"
    assert "cannot be read any more" in recorded.notes()[0]
    assert recorded.table("partitions", recorded.moment("")).equals(before)
    shutil.copytree(LOG, directory)
    assert recorded.refresh() and recorded.notes() == []


def test_a_log_that_is_cut_and_written_anew_is_read_anew(tmp_path: Path) -> None:
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(data)
    recorded = Recorded(directory)
    (directory / NAME).write_bytes(data[: int(headers[200]["position"])])
    assert recorded.refresh()
    assert recorded.extent().end == int(headers[199]["last_offset"]) + 1
    assert recorded.table("partitions", recorded.moment("")).equals(replay.state(directory)["partitions"])


def test_a_directory_without_a_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NothingToRead):
        Recorded(tmp_path)


def test_a_log_that_was_empty_is_read_on(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(b"")
    recorded = Recorded(directory)
    assert recorded.flow(10).records == [0] * 10
    shutil.copy(LOG / NAME, directory)
    assert recorded.refresh() and recorded.extent()[:4] == Recorded(LOG).extent()[:4]
    assert sum(recorded.flow(10).records) == 1237
    (directory / NAME).write_bytes(b"")
    assert recorded.refresh() and recorded.extent().end == 0
    shutil.copy(LOG / NAME, directory)
    assert recorded.refresh() and recorded.extent().end == 1237


def test_a_log_that_cannot_be_read_anew_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(LOG, directory)
    recorded = Recorded(directory)
    data = (directory / NAME).read_bytes()
    (directory / NAME).write_bytes(data[: len(data) // 2])
    with monkeypatch.context() as patched:
        patched.setattr("actors.page.metadata.recorded.History", _gone)
        assert recorded.refresh() and not recorded.refresh()
        assert "gone meanwhile" in recorded.notes()[0] and recorded.extent().end == 1237
    assert recorded.refresh() and recorded.notes() == [] and recorded.extent().end < 1237


def _gone(*_: object, **__: object) -> None:
    raise FileNotFoundError("gone meanwhile")


@pytest.mark.parametrize("begins_later", [False, True])
def test_what_fails_at_the_end_of_a_reading_anew_leaves_all_as_it_was_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins_later: bool
) -> None:
    """Of a copy that was cut it was never tried again: the history went on with files that were deleted."""
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(LOG, directory)
    recorded = Recorded(directory)
    before, flow = recorded.extent(), recorded.flow(20)
    if not begins_later:
        data = (directory / NAME).read_bytes()
        (directory / NAME).write_bytes(data[: len(data) // 2])
    with monkeypatch.context() as patched:
        patched.setattr(batch_times.BatchTimes, "look", _gone)
        assert recorded.refresh(begins_later) and not recorded.refresh()
        assert "gone meanwhile" in recorded.notes()[0]
        assert recorded.extent() == before and recorded.flow(20) == flow
    assert recorded.refresh() and recorded.notes() == [] and recorded.extent().reading == before.reading + 1


def test_what_fails_while_it_is_read_on_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records were there, and nobody was told that they changed something."""
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(data[: int(headers[200]["position"])])
    recorded = Recorded(directory)
    shutil.copy(LOG / NAME, directory)
    with monkeypatch.context() as patched:
        patched.setattr(batch_times.BatchTimes, "look", _gone)
        assert recorded.refresh() and "gone meanwhile" in recorded.notes()[0]
    assert recorded.refresh() and recorded.notes() == []
    whole = Recorded(LOG)
    assert recorded.extent() == whole.extent() and recorded.flow(20) == whole.flow(20)
    assert recorded.changes().equals(whole.changes())


class Stopped:
    """A function that waits in the middle until it may go on."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.begun.set()
        assert self.may_go_on.wait(20)


def _asked(recorded: Recorded) -> None:
    """Ask what each event and each view ask for, and fail if that takes long."""
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append((recorded.extent(), recorded.moment("1200"))), daemon=True)
    asking.start()
    asking.join(5)
    assert found, "whoever asks waits until all was read"


def test_a_log_that_is_read_anew_is_shown_meanwhile_as_it_was(tmp_path: Path) -> None:
    """It was cut to its newest snapshot, and nobody had an answer, of other clusters neither, until GiB were read."""
    stopped, reads = Stopped(), 0

    def on_progress(_: int) -> None:
        nonlocal reads
        reads += 1
        if reads > first:
            stopped.wait()

    first = 1 << 30
    recorded = Recorded(LOG, on_progress=on_progress)
    first = reads
    before = recorded.extent()
    reading = threading.Thread(target=lambda: recorded.refresh(True))
    reading.start()
    try:
        assert stopped.begun.wait(20)
        _asked(recorded)
        assert recorded.extent() == before
    finally:
        stopped.may_go_on.set()
        reading.join(20)
    assert recorded.extent() == before._replace(reading=before.reading + 1)


def test_nobody_waits_until_the_changes_of_a_long_log_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Recorded(LOG).changes()
    monkeypatch.setattr(module, "LONG", 1)
    recorded, stopped, made, found = Recorded(LOG), Stopped(), History.changes, []

    def slowly(self: History, *given: int) -> Iterator[pa.RecordBatch]:
        stopped.wait()
        yield from made(self, *given)

    monkeypatch.setattr(History, "changes", slowly)
    making = [threading.Thread(target=lambda: found.append(recorded.changes())) for _ in range(2)]
    for one in making:
        one.start()
    try:
        assert stopped.begun.wait(20)
        _asked(recorded)
        recorded.refresh(True)  # what was made of the log before is dropped
    finally:
        stopped.may_go_on.set()
        for one in making:
            one.join(20)
    assert [one.equals(whole) for one in found] == [True, True] and recorded.changes().equals(whole)


def test_of_a_long_log_the_newest_changes_are_made_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All changes of a log of 10 GB took 27 GB before the old ones were forgotten."""
    whole = Recorded(LOG)
    every, end = whole.changes(), whole.extent().end
    monkeypatch.setattr(module, "CHANGED_RECORDS_MAX", 1_100)
    late = Recorded(LOG)
    wanted = [row for row in every.to_pylist() if row["offset"] >= end - 1_100]
    assert late.changes().to_pylist() == wanted != []
    assert f"changes are told from offset {end - 1_100} on" in late.notes()[-1] and not whole.notes()


def test_old_changes_are_forgotten_while_new_ones_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(LOG)
    rows = recorded.changes().combine_chunks().to_batches()[0]
    monkeypatch.setattr(module, "CHANGES_MAX", 10)
    recorded._changes, recorded._changed = [], 0

    def pieces(*_: object) -> Iterator[pa.RecordBatch]:
        for first in range(0, len(rows), 5):
            assert sum(map(len, recorded._changes)) < 15
            yield rows.slice(first, 5)

    monkeypatch.setattr(History, "changes", pieces)
    assert recorded.changes().to_pylist() == rows.to_pylist()[-len(recorded.changes()) :]
    assert 10 <= len(recorded.changes()) < 15


def test_a_log_that_is_not_wanted_any_more_is_not_read_to_its_end() -> None:
    def ended(_: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Recorded(LOG, on_progress=ended)


def test_how_far_a_log_reaches_is_told_without_a_look_at_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked with each record: all times of a log of a month were copied twice a second."""
    monkeypatch.setattr(batch_times, "PARTS_MAX", 50)
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(data[: int(headers[800]["position"])])
    recorded, joined, most = Recorded(directory), 0, 0
    join = batch_times.BatchTimes._join

    def counted(self: batch_times.BatchTimes) -> None:
        nonlocal joined
        joined += 1
        join(self)

    monkeypatch.setattr(batch_times.BatchTimes, "_join", counted)
    for at in range(801, 951):
        (directory / NAME).write_bytes(data[: int(headers[at]["position"])])
        assert recorded.refresh() and recorded.extent().end == int(headers[at]["base_offset"])
        most = max(most, len(recorded._times._parts))
    assert joined <= 3 and most <= 50
    fresh = Recorded(directory)
    assert recorded.flow(50) == fresh.flow(50) and recorded.extent()[:4] == fresh.extent()[:4]


def test_changes_that_come_one_by_one_take_few_tables(tmp_path: Path) -> None:
    """A table of one row takes as much as a hundred rows: a page that nobody asked for changes grew without a bound."""
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    whole = Recorded(LOG).changes()
    changed = sorted({int(headers["base_offset"].searchsorted(one, "right")) for one in whole["offset"].to_numpy()})
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(data[: int(headers[60]["position"])])
    recorded = Recorded(directory)
    for at in changed:
        (directory / NAME).write_bytes(data[: int(headers[at]["position"])])
        assert recorded.refresh() and len(recorded._changes) <= 8
    assert len(changed) > 30 and recorded.changes().equals(whole)


def test_a_slice_is_of_one_reading_though_the_log_is_read_anew_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(LOG, tmp_path, dirs_exist_ok=True)
    recorded, wanted = Recorded(tmp_path), Wanted(sort="-leader_epoch")
    now, before = recorded.moment(""), recorded._history_
    whole, at = recorded.slice("partitions", now, Wanted(sort="-topic"), 0, 1_000), before.at
    assert whole is not None

    def shrunk(when: int) -> object:
        found = at(when)
        monkeypatch.setattr(before, "at", at)
        data = (LOG / NAME).read_bytes()
        headers, _, _ = scan(memoryview(data), 0, len(data), True)
        (tmp_path / NAME).write_bytes(data[: int(headers[330]["position"])])
        assert recorded.refresh(begins_later=True)
        return found

    monkeypatch.setattr(before, "at", shrunk)
    found = recorded.slice("partitions", now, wanted, 0, 1_000)
    after = recorded.slice("partitions", now, wanted, 0, 1_000)
    assert found is not None and after is not None and after[1] < found[1] == whole[1]
    assert found[0].equals(chosen(before.table("partitions"), wanted))
