"""Which listener serves what: the files of node/api/handlers/, the table and ApiVersions say the same (KIP-631, KIP-291)."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.ledger import Ledger
from actors.node.api import handlers as rpc
from actors.node.api import table
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.dispatch import Dispatch
from actors.node.api.security import api_rights
from actors.node.api.table import BETWEEN_BROKERS
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.settings.node_config import node_config
from actors.wire.messages import message
from tests.served import EVERY, TABLE

rpc.load()
RPC = Path(rpc.__file__).parent
PUSHED = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}
DATA = {0: "Produce", 2: "ListOffsets", 8: "OffsetCommit", 9: "OffsetFetch", 11: "JoinGroup", 12: "Heartbeat"}


def served(listener: Listener) -> set[int]:
    return {key for kind, key in TABLE if kind is listener}


def call(listener: Listener, key: int) -> Call:
    return Call(1, listener, "L", key, 0, None, "h", "User:ANONYMOUS", memoryview(b""))


def test_a_file_an_api_and_an_api_a_file() -> None:
    files = {path.stem for path in RPC.glob("*.py")} - {"__init__", "fetch_metadata"}
    names = {"".join("_" + c.lower() if c.isupper() else c for c in api.name)[1:] for api in EVERY.values()}
    assert names == files


@pytest.mark.parametrize("listener", list(Listener))
def test_api_versions_says_what_the_table_says(listener: Listener) -> None:
    nothing: Any = None
    role: Any = SimpleNamespace(pusher=None, layout_level=lambda call: 2, finalized=lambda: (0, {}))
    cache: Any = SimpleNamespace(image=SimpleNamespace(next_offset=1, features=dict))
    telemetry: Any = SimpleNamespace(on=True, introduced=lambda *named: None)
    requests: Any = SimpleNamespace(connections={})
    context: Any = ControllerContext(nothing, nothing, "c", "drafts", *[nothing] * 4, role)
    if listener is not Listener.CONTROLLER:
        context = BrokerContext.__new__(BrokerContext)
        context.cache, context.telemetry, context.family, context.pushed_metadata = cache, telemetry, "drafts", None
        groups: Any = SimpleNamespace(
            serves_consumers=lambda: True, serves_share_groups=lambda: True, serves_streams=lambda: True
        )
        context.groups = groups
        settings: Any = SimpleNamespace(two_phase=False)
        context.transactions = SimpleNamespace(machine=SimpleNamespace(settings=settings))  # type: ignore[assignment]
    context.requests = requests
    context.quorum = SimpleNamespace(raft=SimpleNamespace(kraft_version=1))
    request = message("ApiVersionsRequest")(client_software_name="c", client_software_version="1")
    answer = TABLE[listener, 18].handler(context, request, call(listener, 18)._replace(api_version=4))
    assert isinstance(answer, Done)
    said = {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.reply.api_keys}
    assert said == {key: TABLE[listener, key].advertised for key in served(listener)}


def test_levels_that_count_are_told_with_the_offset_at_which_they_do() -> None:
    nothing: Any = None
    role: Any = SimpleNamespace(pusher=None, layout_level=lambda call: 2, finalized=lambda: (7, {"metadata.format": 2}))
    context: Any = ControllerContext(nothing, nothing, "c", "drafts", *[nothing] * 4, role)
    context.requests = SimpleNamespace(connections={})
    context.quorum = SimpleNamespace(raft=SimpleNamespace(kraft_version=1))
    request = message("ApiVersionsRequest")(client_software_name="c", client_software_version="1")
    asked = call(Listener.CONTROLLER, 18)._replace(api_version=4)
    answer = TABLE[Listener.CONTROLLER, 18].handler(context, request, asked)
    assert isinstance(answer, Done)
    levels = {one.name: (one.min_version_level, one.max_version_level) for one in answer.reply.finalized_features}
    assert answer.reply.finalized_features_epoch == 7
    assert levels == {"kraft.version": (1, 1), "metadata.format": (2, 2)}


@pytest.mark.parametrize("listener", [one for one in Listener if one is not Listener.BRIDGE])
def test_r631_172_r631_208_to_211_nobody_serves_what_was_pushed(listener: Listener) -> None:
    assert not served(listener) & set(PUSHED)


def test_r631_032_a_controllers_listener_serves_no_data_and_a_brokers_decides_nothing() -> None:
    assert not served(Listener.CONTROLLER) & set(DATA)
    operations = {50, 51, 52, 53, 54, 56, 58, 59, 67}
    assert operations <= served(Listener.CONTROLLER)
    names = {TABLE[Listener.CONTROLLER, key].name for key in operations}
    assert not names & {TABLE[Listener.CLIENT, key].name for key in served(Listener.CLIENT)}, (
        "50 and 51 are other APIs there"
    )
    assert served(Listener.INTER_BROKER) & operations == {50, 51}
    assert served(Listener.CONTROL_PLANE) == {17, 18, 36}


def test_brokers_in_zookeeper_mode_and_their_clients_find_what_they_ask_a_controller_for() -> None:
    """In released Kafka's numbering, whatever the family of the metadata."""
    rows = {key: api.name for (listener, key), api in TABLE.items() if listener is Listener.BRIDGE}
    assert {7: "ControlledShutdown", 56: "AlterPartition", 67: "AllocateProducerIds"}.items() <= rows.items()
    assert set(table.ENVELOPED) <= set(rows)
    assert not {51: "ControllerHeartbeat", 52: "Vote", 59: "FetchSnapshot"}.items() & rows.items(), (
        "nothing of the quorum's"
    )
    assert not set(DATA) & set(rows)
    assert rows.keys() == table.TABLE["released"][Listener.BRIDGE].keys()


