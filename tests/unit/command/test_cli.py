"""The table of commands: each has a file, and no file of a command is forgotten."""

from importlib import import_module
from pathlib import Path

import pytest

from actors.command import cli

ROOM = Path(cli.__file__).parent


def test_each_file_that_adds_options_is_a_command() -> None:
    found = {path.stem.replace("_", "-") for path in ROOM.glob("*.py") if "\ndef add(" in path.read_text()}
    assert found == set(cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: rayft {name} ")
    assert callable(import_module(f"actors.command.{name.replace('-', '_')}").run)
