"""Hypothesis strategies over the schemas: messages whose every field may hold the smallest, the largest, or a value that
means something to the cluster that is asked.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from actors.wire.schema import Field, Schema
from tests.unit.wire.generator import INTEGERS

LONGEST = "x" * 0x7FFF
WORDS = ("", "..", "a/b", "a\0b", "größe", "\U0001f642", "x" * 249, "x" * 300, LONGEST)
LONG_ARRAY = 300


class Vocabulary(NamedTuple):
    """Values that mean something where the message goes."""

    numbers: Sequence[int] = ()
    words: Sequence[str] = ()
    uuids: Sequence[bytes] = ()
    blobs: Sequence[bytes] = ()
    narrow: Callable[[Field], "st.SearchStrategy[Any] | None"] = lambda field: None
    """What replaces the strategy of a field; None: nothing does."""


def bodies(cls: type[Any], version: int, vocabulary: Vocabulary) -> "st.SearchStrategy[Any]":
    """Messages of `cls` with every field of `version` set."""
    described: Schema = cls.__schema__
    given = {}
    for field, child in zip(cls.__struct__.fields, cls.__layout__.children, strict=True):
        tagged_too_early = field.tag >= 0 and version not in described.head.flexible
        if version in field.versions and not tagged_too_early:
            given[field.attribute] = _field(field, child.cls if child else None, version, vocabulary)
    return st.builds(cls, **given)


def _field(field: Field, child: type[Any] | None, version: int, vocabulary: Vocabulary) -> "st.SearchStrategy[Any]":
    one = vocabulary.narrow(field)
    if one is None:
        one = bodies(child, version, vocabulary) if child is not None else _scalar(field, vocabulary)
    if field.array:
        # A long one repeats its elements: what is sent is large and what is drawn is not.
        single, few = st.lists(one, min_size=1, max_size=1), st.lists(one, max_size=3)
        one = st.one_of(single, single, few, few.map(lambda made: (made * LONG_ARRAY)[:LONG_ARRAY]))
    return st.one_of(st.none(), one, one, one) if version in field.nullable else one


def _scalar(field: Field, vocabulary: Vocabulary) -> "st.SearchStrategy[Any]":
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        known = [one for one in (-2, -1, 0, 1, 2, 3, *vocabulary.numbers) if low <= one <= high]
        return st.one_of(
            st.sampled_from((low, low + 1, high - 1, high)), st.sampled_from(known), st.integers(low, high)
        )
    if field.type == "bool":
        return st.booleans()
    if field.type == "float64":
        return st.floats()
    if field.type == "string":
        return st.sampled_from((*vocabulary.words, *vocabulary.words, *WORDS))
    if field.type == "uuid":
        return st.sampled_from((bytes(16), b"\xff" * 16, b"s" * 16, *vocabulary.uuids))
    return st.one_of(st.sampled_from((b"", b"\0", *vocabulary.blobs)), st.binary(max_size=200))
