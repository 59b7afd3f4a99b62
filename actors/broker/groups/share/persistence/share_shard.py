"""One partition of `__share_group_state` in the memory of its coordinator: share partitions, and what is on its way.

This file alone decides up to where the log is needed. Rules:

1. A share partition is as the records that were written make it, committed or not: what waits for their commit waits with
   its answer.
2. The log is needed from the last committed snapshot of each share partition on. Where there is none left, from the last
   record on.
3. A share partition of which a record cannot be read is strange while the log has that record.
"""

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_state import ShareState, Update, check, replayed
from actors.broker.groups.share.persistence.share_state_records import StateLine

FAR = 1 << 62


class ShareStateEntry:
    """A share partition that the log has something of.

    `state`: as it was written; None: it is removed. `leader_epoch`, `state_epoch`: the highest that it had since this
    coordinator has it: a request that is behind them is fenced. `updates`: since the last snapshot. `needed_from`: the
    log has its last committed snapshot there, or behind it. `flights`: its writes that have not ended, by token.
    `behind`: one of them has failed, so the log may be without it."""

    __slots__ = ("behind", "flights", "key", "leader_epoch", "needed_from", "state", "state_epoch", "updates")

    def __init__(self, key: SharePartitionKey) -> None:
        self.key = key
        self.state: ShareState | None = None
        self.leader_epoch = self.state_epoch = -1
        self.updates = 0
        self.needed_from = FAR
        self.flights: dict[int, None] = {}
        self.behind = False

    def replay(self, record: ShareState | Update | None) -> None:
        """Take in a record of its own."""
        self.state = replayed(self.state, record)
        if record is None:
            self.leader_epoch = self.state_epoch = -1
            self.updates = 0
            return
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        if isinstance(record, Update):
            self.updates += 1
        else:
            self.state_epoch = max(self.state_epoch, record.state_epoch)
            self.updates = 0


class ShareStateShard:
    """One partition that this broker leads, in one leader epoch."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.loaded = False
        self.entries: dict[SharePartitionKey, ShareStateEntry] = {}
        self.strange: dict[SharePartitionKey, str] = {}
        """Share partitions of which a record cannot be read here, and why."""
        self.position = 0
        """What is loaded next stands at this offset or behind it; once loaded: the last committed record does."""

    def take(self, line: StateLine) -> None:
        """A record of the log."""
        if line.strange:
            self.strange[line.key] = line.strange
            entry = self.entries.setdefault(line.key, ShareStateEntry(line.key))
            entry.needed_from = min(entry.needed_from, self.position)
            return
        if not isinstance(line.record, Update):
            self.strange.pop(line.key, None)
        if line.record is None:
            self.entries.pop(line.key, None)
            return
        entry = self.entries.setdefault(line.key, ShareStateEntry(line.key))
        entry.replay(line.record)
        if isinstance(line.record, ShareState) or entry.needed_from == FAR:
            entry.needed_from = self.position

    def redundant_below(self) -> int:
        """The offset below which the log says nothing that is needed (rule 2)."""
        return min((entry.needed_from for entry in self.entries.values()), default=self.position)

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        for key, entry in self.entries.items():
            assert entry.key == key
            assert entry.state is not None or entry.flights or entry.behind or key in self.strange
            if entry.state is not None:
                check(entry.state)
                assert entry.state.leader_epoch <= entry.leader_epoch
