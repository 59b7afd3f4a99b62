"""`rayft random-id`: a new id of a cluster or of a controller's directory, to give to `rayft format`."""

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Add nothing: `rayft random-id` has no options."""


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.host.work.system_random import SystemRandom, uuid_text

    print(uuid_text(SystemRandom().uuid()))
    return 0
