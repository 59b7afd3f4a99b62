"""Golden bytes of the drafts of KIP-631 and of AlterIsr (KIP-497), in both directions."""

from typing import Any

import pytest

from actors.wire.framing import decode_request_header, encode_request
from actors.wire.messages import decode_exact, encode, head, message

U = bytes(range(0x10, 0x20))
PLAIN = {"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}
HEARTBEAT = {
    "target_state": 3, "broker_id": 1, "broker_epoch": -1, "lease_start_time_ms": 1600000000000,
    "cur_metadata_offset": 41, "listeners": [("Listener", PLAIN)],
}  # fmt: skip
PARTITION = {
    "partition_id": 0, "topic_id": U, "replicas": [1, 2, 3], "isr": [1, 2, 3], "removing_replicas": [],
    "adding_replicas": [], "leader": 1, "leader_epoch": 0,
}  # fmt: skip
REFUSAL = {"error_code": 41, "active_controller_id": -1, "next_state": 0, "broker_epoch": -1, "lease_end_time_ms": 0}

BOTH = [
    ("BrokerRecord", {"broker_id": 1, "broker_epoch": 5, "end_points": [("BrokerEndpoint", PLAIN)], "rack": None},
     "000000010000000000000005020a504c41494e54455854026823840000000000"),
    ("BrokerRecord",
     {"broker_id": 1, "broker_epoch": 5, "end_points": [("BrokerEndpoint", {**PLAIN, "port": 50000})], "rack": "r1"},
     "000000010000000000000005020a504c41494e544558540268c35000000003723100"),
    ("TopicRecord", {"name": "t", "topic_id": U, "deleting": False},
     "0274101112131415161718191a1b1c1d1e1f0000"),
    ("PartitionRecord", PARTITION,
     "00000000101112131415161718191a1b1c1d1e1f0400000001000000020000000304000000010000000200000003"
     "0101000000010000000000"),
    ("ConfigRecord", {"resource_type": 2, "resource_name": "t", "name": "retention.ms", "value": "1000"},
     "0202740d726574656e74696f6e2e6d73053130303000"),
    ("IsrChangeRecord", {"partition_id": 0, "topic_id": U, "isr": [2, 3], "leader": 2, "leader_epoch": 1},
     "00000000101112131415161718191a1b1c1d1e1f030000000200000003000000020000000100"),
    ("AccessControlRecord",
     {"resource_type": 2, "resource_name": None, "pattern_type": 3, "principal": "User:a", "host": "*",
      "operation": 3, "permission_type": 3},
     "02000307557365723a61022a030300"),
    ("BrokerHeartbeatRequest", HEARTBEAT,
     "0300000001ffffffffffffffff00000174876e80000000000000000029020a504c41494e544558540268238400000000"),
    ("ControllerHeartbeatRequest", {"controller_id": 1002, "last_snapshot_offset": 100},
     "000003ea000000000000006400"),
    ("AlterIsrRequest",
     {"broker_id": 1, "broker_epoch": 142, "topics": [("TopicData", {"topic": "t", "partitions": [("PartitionData", {
         "partition_id": 0, "leader": 1, "leader_epoch": 5, "isr": [1, 2], "current_zk_version": 7})]})]},
     "00000001000000000000008e02027402000000000000000100000005030000000100000002" "00000007000000"),
    ("AlterIsrResponse",
     {"error_code": 0, "topics": [("TopicData", {"topic": "t", "partitions": [("PartitionData", {
         "partition_id": 0, "error_code": 0})]})]},
     "00000202740200000000" "0000000000"),
    ("AlterIsrResponse",
     {"error_code": 0, "topics": [("TopicData", {"topic": "t", "partitions": [("PartitionData", {
         "partition_id": 1, "error_code": 95})]})]},
     "00000202740200000001" "005f000000"),
]  # fmt: skip
LEVEL = [
    ("v28:DeleteBrokerRecord", {"id": 1}, "0000000100"),
    ("v28:DeleteTopicRecord", {"name": U}, "101112131415161718191a1b1c1d1e1f00"),
    ("v19:BrokerHeartbeatResponse",
     {"error_code": 0, "active_controller_id": 1001, "next_state": 3, "broker_epoch": 5,
      "lease_end_time_ms": 1600000030000},
     "0000000003e903000000000000000500000174876ef53000"),
    ("v28:BrokerHeartbeatResponse",
     {"throttle_time_ms": 0, "error_code": 0, "active_controller_id": 1001, "next_state": 3, "broker_epoch": 5,
      "lease_end_time_ms": 1600000020000},
     "000000000000000003e903000000000000000500000174876ece2000"),
    ("v19:BrokerHeartbeatResponse", REFUSAL, "0029ffffffff00ffffffffffffffff000000000000000000"),
    ("v28:BrokerHeartbeatResponse", {"throttle_time_ms": 0, **REFUSAL},
     "000000000029ffffffff00ffffffffffffffff000000000000000000"),
    ("v19:ControllerHeartbeatResponse", {"error_code": 0, "start_snapshot": True}, "00000100"),
    ("v28:ControllerHeartbeatResponse", {"throttle_time_ms": 0, "error_code": 0, "start_snapshot": True},
     "0000000000000100"),
]  # fmt: skip
RELEASED = [
    ("group:ConsumerGroupMemberMetadataValue", {}, "010101010101ffffffff0100"),
    ("group:ConsumerGroupMemberMetadataValue", {"classic_member_metadata": None},
     "010101010101ffffffff0101000100"),
    ("group:ConsumerGroupCurrentMemberAssignmentValue",
     {"assigned_partitions": [("TopicPartitions", {"assignment_epochs": None})]},
     "0000000000000000" "00" "02" + "00" * 16 + "01" "01000100" "01" "00"),
]  # fmt: skip
"""What Apache Kafka 4.3.1 writes where its schema language leaves a choice: null inside a tag, tags at their defaults."""
CASES = (
    [(f"{level}:{name}", fields, value) for level in ("v19", "v28") for name, fields, value in BOTH] + LEVEL + RELEASED
)

TYPES = {
    "BrokerRecord": 0, "TopicRecord": 1, "PartitionRecord": 2, "ConfigRecord": 3, "IsrChangeRecord": 4,
    "AccessControlRecord": 5, "DeleteBrokerRecord": 6, "DeleteTopicRecord": 7,
}  # fmt: skip


def build(cls: type[Any], fields: dict[str, Any]) -> Any:
    """A message from plain data; a list of (struct name, fields) is a list of structs."""
    return cls(**{name: _items(cls, value) for name, value in fields.items()})


def _items(cls: type[Any], value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return [nested(cls, kind, fields) for kind, fields in value]
    return value


def nested(cls: type[Any], kind: str, fields: dict[str, Any]) -> Any:
    made = getattr(cls, kind)
    return made(**{name: _items(cls, value) for name, value in fields.items()})


@pytest.mark.parametrize(("name", "fields", "value"), CASES)
def test_golden(name: str, fields: dict[str, Any], value: str) -> None:
    made = build(message(name), fields)
    assert encode(made, 0).hex() == value
    assert decode_exact(name, 0, bytes.fromhex(value)) == made


@pytest.mark.parametrize(("name", "number"), TYPES.items())
def test_record_types(name: str, number: int) -> None:
    assert head(f"v28:{name}")[:2] == ("record", number)
    assert number > 5 or head(f"v19:{name}").number == number


def test_level_1_has_no_delete_records() -> None:
    for name in ("DeleteBrokerRecord", "DeleteTopicRecord"):
        with pytest.raises(KeyError):
            message(f"v19:{name}")


def test_heartbeat_with_its_header() -> None:
    made = build(message("v28:BrokerHeartbeatRequest"), HEARTBEAT)
    frame = b"".join(encode_request("BrokerHeartbeat", 0, 7, "1", made))
    body = (
        "0032000000000007000131000300000001ffffffffffffffff00000174876e80000000000000000029"
        "020a504c41494e544558540268238400000000"
    )
    assert frame.hex() == f"{len(body) // 2:08x}{body}"
    assert decode_request_header(frame[4:]) == ((50, 0, 7, "1"), 12)


def test_sizes_tell_the_levels_apart() -> None:
    """A02: 24 against 28 bytes, 4 against 8, the empty tag section counted."""
    for name, size in (("BrokerHeartbeatResponse", 24), ("ControllerHeartbeatResponse", 4)):
        assert len(encode(message(f"v19:{name}")(), 0)) == size
        assert len(encode(message(f"v28:{name}")(), 0)) == size + 4


def test_extensions_have_the_released_numbers() -> None:
    """A08, A36."""
    numbers = {
        "FeatureLevelRecord": 12, "ProducerIdsRecord": 15, "ClientQuotaRecord": 14, "UserScramCredentialRecord": 11,
        "RemoveUserScramCredentialRecord": 22, "RemoveAccessControlRecord": 19, "DelegationTokenRecord": 10,
        "RemoveDelegationTokenRecord": 26,
    }  # fmt: skip
    for name, number in numbers.items():
        assert head(f"extensions:{name}").number == number


def test_unknown_tag_is_ignored() -> None:
    """R631-068, R631-200."""
    plain = message("v28:TopicRecord")(name="t", topic_id=U)
    value = encode(plain, 0)
    assert decode_exact("v28:TopicRecord", 0, value[:-1] + bytes.fromhex("013f03aabbcc")) == plain


UNKNOWN_TAG = bytes.fromhex("013f03aabbcc")
"""One tagged field, 63, of three bytes."""


@pytest.mark.parametrize("level", ["v19", "v28"])
@pytest.mark.parametrize("name", ["BrokerHeartbeat", "ControllerHeartbeat"])
@pytest.mark.parametrize("which", ["Request", "Response"])
def test_r631_200_an_unknown_tag_of_a_heartbeat_is_ignored(which: str, name: str, level: str) -> None:
    """Behind the message, and behind each element of its lists."""
    cls = message(f"{level}:{name}{which}")
    plain = cls()
    value = encode(plain, 0)
    assert decode_exact(cls, 0, value[:-1] + UNKNOWN_TAG) == plain
    with pytest.raises(ValueError, match="left over"):
        decode_exact(cls, 0, value[:-1] + UNKNOWN_TAG + b"\0")
    if (which, name) == ("Request", "BrokerHeartbeat"):
        one = cls(listeners=[cls.Listener(name="L", host="h", port=9092, security_protocol=0)])
        inner = encode(one, 0)
        element = b"\x02L\x02h" + (9092).to_bytes(2, "big") + b"\0\0"
        assert inner.count(element + b"\0") == 1 or inner.count(element) == 1
        assert decode_exact(cls, 0, inner.replace(element + b"\0", element + UNKNOWN_TAG)) == one


def test_a_nullable_struct_inside_a_tag() -> None:
    """Released bytes: size 7, a 1 for present, then the struct."""
    cls = message("group:ConsumerGroupMemberMetadataValue")
    made = cls(classic_member_metadata=cls.ClassicMemberMetadata(session_timeout_ms=0x11223344))
    assert encode(made, 0).hex() == "010101010101ffffffff0101000701112233440100"
    assert decode_exact(cls, 0, encode(made, 0)) == made
