"""A table whose rows test the same thing is one test: each row is tried, and each that fails is told.

For tables of hundreds of rows that take no fixtures. pytest makes, sends and reports each of its tests in about as long as
such a row takes, once more in each worker. A row has no outcome of its own: one that is skipped, or that returns something
(what is asynchronous was never awaited), has failed, and one that is out of time ends the table, since pytest-timeout has
one timer for a test.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

SHOWN = 20
"""Rows whose tracebacks are shown; the others that fail are named."""
NAME_MAX = 200
"""Letters of a row's name."""
OUT_OF_TIME = "from pytest-timeout"


def rows(table: Iterable[Sequence[Any]], *, ids: Callable[..., str] | None = None) -> Callable[..., Callable[[], None]]:
    """A decorator: the test is called with each row in one test. `ids` names a row; without it its values do."""
    kept = [tuple(row) for row in table]

    def name_of(row: tuple[Any, ...]) -> str:
        name = ids(*row) if ids else ", ".join(map(str, row))
        return name if len(name) <= NAME_MAX else name[:NAME_MAX] + "..."

    def decorated(test: Callable[..., None]) -> Callable[[], None]:
        def each() -> None:
            failed: list[tuple[str, BaseException]] = []
            for row in kept:
                try:
                    assert test(*row) is None, "a row that returns something may never have run"
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failed.append((name_of(row), error))
                    if OUT_OF_TIME in str(error):
                        break
            if failed:
                for name, error in failed:
                    error.add_note(f"row: {name}")
                told = f"{len(failed)} of {len(kept)} rows: {'; '.join(name for name, _ in failed)}"
                raise BaseExceptionGroup(told, [error for _, error in failed[:SHOWN]])

        assert kept, "a table without rows tests nothing"
        each.__name__, each.__qualname__, each.__module__ = test.__name__, test.__qualname__, test.__module__
        each.__doc__ = test.__doc__
        return each

    return decorated
