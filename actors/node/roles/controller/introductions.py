"""The first question to brokers in ZooKeeper mode: which versions of the pushed requests they serve, before they are
told anything.

They are asked by ApiVersions on the connection on which they are told (`pusher.py`), once for each broker epoch: an upgraded
broker has a new znode. This file alone decides when one is asked again: after a pause, where no answer came or the broker is
too old.
"""

from typing import TYPE_CHECKING

from actors.controller.pushes.push_versions import LOWEST, Speech, speech
from actors.controller.soft_state import Legacy
from actors.node.net.channels import ChannelError, Channels
from actors.node.runtime.runtime import Runtime
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ApiVersionsResponse

VERSION = 3
"""The version of ApiVersions: 2.4 and later serve it, and answer a newer one in another layout."""
AGAIN_MS = 1000


class Introductions:
    """The versions that brokers serve, of those that one controller tells."""

    def __init__(self, runtime: Runtime, channels: Channels) -> None:
        self._runtime = runtime
        self._channels = channels
        self._known: dict[int, tuple[bytes, Speech | None]] = {}
        """Broker -> (its incarnation, how it is spoken to; None: it is asked, or will be asked again after a pause)."""

    def speech(self, id: int, process: Legacy, address: tuple[str, int], listener: str) -> Speech | None:
        """The versions to speak to a process; None: not known yet. Asks for them at `address`, if that is not done yet."""
        known = self._known.get(id)
        if known is None or known[0] != process.incarnation_id:
            self._known[id] = process.incarnation_id, None
            self._ask(id, process.incarnation_id, address, listener)
            return None
        return known[1]

    def forget(self, id: int) -> None:
        """Forget a broker, which is told nothing more."""
        self._known.pop(id, None)

    def _ask(self, id: int, incarnation_id: bytes, address: tuple[str, int], listener: str) -> None:
        def answered(reply: "ApiVersionsResponse | ChannelError") -> None:
            if self._known.get(id) != (incarnation_id, None):
                return
            found = None
            if not isinstance(reply, ChannelError):
                served = {one.api_key: one.max_version for one in reply.api_keys}
                found = speech(served)
                if found is None:
                    self._runtime.log.error(
                        f"broker {id} is told nothing: it is too old. It has to serve UpdateMetadata "
                        f"{LOWEST.update_metadata}, LeaderAndIsr {LOWEST.leader_and_isr} and StopReplica "
                        f"{LOWEST.stop_replica}, as Apache Kafka 2.6 does: upgrade it first"
                    )
            if found is None:
                again_ms = self._runtime.now.mono_ms + AGAIN_MS
                self._runtime.waiting.timers.at(again_ms, lambda: self._again(id, incarnation_id))
            else:
                self._known[id] = incarnation_id, found

        hello = message("ApiVersionsRequest")(client_software_name="rayft", client_software_version="1")
        self._channels.peer(("push", id), address, "ApiVersions", hello, answered, 10_000, VERSION, listener=listener)

    def _again(self, id: int, incarnation_id: bytes) -> None:
        if self._known.get(id) == (incarnation_id, None):
            self.forget(id)
