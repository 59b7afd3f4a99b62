"""Two-phase commit without brokers: what a client asks, how often, in which versions, and what a refusal says."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.client.errors import ClientError, Unspoken
from actors.client.operations.producing import Producer
from actors.client.operations.transactions import Completed, Kept, Prepared, complete, end_kept, keep
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.operations.test_producing import Log, batch, transactional
from tests.unit.client.servers import Server, World

INIT, END = message("InitProducerIdResponse"), message("EndTxnResponse")
TWO_PHASE = {"transaction_two_phase_commit_enable": "true"}


class Coordinator:
    """The next answers of a coordinator: codes, exceptions, or responses."""

    def __init__(self, kind: Callable[..., Any], *answers: Any) -> None:
        self.kind, self.answers = kind, list(answers)

    def __call__(self, server: Server, version: int, request: Any) -> Any:
        answer = self.answers.pop(0)
        return self.kind(error_code=answer) if isinstance(answer, ErrorCode) else answer


def world(init: list[Any], end: list[Any], newest: int = 6) -> tuple[World, Server]:
    made, server = transactional(Log(), **TWO_PHASE)
    server.answers |= {"InitProducerId": Coordinator(INIT, *init), "EndTxn": Coordinator(END, *end)}
    server.versions["InitProducerId"] = (0, newest)
    return made, server


def answer(epoch: int, open_epoch: int = -1) -> Any:
    return INIT(
        producer_id=7,
        producer_epoch=epoch,
        ongoing_txn_producer_id=5 if open_epoch >= 0 else -1,
        ongoing_txn_producer_epoch=open_epoch,
    )


def asked(server: Server, name: str) -> list[tuple[int, Any]]:
    return [(version, request) for api, version, request in server.asked if api == name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "7",
        "7:",
        ":3",
        "7:-1",
        "-1:0",
        "7:3:1",
        "7:32768",
        f"{1 << 63}:0",
        "a:b",
        " 7:3",
        "٧:3",
        "7:" + 29 * "0" + "31",
    ],
)
def test_what_is_no_prepared_transaction_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match="is no prepared transaction: write PRODUCER_ID:EPOCH"):
        Prepared.of(text)


@pytest.mark.parametrize("one", [Prepared(0, 0), Prepared((1 << 63) - 1, 32767)])
def test_a_prepared_transaction_is_its_text(one: Prepared) -> None:
    assert Prepared.of(str(one)) == one


@pytest.mark.parametrize(
    ("open_epoch", "prepared", "outcome", "committed"),
    [
        (3, Prepared(5, 3), Completed.COMMITTED, True),
        (3, Prepared(5, 2), Completed.ABORTED, False),
        (3, Prepared(4, 3), Completed.ABORTED, False),
        (3, None, Completed.ABORTED, False),
        (-1, Prepared(5, 3), Completed.NOTHING, None),
        (-1, None, Completed.NOTHING, None),
    ],
)
def test_that_transaction_is_committed_which_was_prepared_and_no_other(
    open_epoch: int, prepared: Prepared | None, outcome: Completed, committed: bool | None
) -> None:
    made, server = world([answer(9, open_epoch)], [END()])
    assert made.run(complete("x", prepared)) is outcome
    ((version, init),) = asked(server, "InitProducerId")
    assert version == 6 and init.enable2_pc and init.keep_prepared_txn and init.producer_id == -1
    ends = [(version, end.producer_id, end.producer_epoch, end.committed) for version, end in asked(server, "EndTxn")]
    assert ends == ([] if committed is None else [(5, 7, 9, committed)])


def test_what_is_not_decided_yet_is_asked_for_again() -> None:
    lost = ConnectionError("reset")
    again = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, lost
    made, server = world([*again, answer(9, 3)], [*again, END()])
    assert made.run(complete("x", Prepared(5, 3), two_phase=False, timeout_ms=1234)) is Completed.COMMITTED
    assert len(asked(server, "InitProducerId")) == len(asked(server, "EndTxn")) == 4
    init = asked(server, "InitProducerId")[-1][1]
    assert not init.enable2_pc and init.keep_prepared_txn and init.transaction_timeout_ms == 1234


def test_where_nothing_is_open_there_is_nothing_to_end() -> None:
    made, server = world([], [])
    with pytest.raises(ClientError, match=r"transactional.id x has no open transaction to end"):
        made.run(end_kept(Kept("x", 7, 9, None), True))
    assert not asked(server, "EndTxn")


@pytest.mark.parametrize(
    ("code", "two_phase", "sentence"),
    [
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", True, r"x: two-phase commit is off .*, or .* lacks WRITE or TWO_PHASE"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, r"x: (?!two-phase)"),
        ("UNSUPPORTED_VERSION", True, r"x: the server keeps no open transaction: .*transaction.version is below 2"),
        ("INVALID_REQUEST", True, r"x: .*INVALID_REQUEST"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(code: str, two_phase: bool, sentence: str) -> None:
    made, _ = world([ErrorCode[code]], [])
    with pytest.raises(ClientError, match=sentence) as raised:
        made.run(keep("x", two_phase=two_phase))
    assert raised.value.code == ErrorCode[code]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("PRODUCER_FENCED", "x: another client has taken it over"),
        ("INVALID_PRODUCER_ID_MAPPING", "x: another client has taken it over"),
        ("INVALID_TXN_STATE", "x: its transaction has ended otherwise"),
    ],
)
def test_an_end_that_is_refused_says_why(code: str, sentence: str) -> None:
    made, _ = world([answer(9, 3)], [ErrorCode[code]])
    with pytest.raises(ClientError, match=sentence):
        made.run(complete("x", Prepared(5, 3)))


def test_a_server_without_two_phase_commit_is_named_with_what_to_do() -> None:
    made, server = world([], [], newest=5)
    producer = Producer(made.config)
    for steps in (keep("x"), complete("x", None), producer.begin()):
        with pytest.raises(Unspoken, match=r"speaks versions 0 to 5 of InitProducerId.*two.phase.commit.enable=true"):
            made.run(steps)
    assert not asked(server, "InitProducerId")


def test_who_does_not_ask_for_two_phase_commit_keeps_to_the_settled_version() -> None:
    made, server = transactional(Log())
    server.versions["InitProducerId"] = (0, 6)
    made.run(Producer(made.config).begin())
    assert [version for version, _ in asked(server, "InitProducerId")] == [5]


# ---- the producer


def test_a_prepared_transaction_takes_nothing_more_and_each_has_a_name_of_its_own() -> None:
    made, server = world([answer(0)], [END(producer_id=7, producer_epoch=epoch) for epoch in (1, 2, 3)])
    producer = Producer(made.config)
    made.run(producer.begin())
    with pytest.raises(ClientError, match="a transaction is open"):
        made.run(producer.begin())
    names = []
    for end in (producer.commit, producer.abort):
        made.run(producer.send([(("t", 0), batch())]))
        names.append(producer.prepare())
        assert producer.prepare() == names[-1]
        for steps in (producer.send([(("t", 0), batch())]), producer.send_offsets("g", {("t", 0): 1})):
            with pytest.raises(ClientError, match="the transaction is prepared: commit or abort it"):
                made.run(steps)
        made.run(end())
        made.run(producer.begin())
    # One without a record is told apart from the next one as well: an abort raises the epoch, whatever was decided.
    names.append(producer.prepare())
    made.run(producer.commit())
    made.run(producer.begin())
    names.append(producer.prepare())
    assert names == [Prepared(7, epoch) for epoch in range(4)]
    ends = [(version, end.producer_epoch, end.committed) for version, end in asked(server, "EndTxn")]
    assert ends == [(5, 0, True), (5, 1, False), (5, 2, False)]


def test_a_transaction_that_has_failed_cannot_be_prepared() -> None:
    made, server = world([answer(0), answer(2)], [])
    server.answers["Produce"] = Log(int(ErrorCode.MESSAGE_TOO_LARGE))
    producer = Producer(made.config)
    with pytest.raises(ClientError, match="no transaction is open"):
        producer.prepare()
    made.run(producer.begin())
    made.run(producer.send([(("t", 0), batch())]))
    with pytest.raises(ClientError, match="has failed: abort it"):
        producer.prepare()
    made.run(producer.abort())
    made.run(producer.begin())
    assert producer.prepare() == Prepared(7, 2)


def test_without_two_phase_commit_nothing_is_prepared() -> None:
    made, _ = transactional(Log())
    producer = Producer(made.config)
    made.run(producer.begin())
    with pytest.raises(ClientError, match=r"write transaction.two.phase.commit.enable=true"):
        producer.prepare()
