"""Errors that are kept: what an error says, without what it was raised in.

An exception holds the frames that it has passed, and these hold what they worked on: the content of a snapshot, say. Whoever
keeps one, or hands it to another thread, keeps all of that.
"""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def bare(error: E) -> E:
    """The error, which holds nothing but what it says from now on."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
