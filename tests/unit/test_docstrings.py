"""The first sentence of a docstring stands alone: it has a subject, and does not point at a sentence that the reader
does not see.

This file alone decides which openings are surely wrong. It cannot tell whether a sentence is good.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPENINGS = re.compile(
    r"(Of|As|So|It|Its|That|Those|These|They|Them|Their|Who|Whoever|Whom|Whose|None|Nobody|Nothing|Only|Also|Both|Either"
    r"|Neither|The same|The other|The reverse|The opposite|Whether it|Whether there is one)\b"
)
"""First words that need another sentence, or that ask the reader who or what is meant."""
BARE_WHO = re.compile(r"(?<=[.:;] )Who\b|\b(?:to|for|of|from|with|by|let|than|so) who\b")
"""A who that is neither a question nor about somebody named before it: `who asks waits` is said of a client, or a member."""
WHO, COMMENTED_WHO = re.compile(r"\bwho\b", re.IGNORECASE), re.compile(r"#.*\bwho\b", re.IGNORECASE)
"""Modules without these words need not be taken apart."""
WORDS_MIN = 3
"""The fewest words of a first sentence: two name a thing again and say nothing of it."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of the docstrings of a module: its own, of classes and functions, and of fields behind assignments."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for index, statement in enumerate(body):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            text = statement.value.value
            follows = isinstance(body[index - 1], ast.Assign | ast.AnnAssign) if index else documented
            if isinstance(text, str) and follows:
                yield statement.lineno, " ".join(text.split())


def fault(text: str) -> str | None:
    """Why the first sentence of a docstring does not stand alone; None if no rule says so."""
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    if len(first.split()) < WORDS_MIN:
        return f"says too little: {first}"
    opening = OPENINGS.match(first)
    return f"opens with {opening[0]}: {first}" if opening else None


def files() -> list[Path]:
    """The sources of the product, without generated stubs."""
    found = [path for top in ("actors", "fastpath") for path in sorted((ROOT / top).rglob("*.py*"))]
    return [path for path in found if path.suffix in (".py", ".pyi") and "schemas" not in path.parts]


def test_the_first_sentence_of_each_docstring_stands_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {why}"
        for path in files()
        for line, text in docstrings(ast.parse(path.read_text()))
        if (why := fault(text)) is not None
    ]
    assert not wrong, "\n".join(wrong)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the comments of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def bare_who(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of what says who without saying of whom, in a module's docstrings and comments."""
    if WHO.search(text) is None:
        return
    commented = comments(text) if COMMENTED_WHO.search(text) else ()
    for line, told in (*docstrings(ast.parse(text)), *commented):
        if BARE_WHO.search(told.removeprefix("# ")) or told.startswith("# Who "):
            yield line, told


def test_who_is_said_of_somebody() -> None:
    wrong = [f"{path.relative_to(ROOT)}:{line} {told}" for path in files() for line, told in bare_who(path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_a_bare_who_is_found_in_docstrings_and_comments() -> None:
    assert [*bare_who('"""Lists. Who asks waits."""')] and [*bare_who("x = 1  # told to who reads")]
    assert [*bare_who("# Who waits is told.")]
    assert not [*bare_who('"""The rules: who may read, and somebody who may not."""  # the client, who asks')]


@pytest.mark.parametrize(
    "text",
    [
        "Time.",
        "The reverse.",
        "The same for settings by name.",
        "Of one group. It is not remembered.",
        "Whoever asks is told.",
        "As it was stored. Raises ValueError if that makes no sense.",
        "It is active no more.",
        "Whether it is there.",
    ],
)
def test_a_sentence_that_points_elsewhere_is_found(text: str) -> None:
    assert fault(text) is not None


@pytest.mark.parametrize("text", ["The id of the topic.", "Itself is no pronoun here.", "Asks the leader for votes."])
def test_a_sentence_with_a_subject_is_accepted(text: str) -> None:
    assert fault(text) is None


def test_docstrings_of_fields_are_seen() -> None:
    source = (
        '"""A module."""\nx = 1\n"""A field."""\n\n\nclass C:\n    """A class."""\n\n    y: int\n    """Its field."""\n'
    )
    assert [text for _, text in docstrings(ast.parse(source))] == ["A module.", "A field.", "A class.", "Its field."]
