"""How the command gets in at a node whose configuration it can read: address, TLS, login.

This file alone decides as whom `rayft status` asks: as the node itself, since its files are in the cluster's directory. So
it works wherever nodes reach each other, and whoever may not read these files learns nothing. What changes the quorum of a
secure cluster is asked as the operator, for a node speaks for itself alone.
"""

import ssl
from collections.abc import Callable
from typing import NamedTuple

from actors.authentication.client import Login
from actors.host.net.tls import Tls
from actors.host.work.system_random import SystemRandom
from actors.node.net.dial_login import DialLogins
from actors.settings.listeners import ListenerConfig
from actors.settings.node_config import NodeConfig


class Access(NamedTuple):
    """The address of a node's listener, and how to get in there."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """The TLS of the connection; None: the listener does not speak TLS."""
    login: Callable[[], tuple[str, Login] | None] = lambda: None
    """A function that gives (mechanism, a new login); None: no login is asked for."""

    @property
    def address(self) -> tuple[str, int]:
        """The address of the listener: (host, port)."""
        return self.host, self.port


def client_access(config: NodeConfig) -> Access:
    """The listener at which a node serves clients. Without a login: enough to see whether it serves."""
    listener = next(one for one in config.listeners if one.kind == "client")
    return Access(listener.host or "127.0.0.1", listener.port, _tls(config, listener))


def node_access(config: NodeConfig, *, controller: bool) -> Access:
    """The listener at which other nodes reach a controller, or a broker."""
    name = config.controller_listener_names[0] if controller else config.inter_broker_listener
    listener = next(one for one in config.listeners if one.name == name)
    logins = DialLogins(config, SystemRandom())
    return Access(listener.host or "127.0.0.1", listener.port, _tls(config, listener), lambda: logins.begin(controller))


def operator_access(config: NodeConfig, pem: str) -> Access:
    """The listener at which a controller of a secure cluster is reached with the operator's certificate. `pem`: its key
    too."""
    listener = config.controller_endpoints[0]
    settings = config.security[listener.name].tls
    assert settings is not None, "a secure cluster has TLS between nodes"
    keys = settings.keys._replace(type="PEM", location="", password="", text=pem)
    return Access(listener.host, listener.port, Tls(listener.name, settings._replace(keys=keys)).client)


def _tls(config: NodeConfig, listener: ListenerConfig) -> ssl.SSLContext | None:
    """The TLS for a listener; None: it has none. Raises ConfigError if a keystore cannot be read."""
    settings = config.security[listener.name].tls
    return None if settings is None else Tls(listener.name, settings).client
