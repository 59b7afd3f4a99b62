"""The table of error codes: no gap, and the numbers that another client knows."""

import pytest

from actors.wire.errors import ErrorCode, text

LAST = 133
"""SHARE_SESSION_LIMIT_REACHED, of Kafka 4.2."""


def test_every_code_is_there_once_and_has_a_sentence_of_its_own() -> None:
    assert sorted(map(int, ErrorCode)) == list(range(-1, LAST + 1))
    assert len({one.text for one in ErrorCode}) == len(ErrorCode)
    assert not [one.name for one in ErrorCode if one.text[-1] == "." or "\n" in one.text], "it stands within a sentence"


def test_a_code_of_a_later_release_is_named_by_its_number() -> None:
    assert text(0) == "no error" and text(ErrorCode.INVALID_TXN_STATE) == ErrorCode.INVALID_TXN_STATE.text
    assert text(LAST + 1) == f"error code {LAST + 1}" and text(-2) == "error code -2"


def test_another_client_has_the_same_numbers() -> None:
    errors = pytest.importorskip("kafka.errors", reason="kafka-python is not installed")
    theirs = {
        one.message: one.errno
        for one in vars(errors).values()
        if isinstance(one, type) and isinstance(getattr(one, "errno", None), int) and hasattr(one, "message")
    }
    ours = {one.name: int(one) for one in ErrorCode}
    shared = theirs.keys() & ours.keys()
    assert len(shared) > 60 and {name: theirs[name] for name in shared} == {name: ours[name] for name in shared}
