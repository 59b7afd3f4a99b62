"""Profiles: what is read, what counts before what, whose login is shown to whom, and who is warned."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from actors.command.by_address import connection, profiles
from actors.host.cluster import plan as plans
from actors.settings.keys import ConfigError

FILE = """
[production]
bootstrap.servers = ["kafka-1:9092", "kafka-2:9092"]
security.protocol = "SASL_SSL"
"sasl.mechanism" = "PLAIN"
sasl.username = "alice"
sasl.password = "hush"
request.timeout.ms = 5000
enable.idempotence = false

[test]
bootstrap.servers = "test:1"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the file, and no variable set."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in (connection.VARIABLE, profiles.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "rayft"
    folder.mkdir()
    write(folder, FILE)
    return folder


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "profiles.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def settings(**given: Any) -> dict[str, str]:
    return connection.settings(
        argparse.Namespace(**{"bootstrap": None, "config": None, "dir": None, "profile": None} | given)
    )


def server(**given: Any) -> str:
    return settings(**given)["bootstrap.servers"]


def test_a_profile_has_settings_by_kafkas_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert settings(profile="production") == {
        "bootstrap.servers": "kafka-1:9092,kafka-2:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
        "sasl.username": "alice", "sasl.password": "hush", "request.timeout.ms": "5000", "enable.idempotence": "false",
    }  # fmt: skip
    assert capsys.readouterr().err == ""


def test_its_file_is_where_it_lies_and_counts_less(home: Path) -> None:
    (home / "client.properties").write_text("metadata.broker.list=file:2\nclient.id=file\nacks=1\n")
    write(home, '[p]\nconfig = "client.properties"\nclient.id = "own"\n')
    assert settings(profile="p") == {"bootstrap.servers": "file:2", "client.id": "own", "acks": "1"}
    write(home, '[p]\nconfig = "absent.properties"\n')
    with pytest.raises(FileNotFoundError):
        settings(profile="p")


def test_what_counts_before_what(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=config:2\nclient.id=config\n")
    assert server(profile="test") == "test:1"
    assert server(profile="test", config=config) == "config:2"
    assert server(profile="test", config=config, bootstrap="typed:3") == "typed:3"
    assert settings(profile="production", bootstrap="typed:3")["sasl.username"] == "alice"
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(connection.VARIABLE, "env:4")
    assert server(profile="test") == "env:4"
    assert capsys.readouterr().err == "rayft: RAYFT_BOOTSTRAP=env:4 counts before the address of profile test\n"
    assert server() == "env:4" and capsys.readouterr().err == ""


def test_the_profile_of_the_variable_shows_its_login_to_nobody_else(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(profiles.VARIABLE, "production")
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=config:2\n")
    plan = plans.create(tmp_path / "cluster", 1, 1, common={})
    assert settings()["sasl.password"] == "hush"
    assert settings(bootstrap="typed:3") == {"bootstrap.servers": "typed:3"}
    assert settings(config=config) == {"bootstrap.servers": "config:2"}
    assert settings(dir=tmp_path / "cluster") == {"bootstrap.servers": plan.bootstrap_servers}
    assert server(profile="test") == "test:1"
    monkeypatch.setenv(connection.VARIABLE, "env:4")
    assert settings() == {"bootstrap.servers": "env:4"}


@pytest.mark.parametrize(
    ("mode", "text", "warned"),
    [
        (0o644, FILE, True),
        (0o640, FILE, True),
        (0o600, FILE, False),
        (0o644, '[test]\nbootstrap.servers = "test:1"\n', False),
    ],
)
def test_passwords_that_others_may_read_are_told(
    home: Path, mode: int, text: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(home, text, mode)
    assert server(profile="test") == "test:1"
    told = capsys.readouterr().err
    assert told == (f"rayft: {file} has passwords and others may read it: chmod 600 {file}\n" if warned else "")


def test_passwords_in_the_file_of_a_profile_are_told_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = home / "client.properties"
    own.write_text("bootstrap.servers=a:1\nsasl.jaas.config=x\n")
    own.chmod(0o644)
    write(home, '[p]\nconfig = "client.properties"\n')
    settings(profile="p")
    assert capsys.readouterr().err == f"rayft: {own} has passwords and others may read it: chmod 600 {own}\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[p\n", r"profiles.toml is no TOML: .* \(at line 1, column 3\)\.$"),
        ("\x00", r"profiles.toml is no TOML: "),
        ("x = 1\n[p]\n", r"profiles.toml: x is in no profile: write \[NAME\] above it\.$"),
        (
            "[p]\nlinger.ms = 1.5\n",
            r"^linger.ms of profile p is no text, number or list of texts: write it in quotes\.$",
        ),
        (
            "[p]\nlinger.ms = [1]\n",
            r"^linger.ms of profile p is no text, number or list of texts: write it in quotes\.$",
        ),
        ("[p]\nclient.id = 'a'\n'client.id.x' = 'b'\nclient.id.y = 1\n", r"profiles.toml is no TOML: "),
        (
            "[p]\nmetadata.broker.list = 'a:1'\nbootstrap.servers = 'b:1'\n",
            r"^metadata.broker.list and bootstrap.servers",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_told_in_a_sentence(home: Path, text: str, sentence: str) -> None:
    write(home, text)
    with pytest.raises(ConfigError, match=sentence):
        settings(profile="p")


def test_a_profile_that_does_not_exist_is_told_with_those_that_do(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(**given: Any) -> str:
        with pytest.raises(SystemExit) as ended:
            settings(**given)
        assert ended.value.code == 2
        return capsys.readouterr().err

    file = home / "profiles.toml"
    assert told(profile="prod") == f"rayft: there is no profile 'prod' in {file}, only 'production', 'test'\n"
    write(home, "".join(f"[cluster-{n}]\n" for n in range(9)) + "[production]\n")
    assert told(profile="prodction") == (
        f"rayft: there is no profile 'prodction' in {file}, only 'production' and 9 others\n"
    )
    assert "which cluster?" in told(profile="production")
    assert told(profile="test", dir=tmp_path) == "rayft: --profile and --dir name two clusters: leave one of them out\n"
    file.unlink()
    assert told(profile="x") == (
        f"rayft: there is no profile 'x', as {file} is not there: write [x] with bootstrap.servers into it\n"
    )
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert profiles.path() == tmp_path / "home" / ".config" / "rayft" / "profiles.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")  # the specification: then it does not count
    assert profiles.path() == tmp_path / "home" / ".config" / "rayft" / "profiles.toml"
