"""What a handler may reach: a broker's parts, or a controller's. Which of the two a request gets, its listener decides.

A handler is a function `(context, request, call) -> Answer`. What it does is its answer; besides, it may set going the parts
that its context has, and has no other way to the node. Those of a broker are listed in `roles/broker/parts.py`.
"""

from dataclasses import dataclass

from actors.authorization.rights import Node
from actors.node.api.security.authorizer import Authorizer
from actors.node.api.security.logins import Logins
from actors.node.api.security.speakers import kind
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.parts import BrokerParts
from actors.node.roles.broker.role import BrokerRole
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.settings.node_config import NodeConfig


@dataclass(slots=True)
class Context:
    """What handlers of brokers and of controllers may both reach."""

    runtime: Runtime
    config: NodeConfig
    cluster_id: str
    family: str
    """`drafts` or `released`: which rows of the table this node serves."""
    quorum: QuorumReplica
    authorizer: Authorizer
    requests: RequestChannel
    logins: Logins

    @property
    def pushed(self) -> bool:
        """Whether this node tells, or is told, of metadata by LeaderAndIsr and its like."""
        raise NotImplementedError

    def kind(self, id: int) -> Node:
        """What a node id is to the cluster, as far as this node knows."""
        raise NotImplementedError


class BrokerContext(Context, BrokerParts):
    """What the handler of a request to a broker may reach, on listeners of clients and of other brokers. It has the broker's
    parts, by their names."""

    def __init__(
        self, runtime: Runtime, requests: RequestChannel, quorum: QuorumReplica, storage: Storage, parts: BrokerParts
    ) -> None:
        Context.__init__(
            self,
            runtime,
            runtime.config,
            storage.cluster_id,
            storage.family,
            quorum,
            Authorizer(runtime, runtime.config, lambda: parts.cache.image.rules),
            requests,
            Logins(runtime, lambda: parts.cache.image),
        )
        for name in parts.reachable:  # here once, so that a handler has each of them by one look-up
            setattr(self, name, getattr(parts, name))

    @property
    def pushed(self) -> bool:
        return self.pushed_metadata is not None

    def kind(self, id: int) -> Node:
        return kind(id, self.quorum.identity.voters.ids(), self.cache.image.is_registered, late=True)

    @staticmethod
    def of(
        runtime: Runtime,
        requests: RequestChannel,
        quorum: QuorumReplica,
        storage: Storage,
        role: BrokerRole | None,
    ) -> "BrokerContext | None":
        """The context of a node's broker; None: it is none."""
        if role is None:
            return None
        return BrokerContext(runtime, requests, quorum, storage, role)


@dataclass(slots=True)
class ControllerContext(Context):
    """What the handler of a request to a controller may reach: on its own listener."""

    role: ControllerRole

    @property
    def pushed(self) -> bool:
        return self.role.pusher is not None

    def kind(self, id: int) -> Node:
        return kind(id, self.role.controllers, self.role.image.is_registered, late=not self.role.active)

    @staticmethod
    def of(
        runtime: Runtime,
        requests: RequestChannel,
        quorum: QuorumReplica,
        storage: Storage,
        role: ControllerRole | None,
    ) -> "ControllerContext | None":
        """The context of a node's controller; None: it is none."""
        if role is None:
            return None
        authorizer = Authorizer(runtime, runtime.config, lambda: role.image.rules)
        return ControllerContext(
            runtime,
            runtime.config,
            storage.cluster_id,
            storage.family,
            quorum,
            authorizer,
            requests,
            Logins(runtime, lambda: role.image),
            role,
        )
