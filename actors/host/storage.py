"""The directories of a node: formatting, and `meta.properties`.

This file alone decides when a directory belongs to a node. A formatted directory holds `meta.properties` with version 1,
cluster.id, directory.id, the family of metadata records, the level that the first leader writes, and the ids of the
roles; a controller's metadata directory also holds the first checkpoint, which names the voters, and may have a
bootstrap.checkpoint with SCRAM credentials beside meta.properties.

Rules:

1. This code repairs and overwrites nothing. A directory that does not fit is an error whose sentence says what to do.
2. A process that opens a directory holds its `.lock` until it ends (`locks.py`).
3. Formatting is durable when it returns, unless `rayft.disk.sync` is false. A directory whose formatting was
   interrupted counts as not formatted, because `meta.properties` is written last.
"""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.host.work import durable, kept_room
from actors.host.work.disk import FULL
from actors.host.work.locks import LOCK, Lock
from actors.host.work.locks import StorageError as StorageError
from actors.host.work.system_random import SystemRandom, uuid_bytes, uuid_text
from actors.metadata import bootstrap
from actors.metadata.ops import CorruptMetadata, EntitySet
from actors.settings.node_config import NodeConfig
from actors.settings.properties import properties

META = "meta.properties"
FAMILY = "rayft.metadata.family"
LEVEL = "rayft.metadata.format"
TRANSACTIONS = "rayft.transaction.version"
NEWEST_TRANSACTIONS = 2
"""`transaction.version` of a new cluster."""
GROUPS = "rayft.group.version"
NEWEST_GROUPS = 1
"""`group.version` of a new cluster."""
SHARE_GROUPS = "rayft.share.version"
NEWEST_SHARE_GROUPS = 1
"""`share.version` of a new cluster."""
STREAMS_GROUPS = "rayft.streams.version"
NEWEST_STREAMS_GROUPS = 1
"""`streams.version` of a new cluster."""
SYNC = "rayft.disk.sync"
"""The setting of whether a node waits for its disks."""
METADATA_DIRECTORY = "__kafka_metadata-0"
FIRST_CHECKPOINT = "00000000000000000000-0000000000.checkpoint"


class Voter(NamedTuple):
    """A member of the first quorum."""

    id: int
    host: str
    port: int
    directory_id: bytes
    listener: str = "CONTROLLER"


class Directory(NamedTuple):
    """The content of one directory's meta.properties."""

    path: str
    cluster_id: str
    directory_id: bytes
    family: str
    level: int
    ids: dict[str, int]
    """broker.id, controller.id and node.id, those that are there."""
    transaction_version: int = 0
    """`transaction.version` of a cluster that begins with this storage. Earlier software had none."""
    bootstrap: bytes = b""
    """The content of bootstrap.checkpoint; empty: there is none."""
    group_version: int = 0
    """The level of `group.version` that the first leader writes into an empty log; 0 writes none."""
    share_version: int = 0
    """The level of `share.version` that the first leader writes into an empty log; 0 writes none."""
    streams_version: int = 0
    """The level of `streams.version` that the first leader writes into an empty log; 0 writes none."""


def read(path: str) -> Directory | None:
    """The content of a directory's meta.properties; None if it is not formatted. Raises StorageError if another program
    or release wrote it."""
    file = Path(path, META)
    try:
        values = properties(file.read_text("latin-1"))
    except FileNotFoundError:
        return None
    version = values.get("version", "")
    if version == "0":
        raise StorageError(
            f"{file} has version 0, as clusters with ZooKeeper write it: their data cannot be taken over; give this node "
            f"an empty directory."
        )
    if version.isdecimal() and version != "1":
        raise StorageError(
            f"{file} has version {version}, and only 1 is known here: run the release that wrote it, or give this node an "
            f"empty directory."
        )
    if version != "1":
        raise StorageError(
            f"{file} is damaged (it has no version): restore it from a copy, or format an empty directory."
        )
    if FAMILY not in values:
        raise StorageError(
            f"{file} was written by Apache Kafka: give this node a directory of its own, formatted by rayft."
        )
    try:
        ids: dict[str, int] = {
            name: int(values[name]) for name in ("broker.id", "controller.id", "node.id") if name in values
        }
        return Directory(
            path,
            values["cluster.id"],
            uuid_bytes(values["directory.id"]),
            values[FAMILY],
            int(values.get(LEVEL, "2")),
            ids,
            int(values.get(TRANSACTIONS, "0")),
            _bootstrap(path),
            int(values.get(GROUPS, "0")),
            int(values.get(SHARE_GROUPS, "0")),
            streams_version=int(values.get(STREAMS_GROUPS, "0")),
        )
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"{file} is damaged ({error}): restore it from a copy, or format an empty directory."
        ) from None


def _bootstrap(path: str) -> bytes:
    file = Path(path, bootstrap.BOOTSTRAP)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return b""
    try:
        bootstrap.decode(data)
    except CorruptMetadata as error:
        raise StorageError(
            f"{file} is damaged ({error}): restore it from a copy, or format an empty directory."
        ) from None
    return data


