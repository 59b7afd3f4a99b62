"""The logins of this node at the nodes that it dials: at brokers on the inter-broker listener, at controllers on their
own.

This file alone decides which exchange a new connection begins with. `channels.py` decides where the node dials. KIP-43,
KIP-84.
"""

from functools import lru_cache

from actors.authentication.client import Login, PlainLogin, ScramLogin
from actors.authentication.scram import Mechanism, salted
from actors.ports import Random
from actors.settings.node_config import NodeConfig

SCRAM = {mechanism.sasl_name: mechanism for mechanism in Mechanism}
_salted = lru_cache(maxsize=16)(salted)
"""Salts a password as `salted` does, and remembers the results: salting takes milliseconds, and a node dials the same
few others again and again."""


class DialLogins:
    """The logins of one node."""

    def __init__(self, config: NodeConfig, random: Random) -> None:
        self._random = random
        self._security = config.security
        self._names = (config.inter_broker_listener, next(iter(config.controller_listener_names), ""))
        found = [config.security[name].login if name in config.security else None for name in self._names]
        self._to_broker, self._to_controller = found

    def listener(self, to_controller: bool) -> str:
        """The name of the listener that this node dials."""
        return self._names[to_controller]

    def begin(self, to_controller: bool, listener: str = "") -> tuple[str, Login] | None:
        """(mechanism, login) of a new connection; None: the listener asks for no login. `listener`: another one than
        these two."""
        if listener:
            known = self._security[listener].login if listener in self._security else None
        else:
            known = self._to_controller if to_controller else self._to_broker
        if known is None:
            return None
        if known.mechanism in SCRAM:
            nonce = self._random.uuid() + self._random.uuid()
            mechanism = SCRAM[known.mechanism]
            return known.mechanism, ScramLogin(mechanism, known.name, known.password, nonce, _salted)
        return known.mechanism, PlainLogin(known.name, known.password)
