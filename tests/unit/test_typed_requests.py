"""Requests have types: where one may be of several kinds, that is said here, with the reason."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNTYPED = re.compile(r"\brequest: Any\b")
PLACES_MAX = 20
ANY_KIND = "the code is the same for every kind of request"
SEVERAL = {
    "actors/broker/groups/member_groups.py": (6, "the heartbeats of consumer, share and streams groups"),
    "actors/controller/principals/acls.py": (2, "what cuts a long request takes any kind, and this one says which"),
    "actors/node/api/dispatch.py": (2, ANY_KIND),
    "actors/node/api/security/denied.py": (1, "the four requests to a share coordinator"),
    "actors/node/api/security/speakers.py": (1, "the requests that name a broker by the field of a row"),
    "actors/node/api/share/share_state.py": (2, "the four requests to a share coordinator"),
    "actors/node/quorum/codec/partition.py": (1, "the requests of the quorum, which name a cluster alike"),
    "actors/node/roles/controller/role.py": (1, ANY_KIND),
    "actors/node/runtime/slices.py": (1, ANY_KIND),
}
"""By file: how many functions take a request of any type, and why."""


def test_a_request_without_a_type_has_a_reason() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): count
        for path in (ROOT / "actors").rglob("*.py")
        if (count := len(UNTYPED.findall(path.read_text())))
    }
    assert found == {file: count for file, (count, _) in SEVERAL.items()}
    assert sum(found.values()) <= PLACES_MAX
