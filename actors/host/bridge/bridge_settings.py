"""The checks that `rayft bridge` makes of the nodes' settings before it makes anything: whether nodes with these
settings can live beside the old brokers.

This file alone decides that. `actors/bridge/checks.py` judges what is in ZooKeeper. Rules:

1. Each reason is one sentence, which says what to do; none repeats a password.
2. A node that would not start is found here and not when it is started.
3. What protects the old brokers, and what lets clients in, is not lost on the way over unless the operator says so: no
   open listener where theirs asks for a login, no access rule that is not obeyed, no delegation token without a key.
4. A node that could not log in is found here: at its own listener, and with a password that is not the one in ZooKeeper.
"""

from collections.abc import Iterator

from actors.authentication.scram import ITERATIONS_MAX, Mechanism, credential, salted
from actors.bridge.checks import Findings
from actors.bridge.tokens import OLD_SECRET, SECRET
from actors.host.bridge import bridge_cluster
from actors.host.bridge.bridge_cluster import CONTROLLER, PROTOCOL_MAP, WantedCluster
from actors.host.cluster.secure_cluster import AUTHORIZER, is_loopback
from actors.host.net.tls import Tls
from actors.host.security.config_providers import resolved
from actors.settings.keys import ConfigError
from actors.settings.node_config import NodeConfig, node_config

RULES = "authorizer.class.name"
TRIAL_PORT = 20000
SCRAM = {mechanism.sasl_name: mechanism for mechanism in Mechanism}


def listener(found: Findings, wanted: str | None) -> str:
    """The name of the listener by which the old brokers reach each other. Raises ConfigError."""
    if wanted is not None:
        if wanted.upper() not in found.listeners:
            raise ConfigError(f"--listener {wanted}: the brokers have {', '.join(found.listeners)} in common.")
        return wanted.upper()
    if len(found.listeners) > 1:
        raise ConfigError(
            f"the brokers have the listeners {', '.join(found.listeners)}: write --listener with the one that is their "
            f"inter.broker.listener.name."
        )
    return found.listeners[0]


def objections(shape: WantedCluster, found: Findings) -> Iterator[str]:
    """Reasons why nodes with these settings cannot take the cluster over."""
    try:
        ports = [TRIAL_PORT + offset for offset in bridge_cluster.ports_behind(shape, len(found.listeners))]
        files = bridge_cluster.described(shape, found, ports)
        configs = [node_config(resolved(own)) for own in files.values()]
        for config in configs:
            for name, security in config.security.items():
                if security.tls is not None:
                    Tls(name, security.tls)
    except (ConfigError, OSError) as error:
        yield f"nodes with these settings cannot stand beside the brokers (--config FILE, --set NAME=VALUE): {error}"
        return
    spoken = bridge_cluster.protocols(found)[shape.listener]
    among = bridge_cluster.mapped(shape.common).get(CONTROLLER)
    if among is None and spoken != "PLAINTEXT" and not is_loopback(shape.host):
        yield (
            f"controllers would speak PLAINTEXT among themselves at {shape.host}, where the brokers speak {spoken}: write "
            f"--set {PROTOCOL_MAP}={CONTROLLER}:{spoken} with the settings of that listener, or {CONTROLLER}:PLAINTEXT if "
            f"nobody else reaches it."
        )
    if found.rules and RULES not in shape.common:
        yield (
            f"there are {found.rules} access rules, and nodes without {RULES} obey none of them: write --set "
            f"{RULES}={AUTHORIZER} and super.users as the brokers have them, or {RULES}= to let everybody in."
        )
    if found.tokens and SECRET not in shape.common and OLD_SECRET not in shape.common:
        yield (
            f"there are {found.tokens} delegation tokens, and nodes without {SECRET} let nobody in with one: write --set "
            f"{SECRET}=... as the brokers have it (2.8: {OLD_SECRET}), or {SECRET}= to do without."
        )
    yield from dict.fromkeys(_logins(configs, found))


def _logins(configs: list[NodeConfig], found: Findings) -> Iterator[str]:
    for config in configs:
        for name, security in config.security.items():
            login = security.login
            if login is None:
                continue
            if login.mechanism in SCRAM:
                yield from _scram(name, SCRAM[login.mechanism], login.name, login.password, found)
            elif security.passwords.get(login.name) != login.password:
                yield (
                    f"nodes log in to listener {name} as {login.name}, whom it does not know with that password: add "
                    f'user_{login.name}="..." to its JAAS line.'
                )


def _scram(name: str, mechanism: Mechanism, user: str, password: str, found: Findings) -> Iterator[str]:
    fields = next((dict(one.fields) for one in found.credentials if one.key == (user, int(mechanism))), None)
    if fields is None:
        yield (
            f"nodes log in to listener {name} as {user} with {mechanism.sasl_name}, and ZooKeeper has no such user: "
            f"write the name that the brokers log in with, or add the user with kafka-configs.sh."
        )
        return
    salt, iterations = bytes(fields["salt"]), int(fields["iterations"])  # type: ignore[arg-type,call-overload]
    if iterations > ITERATIONS_MAX:  # it would take too long to see
        return
    kept = credential(mechanism, salt, salted(mechanism, password, salt, iterations), iterations)
    if kept.stored_key != fields["stored_key"]:
        yield (
            f"nodes log in to listener {name} as {user} with a password that is not the one in ZooKeeper: write the "
            f"one that the brokers log in with."
        )
