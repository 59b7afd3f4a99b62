"""Two-phase commit (KIP-939) through all brokers that take part: who may, what is kept, and what becomes of it."""

from typing import Any

import pytest

from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab
from tests.unit.node.roles.broker.transactions.cluster import COORDINATOR, IDS, LEADER, Client, made, stable, states

NONE = ErrorCode.NONE
DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NOBODY = -1, -1


def enabled(version: int = 2, **settings: Any) -> Lab:
    return made(version, transaction_two_phase_commit_enable="true", **settings)


class TwoPhase(Client):
    """A producer of a two-phase commit. `ongoing`: the pair with which the transaction goes on that it has kept."""

    ongoing = NOBODY

    def init(self, timeout_ms: int = 1_000, broker: int = COORDINATOR, **fields: Any) -> ErrorCode:
        request = message("InitProducerIdRequest")(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **{"enable2_pc": True, **fields}
        )
        reply = self.call(broker, "InitProducerId", 6, request).reply
        self.ongoing = reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch
        if reply.error_code == 0:
            self._now(reply.producer_id, reply.producer_epoch)
        return ErrorCode(reply.error_code)

    def keep(self, **fields: Any) -> ErrorCode:
        return self.init(keep_prepared_txn=True, **fields)

    def described(self, broker: int = COORDINATOR) -> Any:
        request = message("DescribeTransactionsRequest")(transactional_ids=[self.transactional_id])
        return self.call(broker, "DescribeTransactions", 0, request).reply.transaction_states[0]


def allow(lab: Lab, *operations: Operation) -> None:
    """Let everybody do this with the transactional id x."""
    for operation in operations:
        fields = {
            "resource_type": int(Resource.TRANSACTIONAL_ID), "resource_name": "x", "pattern_type": int(Pattern.LITERAL),
            "principal": "User:ANONYMOUS", "host": "*", "operation": int(operation),
            "permission_type": int(Permission.ALLOW),
        }  # fmt: skip
        lab.commit(ops.EntitySet("acl", tuple(fields.values()), tuple(fields.items())))
    lab.settle()


@pytest.mark.parametrize("commit", [True, False])
def test_a_client_that_dies_comes_back_and_ends_what_it_has_prepared(commit: bool) -> None:
    lab = enabled()
    client = TwoPhase(lab)
    assert client.init() is NONE and client.ongoing == NOBODY
    assert client.send(0, 1) == [NONE, NONE]
    written = client.id, client.epoch
    lab.pass_ms(20_000, 500)
    assert states(lab) == {"x": "Ongoing"} and stable(lab) == (0, 1)
    again = TwoPhase(lab)
    assert again.keep() is NONE
    assert again.ongoing == written and (again.id, again.epoch) == (written[0], written[1] + 1)
    # It is shown as it is in the partitions, so that whoever compares finds nothing that hangs.
    shown = again.described()
    assert (shown.producer_id, shown.producer_epoch) == written and shown.transaction_state == "Ongoing"
    assert shown.transaction_timeout_ms == 2**31 - 1
    assert client.end(True) is ErrorCode.PRODUCER_FENCED and stable(lab) == (0, 1)
    assert again.end(commit) is NONE
    assert stable(lab, 0) == (2, 2) and stable(lab, 1) == (2, 2)
    assert states(lab) == {"x": "CompleteCommit" if commit else "CompleteAbort"}
    assert lab.partition(LEADER).log.producers.by_id[again.id].epoch == written[1] + 1
    assert client.send(0, base_sequence=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (again.id, again.epoch) == (written[0], written[1] + 2) and again.send(0) == [NONE]


@pytest.mark.parametrize("commit", [True, False])
def test_a_kept_transaction_is_with_the_next_coordinator(commit: bool) -> None:
    lab = enabled()
    client = TwoPhase(lab)
    client.init()
    assert client.send(0) == [NONE]
    assert client.keep() is NONE and client.keep() is NONE
    kept = client.ongoing
    lab.change([3, 1], 3, 0, IDS["__transaction_state"])
    lab.pass_ms(500, 20)
    assert client.keep() is ErrorCode.NOT_COORDINATOR
    assert client.keep(broker=3) is NONE and client.ongoing == kept and client.epoch == 3
    request = message("EndTxnRequest")(
        transactional_id="x", producer_id=client.id, producer_epoch=client.epoch, committed=commit
    )
    assert client.call(3, "EndTxn", 5, request).reply.error_code == 0
    lab.pass_ms(500, 20)
    assert states(lab, 3) == {"x": "CompleteCommit" if commit else "CompleteAbort"} and stable(lab) == (2, 2)


def test_who_has_kept_a_transaction_cannot_add_to_it() -> None:
    lab = enabled()
    client = TwoPhase(lab)
    client.init()
    assert client.send(0) == [NONE]
    dead = Client(lab)
    dead.id, dead.epoch = client.id, client.epoch
    client.keep()
    assert client.add(1) == [ErrorCode.INVALID_TXN_STATE]
    assert client.send(1) == [ErrorCode.INVALID_TXN_STATE]
    assert client.commit_offsets() == [ErrorCode.INVALID_TXN_STATE]
    assert dead.add(1) == [ErrorCode.PRODUCER_FENCED]
    assert dead.send(1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert client.end(True, version=4) is ErrorCode.PRODUCER_FENCED
    assert stable(lab, 1) == (0, 0) and client.end(True) is NONE and stable(lab, 0) == (2, 2)


def test_who_was_fenced_by_a_keeping_does_not_abort_what_was_kept() -> None:
    """A producer that raises its epoch after an error (KIP-360) names what it was."""
    lab = enabled()
    client = TwoPhase(lab)
    client.init()
    assert client.send(0) == [NONE]
    was = client.id, client.epoch
    client.keep()
    between = client.id, client.epoch
    client.keep()
    for id, epoch in (was, between):
        for two_phase in (True, False):
            dead = TwoPhase(lab)
            assert dead.init(producer_id=id, producer_epoch=epoch, enable2_pc=two_phase) is ErrorCode.PRODUCER_FENCED
    assert states(lab) == {"x": "Ongoing"} and stable(lab) == (0, 1)
    assert client.init(producer_id=client.id, producer_epoch=client.epoch) is ErrorCode.CONCURRENT_TRANSACTIONS
    lab.settle()
    assert states(lab) == {"x": "CompleteAbort"}


def test_who_was_fenced_by_another_producer_does_not_abort_what_that_has_prepared() -> None:
    lab = enabled()
    dead, client = TwoPhase(lab), TwoPhase(lab)
    assert dead.init() is NONE and client.init() is NONE and client.send(0) == [NONE]
    assert dead.init(producer_id=dead.id, producer_epoch=dead.epoch) is ErrorCode.PRODUCER_FENCED
    assert states(lab) == {"x": "Ongoing"} and client.end(True) is NONE and stable(lab) == (2, 2)


def test_who_has_no_two_phase_commit_has_a_timeout_however_long_it_may_be() -> None:
    lab = enabled(transaction_max_timeout_ms=str(2**31 - 1))
    for two_phase, timeout_ms in ((True, 2**31 - 1), (False, 2**31 - 2)):
        client = TwoPhase(lab)
        assert client.init(2**31 - 1, enable2_pc=two_phase) is NONE
        assert client.described().transaction_timeout_ms == timeout_ms


def test_in_the_protocol_of_version_1_the_client_that_comes_back_ends_it_in_that_of_version_2() -> None:
    lab = enabled()
    client = TwoPhase(lab, version=1)
    client.init()
    assert client.add(0) == [NONE] and client.send(0) == [NONE]
    assert client.keep() is NONE and client.end(True, version=5) is NONE
    assert stable(lab) == (2, 2)


def test_without_two_phase_commit_it_is_refused_and_a_transaction_kept_until_its_timeout() -> None:
    lab = made()
    client = TwoPhase(lab)
    assert client.init(60_000) is DENIED and client.keep(timeout_ms=60_000) is DENIED
    assert client.init(0, enable2_pc=False) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert client.init(5_000, enable2_pc=False) is NONE
    assert client.send(0) == [NONE]
    assert client.keep(timeout_ms=900_000, enable2_pc=False) is NONE and client.ongoing == (client.id, 0)
    lab.pass_ms(16_000, 500)
    assert states(lab) == {"x": "CompleteAbort"} and stable(lab) == (2, 2)
    assert client.end(True) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 1])
