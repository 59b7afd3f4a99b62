"""The metrics of a process and of its Python, under the names that Prometheus' own clients give them.

This file alone reads them, out of /proc and the garbage collector. What a file of /proc would say is absent where it cannot
be read, and nothing else is. It runs on the thread of the page, not on the node's.
"""

import contextlib
import gc
import os
import platform
import threading
from collections.abc import Iterator

from actors.node.metrics.family import COUNTER, GAUGE, Family, Sample

PROC = "/proc"
CPU = Family("process_cpu_seconds_total", COUNTER, "CPU time of this process, user and system, in s.")
STARTED = Family("process_start_time_seconds", GAUGE, "When this process began, in s since 1970.")
RESIDENT = Family("process_resident_memory_bytes", GAUGE, "Memory of this process that is in RAM.")
VIRTUAL = Family("process_virtual_memory_bytes", GAUGE, "Address space of this process.")
OPEN = Family("process_open_fds", GAUGE, "Open file descriptors.")
MOST = Family("process_max_fds", GAUGE, "How many it may open.")
THREADS = Family("process_threads", GAUGE, "Threads of this process.")
READ = Family(
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    GAUGE,
    "Bytes that this process has had read from disks.",
    (),
    "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
)
WRITTEN = Family(
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    GAUGE,
    "Bytes that this process has had written to disks.",
    (),
    "kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
)
COLLECTIONS = Family(
    "python_gc_collections_total", COUNTER, "Runs of Python's garbage collector, by generation.", ("generation",)
)
COLLECTED = Family(
    "python_gc_objects_collected_total", COUNTER, "Objects that it has collected, by generation.", ("generation",)
)
INFO = Family("python_info", GAUGE, "1, with the version of Python as labels.", ("implementation", "version"))
EVERY = (CPU, STARTED, RESIDENT, VIRTUAL, OPEN, MOST, THREADS, READ, WRITTEN, COLLECTIONS, COLLECTED, INFO)


def process_samples() -> list[Sample]:
    """The numbers as they are now."""
    found = [*_linux()]
    for generation, counts in enumerate(gc.get_stats()):
        found.append(Sample(COLLECTIONS, (str(generation),), counts["collections"]))
        found.append(Sample(COLLECTED, (str(generation),), counts["collected"]))
    found.append(Sample(INFO, (platform.python_implementation(), platform.python_version()), 1))
    return found


def _linux() -> Iterator[Sample]:
    """Each from a file of its own: a service manager may hide some of them (ProcSubset=pid hides /proc/stat)."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = _read("self/stat").rpartition(")")[2].split()
    if fields:
        yield Sample(CPU, (), (int(fields[11]) + int(fields[12])) / ticks)
        yield Sample(VIRTUAL, (), int(fields[20]))
        yield Sample(RESIDENT, (), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
        for line in _read("stat").split("\n"):
            if line.startswith("btime"):
                yield Sample(STARTED, (), int(line.split()[1]) + int(fields[19]) / ticks)
    with contextlib.suppress(OSError):
        yield Sample(OPEN, (), len(os.listdir(f"{PROC}/self/fd")) - 1)  # without that of the folder itself
    yield Sample(THREADS, (), threading.active_count())
    for line in _read("self/limits").split("\n"):
        if line.startswith("Max open files"):
            most = line.split()[3]
            yield Sample(MOST, (), float("inf") if most == "unlimited" else int(most))
    counted = dict(line.split(": ") for line in _read("self/io").split("\n") if ": " in line)
    for family, name in ((READ, "read_bytes"), (WRITTEN, "write_bytes")):
        if name in counted:
            yield Sample(family, (), int(counted[name]))


def _read(name: str) -> str:
    """A file of /proc; empty if it is not there or may not be read."""
    try:
        with open(f"{PROC}/{name}") as file:
            return file.read()
    except OSError:
        return ""
