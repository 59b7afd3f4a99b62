"""Regular expressions of clients: the answers of Python's `re` where the syntax is the same, without its time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.groups.patterns import PATTERN_CHARACTERS_MAX, Pattern, PatternRefused

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\W", "x-y", "^", "$"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "{0,2}"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("abx-y1 \n", max_size=8))
def test_it_matches_what_python_matches(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern.replace("$", "\\Z"), re.ASCII).fullmatch(text) is not None
    except re.error:
        return
    assert Pattern(pattern).fullmatch(text) is expected


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "a*a*a*a*a*a*b", "(.*)(.*)(.*)x"])
def test_no_expression_takes_long(pattern: str) -> None:
    began_s = time.process_time()
    assert not Pattern(pattern).fullmatch("a" * 30_000)
    assert time.process_time() - began_s < 2


@pytest.mark.long
def test_ten_thousand_names_that_an_automaton_has_no_memory_for_take_seconds() -> None:
    """The sets of states that these names lead to are millions."""
    names = ["".join("ab"[(row * column >> 3) & 1] for column in range(249)) for row in range(10_000)]
    pattern = Pattern("(a|b)*a(a|b){60}(a|b)*a(a|b){60}b?")
    began_s = time.process_time()
    assert 0 < sum(map(pattern.fullmatch, names)) < len(names)
    assert time.process_time() - began_s < 60


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?i)ORDERS-[[:digit:]]+", "orders-17"),
        (r"\Qa.b\E", "a.b"),
        (r"x\b.y", "x-y"),
        (r"\p{Greek}+", "αβγ"),
        ("(?s)a.b", "a\nb"),
    ],
)
def test_syntax_that_only_re2_has(pattern: str, text: str) -> None:
    assert Pattern(pattern).fullmatch(text)
    assert not Pattern(pattern).fullmatch("b")


@pytest.mark.parametrize(
    "pattern",
    ["(", "[", "a{2,1}", "(a)\\1", "(?=a)", "(?<!a)b", "(?P<n>a)(?P=n)", "a{1001}", "a**",
     "(?:a{30}){40}", r"(?:\pL{100}){9}",
     "a" * (PATTERN_CHARACTERS_MAX + 1)],
)  # fmt: skip
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused, match=r"."):
        Pattern(pattern)


def test_a_refusal_says_what_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternRefused, match=r"missing \)"):
        Pattern("(a")
    assert capfd.readouterr() == ("", "")  # what clients send writes no lines
