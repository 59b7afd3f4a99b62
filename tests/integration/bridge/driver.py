"""A controller of rayft that drives brokers in ZooKeeper mode, with the least that ZooKeeper has to be told: for tests of
what is said to such brokers. The way over, with its checks and its way back, is `rayft bridge`.

    python -m tests.integration.bridge.driver controller.properties ZOOKEEPER

Topics are taken as ZooKeeper has them; a line `driving` is printed when the brokers are told.
"""

import base64
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from actors.config import ListenerConfig, node_config, properties
from actors.controller.state import Result
from actors.controller.zookeeper_brokers import LiveBroker
from actors.host.loop import Loop
from actors.host.serve import Journal, serve
from actors.metadata.ops import ConfigSet, EndPoint, PartitionsSet, TopicSet

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Driver:
    """ZooKeeper on one side, the active controller on the other."""

    def __init__(self, loop: Loop, zookeeper: str) -> None:
        self._loop = loop
        self._zookeeper = KazooClient(zookeeper)
        self._known: set[str] = set()
        """Topics that the controller was told of."""
        self._brokers: list[int] = []

    def run(self) -> None:
        """Take the cluster over, and follow who is there."""
        while not getattr(self._loop, "_node", None) or not self._node.controller.active:
            time.sleep(0.05)
        self._zookeeper.start()
        self._take_topics(self._children("/brokers/topics"))
        epoch = self._claim()
        self._in_turn(lambda role: setattr(role.soft, "zookeeper_epoch", epoch))
        self._zookeeper.ChildrenWatch("/brokers/ids", self._follow)
        self._zookeeper.ChildrenWatch("/brokers/topics", self._take_topics)
        print("driving", flush=True)

    @property
    def _node(self) -> Any:
        return self._loop._node

    def _in_turn(self, act: Any) -> None:
        def now() -> None:
            act(self._node.controller)
            self._loop._wake()

        self._loop._loop.call_soon_threadsafe(now)

    def _json(self, path: str) -> Any:
        return json.loads(self._zookeeper.get(path)[0])

    def _children(self, path: str) -> list[str]:
        return sorted(self._zookeeper.get_children(path)) if self._zookeeper.exists(path) else []

    def _take_topics(self, names: list[str]) -> None:
        """Topics that are not known yet: those that were there, and those that brokers make by themselves."""
        found = [one for name in sorted(set(names) - self._known) for one in self._topic(name)]
        self._known.update(names)
        self._in_turn(lambda role: role._apply(Result(found, None, atomic=False)))

    def _topic(self, name: str) -> list[Any]:
        topic = self._json(f"/brokers/topics/{name}")
        id = base64.urlsafe_b64decode(topic["topic_id"] + "==")
        ops: list[Any] = [TopicSet(name, id)]
        for number, replicas in sorted((int(n), r) for n, r in topic["partitions"].items()):
            path = f"/brokers/topics/{name}/partitions/{number}/state"
            if self._zookeeper.exists(path):
                state, stat = self._zookeeper.get(path)
                was = json.loads(state)
                epoch = max(was["leader_epoch"], stat.version) + 1
                ops.append(PartitionsSet.one(id, number, replicas, was["isr"], was["leader"], epoch, epoch))
            else:  # brokers that make a topic take this controller for one of them
                replicas = [one for one in replicas if one != self._node.id] or self._brokers[:1]
                ops.append(PartitionsSet.one(id, number, replicas, replicas, replicas[0], 0, 0))
        settings = self._json(f"/config/topics/{name}")["config"]
        return ops + [ConfigSet(2, name, key, value) for key, value in sorted(settings.items())]

    def _claim(self) -> int:
        me, epoch = self._node.id, self._zookeeper.get("/controller_epoch")
        claim = self._zookeeper.transaction()
        claim.check("/controller_epoch", epoch[1].version)
        claim.delete("/controller")
        claim.create("/controller", json.dumps({"version": 1, "brokerid": me, "timestamp": "0"}).encode())
        claim.set_data("/controller_epoch", str(int(epoch[0]) + 1).encode())
        results = claim.commit()
        assert not any(isinstance(one, Exception) for one in results), results
        listeners: tuple[ListenerConfig, ...] = self._node.config.bridge_endpoints
        own = {
            "version": 5,
            "host": listeners[0].host,
            "port": listeners[0].port,
            "jmx_port": -1,
            "timestamp": "0",
            "features": {},
            "listener_security_protocol_map": {one.name: one.protocol for one in listeners},
            "endpoints": [f"{one.name}://{one.host}:{one.port}" for one in listeners],
        }
        self._zookeeper.create(f"/brokers/ids/{me}", json.dumps(own).encode(), ephemeral=True)
        return int(epoch[0]) + 1

    def _follow(self, ids: list[str]) -> None:
        live = []
        for id in ids:
            data, stat = self._zookeeper.get(f"/brokers/ids/{id}")
            broker = json.loads(data)
            protocols = broker["listener_security_protocol_map"]
            endpoints = []
            for text in broker["endpoints"]:
                name, _, address = text.partition("://")
                host, _, port = address.rpartition(":")
                endpoints.append(EndPoint(name, host, int(port), PROTOCOLS.index(protocols[name])))
            live.append(LiveBroker(int(id), stat.czxid, tuple(endpoints), broker.get("rack")))
        self._brokers = [broker.id for broker in live if broker.id != self._node.id]
        self._in_turn(lambda role: role.follow_zookeeper(live))


def main() -> None:
    """Run the controller until it is stopped."""
    config = node_config(properties(Path(sys.argv[1]).read_text()))

    def looping(loop: Loop) -> None:
        threading.Thread(target=Driver(loop, sys.argv[2]).run, daemon=True).start()

    code, sentence = serve(config, Journal(sys.stderr), looping=looping)
    sys.exit(f"{sentence}" if code else 0)


if __name__ == "__main__":
    main()
