"""`rayft topic partitions` against both kinds of cluster, with two brokers of which one goes away."""

import json
from typing import Any

import pytest

from tests.integration.command.conftest import Two
from tests.integration.command.typed import check, typed
from tests.integration.conftest import until

pytestmark = pytest.mark.timeout(300)


def test_partitions_grow_move_and_get_their_preferred_leaders(two: Two, name: str) -> None:
    def ran(*words: str) -> Any:
        return typed(two.servers, "topic", *words)

    def rows() -> list[dict[str, Any]]:
        found = ran("describe", name, "-o", "json")
        return json.loads(found.out) if found.code == 0 else []

    assert ran("create", name, "-p", "1", "-r", "1").code == 0
    check(ran("partitions", "grow", name, "--to", "4"), f"grew topic {name} to 4 partitions\n")
    until(lambda: len(rows()) == 4)
    shrunk = ran("partitions", "grow", name, "nothing", "--to", "3")
    assert (shrunk.code, shrunk.out) == (1, b"") and "(INVALID_PARTITIONS)" in shrunk.err
    assert shrunk.err.endswith("rayft: topic nothing does not exist\n") and shrunk.err.count("\n") == 2
    check(
        ran("partitions", "move", name, "--to", "1,2"),
        "".join(f"moving partition {name}/{n} to {'2 1' if n % 2 else '1 2'}\n" for n in range(4)),
    )
    until(lambda: [sorted(one["isr"]) for one in rows()] == [[1, 2]] * 4)
    until(lambda: ran("partitions", "moves", "-o", "json").out == b"[]\n")
    check(ran("partitions", "moves"), "topic  partition  replicas  adding  removing\n")
    assert [one["replicas"] for one in rows()] == [[1, 2], [2, 1], [1, 2], [2, 1]]
    check(ran("partitions", "move", f"{name}:0", "--to", "2,1"), f"moving partition {name}/0 to 2 1\n")
    elected = ran("partitions", "elect", f"{name}:0", f"{name}:1")
    assert elected.code == 0 and sorted(line.split(" ", 1)[0] for line in elected.text.splitlines()) != [], elected
    until(lambda: [one["leader"] for one in rows()][:2] == [2, 2])
    again = ran("partitions", "elect", f"{name}:0", f"{name}:1")
    check(again, "".join(f"{name}/{n} has the preferred leader already\n" for n in (0, 1)))
    assert ran("partitions", "elect").code == 0
    check(ran("partitions", "elect"), "every partition has its preferred leader already\n")
    absent = ran("partitions", "elect", f"{name}:9")
    assert (absent.code, absent.err) == (1, f"rayft: topic {name} has 4 partitions and no partition 9\n")
    unknown = ran("partitions", "move", f"{name}:0", "--to", "1,7")
    assert (unknown.code, unknown.out) == (1, b"") and "(INVALID_REPLICA_ASSIGNMENT)" in unknown.err


def test_a_move_that_does_not_end_can_be_given_up_and_a_leader_be_forced(two: Two, name: str) -> None:
    def ran(*words: str) -> Any:
        return typed(two.servers.split(",")[0], "topic", *words)

    def leader(partition: int) -> Any:
        found = ran("describe", name, "-o", "json")
        return json.loads(found.out)[partition]["leader"] if found.code == 0 else "nobody answers"

    assert ran("create", name, "-p", "2", "-r", "1").code == 0
    assert ran("partitions", "move", f"{name}:0", "--to", "1").code == 0
    assert ran("partitions", "move", f"{name}:1", "--to", "2").code == 0
    until(lambda: (leader(0), leader(1)) == (1, 2) and ran("partitions", "moves", "-o", "json").out == b"[]\n")
    two.freeze()
    try:
        check(ran("partitions", "move", f"{name}:0", "--to", "1,2"), f"moving partition {name}/0 to 1 2\n")
    finally:
        two.end()
    check(
        ran("partitions", "moves"),
        f"topic  partition  replicas  adding  removing\n{name}  0  1 2  2  -\n",
    )
    check(ran("partitions", "cancel", name), f"no longer moving partition {name}/0\n")
    nothing = ran("partitions", "cancel", name)
    assert (nothing.code, nothing.err) == (
        1, "rayft: nothing of that is moving: rayft topic partitions moves shows what is\n"
    )  # fmt: skip
    until(lambda: leader(1) is None)
    check(ran("partitions", "elect", f"{name}:0", "--unclean"), f"{name}/0 has a leader already\n")
    lost = ran("partitions", "elect", f"{name}:1", "--unclean")  # its one replica is away
    assert (lost.code, lost.out) == (1, b"") and lost.err.count("\n") == 1 and f"{name}/1" in lost.err
