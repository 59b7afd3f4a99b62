"""CRC-32C, one bit at a time."""

POLYNOMIAL = 0x82F63B78  # 0x1EDC6F41 with its bits reversed


def crc32c(data: bytes, value: int = 0) -> int:
    crc = value ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
