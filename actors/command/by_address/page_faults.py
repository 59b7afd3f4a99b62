"""Faults for demonstration: what the page of `rayft up --ui --allow-changes` may have done to the nodes of its cluster.

The page is a process of its own, and asks over a socket that only it was given: a line of JSON, {"do": word, "node": id,
"number": any}, and a line back, {"said": sentence}, {"nodes": [...]} or {"error": sentence}, with the same number. This file
alone decides what may be done (`DEEDS`), and that one thing is done at a time.
"""

import json
import socket
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.host.cluster_error import ClusterError

if TYPE_CHECKING:
    from actors.host.cluster.on_processes import Cluster

LINE_BYTES_MAX = 1_000


class Deed(NamedTuple):
    """A thing that may be done to a node."""

    act: "Callable[[Cluster, int], None]"
    states: frozenset[str]
    """The states of nodes that it is for."""
    said: str
    """What is said when it was done."""


RUNNING = frozenset({"serves", "starts"})
DEEDS: dict[str, Deed] = {
    "kill": Deed(
        lambda cluster, node: cluster.kill(node, restart=False), RUNNING | {"frozen", "cut"},
        "was killed, and stays down until it is started",
    ),
    "freeze": Deed(
        lambda cluster, node: cluster.freeze(node), RUNNING, "is frozen: it answers nobody, and its connections stay open"
    ),
    "thaw": Deed(lambda cluster, node: cluster.thaw(node), frozenset({"frozen"}), "goes on"),
    "cut": Deed(
        lambda cluster, node: cluster.cut(node), frozenset({"serves"}),
        "is cut off: it goes on, and nothing comes to it or leaves it over the network",
    ),
    "reconnect": Deed(
        lambda cluster, node: cluster.reconnect(node), frozenset({"cut"}),
        "has its network back, and what was sent meanwhile arrives",
    ),
    "restart": Deed(lambda cluster, node: cluster.restart(node), RUNNING, "was stopped in good order, and serves again"),
    "start": Deed(lambda cluster, node: cluster.start_node(node), frozenset({"down"}), "is being started"),
}  # fmt: skip


class PageFaults:
    """The cluster's side of the socket."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._sock, self.given = socket.socketpair()
        """The end that the page is given."""
        Thread(target=self._serve, name="rayft-page-faults", daemon=True).start()

    def close(self) -> None:
        """Hear the page no more."""
        self.given.close()
        self._sock.close()

    def _serve(self) -> None:
        with self._sock.makefile("rb") as lines:
            try:
                while line := lines.readline(LINE_BYTES_MAX):
                    answer = {**self.answer(line), **_number(line)}
                    self._sock.sendall(json.dumps(answer).encode() + b"\n")
            except (OSError, ValueError):
                return  # the page has ended

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to one line."""
        try:
            asked = json.loads(line)
            do, node = asked["do"], asked.get("node")
        except (ValueError, TypeError, KeyError, AttributeError):
            return {"error": "that is no question"}
        if not isinstance(do, str) or not isinstance(node, int | None) or isinstance(node, bool):
            return {"error": "that is no question"}
        states = {id: (ids, state) for ids, state in self._cluster.states.items() for id in ids}
        if do == "nodes":
            return {"nodes": self._nodes()}
        if do not in DEEDS or node is None or node not in states:
            return {"error": f"there is nothing called {do!r} that could be done to node {node!r}"}
        deed, state = DEEDS[do], states[node][1]
        if state not in deed.states:
            return {"error": f"node {node} is {_word(state)}: {do} is for one that is {_either(deed.states)}"}
        try:
            deed.act(self._cluster, node)
        except (ClusterError, OSError, KeyError) as error:
            return {"error": f"node {node}: {do} did not succeed: {error}"}
        return {"said": f"Node {_named(states[node][0])} {deed.said}."}

    def _nodes(self) -> list[dict[str, Any]]:
        brokers = set(self._cluster.broker_ids)
        return [
            {
                "ids": list(ids),
                "roles": ["broker" if id in brokers else "controller" for id in ids],
                "state": state,
                "deeds": [name for name, deed in DEEDS.items() if state in deed.states],
            }
            for ids, state in self._cluster.states.items()
        ]


def _number(line: bytes) -> dict[str, Any]:
    """The number of a question, which its answer repeats."""
    try:
        return {"number": json.loads(line)["number"]}
    except (ValueError, TypeError, KeyError):
        return {}


def _named(ids: tuple[int, ...]) -> str:
    return " and ".join(map(str, ids))


def _word(state: str) -> str:
    return {"serves": "running", "starts": "starting", "cut": "cut off"}.get(state, state)


def _either(states: frozenset[str]) -> str:
    return " or ".join(sorted(_word(one) for one in states))
