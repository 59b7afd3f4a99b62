"""The cluster as an answer to a client shows it: a broker's own view, or that of a controller which clients of brokers in
ZooKeeper mode were told of.

This file alone decides what such a controller shows. Rules:

1. It shows what is committed, while it drives brokers in ZooKeeper mode as the active controller, and else nothing: whoever
   asks then hears that its connection is closed, and asks another.
2. It shows itself beside the brokers, under the listener that was asked: clients send it what only a controller can do, and
   look for it among the brokers. Brokers of rayft show it in the same way, as long as it drives: else a client that asks
   one and the other finds the controller and loses it again, with what is in flight there.
"""

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from actors.metadata.image import Image
from actors.metadata.ops import BrokerSet, EndPoint
from actors.node.api.contexts import ControllerContext
from actors.node.api.security.authorizer import Authorizer
from actors.node.roles.broker.metadata.topic_lists import TopicLists
from actors.node.runtime.answers import Close
from actors.node.runtime.runtime import Runtime
from actors.settings.listeners import PROTOCOLS
from actors.settings.node_config import NodeConfig

NOT_DRIVING = Close("this controller drives no brokers in ZooKeeper mode")


class Cache(Protocol):
    """The metadata that is shown."""

    @property
    def image(self) -> Image: ...
    @property
    def me(self) -> int: ...
    def endpoint(self, broker: int, listener: str) -> Any | None: ...


class Alive(Protocol):
    """The brokers that are alive."""

    @property
    def unfenced(self) -> Collection[int]: ...


class Others(Protocol):
    """The brokers that are shown beside those that are registered."""

    def lingering(self, mono_ms: int) -> Iterable[BrokerSet]: ...


class Driven(Protocol):
    """The controller that drives brokers in ZooKeeper mode."""

    @property
    def controller(self) -> BrokerSet | None: ...


class ClusterView(Protocol):
    """What an answer to a client needs of the cluster."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def config(self) -> NodeConfig: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def authorizer(self) -> Authorizer: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def cluster(self) -> Alive: ...
    @property
    def recently_fenced(self) -> Others: ...
    @property
    def driving(self) -> Driven: ...
    @property
    def topic_lists(self) -> TopicLists | None:
        """The lists of all topics that are shared; None: whoever asks gets one of his own."""
        ...


class ShownByController:
    """`ClusterView`, and all of its parts, of an active controller that drives brokers in ZooKeeper mode."""

    def __init__(self, context: ControllerContext, image: Image) -> None:
        self.runtime = context.runtime
        self.config = context.config
        self.cluster_id = context.cluster_id
        self.authorizer = context.authorizer
        self.image = image
        self.me = context.config.controller_id
        self.topic_lists = None
        self.cache = self.cluster = self.recently_fenced = self.driving = self
        self.controller: BrokerSet | None = BrokerSet(
            self.me,
            -1,
            endpoints=tuple(
                EndPoint(one.name, one.host, one.port, PROTOCOLS.index(one.protocol))
                for one in context.config.bridge_endpoints
            ),
        )

    @property
    def unfenced(self) -> Collection[int]:
        """Brokers that may lead, as Metadata names them."""
        return {broker.id for broker in self.image.unfenced_brokers()}

    def endpoint(self, broker: int, listener: str) -> EndPoint | None:
        """Where a broker is reached; None: it is fenced, absent, or has no such listener."""
        registration = self.image.broker(broker)
        if registration is None or registration.fenced:
            return None
        return next((one for one in registration.endpoints if one.name == listener), None)

    def lingering(self, mono_ms: int) -> Iterable[BrokerSet]:
        """No broker lingers: what is not registered is not known here."""
        return ()


def with_controller(context: ClusterView, listener: str, brokers: Iterable[Any]) -> tuple[list[Any], int]:
    """Brokers that an answer on this listener names, by id, and the id of the controller: one that drives brokers in
    ZooKeeper mode where clients reach it, else the node that answers."""
    found, driver = list(brokers), context.driving.controller
    if driver is None or not any(one.name == listener for one in driver.endpoints):
        return found, context.cache.me
    return [*(one for one in found if one.id != driver.id), driver], driver.id


def shown_by_controller(context: ControllerContext) -> ShownByController | None:
    """What this controller shows; None: nothing."""
    role = context.role
    image = role.pusher.image if role.pusher is not None else None
    if not role.active or image is None or role.soft.zookeeper_epoch is None:
        return None
    return ShownByController(context, image)
