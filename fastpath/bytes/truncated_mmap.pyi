def guard() -> None:
    """From now on, in this process, missing pages of mapped files read as zeros and are counted. Raises OSError."""

def pages() -> int:
    """How many pages were missing so far."""
