"""`rayft completion`: what a shell needs so that its Tab key knows the words of the command (`output/completions.py`)."""

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ValueError if the text is not there."""
    from actors.command.output import completions

    completions.show(options.shell)
    return 0
