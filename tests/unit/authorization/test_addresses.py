"""A rule for an address holds whoever writes that address how, and one for another address does not."""

import socket

import pytest

from actors.authorization.access_rules import Rule
from actors.authorization.addresses import address, canonical, is_every_interface
from actors.authorization.decisions import RuleIndex
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.host.net.server import ConnectionLimits, Listeners, PortTaken
from actors.node.net.connections import Connection
from actors.node.runtime.calls import Listener
from actors.settings.node_config import node_config

SAME = {
    "192.0.2.9": ("::ffff:192.0.2.9", "::FFFF:192.0.2.9", "::ffff:c000:209", "0:0:0:0:0:ffff:c000:0209"),
    "127.0.0.1": ("::ffff:127.0.0.1", "0:0:0:0:0:FFFF:7f00:1"),
    "::1": ("0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0001", "::1%lo", "0:0:0:0:0:0:0:1%lo"),
    "2001:db8::1": (
        "2001:DB8::1", "2001:db8:0:0:0:0:0:1", "2001:0db8::0001", "2001:db8::0:1", "2001:db8:0::1", "2001:DB8:0:0:0:0:0:1",
        "2001:0DB8:0000:0000:0000:0000:0000:0001",
    ),
    "fe80::1": ("fe80::1%eth0", "FE80::1", "fe80:0:0:0:0:0:0:1%eth0", "fe80::1%2"),
    "::": ("0:0:0:0:0:0:0:0", "0::0"),
    "64:ff9b::c000:209": ("64:ff9b::192.0.2.9", "64:FF9B:0:0:0:0:C000:209"),
}  # fmt: skip
NO_ADDRESSES = (
    "*",
    "",
    "broker-1.example",
    "192.0.2",
    "192.0.2.9.1",
    "192.0.2.009",
    "0xc0.0.2.9",
    "1:2",
    "::ffff:",
    " ::1",
)
SPELLINGS = [(same, one) for same, others in SAME.items() for one in (same, *others)]


@pytest.mark.parametrize(("same", "written"), SPELLINGS)
def test_each_spelling_is_the_same_address(same: str, written: str) -> None:
    assert address(written) == canonical(written) == same


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_address_stays_as_it_is(text: str) -> None:
    assert address(text) is None and canonical(text) == text


@pytest.mark.parametrize(("same", "written"), SPELLINGS)
@pytest.mark.parametrize("peer", [0, -1])
def test_a_rule_denies_a_peer_however_both_are_written(same: str, written: str, peer: int) -> None:
    rules = RuleIndex()
    for number, (who, host, permission) in enumerate(
        (("User:*", "*", Permission.ALLOW), ("User:alice", written, Permission.DENY))
    ):
        rules.put(number, Rule(Resource.TOPIC, "t", Pattern.LITERAL, who, host, Operation.READ, permission))

    def may(host: str) -> bool | None:
        told = Connection(1, Listener.CLIENT, "L", host, {}).peer_host
        return rules.decide("User:alice", told, Operation.READ, Resource.TOPIC, "t")

    assert may((same, *SAME[same])[peer]) is False
    assert may("198.51.100.7") is True and may("2001:db8::2") is True
    rules.put(1, None)
    assert may(same) is True, "a rule that is taken away is found again under its own spelling"


@pytest.mark.parametrize(("same", "written"), SPELLINGS)
def test_a_right_to_some_topic_is_found_too(same: str, written: str) -> None:
    rules = RuleIndex()
    rules.put(1, Rule(Resource.TOPIC, "t", Pattern.LITERAL, "User:a", written, Operation.WRITE, Permission.ALLOW))
    assert rules.allows_some("User:a", same, Operation.WRITE, Resource.TOPIC)
    assert not rules.allows_some("User:a", "198.51.100.7", Operation.WRITE, Resource.TOPIC)


@pytest.mark.parametrize(
    "written", ["[::ffff:192.0.2.9]:1", "192.0.2.9:1", "[2001:DB8:0:0:0:0:0:1]:1", "[2001:db8::1]:1"]
)
def test_a_limit_of_connections_holds_for_each_spelling(written: str) -> None:
    config = node_config(
        {
            "process.roles": "broker", "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data",
            "controller.connect": "127.0.0.1:9093", "max.connections.per.ip.overrides": written,
        }
    )  # fmt: skip
    limits = ConnectionLimits(config)
    same = "192.0.2.9" if "192" in written else "2001:db8::1"
    assert limits.take(same, 10, 5) and not limits.take(same, 10, 5)
    assert all(limits.take("198.51.100.7", 10, 2) for _ in range(2)) and not limits.take("198.51.100.7", 10, 2)


def test_the_peers_of_a_port_for_both_families_are_told_in_that_form() -> None:
    """Such a peer is `::ffff:127.0.0.1` to the system."""
    config = node_config(
        {
            "process.roles": "broker", "broker.id": "1", "listeners": "PLAINTEXT://[::1]:0", "log.dirs": "data",
            "controller.connect": "127.0.0.1:9093",
        }
    )  # fmt: skip
    try:
        listeners = Listeners(config)
    except (PortTaken, OSError):
        pytest.skip("this machine has no IPv6")
    found: list[tuple[str, str]] = []
    with socket.socket(socket.AF_INET6) as both:
        both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        both.bind(("::ffff:127.0.0.1", 0))
        both.listen()
        both.setblocking(False)
        listeners._sockets["PLAINTEXT"].close()
        listeners._sockets["PLAINTEXT"] = both
        with socket.create_connection(("127.0.0.1", both.getsockname()[1])):
            while not found:
                assert listeners.accept(
                    "PLAINTEXT", lambda sock, name, host: (found.append((name, host)), sock.close())
                )
    assert found == [("PLAINTEXT", "127.0.0.1")]


def test_which_hosts_nobody_can_dial() -> None:
    """Each of these is bound on every interface by the C library, or is dialled as one's own machine."""
    zeros = ["", "0.0.0.0", "::", "0", "0.0", "0x0", "00.0.0.0", "0:0:0:0:0:0:0:0", "::0", "0::", "[::]", "[0:0::0]",
             "::ffff:0.0.0.0", "::%lo", "0000:0000:0000:0000:0000:0000:0000:0000"]  # fmt: skip
    assert [one for one in zeros if not is_every_interface(one)] == []
    others = [
        "127.0.0.1",
        "::1",
        "0.0.0.1",
        "10.0.0.0",
        "::ffff:127.0.0.1",
        "zero",
        "0a",
        "0.0.0.0.0",
        "0.example",
        "[]x",
    ]
    assert [one for one in others if is_every_interface(one)] == []
