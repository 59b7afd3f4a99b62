"""The directory with a cluster's authority and what it has issued: what `rayft certificate` makes, and `rayft up`.

This file alone decides the names of these files and which names a certificate may have:

    ca.pem                  the authority's certificate, which everybody trusts
    ca.key                  its key, which makes its holder any node and any client. Nodes do not need it
    rayft-node-1-1001.pem   key and certificate of the process with the ids 1 and 1001, for its hosts
    alice.pem               key and certificate of the client alice

Rules:

1. Keys are PEM (PKCS8) without a password, in files that their owner alone can read.
2. Nothing is overwritten but by `renew`, which keeps the name and the hosts, and where a process has moved. What is there
   stays until the new certificate is issued. The authority's renewal keeps its key too, so
   that what it has issued stays good.
3. Names that begin with `rayft-node` are those of nodes (`node/api/security/speakers.py`); no client gets one.
"""

import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.authorization.addresses import is_every_interface
from actors.host.work import durable
from actors.settings.keys import ConfigError

CA, CA_KEY = "ca.pem", "ca.key"
NODE = "rayft-node"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
ID_MAX = (1 << 31) - 1
DAYS_MAX = 36_500
PRINCIPAL = r"RULE:^CN=([^,]+)$/$1/,DEFAULT"
"""The value of `ssl.principal.mapping.rules` that makes `User:alice` of a certificate for alice."""


def node_name(ids: Sequence[int]) -> str:
    """The name of a process with these ids, the broker's first."""
    return "-".join((NODE, *map(str, ids)))


def make_authority(directory: Path, name: str) -> Path:
    """Make a new authority in a directory. Returns the path of its certificate. Raises ConfigError."""
    certificates = _certificates()
    _check_name(name, "--name")
    for file in (directory / CA, directory / CA_KEY):
        if file.exists():
            raise ConfigError(
                f"{file} is there already: take another --dir, or renew that authority with rayft certificate renew {file}."
            )
    try:
        directory.mkdir(durable.DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{directory} cannot be a directory ({error.strerror}): name another one with --dir."
        ) from None
    made = certificates.authority(name, _now())
    certificates.write(directory / CA_KEY, made.key)
    certificates.write(directory / CA, made.certificate)
    return directory / CA


def make_node(
    directory: Path, ids: Sequence[int], hosts: Sequence[str], days: int | None = None, *, replacing: bool = False
) -> Path:
    """Make a certificate for one process. `ids`: its broker id, its controller id, or both in this order. `hosts`:
    names and addresses at which others reach it. `replacing`: in place of one that is there, which stays until the new
    one is issued. Returns its path. Raises ConfigError."""
    if not ids or len(ids) > 2 or len(set(ids)) < len(ids) or not all(0 <= id <= ID_MAX for id in ids):
        raise ConfigError(
            f"--id {' --id '.join(map(str, ids)) or '(none)'} is not possible: write --id with the node's id or, for a "
            f"process with two roles, --id with its broker.id and --id with its controller.id."
        )
    if not hosts:
        raise ConfigError(
            "a node's certificate names where it is reached: write --host, once for each name and address."
        )
    for host in hosts:
        if not _HOST.fullmatch(host) or is_every_interface(host):
            raise ConfigError(
                f"--host {host} is no name or address that others can dial: write those of listeners and "
                f"advertised.listeners."
            )
    return _make(directory, node_name(ids), hosts, days, replacing=replacing)


def make_client(directory: Path, name: str, days: int | None = None) -> Path:
    """Make a certificate for a client. Returns its path. Raises ConfigError."""
    _check_name(name, "--name")
    return _make(directory, name, (), days)


def issue_client(directory: Path, name: str) -> str:
    """Make key and certificate of a client for a day, as PEM. They are kept nowhere. Raises ConfigError."""
    certificates = _certificates()
    pem: bytes = certificates.issue(_authority(directory), name, _now(), days=1).pem
    return pem.decode()


