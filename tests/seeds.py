"""Searches through random histories, and rows that each start a process: `make check` takes the first, `make test` all."""

from collections.abc import Iterable
from typing import Any

import pytest

QUICK = 3


def first_are_quick(seeds: Iterable[Any], quick: int = QUICK) -> list[Any]:
    """Rows for `parametrize`: all but the first are long."""
    return [pytest.param(seed, marks=[pytest.mark.long] if at >= quick else []) for at, seed in enumerate(seeds)]
