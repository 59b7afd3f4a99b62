"""An answer that is made once for all who ask while nothing is new."""

from collections.abc import Callable
from typing import Any


class Lately:
    """An answer that is the same as long as its key is. Any thread may ask."""

    def __init__(self) -> None:
        self._kept: tuple[Any, Any] | None = None

    def found(self, key: Any, make: Callable[[], Any]) -> Any:
        """What belongs to a key, which is made if it is not the last one."""
        kept = self._kept
        if kept is None or kept[0] != key:
            kept = self._kept = key, make()
        return kept[1]
