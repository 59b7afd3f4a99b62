"""What a partition costs in memory (DESIGN.md section 12: aim 75 bytes at replication factor 3)."""

import subprocess
import sys

import pytest

ROOM = 110
"""Bytes a partition, generous: growth of the process includes what the allocator keeps."""

PROGRAM = """
import sys
from actors.metadata.image import Image
from actors.metadata.ops import PartitionsSet, TopicSet

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def fill(image, topics, partitions):
    for i in range(topics):
        topic_id = image.next_offset.to_bytes(16, "big")
        replicas = [[(i * 7 + p * 3 + j * (1 + p % 5)) % 40 for j in range(3)] for p in range(partitions)]
        homes = [[bytes([b]) * 16 for b in one] for one in replicas]
        image.replay(image.next_offset, TopicSet(f"topic-{image.next_offset}", topic_id))
        image.replay(image.next_offset, PartitionsSet(topic_id, range(partitions), replicas, replicas, directories=homes))
        image.commit(image.next_offset)

fill(Image(), 2, 1000)
image = Image()
before = resident()
fill(image, int(sys.argv[1]), int(sys.argv[2]))
print((resident() - before) / image.row_end)
"""


def bytes_a_partition(topics: int, partitions: int) -> float:
    command = [sys.executable, "-c", PROGRAM, str(topics), str(partitions)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long
def test_large_topics():
    assert 20 < bytes_a_partition(100, 2000) <= ROOM


@pytest.mark.long
def test_topics_of_a_hundred_partitions():
    assert 20 < bytes_a_partition(2000, 100) <= ROOM
