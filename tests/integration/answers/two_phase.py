"""Two-phase commit (KIP-939): InitProducerId 6 in every state that a transactional id can rest in, and what becomes of a
transaction without a timeout."""

import time
from typing import Any

from tests.integration.answers.dialogue import Dialogue
from tests.integration.answers.transactions import CLASSIC_END, EPOCHS, RAISING_END, STATES, Producer, Scene

INIT = 6
CONFIG = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "10",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""The settings of both kinds of broker."""
TIMEOUTS_MS = (-1, 0, 1, 60_000, 900_000, 900_001, 2**31 - 1)


class TwoPhaseScene(Scene):
    """Producers of a two-phase commit."""

    def initialised(self, id: str, **known: int) -> Producer:
        """The next producer of an id. Its timeout is over at once, if it has one."""
        found = self._until(
            "InitProducerId", INIT, id, transactional_id=id, transaction_timeout_ms=1, enable2_pc=True, **known
        )
        return Producer(id, found.producer_id, found.producer_epoch)


def story(d: Dialogue, t: str) -> None:
    """All of it, on a topic that it makes."""
    d.raw("CreateTopics", 7, timeout_ms=10_000, topics=[{"name": t, "num_partitions": 2, "replication_factor": 1}])
    d.settled(t, 2)
    plain, s = Scene(d, f"{t}"), TwoPhaseScene(d, t)
    s._made = 1000
    _timeouts(d, s)
    _states(d, s)
    _time_passes(d, plain, s)


def _ask(d: Dialogue, title: str, at: int, **values: Any) -> None:
    d.ask(title, "InitProducerId", INIT, at, **{"transaction_timeout_ms": 60_000, "enable2_pc": True, **values})


def _shown(d: Dialogue, title: str, s: Scene, one: Producer) -> None:
    d.ask(title, "DescribeTransactions", 0, s.at(one), transactional_ids=[one.transactional_id])


def _timeouts(d: Dialogue, s: TwoPhaseScene) -> None:
    for timeout_ms in TIMEOUTS_MS:
        one = s.new()
        for enabled in (True, False):
            title = f"timeout {timeout_ms}, two-phase {enabled}"
            _ask(
                d, title, s.at(one), transactional_id=one.transactional_id, enable2_pc=enabled,
                transaction_timeout_ms=timeout_ms,
            )  # fmt: skip
            _shown(d, title, s, one)
    one = s.new()
    for title, values in (
        ("no id", {"transactional_id": None}),
        ("no id, kept", {"transactional_id": None, "keep_prepared_txn": True}),
        ("empty id", {"transactional_id": ""}),
        ("id without epoch", {"producer_id": 5}),
        ("epoch without id", {"producer_epoch": 0}),
        ("keep", {"keep_prepared_txn": True}),
        ("keep without two-phase", {"keep_prepared_txn": True, "enable2_pc": False}),
    ):
        _ask(d, title, s.at(one), **{"transactional_id": one.transactional_id, **values})


def _states(d: Dialogue, s: TwoPhaseScene) -> None:
    for state, bring in STATES.items():
        for epoch, by in EPOCHS.items():
            one = bring(s)
            if one.producer_epoch + by < 0:
                continue
            _ask(d, f"{state}: {epoch}", s.at(one), **one.named(by))
            s.rest(one)
            _shown(d, f"{state}: {epoch}", s, one)
        one = bring(s)
        _ask(d, f"{state}: nobody", s.at(one), transactional_id=one.transactional_id)
        s.rest(one)
        _shown(d, f"{state}: nobody", s, one)
        _ask(d, f"{state}: again", s.at(one), transactional_id=one.transactional_id)


def _time_passes(d: Dialogue, plain: Scene, s: TwoPhaseScene) -> None:
    """A transaction is aborted when its time is over; one of a two-phase commit is not, and its producer ends it."""
    old = plain.initialised_for(500)
    two_phase = [STATES[state](s) for state in ("open", "open, version 2", "open, version 2")]
    plain.produced(old)
    deadline = time.monotonic() + 20
    while plain._state(old) != "CompleteAbort":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for number, (one, version, commit) in enumerate(
        zip(two_phase, (CLASSIC_END, RAISING_END, RAISING_END), (True, True, False), strict=True)
    ):
        _shown(d, f"over its time, {number}", s, one)
        ids = [one.producer_id]
        d.ask(
            f"over its time, {number}", "ListTransactions", 1, s.at(one), producer_id_filters=ids, duration_filter=400
        )
        d.ask(f"over its time, {number}", "EndTxn", version, s.at(one), **one.named(), committed=commit)
        s.rest(one)
        _shown(d, f"ended, {number}", s, one)
