from fastpath.image.copy_on_write import Pages

class Chains(Pages):
    """Chains by topic row. One never written reads as None."""

    def get(self, index: int) -> bytes | None:
        """A topic's extents, 12 bytes each; None: no such topic. Raises IndexError outside [0, len)."""
    def put(self, index: int, chain: bytes | None) -> None:
        """Replace a topic's extents. Raises IndexError outside [0, len), ValueError unless they have 12 bytes each."""
    def append(self, chain: bytes | None) -> int:
        """Add a topic row at the end. Returns its number."""
