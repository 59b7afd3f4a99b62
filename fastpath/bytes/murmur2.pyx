"""Which partition a key is written to: as Java's producer chooses, so that both write a key to the same one.

This file alone decides what Python is given of the hash; murmur2.pxd has it for C callers.
"""


def hashed(const uint8_t[::1] data):
    return murmur2(&data[0] if data.shape[0] else NULL, data.shape[0])


def partition_of(const uint8_t[::1] key, int partitions):
    if partitions < 1:
        raise ValueError(f"a topic has no {partitions} partitions")
    return of_key(&key[0] if key.shape[0] else NULL, key.shape[0], partitions)
