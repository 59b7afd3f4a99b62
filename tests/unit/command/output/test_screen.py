"""What `rayft status` says of a cluster's directory."""

import datetime
from pathlib import Path

import pytest
from rich.console import Console

from actors.command.output import screen
from actors.host.cluster import plan as plans
from actors.host.security import security_directory as files
from actors.host.security.certificates import authority, issue, write

TODAY = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A secure cluster of one controller and two brokers, none of which runs."""
    plans.create(tmp_path, 1, 2, common={}, secure=True)
    return tmp_path


def ends_in(home: Path, name: str, days: float) -> Path:
    """Put a certificate of that node in place of its own."""
    path = home / "security" / f"{name}.pem"
    by = authority("another", TODAY - datetime.timedelta(days=400))
    write(path, issue(by, name, TODAY - datetime.timedelta(days=10), ["127.0.0.1"], days=round(days) + 10).pem)
    return path


def test_a_certificate_is_named_thirty_days_before_its_end(home: Path) -> None:
    found = screen.state(home)
    assert found["certificates_ending"] == [] and "certificate" not in screen.line(found)
    ends_in(home, "rayft-node-1", 32)
    assert screen.state(home)["certificates_ending"] == []
    later = ends_in(home, "rayft-node-1", 29)
    first = ends_in(home, "rayft-node-1001", 2)
    found = screen.state(home)
    assert [one["certificate"] for one in found["certificates_ending"]] == [str(first), str(later)]
    until = (TODAY + datetime.timedelta(days=2)).date().isoformat()
    assert f"{first} is good until {until}" in screen.line(found)
    assert "and 1 more end soon: renew with rayft certificate renew" in screen.line(found)


def test_one_that_has_ended_is_named_too_and_what_cannot_be_read_is_left_out(home: Path) -> None:
    over = ends_in(home, "rayft-node-2", -3)
    (home / "security" / "rayft-node-1.pem").write_text("nothing")
    assert [one["certificate"] for one in screen.state(home)["certificates_ending"]] == [str(over)]


def test_renewing_takes_the_line_away(home: Path) -> None:
    path = home / "security" / "rayft-node-1.pem"
    files.renew(path, 20)
    assert [one["certificate"] for one in screen.state(home)["certificates_ending"]] == [str(path)]
    files.renew(path)
    assert screen.state(home)["certificates_ending"] == []


def test_the_table_shows_paths_as_they_are(tmp_path: Path) -> None:
    """What stands in square brackets is no style of the terminal."""
    home = tmp_path / "a[red]b:smile:"
    plans.create(home, 1, 0, common={}, secure=True)
    path = ends_in(home, "rayft-node-1001", 3)
    console = Console(width=400, record=True)
    console.print(screen.table(screen.state(home)))
    assert str(path) in console.export_text().replace("\n", "")
