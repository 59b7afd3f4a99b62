"""The output of the `rayft` command: the state of a cluster as values, as a table, as one line.

This file alone decides the words on the screen and the keys of `status --json`. Each text that may be of others, of nodes,
ZooKeeper or a file, goes through `text`: it is no markup, and holds nothing that a terminal obeys.
"""

import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from actors.command.output import explained, listing
from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.cluster import probe
from actors.host.cluster.access import client_access, node_access
from actors.host.net.tls import ends_soon
from actors.host.work import locks
from actors.printable import printable, unguarded
from actors.why.phrases import partitions

CONNECT = "rayft.bridge.zookeeper.connect"

COLOURS = {"down": "red", "fenced": "yellow", "candidate": "yellow", "observer": "yellow"}
"""The colours of states that are not as they should be."""


class Screen(Console):
    """Standard output, with colours where it is a terminal."""

    def __init__(self) -> None:
        super().__init__(file=unguarded(sys.stdout), emoji=False, markup=False, highlight=False)

    def say(self, sentences: str, bold: str = "") -> None:
        """Print sentences, and behind them something in bold. They are not folded."""
        for line in sentences.split("\n"):
            self.print(text(line) + Text(printable(bold), style="bold"), soft_wrap=True)


def text(words: object) -> Text:
    """Something as a text that is shown as it is."""
    return Text(printable(str(words)))


NODES = listing.Listing({
    "role": listing.TEXT, "id": listing.INT, "host": listing.TEXT, "port": listing.INT, "state": listing.TEXT,
    "pid": listing.INT, "lag": listing.LONG,
})  # fmt: skip
"""The rows of nodes, for programs that want no more."""


def is_cluster(directory: Path) -> bool:
    """Whether a cluster was started in a directory."""
    return plans.load(directory) is not None


def state(directory: Path) -> dict[str, Any]:
    """The content of `status --json`. Raises FileNotFoundError if no cluster was started in the directory."""
    plan = plans.load(directory)
    if plan is None:
        raise FileNotFoundError(
            f"{directory} holds no cluster: start one with `rayft up`, or name its directory with --dir."
        )
    holders = {member.name: locks.holder(member.config.metadata_log_dir) for member in plan.members}
    seen = {name: one.pid for name, one in holders.items() if one is not None and one.pid is not None}
    found: dict[str, Any] = plan.describe(_cluster_id(directory, plan), seen)
    runs = {id for member in plan.members if holders[member.name] is not None for id in member.ids}
    try:
        quorum = probe.quorum(
            [node_access(m.config, controller=True) for m in plan.controllers if holders[m.name] is not None]
        )
    except probe.NoAnswer:
        quorum = probe.QuorumSummary(-1, -1, -1, {}, {})
    found.update(
        directory=str(directory),
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
    )
    end = max(quorum.ends.values(), default=-1)
    for row in found["controllers"]:
        row["state"] = _controller_state(row, quorum) if row["id"] in runs else "down"
        row["lag"] = end - quorum.ends[row["id"]] if row["id"] in quorum.ends else None
    _add_metrics(plan, found)
    active = []
    for row in found["brokers"]:
        config = plan.member(row["id"]).config
        serves = row["id"] in runs and probe.serves(client_access(config))
        row["state"] = "active" if serves else "fenced" if row["id"] in runs else "down"
        row["lag"] = end - quorum.observers[row["id"]] if row["id"] in quorum.observers else None
        active += [node_access(config, controller=False)] if serves else []
    try:
        counts = probe.partitions(active)._asdict()
    except probe.NoAnswer:
        counts = dict.fromkeys(probe.Partitions._fields)
    found.update(
        topics=counts["topics"],
        partitions=counts["partitions"],
        under_replicated_partitions=counts["under_replicated"],
        offline_partitions=counts["offline"],
    )
    found["certificates_ending"] = _certificates_ending(plan)
    found["explanations"] = [
        explained.row(one) for one in explained.of_status(directory, found, int(time.time() * 1000))
    ]
    connect = next((m.config.value(CONNECT) for m in plan.controllers if m.config.value(CONNECT)), "")
    if connect:
        from actors.host.bridge import bridge_state

        found["bridge"] = bridge_state.shown(connect)
    return found


def _certificates_ending(plan: plans.Plan) -> list[dict[str, str]]:
    """The certificates of its nodes that end within thirty days, the first to end first."""
    now = datetime.datetime.now(datetime.UTC)
    ends: dict[str, datetime.datetime] = {}
    for member in plan.members:
        settings = {name: one.tls for name, one in member.config.security.items() if one.tls is not None}
        ends |= {f"{member.name}: {where}" if where.startswith("in ") else where: until
                 for where, until in ends_soon(settings, now).items()}  # fmt: skip
    ordered = sorted(ends.items(), key=lambda one: one[1])
    return [{"certificate": where, "until": until.isoformat(timespec="seconds")} for where, until in ordered]


