"""Inventing a cluster where something refuses: a second try finds nothing of the first."""

import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest

from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.cluster import secure_cluster
from actors.settings.keys import ConfigError
from actors.settings.node_config import node_config


def create(path: Path) -> plans.Plan:
    return plans.create(path, 1, 2, common={})


def test_a_directory_that_cannot_be_formatted_leaves_the_others_unformatted(tmp_path: Path) -> None:
    (tmp_path / "broker-2").write_text("a file stands there")
    with pytest.raises(OSError):
        create(tmp_path)
    assert plans.load(tmp_path) is None
    (tmp_path / "broker-2").unlink()
    assert len(create(tmp_path).members) == 3


def test_a_disk_that_fills_up_leaves_no_half_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next start would take what is there for the whole."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = os.open

    def full(path: Any, *rest: Any, **named: Any) -> int:
        if "broker-2.properties." in str(path):
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        return whole(path, *rest, **named)

    monkeypatch.setattr(os, "open", full)
    try:
        with pytest.raises(OSError):
            create(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    monkeypatch.undo()
    assert plans.load(tmp_path) is None
    assert len(create(tmp_path).members) == 3


def test_the_files_of_a_new_cluster_outlive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged is on the disk, and without these files nobody finds it."""
    synced, fsync, replace = {}, os.fsync, os.replace

    def noted(fd: int) -> None:
        fsync(fd)
        synced[os.readlink(f"/proc/self/fd/{fd}")] = os.fstat(fd).st_size

    def renamed(old: str, new: str) -> None:
        assert synced.get(str(old)), f"{old} is renamed before it is durable"
        replace(old, new)
        synced.pop(os.path.dirname(new), None)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", renamed)
    create(tmp_path)
    for path in tmp_path.glob("*.properties"):
        assert [size for name, size in synced.items() if name.startswith(f"{path}.")] == [path.stat().st_size]
    assert str(tmp_path) in synced


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "note").write_text("mine")
    (tmp_path / "broker-2").write_text("a file stands there")
    with pytest.raises(OSError):
        create(tmp_path)
    assert (tmp_path / "broker-1" / "note").read_text() == "mine"
    assert storage.read(str(tmp_path / "broker-1")) is None
    assert not (tmp_path / "controller-1001").exists()


def test_addresses_of_ipv6_are_in_brackets_where_clients_read_them(tmp_path: Path) -> None:
    made = plans.create(tmp_path, 1, 2, common={}, host="::1")
    for text in (made.bootstrap_servers, made.bootstrap_controllers):
        assert all(one.startswith("[::1]:") for one in text.split(","))
    assert plans.load(tmp_path) == made


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_interface_is_no_address_to_tell(host: str, tmp_path: Path) -> None:
    """advertised.listeners, which would help a node by hand, cannot be given to all nodes at once."""
    with pytest.raises(ConfigError, match=f"--host {host} .* rayft node"):
        plans.create(tmp_path / "cluster", 1, 1, common={}, host=host)
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize(
    "name", ["back\\slash", "日本", "\N{GRINNING FACE}", " before and after ", "#x=y:z", "line\nbreak"]
)
def test_a_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    made = plans.create(tmp_path / name, 1, 1, common={"broker.rack": name.strip()})
    assert plans.load(tmp_path / name) == made
    assert made.members[0].config.log_dirs == (str(tmp_path / name / "controller-1001"),)


def test_a_directory_with_a_comma_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """log.dirs would take it for two, and the second one is somewhere else."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="comma"):
        plans.create(tmp_path / "a,b", 1, 0, common={})
    assert list(tmp_path.rglob("*/*")) == []


@pytest.mark.parametrize(
    ("controllers", "brokers", "expected"),
    [
        (3, 1, {"controller-1002": {1002}, "controller-1003": {1003}, "node-1": {1, 1001}}),
        (1, 3, {"node-1": {1, 1001}, "broker-2": {2}, "broker-3": {3}}),
        (2, 2, {"node-1": {1, 1001}, "node-2": {2, 1002}}),
    ],
)
def test_r631_009_combined_nodes_stand_beside_dedicated_ones(
    tmp_path: Path, controllers: int, brokers: int, expected: dict[str, set[int]]
) -> None:
    made = plans.create(tmp_path, controllers, brokers, common={}, combined=True)
    assert {member.name: set(member.ids) for member in made.members} == expected
    assert {member.name: set(member.ids) for member in plans.load(tmp_path).members} == expected  # type: ignore[union-attr]


@pytest.mark.parametrize("secure", [False, True])
def test_a_cluster_without_brokers_names_no_address_of_brokers(secure: bool, tmp_path: Path) -> None:
    """`rayft up --brokers 0` ended its sentence with "clients connect to "."""
    made = plans.create(tmp_path / "none", 1, 0, common={}, secure=secure)
    assert made.served == "there are no brokers, so there is nothing that clients connect to"
    if secure:
        told = secure_cluster.told(made.directory, made.bootstrap_servers)
        assert "--bootstrap-server" not in told and str(made.directory) in told
        for name in (secure_cluster.CLIENT_PROPERTIES, secure_cluster.LIBRDKAFKA):
            text = (made.directory / secure_cluster.DIRECTORY / name).read_text()
            assert "bootstrap.servers" not in text and "SCRAM" in text.upper()
    some = plans.create(tmp_path / "some", 1, 2, common={}, secure=secure, first_broker=0)
    assert some.served == f"clients connect to {some.bootstrap_servers}" and some.bootstrap_servers.count(":") == 2
    assert [member.config.broker_id for member in some.brokers] == [0, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"process.roles": "broker", "inter.broker.listener.name": "X", "listeners": ""},
        {"process.roles": "controller", "controller.listeners": "C", "listeners": ""},
        {
            "process.roles": "broker",
            "advertised.listeners": "",
            "listeners": "PLAINTEXT://h:1",
            "control.plane.listener.name": "X",
        },
        {
            "process.roles": "controller",
            "rayft.bridge.listener.names": "A",
            "rayft.metadata.push": "true",
            "advertised.listeners": "",
        },
    ],
)
def test_a_sentence_about_settings_has_no_empty_list(settings: dict[str, str]) -> None:
    base = {"broker.id": "1", "controller.id": "1001", "controller.connect": "1001@h:1", "log.dirs": "/x"}
    roles = settings["process.roles"]
    own = {key: value for key, value in base.items() if key not in ("broker.id", "controller.id") or roles in key}
    with pytest.raises(ConfigError) as refused:
        node_config(own | settings)
    assert not re.search(r"\(\)|(has|leave only|names|among|of|to) ?[,.:]|, ,|  ", str(refused.value)), refused.value