def renew(path: Path, days: int | None = None) -> None:
    """Make a new certificate with the same name and hosts, in the same file; its authority is in the same directory.
    Raises ConfigError."""
    certificates = _certificates()
    itself = path.name in (CA, CA_KEY)
    by = _authority(path.parent, renewing=itself)
    if itself:
        certificates.write(path.parent / CA, certificates.renewed_authority(by, _now()).certificate)
        return
    pem = _read(path)
    try:
        old = certificates.said(pem)
    except ValueError as error:
        raise ConfigError(
            f"{path} has no certificate that can be renewed ({error}): name a file of rayft certificate."
        ) from None
    if not certificates.is_of(by, pem):
        raise ConfigError(
            f"{path} was issued by another authority than {path.parent / CA}: put it beside the files of its own, or "
            f"issue a new one."
        )
    issued = certificates.issue(by, old.name, _now(), old.hosts, old.unit, _days(days))
    certificates.write(path, issued.pem)


def told(path: Path) -> str:
    """The content of a file in one line, without secrets: its owner, its hosts, and its end."""
    found = _certificates().said(_read(path))
    who = "authority" if found.signs else f"key and certificate of User:{found.name}"
    where = f" at {', '.join(found.hosts)}" if found.hosts else ""
    return f"{path}: {who}{where}, until {found.until:%Y-%m-%d}"


def is_good(path: Path, host: str) -> bool:
    """Whether a file has a certificate that names that host and is not over. Raises ConfigError if it cannot be read."""
    certificates = _certificates()
    try:
        found = certificates.said(_read(path))
    except ValueError:  # it is damaged
        return False
    return host in found.hosts and found.until > _now()


def place(path: Path, pem: bytes) -> None:
    """Write a file that was made elsewhere, unless one is there that ends later: it was renewed. Raises ConfigError."""
    certificates = _certificates()
    try:
        if path.exists() and certificates.said(path.read_bytes()).until > certificates.said(pem).until:
            return
    except ValueError:  # what is there is damaged
        pass
    certificates.write(path, pem)


def _make(directory: Path, name: str, hosts: Sequence[str], days: int | None, *, replacing: bool = False) -> Path:
    certificates = _certificates()
    path = directory / f"{name}.pem"
    if path.exists() and not replacing:
        raise ConfigError(f"{path} is there already: renew it with rayft certificate renew {path}, or remove it.")
    by = _authority(directory)
    certificates.write(path, certificates.issue(by, name, _now(), hosts, days=_days(days)).pem)
    return path


def _authority(directory: Path, *, renewing: bool = False) -> Any:
    """The authority of a directory. Raises ConfigError if it is not there, damaged, or over."""
    certificates = _certificates()
    if not (directory / CA).exists():
        raise ConfigError(
            f"{directory} has no authority ({CA}): make one with rayft certificate authority --dir {directory}."
        )
    found = certificates.Issued(_read(directory / CA_KEY), _read(directory / CA))
    try:
        whole, until = certificates.belong(found), certificates.said(found.certificate).until
    except (ValueError, TypeError):
        whole, until = False, _now()
    if not whole:
        raise ConfigError(
            f"{directory / CA} and {directory / CA_KEY} are not a certificate and its key: restore them from a copy."
        )
    if until < _now() and not renewing:
        raise ConfigError(
            f"the authority in {directory} was good until {until:%Y-%m-%d}: renew it with rayft certificate renew "
            f"{directory / CA}, and give every node and client the new {CA}."
        )
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): name a file of rayft certificate.") from None


def _check_name(name: str, option: str) -> None:
    if not _NAME.fullmatch(name) or name.startswith(NODE):
        raise ConfigError(
            f"{option} {name} is not possible: write up to 64 letters, digits and . _ @ -, not beginning with {NODE}, as "
            f"only nodes have such names (rayft certificate node)."
        )


def _days(days: int | None) -> int:
    if days is None:
        return int(_certificates().DAYS)
    if not 1 <= days <= DAYS_MAX:
        raise ConfigError(f"--days {days} is not possible: write a number from 1 to {DAYS_MAX}.")
    return days


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _certificates() -> Any:
    """The module that makes certificates. Raises ConfigError if its library is not installed."""
    try:
        from actors.host.security import certificates
    except ImportError:
        raise ConfigError("certificates need the package cryptography: pip install 'rayft[tls]'.") from None
    return certificates