def check(config: NodeConfig) -> list[Directory]:
    """Read every directory of a node, the metadata log's first, and check that all are formatted, for this node, in one
    cluster. Takes no lock."""
    found = []
    for path in directories(config):
        directory = read(path)
        if directory is None:
            raise StorageError(
                f"{path} is not formatted: run `rayft format`, or let `rayft up` do it in an empty directory."
            )
        _check_ids(config, directory)
        found.append(directory)
    first = found[0]
    for other in found[1:]:
        if other.cluster_id != first.cluster_id:
            raise StorageError(
                f"{first.path} belongs to cluster {first.cluster_id} and {other.path} to {other.cluster_id}: "
                f"a node's directories must come from one cluster."
            )
        if other.directory_id == first.directory_id:
            raise StorageError(
                f"{first.path} and {other.path} have the same directory.id: one is a copy, take it away."
            )
    return found


def unusable(error: OSError) -> str:
    """What a start says about a log directory that cannot be read or written: which, why, and what to do."""
    root = getattr(getattr(error, "disk", None), "root", None)
    where = f"{root}: " if root is not None and not str(error.filename).startswith(root) else ""
    why = f"{where}{error.filename}: {error.strerror}" if error.filename else f"{where}{error.strerror or error}"
    if error.errno in FULL:
        return f"{why}: this node does not start before that is over: make room on the disk, or raise `ulimit -n`."
    return (
        f"{why}: this node does not start without it: repair or replace the disk, or take the directory out of log.dirs "
        f"(not the one with the metadata log)."
    )


def open_to_others(path: str) -> str | None:
    """A warning about a directory that other users of this machine may read or write; None if they may not."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if not mode & stat.S_IRWXO:
        return None
    return f"{path} is open to every user of this machine (mode {mode:04o}): chmod 700 {path} keeps the data private."


def secret_open_to_others(path: str | os.PathLike[str]) -> str | None:
    """A warning about a file with secrets that others than its owner may read or write; None if they may not, or if it is
    not there."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    return f"{path} has secrets and is open to others than its owner (mode {mode:04o}): chmod 600 {path}"


def _check_ids(config: NodeConfig, directory: Directory) -> None:
    for name, mine in (("broker.id", config.broker_id), ("controller.id", config.controller_id)):
        theirs = directory.ids.get(name, -1)
        if mine != theirs:
            raise StorageError(
                f"{directory.path} belongs to the node with {name}={'none' if theirs < 0 else theirs}, and this node has "
                f"{name}={'none' if mine < 0 else mine}: give each node its own directory."
            )


def directories(config: NodeConfig) -> list[str]:
    """All directories of a node, the metadata log's first."""
    return list(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))


def format_node(
    config: NodeConfig,
    cluster_id: str,
    *,
    voters: Sequence[Voter] | None,
    directory_id: bytes | None = None,
    level: int = 2,
    transaction_version: int = NEWEST_TRANSACTIONS,
    group_version: int = NEWEST_GROUPS,
    share_version: int = NEWEST_SHARE_GROUPS,
    streams_version: int = NEWEST_STREAMS_GROUPS,
    ignore_formatted: bool = False,
    credentials: Sequence[EntitySet] = (),
) -> list[Directory]:
    """Format every directory of a node.

    `voters`: the first quorum, which controllers write; None: this node learns it from others. `directory_id`: that of
    the metadata directory, if others must know it beforehand. `credentials`: of SCRAM users that the first leader of a new
    quorum stores; a node without the controller role has no use for them. Raises StorageError for a directory that is
    formatted already, unless `ignore_formatted`.
    """
    uuid_bytes(cluster_id)
    random, synced = SystemRandom(), config.value(SYNC)
    found = []
    for place, path in enumerate(directories(config)):
        os.makedirs(path, durable.DIRECTORY_MODE, exist_ok=True)
        lock = Lock(path)
        try:
            old = read(path)
            if old is not None:
                if not ignore_formatted:
                    raise StorageError(
                        f"{path} is formatted already, for cluster {old.cluster_id}: take an empty directory."
                    )
                if old.cluster_id != cluster_id:
                    raise StorageError(
                        f"{path} belongs to cluster {old.cluster_id}, not to {cluster_id}: take another one."
                    )
                _check_ids(config, old)
                found.append(old)
                continue
            if place == 0 and voters is not None and "controller" in config.roles:
                os.makedirs(os.path.join(path, METADATA_DIRECTORY), durable.DIRECTORY_MODE, exist_ok=True)
                write(os.path.join(path, METADATA_DIRECTORY), {FIRST_CHECKPOINT: first_checkpoint(voters)}, synced)
            if place == 0 and credentials and "controller" in config.roles:
                write(path, {bootstrap.BOOTSTRAP: bootstrap.encode(level, credentials)}, synced)
            own = directory_id if place == 0 and directory_id is not None else random.uuid()
            new = Directory(path, cluster_id, own, "drafts", level, ids_of(config), transaction_version)
            new = new._replace(group_version=group_version, share_version=share_version)
            found.append(_write_meta(new._replace(streams_version=streams_version), synced))
        finally:
            lock.close()
    return found