def _add_metrics(plan: plans.Plan, found: dict[str, Any]) -> None:
    """Add the metrics of the nodes that serve them (`rayft.metrics.listen`)."""
    for row in found["controllers"] + found["brokers"]:
        where = plan.member(row["id"]).config.value(plans.METRICS)
        if where and row["pid"] is not None:
            host, _, port = where.rpartition(":")
            try:
                row["metrics"] = probe.metrics((host.strip("[]"), int(port)))
            except (probe.NoAnswer, ValueError):
                row["metrics"] = {}


def _cluster_id(directory: Path, plan: plans.Plan) -> str:
    """The cluster id: from cluster.json, which exists while the cluster runs, else from the first node's directory."""
    try:
        return str(json.loads((directory / plans.CLUSTER_JSON).read_text())["cluster_id"])
    except (OSError, ValueError, KeyError):
        return storage.check(plan.members[0].config)[0].cluster_id


def _controller_state(row: dict[str, Any], quorum: probe.QuorumSummary) -> str:
    if row["id"] == quorum.leader_id:
        return "leader"
    if quorum.leader_id < 0:
        return "candidate"
    return "follower" if row["id"] in quorum.ends else "observer"


def healthy(found: dict[str, Any]) -> bool:
    """Whether a controller leads, as far as that is told, and every node is there."""
    nodes = found["controllers"] + found["brokers"]
    leads = found["leader_id"] >= 0 or "quorum_unknown" in found
    return leads and "no_answer" not in found and all(row["state"] in ("leader", "follower", "active") for row in nodes)


def line(found: dict[str, Any]) -> str:
    """The cluster in one line."""
    brokers = found["brokers"]
    up = sum(row["state"] == "active" for row in brokers)
    text = f"{_leader(found)} · {up} of {len(brokers)} brokers active"
    if found["partitions"] is not None:
        text += f" · {partitions(found['partitions'])}"
        if found["under_replicated_partitions"]:
            text += f", {found['under_replicated_partitions']} under-replicated"
        if found["offline_partitions"]:
            text += f", {found['offline_partitions']} without a leader"
    if ending := found.get("certificates_ending"):
        first = ending[0]
        text += f" · {first['certificate']} is good until {first['until']}"
        text += f", and {len(ending) - 1} more end soon" if len(ending) > 1 else ""
        text += ": renew with rayft certificate renew"
    if (bridge := found.get("bridge")) is not None:
        text += f" · bridge: {bridge['state']}"
        if bridge["state"] == "driving":
            text += f", controller {bridge['controller']}, epoch {bridge['controller_epoch']}"
    return text


def _leader(found: dict[str, Any]) -> str:
    if "no_answer" in found:
        return f"no broker answers: {found['no_answer']} · before that"
    if "quorum_unknown" in found:
        return f"the quorum of controllers is not known: {found['quorum_unknown']}"
    if found["leader_id"] < 0:
        return "no controller leads"
    return f"controller {found['leader_id']} leads, epoch {found['leader_epoch']}"


def table(found: dict[str, Any]) -> Table:
    """The cluster as a table, one row for each node."""
    result = Table(
        title=text(f"cluster {found['cluster_id']}"),
        title_style="italic",
        caption=text(line(found)),
        title_justify="left",
        caption_justify="left",
    )
    for name in ("node", "role", "address", "state", "pid", "lag"):
        result.add_column(name, justify="right" if name in ("node", "pid", "lag") else "left")
    for role in ("controllers", "brokers"):
        for row in found[role]:
            colour = COLOURS.get(row["state"], "green")
            result.add_row(
                text(row["id"]), role[:-1], text(_place(row)), Text(row["state"], style=colour),
                "" if row["pid"] is None else text(row["pid"]), "" if row["lag"] is None else text(row["lag"]),
            )  # fmt: skip
    return result


def _place(row: dict[str, Any]) -> str:
    return f"{row['host']}:{row['port']}" if row["host"] else "-"


def view(found: dict[str, Any]) -> Group:
    """The table, and below it what is wrong."""
    return Group(table(found), *(text(explained.line_of(one)) for one in found.get("explanations", ())))


def show(found: dict[str, Any], how: str, console: Console) -> None:
    """Print the state of a cluster: a table, its JSON, that on one line, or Arrow with a row for each node."""
    if how == "table":
        console.print(view(found))
    elif how == "arrow":
        rows = [{"role": role[:-1], **row} for role in ("controllers", "brokers") for row in found[role]]
        listing.show([{name: row.get(name) for name in NODES.kinds} for row in rows], NODES, how)
    else:
        console.file.write(json.dumps(found, indent=2 if how == "json" else None) + "\n")
        console.file.flush()  # a reader of a pipe would otherwise see nothing until a whole block is there
