"""The listening sockets of a node, reserved early and opened when the node says so.

This file alone decides when a port accepts connections. Every port is bound before the node starts. Until `listen` a
connect is refused; from then on until the process ends it is accepted. The numbers of connections to controller and
control-plane listeners are never limited (R291-49).
"""

import errno
import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from actors.authorization.addresses import canonical
from actors.host.work import descriptors
from actors.settings.keys import ConfigError
from actors.settings.listeners import ListenerConfig
from actors.settings.node_config import NodeConfig

UNLIMITED_KINDS = ("controller", "control-plane")
PROTECTED_KINDS = (*UNLIMITED_KINDS, "inter-broker")
"""The kinds of listener that a flood of clients cannot close to other nodes: neither max.connections nor the last
descriptors of clients count for these, as for the inter-broker listener of Apache Kafka if clients have another one."""
ACCEPT_AT_ONCE = 64
NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class PortTaken(Exception):
    """Another process holds a port. The message is one sentence that says what to do."""


class Listeners:
    """The sockets of one node, by listener name."""

    def __init__(self, config: NodeConfig) -> None:
        """Binds all listeners. Raises PortTaken, or ConfigError for a security protocol other than PLAINTEXT."""
        self._sockets: dict[str, socket.socket] = {}
        self._backlog = max(128, config.value("socket.listen.backlog.size"))
        self._kinds = {listener.name: listener.kind for listener in config.listeners}
        self._descriptors_end = {
            name: descriptors.connections_end(limited=kind not in PROTECTED_KINDS) for name, kind in self._kinds.items()
        }
        self.limits = ConnectionLimits(config)
        self._asking = {name for name, security in config.security.items() if security.asks}
        self._authorizer = bool(config.value("authorizer.class.name"))
        for listener in config.listeners:
            try:
                self._sockets[listener.name] = _bind(listener, config.given)
            except BaseException:
                self.close()
                raise

    def ports(self) -> dict[str, int]:
        """The real port of each listener."""
        return {name: int(sock.getsockname()[1]) for name, sock in self._sockets.items()}

    def open_to_others(self) -> str | None:
        """A warning about the listeners without authentication that other machines may reach; None if there are none."""
        found = [
            f"{name} at {host}:{port}"
            for name, sock in self._sockets.items()
            for host, port in (sock.getsockname()[:2],)
            if name not in self._asking and not ipaddress.ip_address(host.partition("%")[0]).is_loopback
        ]
        if not found:
            return None
        if self._authorizer:
            means = (
                "whoever reaches such a port is User:ANONYMOUS and may do what access rules allow that user. Give the "
                "listener SASL, or SSL with ssl.client.auth=required"
            )
        else:
            means = "whoever reaches such a port can read, write and delete everything. Bind 127.0.0.1, give it a login"
        return (
            f"other machines may reach {', '.join(found)}, and there is no authentication: {means}, or let a firewall "
            f"choose who may connect."
        )

    def fileno(self, name: str) -> int:
        """The descriptor of a listener, for readiness."""
        return self._sockets[name].fileno()

    def limited(self, name: str) -> bool:
        """Whether max.connections applies to this listener."""
        return self._kinds[name] not in UNLIMITED_KINDS

    def protected(self, name: str) -> bool:
        """Whether a listener is for other nodes, which clients must not keep out."""
        return self._kinds[name] in PROTECTED_KINDS

    def listen(self, name: str) -> None:
        """Begin to accept connections. Raises PortTaken."""
        try:
            self._sockets[name].listen(self._backlog)
        except OSError as error:
            host, port = self._sockets[name].getsockname()[:2]
            raise _taken(name, host, port, error) from None

    def accept(self, name: str, found: Callable[[socket.socket, str, str], None]) -> bool:
        """Accept waiting connections, at most `ACCEPT_AT_ONCE`. `found` gets the socket, the listener's name and the
        peer's address. False: there is no descriptor or no memory for another one, and the rest goes on waiting."""
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, address = self._sockets[name].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return True
            except OSError as error:
                return error.errno not in NO_ROOM  # else it concerns one connection: the next readiness tries again
            if sock.fileno() >= self._descriptors_end[name]:
                sock.close()
                return False
            found(sock, name, canonical(str(address[0])))
        return True

    def close(self) -> None:
        """Give all ports back."""
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()


class ConnectionLimits:
    """Connections, counted over the limited listeners, and max.connections.per.ip.overrides."""

    def __init__(self, config: NodeConfig) -> None:
        self._overrides = dict(_overrides(config.value("max.connections.per.ip.overrides")))
        self._by_host: Counter[str] = Counter()
        self._all = 0

    def take(self, host: str, most: int, most_per_ip: int, *, protected: bool = False) -> bool:
        """Count one more connection from `host`. `most`, `most_per_ip`: max.connections and max.connections.per.ip as they
        are now. `protected`: the former does not count. False: that would be too many, and nothing is counted."""
        if (self._all >= most and not protected) or self._by_host.get(host, 0) >= self._overrides.get(
            host, most_per_ip
        ):
            return False
        self._all += 1
        self._by_host[host] += 1
        return True

    def give(self, host: str) -> None:
        """Count one connection less from `host`."""
        self._all -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def _overrides(text: str) -> Iterator[tuple[str, int]]:
    """(address, number) of each override. A peer is known by its address, so a name is replaced by the addresses that
    it has now."""
    for pair in text.split(","):
        if pair.strip():
            host, _, most = pair.strip().rpartition(":")
            try:
                rows = socket.getaddrinfo(host.strip("[]") or "(nobody)", None, type=socket.SOCK_STREAM)
                yield from ((canonical(str(row[4][0])), int(most)) for row in rows)
            except (OSError, ValueError):
                raise ConfigError(
                    f"max.connections.per.ip.overrides has {pair.strip()}: write address:number pairs, with addresses or "
                    f"names that are known."
                ) from None


def _bind(listener: ListenerConfig, given: Mapping[str, str]) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError) as error:  # a name with an empty or too long part is never looked up
        raise PortTaken(
            f"{listener.name} has the host {listener.host}, which is not known ({error}): write another."
        ) from None
    family, _, _, _, address = next((row for row in found if row[0] == socket.AF_INET), found[0])
    try:
        return _bound(family, address, given)
    except OSError as error:
        raise _taken(listener.name, listener.host, listener.port, error) from None


def _bound(family: int, address: Any, given: Mapping[str, str]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for name, option in (("send", socket.SO_SNDBUF), ("receive", socket.SO_RCVBUF)):
            if int(given.get(f"socket.{name}.buffer.bytes", "-1")) > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, int(given[f"socket.{name}.buffer.bytes"]))
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _taken(name: str, host: str, port: int, error: OSError) -> PortTaken:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(
            f"{name} wants {host or '*'}:{port}, which another process uses: stop it, or choose another port."
        )
    return PortTaken(f"{name} cannot use {host or '*'}:{port} ({error.strerror}): choose another host or port.")
