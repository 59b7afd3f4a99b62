class Rooms:
    """Memory that goes round between chunks that are decoded one behind the other. It is freed with the last of them."""

class Owned:
    """Bytes that C code has filled, as a writable buffer that frees them."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
