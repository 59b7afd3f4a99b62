"""Where secrets turn up: in files below some directories."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

KEY = "PRIVATE KEY-----"


def keys_below(home: Path) -> list[str]:
    """A line of each private key in files below a directory."""
    found = []
    for path in home.rglob("*"):
        if path.is_file() and path.suffix in (".pem", ".key"):
            lines = path.read_text().splitlines()
            found += [lines[at + 1] for at, line in enumerate(lines) if line.endswith(KEY) and "BEGIN" in line]
    # The first line of each begins with the same bytes of ASN.1: the end differs.
    return [line[-32:] for line in found]


def leaks(homes: Iterable[Path], secrets: Sequence[str]) -> set[Path]:
    """The files that hold one of the secrets."""
    wanted = [secret.encode() for secret in secrets]
    found = set()
    for home in homes:
        for path in home.rglob("*"):
            if path.is_file() and not path.is_symlink():
                with suppress(FileNotFoundError):  # a node has replaced it
                    data = path.read_bytes()
                    if any(one in data for one in wanted):
                        found.add(path)
    return found
