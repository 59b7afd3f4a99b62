"""Records as lines of a file, whose headers may be without end."""

import pytest

from actors.page.routes import exports
from actors.page.routes.records import dicts
from tests.unit.page.routes.test_records import of


def test_headers_without_end_are_not_all_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(exports, "HEADERS_MAX", 5)
    monkeypatch.setattr(exports, "dicts", lambda table: made.append(len(table)) or dicts(table))
    few = exports._joined(of([1, 2], b"v", 2), None)
    many = exports._joined(of([1, 2, 3], b"v", 2), None)
    assert made == [2, 1, 1, 1] and many.startswith(few) and len(many.splitlines()) == 3
    assert exports._joined(of([], b""), None) == b""
    with pytest.raises(ValueError, match="has 6 headers, too many"):
        exports._joined(of([1], b"v", 6), None)
