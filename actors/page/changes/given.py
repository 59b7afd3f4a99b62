"""What somebody who wants a change has sent: a JSON object whose fields are checked as they are taken.

This file alone decides what a field may be. Nothing is guessed: a field of another type, or one that no change asks for, is
refused with a sentence, so that a word that was spelt wrongly is not left out of a change.
"""

import base64
import binascii
import json
from collections.abc import Iterator

TEXT_MAX = 32_768
NAMES_MAX = 1_000
NUMBER_MAX = (1 << 31) - 1


class Given:
    """The fields of one change."""

    def __init__(self, body: bytes) -> None:
        """Raises ValueError for a body that is no JSON object."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValueError("A change is a JSON object: send Content-Type application/json with its fields.")
        self._left: dict[str, object] = found

    def text(self, name: str, otherwise: str | None = None) -> str:
        """A text that is not empty; `otherwise`: what a field is that was left out. Raises ValueError."""
        found = self._left.pop(name, None)
        if found is None and otherwise is not None:
            return otherwise
        if not isinstance(found, str) or not found or len(found) > TEXT_MAX:
            raise ValueError(f"{name} has to be a text that is not empty.")
        found.encode()  # a lone surrogate has no bytes
        return found

    def number(self, name: str, otherwise: int | None = None, lowest: int = 0) -> int:
        """A whole number. Raises ValueError."""
        found = self._left.pop(name, None)
        if found is None and otherwise is not None:
            return otherwise
        if isinstance(found, bool) or not isinstance(found, int) or not lowest <= found <= NUMBER_MAX:
            raise ValueError(f"{name} has to be a whole number from {lowest} to {NUMBER_MAX}.")
        return found

    def optional(self, name: str, lowest: int = 0) -> int | None:
        """A whole number, or None for a field that was left out. Raises ValueError."""
        return None if self._left.get(name) is None else self.number(name, lowest=lowest)

    def data(self, name: str) -> bytes | None:
        """Bytes: a text, or {"base64": text}; None: null, or left out. Raises ValueError."""
        found = self._left.pop(name, None)
        if found is None:
            return None
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, dict) and len(found) == 1 and isinstance(found.get("base64"), str):
            try:
                return base64.b64decode(found["base64"], validate=True)
            except (binascii.Error, ValueError):
                pass
        raise ValueError(f'{name} has to be a text, {{"base64": ...}} or null.')

    def pairs(self, name: str) -> Iterator[tuple[str, bytes | None]]:
        """(name, bytes) of each entry of a list of [name, bytes]. Raises ValueError."""
        for one in self._list(name):
            if not isinstance(one, list) or len(one) != 2 or not isinstance(one[0], str):
                raise ValueError(f"{name} has to be a list of [name, value].")
            yield one[0], Given(json.dumps({name: one[1]}).encode()).data(name)

    def names(self, name: str) -> list[str]:
        """A list of texts; empty: it was left out. Raises ValueError."""
        found = self._list(name)
        if not all(isinstance(one, str) and one and len(one) <= TEXT_MAX for one in found):
            raise ValueError(f"{name} has to be a list of texts.")
        return [str(one) for one in found]

    def settings(self, name: str) -> dict[str, str]:
        """Names and values; empty: it was left out. Raises ValueError."""
        found = self._left.pop(name, None)
        if found is None:
            return {}
        if not isinstance(found, dict) or len(found) > NAMES_MAX:
            raise ValueError(f"{name} has to be an object of names and values.")
        if not all(key and isinstance(value, str) for key, value in found.items()):
            raise ValueError(f"{name} has to have texts as values, also for numbers.")
        return {str(key): str(value) for key, value in found.items()}

    def _list(self, name: str) -> list[object]:
        found = self._left.pop(name, None)
        if found is None:
            return []
        if not isinstance(found, list) or len(found) > NAMES_MAX:
            raise ValueError(f"{name} has to be a list of at most {NAMES_MAX}.")
        return found

    def confirmed(self, name: str, lost: str) -> None:
        """Check that whoever sends this knows what is lost: `confirm` has to be the name. Raises ValueError."""
        if self._left.pop("confirm", None) != name:
            raise ValueError(f"{lost} To do it, send confirm with the name: {name}.")

    def end(self) -> None:
        """Check that nothing else was sent. Raises ValueError."""
        if self._left:
            raise ValueError(f"This change has no field {next(iter(self._left))!r}.")
