class Rooms:
    """Memory that is used again for each chunk that is decoded. It is freed when the last user of the object is
    gone."""

class Owned:
    """Bytes that C code has filled, as a writable buffer that frees them."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
