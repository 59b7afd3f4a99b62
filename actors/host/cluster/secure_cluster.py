"""A cluster that `rayft up` makes secure: what its nodes are told, and what the operator gets.

This file alone decides when a cluster is secure, and how. Below its directory, readable by its owner only:

    security/ca.pem, ca.key         the cluster's authority (`security_directory.py`)
    security/rayft-node-*.pem       key and certificate of each process
    security/client.properties      how the operator's clients connect: for Kafka's tools and Java
    security/librdkafka.conf        the same for kcat and librdkafka

Rules:

1. Off loopback a cluster is secure, unless somebody wrote otherwise. On loopback it is so if that is asked for.
2. Nodes know each other by certificate (mTLS) on listeners of their own, NODES and CONTROLLER. Clients log in with SCRAM on
   CLIENTS, over TLS. The nodes and the operator may do everything; others what access rules allow.
3. The operator's password is random, and is in these two files only. Nodes keep keys that come from it.
"""

import ipaddress
import secrets
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from actors.authentication.scram import Mechanism
from actors.host import storage
from actors.host.security import security_directory as files
from actors.host.security.scram_argument import credential_of
from actors.host.work import durable
from actors.metadata.ops import EntitySet
from actors.settings.keys import ConfigError
from actors.settings.properties import properties

DIRECTORY = "security"
CLIENT_PROPERTIES, LIBRDKAFKA = "client.properties", "librdkafka.conf"
OPERATOR = "admin"
MECHANISM = Mechanism.SCRAM_SHA_512
CLIENTS, NODES, CONTROLLER = "CLIENTS", "NODES", "CONTROLLER"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD_BYTES = 24
SUPER_USERS = "super.users"


def wanted(hosts: Iterable[str], asked: bool | None) -> bool:
    """Whether a new cluster on these hosts is to be secure. `asked`: what was asked for; None: nothing."""
    return not all(is_loopback(host) for host in hosts) if asked is None else asked


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address, or all addresses of a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(row[4][0]).partition("%")[0]).is_loopback for row in found)


def settings(directory: Path, ids: Sequence[int], everybody: Sequence[Sequence[int]]) -> dict[str, str]:
    """The settings of security of a process with these ids. `everybody`: the ids of each process of the cluster."""
    home = (directory / DIRECTORY).absolute()
    users = [files.node_name(one) for one in everybody] + [OPERATOR]
    return {
        "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{NODES}:SSL,{CONTROLLER}:SSL",
        "inter.broker.listener.name": NODES,
        "sasl.enabled.mechanisms": ",".join(one.sasl_name for one in Mechanism),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / f"{files.node_name(ids)}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / files.CA),
        f"listener.name.{NODES.lower()}.ssl.client.auth": "required",
        f"listener.name.{CONTROLLER.lower()}.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": files.PRINCIPAL,
        "authorizer.class.name": AUTHORIZER,
        SUPER_USERS: ";".join(f"User:{name}" for name in users),
    }


def keys_of(directory: Path, ids: Sequence[int]) -> dict[str, str]:
    """The setting that says where a process with these ids has its certificate."""
    name = "ssl.keystore.location"
    return {name: settings(directory, ids, [ids])[name]}


def admit(own: dict[str, str], ids: Sequence[int]) -> None:
    """Count a process among the super users in the settings of another one."""
    name = f"User:{files.node_name(ids)}"
    users = _super_users(own)
    if name not in users:
        own[SUPER_USERS] = ";".join([*users, name])


def expel(own: dict[str, str], ids: Sequence[int]) -> None:
    """Remove a process from the super users in the settings of another one."""
    name = f"User:{files.node_name(ids)}"
    own[SUPER_USERS] = ";".join(one for one in _super_users(own) if one != name)


def _super_users(own: Mapping[str, str]) -> list[str]:
    """The super users, as the authorizer reads them: blanks around a name do not count."""
    return [one for one in map(str.strip, own.get(SUPER_USERS, "").split(";")) if one]


def certify(directory: Path, ids: Sequence[int], host: str) -> None:
    """Make a certificate for a process that comes or has moved. One that is good for the host is kept; one that is not,
    that is over or damaged, is kept until another one is issued. Raises ConfigError."""
    path = directory / DIRECTORY / f"{files.node_name(ids)}.pem"
    if not path.exists() or not files.is_good(path, host):
        hosts = [host, *(["localhost"] if is_loopback(host) else [])]
        files.make_node(path.parent, ids, hosts, replacing=True)


def discard(directory: Path, ids: Sequence[int]) -> None:
    """Remove the certificate of a process that is gone."""
    (directory / DIRECTORY / f"{files.node_name(ids)}.pem").unlink(missing_ok=True)


CHOSEN = frozenset(settings(Path("/"), [1], [[1]])) - {"sasl.enabled.mechanisms", SUPER_USERS} | {
    "security.inter.broker.protocol", "sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol",
    "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.truststore.password", "ssl.truststore.certificates",
}  # fmt: skip
"""The settings that are decided here, so that others' settings may not say them."""


