"""The walks on the page of the architecture are those that requests and records take through the files of a running node."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import pytest

from actors.wire.messages import message
from tests.simulator.cluster import Client, Cluster
from tests.simulator.one_topic import OneTopic
from tests.simulator.world import Process, World

ROOT = Path(__file__).parents[2]
ACTORS = ROOT / "actors"
PAGE = ROOT / "docs" / "architecture.md"
HEADING = "Requests as a line of files"
ON_THE_HOST = "host/"
"""What a world does itself: its links take the place of sockets."""


def walks() -> dict[str, list[list[str]]]:
    """The walks of the page: for each the files on one node after the other. The name of a walk stands in front of its
    first line, and may go on in the next one."""
    text = PAGE.read_text()
    drawn = text[text.index(HEADING) :].split("```")[1].strip("\n")
    found: dict[str, str] = {}
    name = ""
    for line in drawn.splitlines():
        before, files = line[:14].strip(), line[14:]
        if files.startswith("->"):
            found[name] += f" {files}"
            if before:
                found[f"{name} {before}"] = found.pop(name)
                name = f"{name} {before}"
        else:
            name = before
            found[name] = files
    return {
        name: [
            [file for one in part.split("->") if (file := re.sub(r"\(.*?\)", "", one).strip())]
            for part in text.split("===")
        ]
        for name, text in found.items()
    }


def place(file: str) -> str:
    """The path below actors/ of what a walk names: a file, or a folder, also below node/."""
    found = [
        f"{top}{file}{end}" for top in ("", "node/") for end in (".py", "/") if (ACTORS / f"{top}{file}{end}").exists()
    ]
    assert len(found) == 1, f"{file} is {found or 'not there'}"
    return found[0]


class Followed:
    """The files that the code of each process goes through, call by call, while it is followed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered: dict[str, list[str]] = {}
        self.now = False
        for name in ("input", "_turn"):
            monkeypatch.setattr(Process, name, self._followed(getattr(Process, name)))

    def _followed(self, original: Callable[..., None]) -> Callable[..., None]:
        def followed(process: Process, *arguments: object) -> None:
            if not self.now:
                return original(process, *arguments)
            entered = self.entered.setdefault(process.name, [])
            before = sys.getprofile()

            def call(frame: FrameType, event: str, _: object) -> None:
                if event == "call" and (path := frame.f_code.co_filename).startswith(f"{ACTORS}/"):
                    entered.append(path.removeprefix(f"{ACTORS}/"))

            sys.setprofile(call)
            try:
                original(process, *arguments)
            finally:
                sys.setprofile(before)

        return followed


def missed(entered: Sequence[str], files: Sequence[str]) -> str | None:
    """The first of these files in which nothing was called after those before it; None: the whole line was walked."""
    calls: Iterator[str] = iter(entered)
    for file in files:
        wanted = place(file)
        if not any(path == wanted or (wanted.endswith("/") and path.startswith(wanted)) for path in calls):
            return file
    return None


def check(name: str, entered: Sequence[Sequence[str]]) -> None:
    """Check a walk of the page against what was entered at each of its nodes."""
    for files, calls in zip(walks()[name], entered, strict=True):
        inside = [file for file in files if not file.startswith(ON_THE_HOST)]
        assert (file := missed(calls, inside)) is None, f"{name}: nothing goes from there to {file}"


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Followed:
    return Followed(monkeypatch)


def test_every_file_of_a_walk_is_there() -> None:
    found = walks()
    assert {"Produce", "Fetch", "CreateTopics", "metadata record"} <= found.keys()
    assert all(place(file) for parts in found.values() for files in parts for file in files)


def test_a_produce_and_a_fetch_are_walked_as_the_page_says(followed: Followed) -> None:
    topic = OneTopic([1])
    followed.now = True
    topic.produce(b"a")
    check("Produce", [followed.entered["b1"]])
    followed.entered.clear()
    kind = message("FetchRequest")
    part = kind.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    request = kind(max_bytes=1 << 20, topics=[kind.FetchTopic(topic="t", partitions=[part])])
    assert topic.call("Fetch", 12, request).responses[0].partitions[0].records
    check("Fetch", [followed.entered["b1"]])


def test_a_new_topic_is_walked_from_its_client_to_the_replica(followed: Followed) -> None:
    world = World(1)
    cluster = Cluster(world, controllers=1, brokers=1)
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    controller = next(one.name for one in cluster.controllers.values())
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    world.run_for(1_000)
    followed.now = True
    reply = Client(world, "client").call("b1", "CreateTopics", 7, kind(topics=[topic]))
    assert reply.topics[0].error_code == 0
    world.run_for(1_000)
    asked, active = followed.entered["b1"], followed.entered[controller]
    check("CreateTopics", [asked, active])
    check("metadata record", [asked])
    check("metadata fetch", [asked, active])
    check("its answer", [active])


@pytest.mark.parametrize(
    ("entered", "file"),
    [
        (["node/api/dispatch.py", "node/api/perform.py", "raft/log.py"], None),
        (["node/api/perform.py", "node/api/dispatch.py", "raft/log.py"], "api/perform"),
        (["node/api/dispatch.py", "node/api/perform.py", "node/raft.py"], "raft"),
    ],
)
def test_a_line_that_is_not_walked_is_found(entered: Sequence[str], file: str | None) -> None:
    assert missed(entered, ["api/dispatch", "api/perform", "raft"]) == file
