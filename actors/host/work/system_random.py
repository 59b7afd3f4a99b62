"""Real randomness for the node, and uuids as Kafka writes them.

A uuid in a file or on a screen is 22 characters of URL-safe base64 without padding. Kafka reserves the first hundred
values, and none may start with a dash, because command lines would read it as an option.
"""

import base64
import binascii
import os
import random


class SystemRandom:
    """`ports.Random` from the operating system's generator."""

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    def below(self, n: int) -> int:
        """An integer in `[0, n)`."""
        return self._random.randrange(n)

    def uuid(self) -> bytes:
        """The 16 bytes of a version-4 uuid."""
        while True:
            value = bytearray(os.urandom(16))
            value[6] = value[6] & 0x0F | 0x40
            value[8] = value[8] & 0x3F | 0x80
            if value[0] >> 2 != 62:  # 62 is the dash of URL-safe base64
                return bytes(value)


def uuid_text(value: bytes) -> str:
    """The 22 characters that stand for a uuid of 16 bytes."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a uuid in 22 characters. Raises ValueError with a sentence for the user."""
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != 16:
        raise ValueError(
            f"{text} is not an id: write 22 characters of URL-safe base64, as `rayft random-id` prints them."
        )
    return value
