"""A member that joins a group, heartbeats, and never asks for its assignment: nobody reads the partitions assigned to
it.

Before, such a member stayed in the group for as long as it sent heartbeats: 20 s later the stable group still had it.
"""

import threading
import time
from typing import Any

from actors.wire.errors import ErrorCode
from tests.integration.answers.dialogue import Dialogue
from tests.integration.hostile.scene import Scene

REBALANCE_MS = 3_000
SESSION_MS = 6_000
SECONDS_MAX = 20


def _join(group: str, member: str = "") -> dict[str, Any]:
    return {
        "group_id": group, "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS, "member_id": member,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip


def test_a_member_that_heartbeats_and_never_syncs_loses_its_place(small: Scene) -> None:
    good, silent = (Dialogue(small.cluster.bootstrap_servers) for _ in range(2))
    group, answers = "waits-for-nobody", []
    at = good.coordinator(group)
    good.rest(group)
    first = good.raw("JoinGroup", 3, at, **_join(group))
    assert first.error_code == 0
    joining = threading.Thread(target=lambda: answers.append(silent.raw("JoinGroup", 3, at, **_join(group))))
    joining.start()
    beat = {"group_id": group, "generation_id": first.generation_id, "member_id": first.member_id}
    while good.raw("Heartbeat", 3, at, **beat).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
        time.sleep(0.05)
    second = good.raw("JoinGroup", 3, at, **_join(group, first.member_id))
    joining.join()
    (other,) = answers
    assert second.generation_id == other.generation_id and second.leader == first.member_id
    given = [{"member_id": one.member_id, "assignment": b"mine"} for one in second.members]
    synced = good.raw("SyncGroup", 3, at, group_id=group, generation_id=second.generation_id,
                      member_id=first.member_id, assignments=given)  # fmt: skip
    assert synced.error_code == 0
    began = time.monotonic()
    seen = []
    while time.monotonic() - began < SECONDS_MAX:
        for dialogue, member in ((good, first.member_id), (silent, other.member_id)):
            reply = dialogue.raw(
                "Heartbeat", 3, at, group_id=group, generation_id=second.generation_id, member_id=member
            )
            seen.append((member, ErrorCode(reply.error_code)))
        if seen[-1][1] is ErrorCode.UNKNOWN_MEMBER_ID:
            break
        time.sleep(0.2)
    assert seen[-1] == (other.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    assert time.monotonic() - began > REBALANCE_MS / 1000 / 2, "it has its time"
    assert good.raw("JoinGroup", 3, at, **_join(group, first.member_id)).error_code == 0, "the others go on"
