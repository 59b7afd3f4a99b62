"""`rayft certificate`: what it makes, who can read it, what renewing keeps, and what it refuses."""

import datetime
import stat
from pathlib import Path

import pytest

from actors.command.cli import main
from actors.host.security import certificates, security_directory
from actors.node.api.security.speakers import named
from actors.settings.keys import ConfigError


def rayft(*arguments: str) -> int:
    return main(["certificate", *map(str, arguments)])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    assert rayft("authority", "--dir", str(tmp_path / "security")) == 0
    return tmp_path / "security"


def serial(path: Path) -> int:
    from cryptography import x509

    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def test_a_node_has_a_certificate_with_which_it_speaks_for_its_ids_alone(home: Path) -> None:
    ran = rayft("node", "--dir", str(home), "--id", "1", "--id", "1001", "--host", "10.0.0.1", "--host", "one.example")
    assert ran == 0
    path = home / "rayft-node-1-1001.pem"
    found = certificates.said(path.read_bytes())
    assert (found.name, found.hosts) == ("rayft-node-1-1001", ("10.0.0.1", "one.example"))
    principal = f"User:{found.name}"
    assert named(principal) == {1, 1001}
    assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----"), "PKCS8, which Java reads too"


def test_only_the_owner_can_read_what_is_made(home: Path) -> None:
    rayft("client", "--dir", str(home), "--name", "alice")
    rayft("renew", str(home / "alice.pem"))
    for path in (home, *home.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert sorted(path.name for path in home.iterdir()) == ["alice.pem", "ca.key", "ca.pem"]


def test_renewing_keeps_name_and_hosts_and_changes_the_key(home: Path) -> None:
    rayft("node", "--dir", str(home), "--id", "7", "--host", "::1", "--host", "seven.example", "--days", "3")
    path = home / "rayft-node-7.pem"
    before, old = path.read_bytes(), certificates.said(path.read_bytes())
    assert rayft("renew", str(path)) == 0
    new = certificates.said(path.read_bytes())
    assert (new.name, new.hosts) == (old.name, old.hosts)
    assert new.until > old.until + datetime.timedelta(days=300)
    assert path.read_bytes().split(b"-----END PRIVATE")[0] != before.split(b"-----END PRIVATE")[0]


def test_a_renewed_authority_keeps_its_key_so_that_what_it_issued_stays_good(home: Path) -> None:
    rayft("client", "--dir", str(home), "--name", "alice")
    key, before = (home / "ca.key").read_bytes(), serial(home / "ca.pem")
    assert rayft("renew", str(home / "ca.pem")) == 0
    assert (home / "ca.key").read_bytes() == key and serial(home / "ca.pem") != before
    by = certificates.Issued(key, (home / "ca.pem").read_bytes())
    assert certificates.is_of(by, (home / "alice.pem").read_bytes())


def test_a_certificate_does_not_outlive_its_authority(home: Path) -> None:
    rayft("client", "--dir", str(home), "--name", "alice", "--days", "9000")
    ends = [certificates.said((home / name).read_bytes()).until for name in ("alice.pem", "ca.pem")]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("client", "--name", "rayft-node-1"), "only nodes have such names"),
        (("client", "--name", "a,O=b"), "--name a,O=b is not possible"),
        (("client", "--name", "alice", "--days", "0"), "--days 0 is not possible"),
        (("node", "--id", "1"), "names where it is reached: write --host"),
        (("node", "--id", "1", "--host", "0.0.0.0"), "no name or address that others can dial"),
        (("node", "--id", "1", "--id", "1", "--host", "a"), "--id 1 --id 1 is not possible"),
        (("authority",), "renew that authority with rayft certificate renew"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    kind, *rest = arguments
    assert rayft(kind, "--dir", str(home), *rest) == 1
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert sorted(path.name for path in home.iterdir()) == ["ca.key", "ca.pem"]


def test_a_certificate_of_another_authority_is_not_renewed(home: Path, tmp_path: Path) -> None:
    rayft("authority", "--dir", str(tmp_path / "other"))
    rayft("client", "--dir", str(tmp_path / "other"), "--name", "alice")
    path = home / "alice.pem"
    path.write_bytes((tmp_path / "other" / "alice.pem").read_bytes())
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="another authority"):
        security_directory.renew(path)
    assert path.read_bytes() == before


def test_an_authority_that_is_over_issues_nothing_until_it_is_renewed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=4000)
    monkeypatch.setattr(security_directory, "_now", lambda: later)
    with pytest.raises(ConfigError, match="renew it with rayft certificate renew"):
        security_directory.make_client(home, "alice")
    security_directory.renew(home / "ca.pem")
    security_directory.make_client(home, "alice")


def test_an_authority_whose_key_is_another_ones_issues_nothing(home: Path, tmp_path: Path) -> None:
    rayft("authority", "--dir", str(tmp_path / "other"))
    (home / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(ConfigError, match="not a certificate and its key"):
        security_directory.make_client(home, "alice")
