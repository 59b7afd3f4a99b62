"""Completion of the command's words for bash, zsh and fish: texts that shtab makes of the parsers.

A wheel holds them as files, which `setup.py` writes when it is built: so nobody who installs it needs shtab, and `rayft
completion` is quick. A tree that was built in place makes them when they are asked for. Paths are completed where an
option takes one, and words where there are choices.
"""

import argparse
import sys
from pathlib import Path

from actors.command import cli
from actors.printable import unguarded

SHELLS = ("bash", "zsh", "fish")


def packaged(shell: str, folder: Path | None = None) -> Path:
    """The path of a shell's file in the package, or in a folder where the package is being built."""
    return (folder or Path(__file__).parent) / f"rayft.{shell}"


def show(shell: str) -> None:
    """Print the text for a shell as it is. Raises ValueError if there is none and it cannot be made."""
    file = packaged(shell)
    unguarded(sys.stdout).write(file.read_text("utf-8") if file.exists() else made(shell))


def write(folder: Path) -> None:
    """Write the files of all shells. Raises ValueError if they cannot be made."""
    for shell in SHELLS:
        packaged(shell, folder).write_text(made(shell), "utf-8")


def made(shell: str) -> str:
    """The text for a shell. Raises ValueError if shtab is not installed."""
    try:
        import shtab
    except ImportError:
        raise ValueError("this build has no completion: pip install shtab, which makes it.") from None
    return str(shtab.complete(_whole(cli._parser()), shell))


def _whole(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser with all commands behind it, which are read when they are typed, and with the options that take paths
    marked for shtab."""
    import shtab

    if isinstance(parser, cli.Command):
        parser.complete()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _whole(inner)
        elif action.type is Path:
            action.complete = shtab.DIRECTORY if action.dest == "dir" else shtab.FILE  # type: ignore[attr-defined]
    return parser
