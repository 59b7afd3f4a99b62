"""What is shown of the quorum of controllers: the leader, and each voter with its lag.

This file alone decides that. Now, it is what the quorum answers; where it does not, or is not told, and at a moment of the
past, it is what the metadata says of the controllers. The leader of a quorum that does not answer is not known.
"""

from typing import Any

from actors.page.metadata.moments import Knows, Moment
from actors.page.verdict import Asked
from actors.replay.columns.tables import uuid


def quorum_shown(known: Knows, asked: Asked | None, at: Moment) -> dict[str, Any]:
    """The quorum: what it answers now, or what the log says of a past moment. `asked`: what the cluster answered last."""
    asked = asked if at.is_now else None
    if asked is not None and asked.quorum is not None:
        told_ = asked.quorum
        names = {} if all(told_.nodes.get(one.id) for one in told_.voters) else _names(_listed(known, at))
        lead = next((one for one in told_.voters if one.id == told_.leader), None)
        end = lead.log_end_offset if lead is not None else told_.high_watermark
        return {
            "source": "quorum",
            "leader": told_.leader,
            "epoch": told_.leader_epoch,
            "high_watermark": told_.high_watermark,
            "voters": [
                {
                    "id": one.id,
                    "address": _address(told_.nodes.get(one.id)) or names.get(one.id),
                    "directory_id": uuid(one.directory_id),
                    "end": one.log_end_offset,
                    "lag": max(0, end - one.log_end_offset) if one.log_end_offset >= 0 else None,
                    "fetched_ms": one.last_fetch_ms,
                    "caught_up_ms": one.last_caught_up_ms,
                }
                for one in told_.voters
            ],
            "observers": len(told_.observers),
        }
    listed = _listed(known, at)
    names = _names(listed)
    leader = next((one["controller"] for one in listed if one["leader"]), -1)
    return {
        "source": "log",
        "problem": asked.problem or asked.unseen if asked is not None else "",
        "leader": leader if asked is None or asked.unseen else -1,
        "epoch": None,
        "high_watermark": None,
        "voters": [{"id": one["controller"], "address": names.get(one["controller"]), "lag": None} for one in listed],
        "observers": 0,
    }


def _address(listeners: list[tuple[str, str, int]] | None) -> str | None:
    return f"{listeners[0][1]}:{listeners[0][2]}" if listeners else None


def _listed(known: Knows, at: Moment) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = known.table("controllers", at).to_pylist()
    return found


def _names(listed: list[dict[str, Any]]) -> dict[int, str]:
    """The address of each controller, as it has registered (before Kafka 3.9 the quorum does not tell it)."""
    return {one["controller"]: f"{e['host']}:{e['port']}" for one in listed for e in (one["endpoints"] or [])[:1]}
