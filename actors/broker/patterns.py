"""Regular expressions of clients, matched in a time that is linear in the text (RE2's promise, KIP-1152).

Python's `re` backtracks: a short expression can take it for ever. Here the expression becomes a nondeterministic automaton,
whose sets of states are followed character by character and remembered. This file alone decides what is taken: literals,
classes, `.`, alternatives, groups, repetitions, and anchors, in Python's syntax as far as RE2 has it too. References to
groups, assertions and flags of RE2's own are refused, as is what would need more than `NODES_MAX` states.
"""

import re
from collections.abc import Callable
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

NODES_MAX = 1000
PATTERN_CHARACTERS_MAX = 1000
SETS_MAX = 10_000
"""Transitions that are remembered."""

Accepts = Callable[[str], bool]
CLASSES: dict[Any, Accepts] = {
    op.CATEGORY_DIGIT: lambda c: "0" <= c <= "9",
    op.CATEGORY_NOT_DIGIT: lambda c: not "0" <= c <= "9",
    op.CATEGORY_SPACE: lambda c: c in " \t\n\r\f",
    op.CATEGORY_NOT_SPACE: lambda c: c not in " \t\n\r\f",
    op.CATEGORY_WORD: lambda c: c == "_" or (c.isascii() and c.isalnum()),
    op.CATEGORY_NOT_WORD: lambda c: not (c == "_" or (c.isascii() and c.isalnum())),
}
BEGIN, END = "begin", "end"


class Refused(ValueError):
    """An expression that is malformed, or of a kind that is not taken."""


class Pattern:
    """A compiled expression. `fullmatch(text)`: whether it matches the whole text."""

    def __init__(self, text: str) -> None:
        """Raises Refused."""
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise Refused(f"the expression has {len(text)} characters, more than {PATTERN_CHARACTERS_MAX}")
        try:
            parsed = parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(str(error)) from None
        if parsed.state.flags & ~re.UNICODE:
            raise Refused("flags are not taken")
        self._free: list[list[int]] = []
        """Node -> nodes that are reached without a character."""
        self._anchors: dict[int, tuple[str, int]] = {}
        """Node -> (which end of the text it asks for, node behind it)."""
        self._moves: dict[int, tuple[Accepts, int]] = {}
        """Node -> (what the next character must be, node behind it)."""
        self._remembered: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        start = self._node()
        try:
            self._end = self._sequence(parsed, start)
        except RecursionError:
            raise Refused("groups are nested too deeply") from None
        self._start = start

    def fullmatch(self, text: str) -> bool:
        """In a time that is linear in the text."""
        if not text:
            return self._end in self._closed({self._start}, True, True)
        present = self._closed({self._start}, True, False)
        for character in text[:-1]:
            present = self._step(present, character)
            if not present:
                return False
        return self._end in self._closed(self._moved(present, text[-1]), False, True)

    def _moved(self, present: frozenset[int], character: str) -> set[int]:
        moves = self._moves
        return {moves[node][1] for node in present if node in moves and moves[node][0](character)}

    def _step(self, present: frozenset[int], character: str) -> frozenset[int]:
        key = present, character
        found = self._remembered.get(key)
        if found is None:
            found = self._closed(self._moved(present, character), False, False)
            if len(self._remembered) < SETS_MAX:
                self._remembered[key] = found
        return found

    def _closed(self, nodes: set[int], at_begin: bool, at_end: bool) -> frozenset[int]:
        left, found = list(nodes), set(nodes)
        while left:
            node = left.pop()
            following = list(self._free[node])
            anchor = self._anchors.get(node)
            if anchor is not None and (at_begin if anchor[0] == BEGIN else at_end):
                following.append(anchor[1])
            for one in following:
                if one not in found:
                    found.add(one)
                    left.append(one)
        return frozenset(found)

    # ---- from the parsed expression to nodes

    def _node(self) -> int:
        if len(self._free) >= NODES_MAX:
            raise Refused(f"the expression needs more than {NODES_MAX} states")
        self._free.append([])
        return len(self._free) - 1

    def _sequence(self, items: Any, at: int) -> int:
        for kind, argument in items:
            at = self._item(kind, argument, at)
        return at

    def _item(self, kind: Any, argument: Any, at: int) -> int:
        """What one element leads to from node `at`."""
        if kind is op.BRANCH:
            end = self._node()
            for branch in argument[1]:
                begin = self._node()
                self._free[at].append(begin)
                self._free[self._sequence(branch, begin)].append(end)
            return end
        if kind is op.SUBPATTERN:
            if argument[1] or argument[2]:
                raise Refused("flags are not taken")
            return self._sequence(argument[3], at)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, items = argument
            return self._repeat(least, most, items, at)
        end = self._node()
        if kind is op.AT:
            if argument not in (op.AT_BEGINNING, op.AT_BEGINNING_STRING, op.AT_END, op.AT_END_STRING):
                raise Refused("only ^ and $ are taken of the assertions")
            self._anchors[at] = BEGIN if argument in (op.AT_BEGINNING, op.AT_BEGINNING_STRING) else END, end
            return end
        begin = self._node()
        self._free[at].append(begin)
        self._moves[begin] = _accepts(kind, argument), end
        return end

    def _repeat(self, least: int, most: Any, items: Any, at: int) -> int:
        for _ in range(least):
            begin = self._node()
            self._free[at].append(begin)
            at = self._sequence(items, begin)
        if most is op.MAXREPEAT:
            begin, end = self._node(), self._node()
            self._free[at] += [begin, end]
            self._free[self._sequence(items, begin)] += [begin, end]
            return end
        end = self._node()
        self._free[at].append(end)
        for _ in range(most - least):
            begin = self._node()
            self._free[at].append(begin)
            at = self._sequence(items, begin)
            self._free[at].append(end)
        return end


def _accepts(kind: Any, argument: Any) -> Accepts:
    if kind is op.LITERAL:
        literal = chr(argument)
        return lambda c: c == literal
    if kind is op.NOT_LITERAL:
        literal = chr(argument)
        return lambda c: c != literal
    if kind is op.ANY:
        return lambda c: c != "\n"
    if kind is op.RANGE:
        low, high = argument
        return lambda c: low <= ord(c) <= high
    if kind is op.CATEGORY and argument in CLASSES:
        return CLASSES[argument]
    if kind is op.IN:
        negated = bool(argument) and argument[0][0] is op.NEGATE
        tests = [_accepts(*one) for one in argument[1 if negated else 0 :]]
        return lambda c: any(test(c) for test in tests) is not negated
    raise Refused("references and assertions are not taken")
