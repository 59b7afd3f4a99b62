"""The command that runs random histories of the models."""

from pathlib import Path

import pytest

from tests import histories


@pytest.mark.parametrize("kind", histories.KINDS)
def test_a_history_is_the_same_each_time(kind: str) -> None:
    run = histories.KINDS[kind]
    assert run(3) == run(3) != run(4)


def test_failing_seeds_are_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(seed: int) -> str:
        assert seed != 11, "two owners"
        return f"digest {seed}"

    monkeypatch.setitem(histories.KINDS, "classic", run)
    file = tmp_path / "digests"
    code = histories.main(["--kind", "classic", "--seeds", "3", "--first", "10", "--digests", str(file)])
    told = capsys.readouterr()
    assert code == 1 and "these fail: [11]" in told.out and "two owners" in told.err
    assert file.read_text() == "classic 10 digest 10\nclassic 12 digest 12\n"
    assert histories.main(["--kind", "classic", "--seeds", "1"]) == 0
