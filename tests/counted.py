"""What a call does, counted: the machine's speed has no part in it."""

import sys
from types import FrameType
from typing import Any


def lines_of(function: Any) -> int:
    """How many lines of source a call runs."""
    count = 0

    def inside(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return inside

    before = sys.gettrace()
    sys.settrace(inside)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
