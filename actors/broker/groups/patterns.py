"""Regular expressions of clients, in RE2's syntax, as Apache Kafka has them (KIP-848, KIP-1152).

Python's `re` backtracks: a short expression can take it for ever. RE2 takes a time that is linear in the text. This file
alone decides what an expression may cost: its length, and the memory of its automaton. RE2 keeps the last 128 expressions,
so all of them together take 64 MiB at most.
"""

from typing import Any

PATTERN_CHARACTERS_MAX = 1000
MEMORY_BYTES_MAX = 512 << 10
"""The most memory of one expression, with the states that it remembers while it is matched."""


class PatternRefused(ValueError):
    """An expression that is malformed, of a kind that is not taken, or too large."""


class Pattern:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        """Compile an expression. Raises PatternRefused."""
        import re2  # here, because a node without expressions does without its 2.5 MiB

        if len(text) > PATTERN_CHARACTERS_MAX:
            raise PatternRefused(f"the expression has {len(text)} characters, more than {PATTERN_CHARACTERS_MAX}")
        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.log_errors = False  # it would write lines of its own, as often as a client likes
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0] if error.args else "malformed"
            raise PatternRefused(
                reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            ) from None

    def fullmatch(self, text: str) -> bool:
        """Whether the expression matches the whole text; in a time that is linear in the text."""
        return self._compiled.fullmatch(text) is not None
