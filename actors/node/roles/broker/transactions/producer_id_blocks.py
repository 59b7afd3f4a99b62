"""Blocks of producer ids from the active controller: asked for before the last one is used up (KIP-98)."""

from typing import Any

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.transactions.producer_ids import ProducerIds
from actors.node.net.channels import ChannelError, Channels
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


class ProducerIdBlocks:
    """Fills `ids`, from which InitProducerId takes producer ids."""

    def __init__(self, runtime: Runtime, channels: Channels, lifecycle: Lifecycle) -> None:
        self._runtime = runtime
        self._channels = channels
        self._lifecycle = lifecycle
        self.ids = ProducerIds()

    def ask(self) -> None:
        """Ask for another block; due when `ids` wants one."""
        lifecycle = self._lifecycle
        request = message("AllocateProducerIdsRequest")(broker_id=self._me, broker_epoch=lifecycle.epoch)
        self.ids.asked()

        def answered(reply: Any) -> None:
            if isinstance(reply, ChannelError) or reply.error_code != ErrorCode.NONE:
                self.ids.failed(self._runtime.now.mono_ms)
            else:
                self.ids.given(reply.producer_id_start, reply.producer_id_len)
                self._runtime.waiting.signal(self.ids.key)

        self._channels.controller("AllocateProducerIds", request, answered, purpose="forwarding")

    @property
    def _me(self) -> int:
        return self._runtime.config.broker_id
