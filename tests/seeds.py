"""Searches through random histories: `make check` takes the first seeds of each, `make test` all of them."""

from collections.abc import Iterable
from typing import Any

import pytest

QUICK = 3


def first_are_quick(seeds: Iterable[int]) -> list[Any]:
    """Rows for `parametrize`: all but the first are long."""
    return [pytest.param(seed, marks=[pytest.mark.long] if at >= QUICK else []) for at, seed in enumerate(seeds)]
