from typing_extensions import Buffer

def ends(data: Buffer) -> tuple[bool, int]:
    """(whether `data` is whole frames and nothing else, the largest window of a frame in bytes)."""
