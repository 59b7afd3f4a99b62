"""Files of running nodes: one that is listed may be replaced or deleted before it is looked at."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def looked_at(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Those that are there, each with what the system says of it."""
    for path in paths:
        try:
            yield path, path.stat()
        except FileNotFoundError:
            continue


def size_of_all(paths: Iterable[Path]) -> int:
    """The bytes of those that are there."""
    return sum(about.st_size for _, about in looked_at(paths))
