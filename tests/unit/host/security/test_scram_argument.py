"""`rayft format --add-scram`: Apache Kafka's words for a user's credential, and the file that keeps it (KIP-900)."""

import base64
import stat
from io import StringIO
from pathlib import Path

import pytest

from actors.authentication.client import ScramLogin
from actors.authentication.exchange import Accepted, Challenge, Rejected
from actors.authentication.scram import Credential, Mechanism, Scram
from actors.command.cli import main
from actors.command.output.batches import dump
from actors.host.security.scram_argument import credentials
from actors.metadata import bootstrap
from actors.metadata.ops import CorruptMetadata, EntitySet
from actors.settings.keys import ConfigError

CLUSTER = "3Db5QLSqSZieL3rJBUUegA"
CONTROLLER = """process.roles=controller
controller.id=1001
controller.listeners=CONTROLLER
listeners=CONTROLLER://127.0.0.1:19093
controller.connect=1001@127.0.0.1:19093
"""


def logs_in(made: EntitySet, password: str) -> bool:
    """Whether a client with that password gets in with what is stored."""
    fields = dict(made.fields)
    stored = Credential(*(fields[name] for name in ("salt", "stored_key", "server_key", "iterations")))  # type: ignore[arg-type]
    mechanism = Mechanism(fields["mechanism"])
    server = Scram(mechanism, lambda name: stored if name == fields["name"] else None, bytes(16), bytes(16))
    client = ScramLogin(mechanism, str(fields["name"]), password, bytes(range(16)))
    try:
        told = server.respond(client.first())
        assert isinstance(told, Challenge)
        final = client.next(told.token)
        assert final is not None
        accepted = server.respond(final)
    except Rejected:
        return False
    assert isinstance(accepted, Accepted)
    client.next(accepted.token)
    return True


@pytest.mark.parametrize(
    ("argument", "name", "password", "iterations"),
    [
        ("SCRAM-SHA-256=[name=alice,password=alice-secret]", "alice", "alice-secret", 4096),
        (
            'SCRAM-SHA-512=[iterations=8192,name="alice",password="with, comma = and ]"]',
            "alice",
            "with, comma = and ]",
            8192,
        ),
        (" SCRAM-SHA-256=[name=a b, salt=c2FsdHNhbHQ=, password=p=q] ", "a b", "p=q", 4096),
    ],
)
def test_r900_01_who_was_added_logs_in_with_the_password(
    argument: str, name: str, password: str, iterations: int
) -> None:
    (made,) = credentials([argument])
    fields = dict(made.fields)
    assert (fields["name"], fields["iterations"]) == (name, iterations)
    assert logs_in(made, password) and not logs_in(made, password + "x")


def test_r900_01_a_salted_password_is_taken_with_its_salt() -> None:
    salt = b"0123456789abcdef"
    made = Mechanism.SCRAM_SHA_256
    from actors.authentication.scram import salted

    whole = base64.b64encode(salted(made, "alice-secret", salt, 5000)).decode()
    text = f"name=alice,iterations=5000,salt={base64.b64encode(salt).decode()},saltedpassword={whole}"
    (found,) = credentials([f"SCRAM-SHA-256=[{text}]"])
    assert logs_in(found, "alice-secret")


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("alice", "cannot be read"),
        ("SCRAM-SHA-256=name=alice,password=hidden", "cannot be read"),
        ("SCRAM-SHA-1=[name=alice,password=hidden]", "has the mechanism SCRAM-SHA-1"),
        ("SCRAM-SHA-256=[password=hidden]", "has no name"),
        ("SCRAM-SHA-256=[name=alice]", "has no password"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=aGlkZGVu]", "not the salt it was made with"),
        ("SCRAM-SHA-256=[name=alice,salt=c2FsdA==,saltedpassword=hidden!]", "not Base64"),
        ("SCRAM-SHA-256=[name=alice,password=hidden,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=hidden,iterations=many]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=hidden,colour=red]", "something else than name, password"),
        ("SCRAM-SHA-256=[name=alice,password=a,hidden]", "in double quotes"),
    ],
)
def test_r900_02_what_cannot_be_a_credential_is_refused_without_repeating_a_password(argument: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        credentials([argument])
    assert "hidden" not in str(error.value)


def test_r900_02_a_user_is_named_once_with_a_mechanism() -> None:
    one = "=[name=alice,password=a]"
    assert len(credentials([f"SCRAM-SHA-256{one}", f"SCRAM-SHA-512{one}"])) == 2
    with pytest.raises(ConfigError, match="alice twice"):
        credentials([f"SCRAM-SHA-256{one}", f"SCRAM-SHA-256{one}"])


def test_r900_03_format_keeps_it_for_the_first_leader_and_nobody_else_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "controller.properties"
    file.write_text(CONTROLLER + f"log.dirs={tmp_path / 'data'}\n")
    user = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
    ran = main(["format", "--config", str(file), "--cluster-id", CLUSTER, "--standalone", "--add-scram", user])
    path = tmp_path / "data" / bootstrap.BOOTSTRAP
    assert ran == 0 and stat.S_IMODE(path.stat().st_mode) == 0o600
    data = path.read_bytes()
    (made,) = bootstrap.decode(data)
    assert isinstance(made, EntitySet) and made.key == ("alice", 1) and logs_in(made, "alice-secret")
    assert b"alice-secret" not in data
    for cut in (len(data) - 1, 200, 80):
        with pytest.raises(CorruptMetadata):
            bootstrap.decode(data[:cut])
    shown = StringIO()
    dump(path, shown)
    assert "alice" in shown.getvalue()
    for secret in ("salt", "stored_key", "server_key"):
        assert f"('{secret}', '(hidden)')" in shown.getvalue()


def test_a_damaged_bootstrap_checkpoint_stops_the_start_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "controller.properties"
    file.write_text(CONTROLLER + f"log.dirs={tmp_path / 'data'}\n")
    main(["format", "--config", str(file), "--cluster-id", CLUSTER, "--standalone"])
    (tmp_path / "data" / bootstrap.BOOTSTRAP).write_bytes(b"nonsense")
    assert main(["node", "--config", str(file)]) == 3
    said = capsys.readouterr().err
    assert "bootstrap.checkpoint is damaged" in said and said.count("\n") == 1
