from fastpath.image.copy_on_write import Generations

class Chains:
    """Chains by topic row. One never written reads as None."""

    size: int
    def __init__(self, generations: Generations) -> None: ...
    def __len__(self) -> int: ...
    def get(self, index: int) -> bytes | None:
        """A topic's extents, 12 bytes each; None: no such topic. Raises IndexError outside [0, len)."""
    def put(self, index: int, chain: bytes | None) -> None:
        """Replace a topic's extents. Raises IndexError outside [0, len), ValueError unless they have 12 bytes each."""
    def append(self, chain: bytes | None) -> int:
        """Add a topic row at the end. Returns its number."""
    def frozen(self) -> Chains:
        """The chains as they are now. Take a generation before, and release it when the copy is not used any more."""
    def thawed(self, generations: Generations) -> Chains:
        """Chains that can be written, over the pages of these frozen ones. `generations`: the owner's, of which one is
        taken, so that each page is copied before its first write."""
    def differing(self, older: Chains) -> int:
        """How many pages are not those of a frozen copy that was made earlier."""