def test_clients_beside_the_brokers_may_use_their_listener() -> None:
    """As with Apache Kafka: with listeners INTERNAL and EXTERNAL who is in the same network connects to INTERNAL."""
    assert served(Listener.CLIENT) <= served(Listener.INTER_BROKER)
    beside = served(Listener.CLIENT) - BETWEEN_BROKERS
    assert all(TABLE[Listener.CLIENT, key].name == TABLE[Listener.INTER_BROKER, key].name for key in beside)


@pytest.mark.parametrize("key, looked_at", [(8, False), (11, False), (1, True), (2, True), (23, True)])
def test_a_fenced_broker_looks_at_what_replicas_ask_on_their_listener_only(key: int, looked_at: bool) -> None:
    closed: list[str] = []
    requests: Any = SimpleNamespace(close=lambda connection, why: closed.append(why))
    availability = SimpleNamespace(serving=False, admits=lambda connection, key: False)
    broker: Any = SimpleNamespace(availability=availability, quotas=None, authorizer=SimpleNamespace(enabled=False))
    nothing: Any = None
    runtime: Any = SimpleNamespace(ledger=Ledger())
    dispatch = Dispatch(runtime, requests, nothing, nothing, broker, None)
    connection: Any = SimpleNamespace(id=1, kind=Listener.INTER_BROKER)
    assert dispatch.admitted(connection, key) is looked_at
    assert closed == ([] if looked_at else ["this broker is fenced"])


@pytest.mark.parametrize("key, name", [(50, "BrokerHeartbeat"), (51, "ControllerHeartbeat")])
def test_r631_124_r631_137_a_broker_always_answers_not_controller(key: int, name: str) -> None:
    node: Any = SimpleNamespace(quorum=SimpleNamespace(leader_id=1002))
    answer = TABLE[Listener.INTER_BROKER, key].handler(
        node, message(f"v28:{name}Request")(), call(Listener.INTER_BROKER, key)
    )
    assert isinstance(answer, Done) and answer.reply.error_code == 41
    assert not getattr(answer.reply, "start_snapshot", False)
    assert getattr(answer.reply, "active_controller_id", 1002) == 1002


def test_r631_029_r631_126_there_is_no_other_registration_and_no_rpc_that_hands_out_ids() -> None:
    released = {62: "BrokerRegistration", 63: "BrokerHeartbeat", 70: "ControllerRegistration"}
    assert not {key for _, key in TABLE} & set(released)


@pytest.mark.parametrize("key", [1, 50, 51, 52, 53, 54, 56, 59, 67])
def test_r291_47_what_brokers_and_controllers_ask_goes_before_administration(key: int) -> None:
    assert TABLE[Listener.CONTROLLER, key].lane is Lane.CONTROL
    assert TABLE[Listener.CONTROLLER, 19].lane is Lane.DATA


def test_a01_the_address_decides_what_50_and_51_are() -> None:
    """A broker with one listener has clients and brokers on it: there they are released Kafka's."""
    drafts = {50: "BrokerHeartbeat", 51: "ControllerHeartbeat"}
    released = {50: "DescribeUserScramCredentials", 51: "AlterUserScramCredentials"}
    for listener, wanted in (
        (Listener.CONTROLLER, drafts),
        (Listener.INTER_BROKER, drafts),
        (Listener.CLIENT, released),
    ):
        assert {key: TABLE[listener, key].name for key in (50, 51)} == wanted
        assert {TABLE[listener, key].advertised for key in (50, 51)} == {range(1)}
    made = node_config({"process.roles": "broker", "broker.id": "1", "controller.connect": "h:1"})
    assert [Listener(one.kind) for one in made.listeners] == [Listener.CLIENT]


@pytest.mark.parametrize("key", [50, 51, 56])
def test_a01_a_number_of_the_drafts_is_free_for_another_api_where_metadata_is_released_kafkas(
    key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {family: {listener: dict(of) for listener, of in by.items()} for family, by in table.TABLE.items()}
    monkeypatch.setattr(table, "TABLE", rows)
    monkeypatch.setitem(api_rights.ON_CONTROLLERS, "AlterPartition", api_rights.ON_CONTROLLERS["Envelope"])
    assert key in rows["drafts"][Listener.CONTROLLER] and key not in rows["released"][Listener.CONTROLLER]
    other = table.rpc(key, "AlterPartition", range(2, 4), listeners=[Listener.CONTROLLER], families=("released",))
    other(lambda context, request, call: Done(None))
    assert rows["released"][Listener.CONTROLLER][key].name == "AlterPartition"
    assert rows["drafts"][Listener.CONTROLLER][key].name != "AlterPartition"
    with pytest.raises(ValueError, match="is served by AlterPartition already"):
        other(lambda context, request, call: Done(None))


def test_what_brokers_pass_on_a_controller_takes_in_an_envelope() -> None:
    passed_on = {
        TABLE[Listener.CLIENT, key].name
        for key in served(Listener.CLIENT)
        if TABLE[Listener.CLIENT, key].right is api_rights.PASSED_ON
    }
    assert passed_on and passed_on <= {row.name for row in table.ENVELOPED.values()}