def voters(text: str, listener: str) -> list[Voter]:
    """The voters in a text `ID@HOST:PORT:DIRID,...`. Raises StorageError."""
    found: list[Voter] = []
    for entry in text.split(","):
        match = re.fullmatch(r"(\d+)@(\[[^\]]+\]|[^:\[\]]+):(\d+):(.+)", entry.strip())
        try:
            if match is None:
                raise ValueError("it has another form")
            one = Voter(int(match[1]), match[2].strip("[]"), int(match[3]), uuid_bytes(match[4]), listener)
            if one.id >= 1 << 31 or one.port >= 1 << 16:
                raise ValueError("a number is too large")
            if one.id in (other.id for other in found):
                raise ValueError("its id is there twice")
            found.append(one)
        except ValueError as error:
            raise StorageError(f"--initial-controllers has {entry} ({error}): write ID@HOST:PORT:DIRID.") from None
    return found


def agree(config: NodeConfig, quorum: Sequence[Voter] | None) -> None:
    """Check that the voters are those that controller.connect names, if that gives ids (A11). Raises StorageError."""
    named = {id for id, _, _ in config.controller_connect if id is not None}
    if quorum is not None and config.broker_id in {voter.id for voter in quorum}:
        raise StorageError(
            f"--initial-controllers has {config.broker_id}, which is this process's broker.id: brokers and controllers "
            f"share one id space, give one of the two another number."
        )
    if quorum is not None and named and named != {voter.id for voter in quorum}:
        raise StorageError(
            f"the quorum has the controllers {sorted(voter.id for voter in quorum)}, and controller.connect names "
            f"{sorted(named)}: write the same ids in both, or no ids in controller.connect."
        )


def first_checkpoint(voters: Sequence[Voter]) -> bytes:
    """The checkpoint with which a quorum begins: it holds the voters, and nothing else (KIP-853)."""
    import actors.metadata.batches as batches

    members = tuple(
        batches.Voter(voter.id, voter.directory_id, ((voter.listener, voter.host, voter.port),))
        for voter in sorted(voters)
    )
    head: list[batches.Control] = [batches.SnapshotHeader(0), batches.KRaftVersion(1), batches.Voters(members)]
    foot = batches.control_batch(len(head), 0, 0, [batches.SnapshotFooter()])
    return bytes(batches.control_batch(0, 0, 0, head).data) + bytes(foot.data)


def ids_of(config: NodeConfig) -> dict[str, int]:
    """The ids that meta.properties names."""
    ids = {}
    if "broker" in config.roles:
        ids["broker.id"] = config.broker_id
    if "controller" in config.roles:
        ids["controller.id"] = config.controller_id
    if len(ids) == 1:
        ids["node.id"] = next(iter(ids.values()))
    return ids


def _write_meta(new: Directory, synced: bool = True) -> Directory:
    lines = ["#", "#", "version=1", f"cluster.id={new.cluster_id}", f"directory.id={uuid_text(new.directory_id)}"]
    lines += [f"{FAMILY}={new.family}", f"{LEVEL}={new.level}", f"{TRANSACTIONS}={new.transaction_version}"]
    lines += [f"{GROUPS}={new.group_version}", f"{SHARE_GROUPS}={new.share_version}"]
    lines += [f"{STREAMS_GROUPS}={new.streams_version}"]
    lines += [f"{name}={id}" for name, id in sorted(new.ids.items())]
    write(new.path, {META: ("\n".join(lines) + "\n").encode("latin-1")}, synced)
    return new


OWN = (META, bootstrap.BOOTSTRAP, kept_room.NAME, LOCK)
"""Files of a node's directory that hold nothing of a user's. The lock goes last: another process may come then."""


def discard(path: str, cluster_id: str, ids: Mapping[str, int] | None) -> bool:
    """Remove what a controller's or a new node's directory has of a cluster, and the directory if nothing else is in it.
    What belongs to another cluster or to another node, or is held by a process, stays, and so does any file that no node has
    written. `ids`: those of the node; None: of any node. Returns whether the directory was this node's, or is not there."""
    if not os.path.isdir(path):
        return True
    try:
        lock = Lock(path, told=False)
    except (StorageError, OSError):
        return False
    try:
        try:
            found = read(path)
        except StorageError:
            return False
        if found is not None and (found.cluster_id != cluster_id or (ids is not None and found.ids != ids)):
            return False
        shutil.rmtree(os.path.join(path, METADATA_DIRECTORY), ignore_errors=True)
        for name in OWN:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, name))
        with contextlib.suppress(OSError):
            os.rmdir(path)
        return True
    finally:
        lock.close()


def write(directory: str, contents: Mapping[str, bytes], synced: bool = True) -> None:
    """Write small files of a directory, durably unless `synced` is False. Each is whole or absent, and none gets its name
    before all are written."""
    durable.replace_files(directory, contents, synced)