def test_before_transaction_version_2_nothing_is_kept(version: int) -> None:
    lab = enabled(version)
    client = TwoPhase(lab, version=version)
    assert client.keep() is ErrorCode.UNSUPPORTED_VERSION
    assert client.init() is NONE
    assert client.add(0) == [NONE] and client.send(0) == [NONE]
    lab.pass_ms(20_000, 500)
    assert states(lab) == {"x": "Ongoing"} and client.end(True) is NONE and stable(lab) == (2, 2)


@pytest.mark.parametrize(
    ("rights", "code"),
    [
        ((), DENIED),
        ((Operation.WRITE,), DENIED),
        ((Operation.TWO_PHASE_COMMIT,), DENIED),
        ((Operation.WRITE, Operation.TWO_PHASE_COMMIT), NONE),
        ((Operation.ALL,), NONE),
    ],
    ids=lambda value: "+".join(one.name for one in value) if isinstance(value, tuple) else value.name,
)
def test_two_phase_commit_asks_for_a_right_of_its_own(rights: tuple[Operation, ...], code: ErrorCode) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    lab = enabled(brokers=1, authorizer_class_name=authorizer)
    allow(lab, *rights)
    client = TwoPhase(lab)
    assert client.init() is code and client.keep() is code
    without = NONE if code is NONE or Operation.WRITE in rights else DENIED
    assert client.keep(timeout_ms=60_000, enable2_pc=False) is without


def test_without_a_transactional_id_the_flags_mean_nothing() -> None:
    lab = made()
    client = TwoPhase(lab)
    client.transactional_id = None  # type: ignore[assignment]
    lab.pass_ms(1000, 50)
    assert client.keep() is NONE and client.id >= 0 and client.ongoing == NOBODY


@pytest.mark.parametrize(("lab", "newest"), [(made, 5), (enabled, 6)])
def test_clients_are_told_of_version_6_where_two_phase_commit_is_on(lab: Any, newest: int) -> None:
    request = message("ApiVersionsRequest")(client_software_name="a", client_software_version="1")
    reply = lab().call(COORDINATOR, "ApiVersions", 4, request).reply
    assert [(one.min_version, one.max_version) for one in reply.api_keys if one.api_key == 22] == [(0, newest)]
