"""Inventing a cluster where something refuses: a second try finds nothing of the first."""

import resource
from pathlib import Path

import pytest

from actors.config import ConfigError
from actors.host import plan as plans
from actors.host import storage


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
    whole = Path.write_text

    def full(self: Path, text: str, encoding: str) -> int:
        if self.name == "broker-2.properties":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        return whole(self, text, encoding)

    monkeypatch.setattr(Path, "write_text", full)
    try:
        with pytest.raises(OSError):
            create(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    monkeypatch.undo()
    assert plans.load(tmp_path) is None
    assert len(create(tmp_path).members) == 3


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
