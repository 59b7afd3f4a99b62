"""What rayft up writes for a secure cluster, when it does so, and that a failed try leaves nothing."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from actors.host.cluster import existing_directory, secure_cluster
from actors.host.cluster import plan as plans
from actors.host.security import certificates
from actors.host.storage import StorageError
from actors.metadata import bootstrap
from actors.node.api.security.speakers import named
from actors.settings.keys import ConfigError


def create(path: Path, common: dict[str, str] | None = None, **more: Any) -> plans.Plan:
    return plans.create(path, 2, 2, common=common or {}, **({"secure": True} | more))


@pytest.mark.parametrize(
    ("hosts", "asked", "secure"),
    [
        (["127.0.0.1", "127.0.0.9", "::1", "localhost"], None, False),
        (["127.0.0.1", "10.1.2.3"], None, True),
        (["2001:db8::1"], None, True),
        (["no..host"], None, True),
        (["10.1.2.3"], False, False),
        (["127.0.0.1"], True, True),
    ],
)
def test_a_cluster_that_other_machines_reach_is_secure_unless_somebody_wrote_otherwise(
    hosts: list[str], asked: bool | None, secure: bool
) -> None:
    assert secure_cluster.wanted(hosts, asked) is secure


def test_every_process_has_a_certificate_of_its_own_and_asks_other_nodes_for_theirs(tmp_path: Path) -> None:
    made = create(tmp_path, combined=True)
    seen = set()
    for member in made.members:
        asks = {listener.name: member.config.security[listener.name].asks for listener in member.config.listeners}
        assert all(asks.values()), asks
        location = member.config.given["ssl.keystore.location"]
        principal = f"User:{certificates.said(Path(location).read_bytes()).name}"
        seen.add(principal)
        for other in made.members:
            assert all((id in (named(principal) or ())) is (other is member) for id in other.ids)
        assert {principal, "User:admin"} <= set(str(member.config.value("super.users")).split(";"))
    assert len(seen) == 2


def test_ports_of_brokers_among_themselves_come_behind_those_of_controllers(tmp_path: Path) -> None:
    files = plans.describe(tmp_path, [("h", 9192)], [("h", 9092), ("h", 9093)], {}, among_nodes=[9292, 9293])
    assert files["broker-2"]["listeners"] == "CLIENTS://h:9093,NODES://h:9293"
    assert "inter.broker.listener.name" not in files["controller-1001"]
    with pytest.raises(ConfigError, match="from 1 to 65334"):
        plans.refuse_shape(1, 2, 65335, secure=True)


def test_only_controllers_keep_the_operators_credential_and_no_file_of_theirs_the_password(tmp_path: Path) -> None:
    create(tmp_path)
    password = secure_cluster.librdkafka(tmp_path)["sasl.password"]
    kept = {path.parent.name for path in tmp_path.glob(f"*/{bootstrap.BOOTSTRAP}")}
    assert kept == {"controller-1001", "controller-1002"}
    holding = {path.name for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()}
    assert holding == {"client.properties", "librdkafka.conf"} and len(password) >= 32


def test_settings_of_a_users_own_come_on_top_and_may_not_undo_it(tmp_path: Path) -> None:
    made = create(tmp_path / "a", {"super.users": "User:boss", "connections.max.reauth.ms": "60000"})
    users = str(made.members[0].config.value("super.users")).split(";")
    assert users[-2:] == ["User:admin", "User:boss"]
    for name in ("authorizer.class.name", "listener.name.nodes.ssl.client.auth", "inter.broker.listener.name"):
        with pytest.raises(ConfigError, match=f"{name} is decided by rayft up"):
            create(tmp_path / "b", {name: ""})
    assert not (tmp_path / "b" / "security").exists()


def test_a_second_try_finds_nothing_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "broker-2").write_text("a file stands there")
    with pytest.raises((OSError, StorageError)):
        create(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker-2"]
    (tmp_path / "broker-2").unlink()
    assert create(tmp_path).secure


def test_an_authority_that_is_there_is_used(tmp_path: Path) -> None:
    from actors.host.security import security_directory

    ca = security_directory.make_authority(tmp_path / "security", "ours").read_bytes()
    create(tmp_path)
    assert (tmp_path / "security" / "ca.pem").read_bytes() == ca


def test_the_same_command_line_fits_again_and_another_one_does_not(tmp_path: Path) -> None:
    common = {"super.users": "User:boss", "log.retention.hours": "1"}
    made = create(tmp_path, common)
    for secure in (None, True):
        existing_directory.agree(made, common, secure=secure)
    with pytest.raises(ConfigError, match="has made secure: leave --insecure out"):
        existing_directory.agree(made, {}, secure=False)
    with pytest.raises(ConfigError, match=r"super\.users"):
        existing_directory.agree(made, {"super.users": "User:other"})
    plain = create(tmp_path / "plain", secure=False)
    with pytest.raises(ConfigError, match="has not made secure: leave --secure out"):
        existing_directory.agree(plain, {}, secure=True)


def test_a_secret_that_differs_is_not_repeated(tmp_path: Path) -> None:
    made = create(tmp_path, {"listener.name.clients.ssl.key.password": "hidden-1"}, secure=True)
    with pytest.raises(ConfigError, match="another value for") as error:
        existing_directory.agree(made, {"listener.name.clients.ssl.key.password": "hidden-2"})
    assert "hidden" not in str(error.value)


def test_references_stay_in_the_files_and_are_resolved_where_a_node_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "log.retention.hours": "${env:RAYFT_HOURS}",
    }
    monkeypatch.setenv("RAYFT_HOURS", "7")
    made = create(tmp_path, common, secure=False)
    assert "log.retention.hours=${env:RAYFT_HOURS}" in (tmp_path / "broker-1.properties").read_text()
    again = plans.load(tmp_path)
    assert again is not None and again.members[0].config.value("log.retention.hours") == 7
    existing_directory.agree(made, common)
    monkeypatch.delenv("RAYFT_HOURS")
    with pytest.raises(ConfigError, match="no such variable"):
        plans.load(tmp_path)


def test_a_renewed_certificate_on_another_machine_stays(tmp_path: Path) -> None:
    made = create(tmp_path / "here")
    given = secure_cluster.node_files(tmp_path / "here", made.members[0].ids)
    assert set(given) == {"ca.pem", "rayft-node-1001.pem"}, "neither the authority's key nor another node's"
    secure_cluster.place_node_files(tmp_path / "there", given)
    path = tmp_path / "there" / "security" / "rayft-node-1001.pem"
    assert path.read_bytes() == given[path.name] and path.stat().st_mode & 0o077 == 0
    by = certificates.Issued(*((tmp_path / "here" / "security" / name).read_bytes() for name in ("ca.key", "ca.pem")))
    from datetime import UTC, datetime

    renewed = certificates.issue(by, "rayft-node-1001", datetime.now(UTC), ["127.0.0.1"], days=2000).pem
    certificates.write(path, renewed)
    secure_cluster.place_node_files(tmp_path / "there", given)
    assert path.read_bytes() == renewed


def test_a_certificate_that_is_damaged_or_over_is_issued_anew_for_a_controller_that_comes(tmp_path: Path) -> None:
    """And one that is good for the host stays."""
    plans.create(tmp_path, 1, 0, common={}, secure=True)
    home = tmp_path / secure_cluster.DIRECTORY
    path = home / "rayft-node-1002.pem"
    secure_cluster.certify(tmp_path, (1002,), "127.0.0.1")
    good = path.read_bytes()
    secure_cluster.certify(tmp_path, (1002,), "127.0.0.1")
    assert path.read_bytes() == good
    over = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=20)
    by = certificates.Issued((home / "ca.key").read_bytes(), (home / "ca.pem").read_bytes())
    for bad in (b"", b"nothing", certificates.issue(by, "rayft-node-1002", over, ["127.0.0.1"], days=10).pem):
        path.write_bytes(bad)
        secure_cluster.certify(tmp_path, (1002,), "127.0.0.1")
        assert certificates.said(path.read_bytes()).until > datetime.datetime.now(datetime.UTC)
