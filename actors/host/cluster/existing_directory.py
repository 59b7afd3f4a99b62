"""Check the options of a command against a cluster directory that exists already.

This file alone decides which options are refused because they only shape a new directory. An option that the directory
already fulfils is accepted: the same command line may be given again and again.
"""

from collections.abc import Mapping

from actors.host import storage
from actors.host.cluster.plan import CONTROLLERS_BEHIND, METRICS, Plan, refuse_own
from actors.host.cluster.secure_cluster import with_common
from actors.host.security.config_providers import PROVIDERS, resolved
from actors.settings.keys import ConfigError
from actors.settings.listener_security import is_listener_setting
from actors.settings.node_config import node_config
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.properties import ALIASES


def agree(
    plan: Plan,
    common: Mapping[str, str],
    *,
    controllers: int | None = None,
    brokers: int | None = None,
    host: str | None = None,
    port: int | None = None,
    combined: bool = False,
    level: int | None = None,
    secure: bool | None = None,
) -> None:
    """Compare options, as `plan.create` takes them, with the existing plan. None, port 0 and combined=False ask for
    nothing.

    Raises ConfigError with one sentence about the first option that differs, or about a setting that does not exist.
    """
    for what, wanted, have in (("controllers", controllers, plan.controllers), ("brokers", brokers, plan.brokers)):
        if wanted is not None and wanted != len(have):
            raise _differs(plan, f"with {len(have)} {what}, not {wanted}", what)
    if combined and not any(len(member.config.roles) == 2 for member in plan.members):
        raise _differs(plan, "whose controllers and brokers have processes of their own", "combined")
    _agree_addresses(plan, host, port)
    if level is not None:
        found = storage.check(plan.members[0].config)[0].level
        if found != level:
            raise _differs(plan, f"formatted for metadata.format={found}, not {level}", "feature")
    if secure is not None and secure != plan.secure:
        how = "that rayft up has made secure" if plan.secure else "that rayft up has not made secure"
        raise _differs(plan, how, "secure" if secure else "insecure")
    _agree_settings(plan, common)


def _agree_addresses(plan: Plan, host: str | None, port: int | None) -> None:
    hosts = sorted({listener.host for member in plan.members for listener in member.config.listeners})
    if host is not None and hosts != [host]:
        raise _differs(plan, f"that listens on {', '.join(hosts)}, not on {host}", "host")
    first = plan.brokers[0].address("client")[1] if plan.brokers else None
    have = plan.controllers[0].address("controller")[1] - CONTROLLERS_BEHIND if first is None else first
    if port and port != have:
        raise _differs(plan, f"whose first port is {have}, not {port}", "port")


def _agree_settings(plan: Plan, common: Mapping[str, str]) -> None:
    refuse_own(common)
    for member in plan.members:
        providers = {name: text for name, text in member.written.items() if name.startswith(PROVIDERS)}
        wanted = resolved({**providers, **{ALIASES.get(name, name): text for name, text in common.items()}})
        if plan.secure:
            own = dict(member.config.given)
            with_common(own, wanted)
            wanted = own
        asked = node_config({**member.config.given, **wanted})
        for spelt in common:
            name = ALIASES.get(spelt, spelt)
            if asked.given.get(name) == member.config.given.get(name):
                continue
            if name in BROKER_CONFIGS and asked.value(name) == member.config.value(name):
                continue
            if name not in BROKER_CONFIGS and not is_listener_setting(name):
                continue
            if name == METRICS and any(other.config.value(name) == common[spelt].strip() for other in plan.members):
                continue  # each node has a port of its own, counted up from the given one
            have, asks = member.config.given.get(name, "its default"), f", not {common[spelt]}"
            if name not in BROKER_CONFIGS or BROKER_CONFIGS[name].sensitive:
                have, asks = "another value", ""
            raise ConfigError(
                f"{plan.directory} holds a cluster, and {member.name}.properties has {have} for {spelt}{asks}: edit the "
                f".properties files there, or take another --dir."
            )


def _differs(plan: Plan, how: str, option: str) -> ConfigError:
    return ConfigError(
        f"{plan.directory} holds a cluster {how}: leave --{option} out, or take another --dir for a new cluster."
    )
