"""Kafka's variable-length integers, the obvious way."""


class Bad(ValueError):
    """Cut, or too many bits."""


def encode_uvarint(value: int) -> bytes:
    out = []
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def decode_uvarint(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    value = 0
    for i in range((bits + 6) // 7):
        if pos + i >= len(data):
            raise Bad("cut")
        value += (data[pos + i] & 127) * 128**i
        if data[pos + i] < 128:
            if value >= 2**bits:
                break
            return value, pos + i + 1
    raise Bad("too many bits")


def encode_varint(value: int) -> bytes:
    """Zigzag of any width: 0, -1, 1, -2 are 0, 1, 2, 3."""
    return encode_uvarint(2 * value if value >= 0 else -2 * value - 1)


def decode_varint(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    value, pos = decode_uvarint(data, pos, bits)
    return (value // 2 if value % 2 == 0 else -(value // 2) - 1), pos
