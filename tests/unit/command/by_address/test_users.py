"""Where a password comes from, and what becomes of words and answers about users."""

import argparse
import io
from pathlib import Path
from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.command.by_address import users
from actors.command.by_address.users import PASSWORD_BYTES_MAX
from actors.wire.errors import ErrorCode


class Input:
    """Standard input that is no terminal."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def isatty(self) -> bool:
        return False


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"user": "alice", "password_file": None} | given)


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> str:
    monkeypatch.setattr("sys.stdin", Input(data))
    return users._password(options())


@pytest.mark.parametrize(
    ("data", "password"),
    [
        (b"a-secret\n", "a-secret"), (b"a-secret", "a-secret"), (b"a\r\nb\n", "a"), (b" a \n", " a "),
        ("\u00e9\n".encode(), "\u00e9"), (b"a\r\r\n", "a\r"),
        (b"x" * PASSWORD_BYTES_MAX + b"\r\n", "x" * PASSWORD_BYTES_MAX),
    ],
)  # fmt: skip
def test_a_password_is_the_first_line(data: bytes, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed(monkeypatch, data) == password


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "standard input has no password: its first line is empty"),
        (b"\nsecret\n", "its first line is empty"),
        (b"x" * (PASSWORD_BYTES_MAX + 1) + b"\n", f"has more than {PASSWORD_BYTES_MAX} bytes"),
        (b"x" * 10_000_000, f"has more than {PASSWORD_BYTES_MAX} bytes"),
        (b"secret\xff\n", "is no UTF-8 text"),
    ],
)
def test_what_is_no_password_is_told_and_not_shown(
    data: bytes, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        typed(monkeypatch, data)
    told = capsys.readouterr().err
    assert end.value.code == 2 and words in told and "secret" not in told


@pytest.mark.parametrize(("mode", "is_warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_may_read_is_told(
    mode: int, is_warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"a-secret\n")
    file.chmod(mode)
    assert users._password(options(password_file=file)) == "a-secret"
    told = capsys.readouterr().err
    assert ("others may read it: chmod 600" in told) == is_warned and "a-secret" not in told
    with pytest.raises(OSError, match="nothing"):
        users._password(options(password_file=tmp_path / "nothing"))


def test_a_password_is_asked_for_twice_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Input(b"")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    answers = ["one", "one"]
    monkeypatch.setattr("getpass.getpass", lambda _: answers.pop(0))
    assert users._password(options()) == "one"
    for given, words in (
        (["one", "two"], "the two passwords differ: nothing was changed"),
        (["", ""], "no password was typed"),
    ):
        answers[:] = given
        with pytest.raises(SystemExit):
            users._password(options())
        assert words in capsys.readouterr().err


def test_without_standard_input_the_option_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SystemExit):
        users._password(options())
    assert "write rayft user set alice --password-file FILE" in capsys.readouterr().err


def test_each_outcome_is_told_and_one_that_failed_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    absent = ClientError("user bob: gone", int(ErrorCode.RESOURCE_NOT_FOUND))
    other = ClientError("user carol: why", int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert users._done("deleted", "SCRAM-SHA-256", {"alice": None}) == 0
    assert users._done("deleted", "SCRAM-SHA-256", {"alice": None, "bob": absent, "carol": other}) == 1
    told = capsys.readouterr()
    assert told.out == 2 * "deleted the SCRAM-SHA-256 password of user alice\n"
    assert told.err == "rayft: user bob has no password: rayft user set bob gives one\nrayft: user carol: why\n"