def with_common(own: dict[str, str], common: Mapping[str, str]) -> None:
    """Add the settings of all nodes to those of a process of a secure cluster. Super users come on top of its own.
    Raises ConfigError for a setting of CHOSEN."""
    for name, value in common.items():
        if name in CHOSEN and own.get(name) != value:
            raise ConfigError(
                f"{name} is decided by rayft up for a secure cluster: leave it out, or write --insecure and all that the "
                f"listeners PLAINTEXT and CONTROLLER need for a security of your own."
            )
        if name == SUPER_USERS:
            value = ";".join(dict.fromkeys(one.strip() for one in f"{own[name]};{value}".split(";") if one.strip()))
        own[name] = value


def make(directory: Path, nodes: Mapping[tuple[int, ...], Sequence[str]], bootstrap_servers: str) -> list[Path]:
    """Make the files of a new cluster. `nodes`: the ids of each process, and the hosts at which it is reached. What the
    directory has of an authority is used. Returns what was made; after an error nothing of it is left. Raises
    ConfigError."""
    home = directory / DIRECTORY
    made: list[Path] = []
    new = not home.exists()
    try:
        if not (home / files.CA).exists():
            files.make_authority(home, "rayft")
            made += [home / files.CA, home / files.CA_KEY]
        for ids, hosts in nodes.items():
            if not (home / f"{files.node_name(ids)}.pem").exists():
                made.append(files.make_node(home, ids, hosts))
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        made += [home / CLIENT_PROPERTIES, home / LIBRDKAFKA]
        storage.write(str(home), _client_files(home.absolute(), bootstrap_servers, password))
    except BaseException:
        unmake(directory, made, new=new)
        raise
    return made


def unmake(directory: Path, made: Sequence[Path], *, new: bool) -> None:
    """Remove what `make` has made. `new`: it has made the directory too."""
    for path in made:
        path.unlink(missing_ok=True)
    if new:
        shutil.rmtree(directory / DIRECTORY, ignore_errors=True)


def _client_files(home: Path, bootstrap_servers: str, password: str) -> dict[str, bytes]:
    mechanism, ca = MECHANISM.sasl_name, home / files.CA
    java = {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE} required username="{OPERATOR}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }
    librdkafka = {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.username": OPERATOR,
        "sasl.password": password,
        "ssl.ca.location": str(ca),
    }
    return {
        name: "".join(f"{key}={value}\n" for key, value in one.items() if value).encode()
        for name, one in ((CLIENT_PROPERTIES, java), (LIBRDKAFKA, librdkafka))
    }


def operator(directory: Path) -> EntitySet:
    """The operator's credential, for the first leader. Raises ConfigError if there is no password."""
    path = directory / DIRECTORY / LIBRDKAFKA
    try:
        return credential_of(OPERATOR, MECHANISM, librdkafka(directory)["sasl.password"])
    except KeyError:
        raise ConfigError(f"{path} has no sasl.password: restore it from a copy.") from None


def librdkafka(directory: Path) -> dict[str, str]:
    """The operator's settings for a client of librdkafka. Raises ConfigError."""
    path = directory / DIRECTORY / LIBRDKAFKA
    try:
        return properties(path.read_text("latin-1"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): restore it from a copy.") from None


def is_secure(directory: Path) -> bool:
    """Whether rayft up has made the cluster of a directory secure."""
    return (directory / DIRECTORY / CLIENT_PROPERTIES).exists()


def secret_files(directory: Path) -> list[Path]:
    """The files with secrets that belong to no node."""
    return [directory / DIRECTORY / name for name in (files.CA_KEY, CLIENT_PROPERTIES, LIBRDKAFKA)]


def told(directory: Path, bootstrap_servers: str) -> str:
    """Three lines with what a client of a secure cluster needs."""
    home = directory / DIRECTORY
    if not bootstrap_servers:
        return f"clients of brokers that come later log in as {OPERATOR}, with what is in {home}"
    return (
        f"clients log in as {OPERATOR}, with what is in {home}:\n"
        f"  kafka-topics.sh --bootstrap-server {bootstrap_servers.partition(',')[0]} --command-config "
        f"{home / CLIENT_PROPERTIES} --list\n"
        f"  kcat -F {home / LIBRDKAFKA} -L    (librdkafka 2.6.1 or newer)"
    )


def node_files(directory: Path, ids: Sequence[int]) -> dict[str, bytes]:
    """The files that a node on another machine needs, by name. Raises ConfigError."""
    home = directory / DIRECTORY
    try:
        return {name: (home / name).read_bytes() for name in (files.CA, f"{files.node_name(ids)}.pem")}
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read ({error.strerror}): restore it from a copy.") from None


def place_node_files(directory: Path, given: Mapping[str, bytes]) -> None:
    """Write files on the machine of the node. A certificate that ends later than the given one stays: it was
    renewed."""
    home = directory / DIRECTORY
    home.mkdir(durable.DIRECTORY_MODE, parents=True, exist_ok=True)
    for name, data in given.items():
        files.place(home / name, data)
