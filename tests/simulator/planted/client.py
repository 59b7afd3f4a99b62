"""Mistakes of the client by address: what it sends again, what it takes for written, read, committed or over."""

from collections.abc import Sequence
from typing import Any

from actors.arrow.following import Followed
from actors.client import client as routing
from actors.client.asks import Coordinator, Steps
from actors.client.client import Client
from actors.client.committed import Committed
from actors.client.connection import Lost
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.operations.fetching import Fetched, Fetcher
from actors.client.operations.producing import OUT_OF_ORDER, Placed, Producer, _Batch
from tests.simulator.planted.registry import Patch, instead, mistake

BY_ADDRESS = "by address"


# ---- the producer


@mistake(BY_ADDRESS)
def client_numbers_what_it_sends_again_anew() -> Sequence[Patch]:
    """A leader takes a batch that it has for another one."""
    number = Producer._number

    def anew(self: Producer, left: Any) -> None:
        for some in left.values():
            for one in some:
                one.sequence = -1
        number(self, left)

    return [instead(Producer, "_number", anew)]


@mistake(BY_ADDRESS)
def client_takes_a_lost_answer_for_written() -> Sequence[Patch]:
    """The records of a broker that died may be nowhere."""
    take = Producer._take

    def believing(self: Producer, group: Any, reply: Any, metadata: Metadata) -> bool:
        if isinstance(reply, Lost):
            for part, one in group.items():
                self._written(part, one, Placed(-1, -1))
            return False
        return take(self, group, reply, metadata)

    return [instead(Producer, "_take", believing)]


@mistake(BY_ADDRESS)
def client_takes_out_of_order_for_written() -> Sequence[Patch]:
    """The batch before it was not written, and neither was it."""
    outcome = Producer._outcome

    def believing(self: Producer, part: Any, batch: Any, data: Any) -> bool:
        if data.error_code == OUT_OF_ORDER:
            self._written(part, batch, Placed(-1, -1))
            return False
        return outcome(self, part, batch, data)

    return [instead(Producer, "_outcome", believing)]


@mistake(BY_ADDRESS)
def client_sends_halves_with_the_same_numbers() -> Sequence[Patch]:
    """A leader leaves the second half out, as one that it has."""
    divide = _Batch.divide

    def same(self: _Batch) -> None:
        divide(self)
        self.pieces[1].sequence = self.pieces[0].sequence

    return [instead(_Batch, "divide", same)]


# ---- transactions


@mistake(BY_ADDRESS)
def client_tells_a_commit_of_unknown_outcome_as_done() -> Sequence[Patch]:
    """Its coordinator may never have heard of it."""
    commit = Producer.commit

    def believing(self: Producer) -> Steps[None]:
        try:
            yield from commit(self)
        except ClientError:
            self._in_transaction, self._commits, self._added, self._abort_only = False, False, set(), None

    return [instead(Producer, "commit", believing)]


# ---- reading


@mistake(BY_ADDRESS)
def client_reads_on_at_the_high_watermark() -> Sequence[Patch]:
    """What did not fit into the answer is left out."""
    partition = Fetcher._partition

    def hasty(self: Fetcher, metadata: Any, node: Any, part: Any, place: Any, epoch: Any, data: Any) -> Any:
        found = partition(self, metadata, node, part, place, epoch, data)
        if isinstance(found, Fetched):
            place.offset = max(place.offset, found.high_watermark)
        return found

    return [instead(Fetcher, "_partition", hasty)]


@mistake(BY_ADDRESS)
def client_takes_a_topic_made_anew_for_the_old_one() -> Sequence[Patch]:
    """It is read on in the middle of other records."""
    absent = Fetcher._absent

    def believing(self: Fetcher, metadata: Metadata, part: Any) -> Any:
        if part[0] in metadata.topics:
            self._ids[part[0]] = metadata.topics[part[0]].id
        return absent(self, metadata, part)

    return [instead(Fetcher, "_absent", believing)]


@mistake(BY_ADDRESS)
def client_tells_a_session_nothing_of_new_positions() -> Sequence[Patch]:
    """The broker sends the same records for ever."""
    build = Fetcher._build

    def silent(self: Fetcher, metadata: Any, node: int, parts: Any, version: int) -> Any:
        session = self._sessions.get(node)
        if session is not None and session.id:
            session.sent = {
                part: (place.offset, metadata.leader_epoch(*part))
                for part, place in self._places.items()
                if part in session.sent
            }
        return build(self, metadata, node, parts, version)

    return [instead(Fetcher, "_build", silent)]


@mistake(BY_ADDRESS)
def client_gives_records_of_aborted_transactions() -> Sequence[Patch]:
    """A reader of committed records has them."""
    return [instead(Committed, "keeps", lambda self, last, producer, attributes: not attributes & 0x20)]


@mistake(BY_ADDRESS)
def client_ends_no_aborted_transaction_at_its_marker() -> Sequence[Patch]:
    """The next transaction of the producer is left out with it."""
    keeps = Committed.keeps

    def forgetful(self: Committed, last_offset: int, producer_id: int, attributes: int) -> bool:
        aborting = set(self._aborting)
        found = keeps(self, last_offset, producer_id, attributes)
        self._aborting |= aborting
        return found

    return [instead(Committed, "keeps", forgetful)]


@mistake(BY_ADDRESS)
def client_commits_what_was_not_given_yet() -> Sequence[Patch]:
    """After its death nobody is given that."""
    commit = Followed.commit

    def ahead(self: Followed) -> Steps[None]:
        assert self._fetcher is not None
        self.positions |= {part: offset for part, offset in self._fetcher.positions().items() if part in self.positions}
        yield from commit(self)

    return [instead(Followed, "commit", ahead)]


# ---- routing


@mistake(BY_ADDRESS)
def client_stays_with_a_coordinator_that_has_moved() -> Sequence[Patch]:
    """It asks the same broker until its time is over."""
    return [instead(routing, "MOVED", {to: codes for to, codes in routing.MOVED.items() if to is not Coordinator})]


@mistake(BY_ADDRESS)
def client_forgets_deadlines() -> Sequence[Patch]:
    """An operation waits for ever for a broker that is away."""
    wake = Client._wake

    def patient(self: Client) -> None:
        deadlines = {task: task.deadline_us for task in self._tasks}
        for task in self._tasks:
            task.deadline_us = 1 << 61
        try:
            wake(self)
        finally:
            for task, deadline_us in deadlines.items():
                task.deadline_us = deadline_us

    return [instead(Client, "_wake", patient)]


@mistake(BY_ADDRESS)
def client_dials_again_at_once() -> Sequence[Patch]:
    """A broker that begins is dialled by all clients thousands of times."""
    return [instead(Client, "_is_free", lambda self, endpoint: True), instead(Client, "_spread", lambda self, ms: 0)]


# ---- logs that lose what was acknowledged


@mistake("unclean")
def client_asks_no_new_leader_what_it_has() -> Sequence[Patch]:
    """It reads on in the middle of other records, where a log has grown again."""
    return [instead(Fetcher, "_is_unchecked", lambda self, metadata, part: False)]


@mistake("unclean")
def client_reads_on_behind_the_end_of_an_epoch() -> Sequence[Patch]:
    """The leader says that it does not have what was read, and nobody is told."""
    known_ends = Fetcher._known_ends

    def silent(self: Fetcher, ends: Any) -> Steps[Any]:
        told = yield from known_ends(self, ends)
        return {
            part: end if isinstance(end, ClientError) else end._replace(end_offset=1 << 62)
            for part, end in told.items()
        }

    return [instead(Fetcher, "_known_ends", silent)]
