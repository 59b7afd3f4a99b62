"""The addresses at which the members of the quorum are reached.

This file alone decides what this replica is called, and which address of another one is believed: of the leader what
it, or the quorum's answers, said last; then a Voters record that has moved it, then `controller.connect` where it names
ids, then the Voters record (reading A11, KIP-853). What a leader has said of itself counts as long as it leads: it may
have named an address that cannot be reached, and then another one leads, and has to find it where it is. Entries
without an id are asked for the leader under ids below -1, as long as none is known.
"""

from collections.abc import Iterable, Sequence

from actors.authorization.addresses import is_every_interface
from actors.raft import Voter
from actors.raft.messages import NO_LEADER

Address = tuple[str, int]
FIRST_BOOTSTRAP_ID = -2


class Addresses:
    """The (host, port) of each replica by id. Port 0 (any free one) is no address."""

    def __init__(
        self,
        connect: Iterable[tuple[int | None, str, int]],
        me: int,
        own: Address | None,
        advertised: Address | None = None,
    ) -> None:
        """`own` is this node's controller listener, None without one. `advertised`: what `advertised.listeners` calls
        it, None if it does not."""
        self.me = me
        self._own = own
        self._advertised = advertised
        self._given: dict[int, Address] = {}
        self._recorded: dict[int, Address] = {}
        self._learned: dict[int, Address] = {}
        """The addresses that were said of leaders."""
        self._leader = NO_LEADER
        """The leader, as far as it is known."""
        self._moved: dict[int, Address] = {}
        """The addresses in Voters records that came while this process ran, of voters that they moved."""
        self._bootstrap: dict[int, Address] = {}
        self._stranger: tuple[int, Address] | None = None
        """The newest leader that an answer named and that does not vote as far as this node knows."""
        for id, host, port in connect:
            if id is not None:
                self._given[id] = (host, port)
            else:
                self._bootstrap[FIRST_BOOTSTRAP_ID - len(self._bootstrap)] = (host, port)

    @property
    def bootstrap(self) -> Sequence[int]:
        """The ids to ask for the leader, beside the voters."""
        return (*self._bootstrap, *(id for id in self._given if id != self.me))

    @property
    def given_ids(self) -> frozenset[int]:
        """The ids that `controller.connect` names."""
        return frozenset(self._given)

    def record(self, voters: Iterable[Voter]) -> None:
        """Take over the addresses in the newest Voters record."""
        self._recorded = {one.key.id: endpoint[1:] for one in voters for endpoint in one.endpoints[:1]}

    def moved(self, voter: Voter) -> None:
        """Take over that a Voters record has moved a voter: what files or older answers said of its address no longer
        counts."""
        for _, host, port in voter.endpoints[:1]:
            self._learned[voter.key.id] = self._moved[voter.key.id] = (host, port)

    def learn(self, id: int, host: str, port: int) -> None:
        """Take over a leader's address from an answer or an announcement."""
        if id != self.me and port > 0:
            self._learned[id] = (host, port)
            self._leader = id

    def led_by(self, id: int) -> None:
        """Take over the leader of this replica's epoch: itself, another one, or none yet (-1)."""
        self._leader = id

    def learn_stranger(self, id: int, host: str, port: int) -> None:
        """Take over the address of a replica that an answer names and that is no voter here. Raft decides whether that
        replica may lead by now."""
        if id != self.me and port > 0:
            self._stranger = id, (host, port)

    def find(self, id: int) -> Address | None:
        """The address of a replica; None: it is not known."""
        if id == self.me:
            return self.own
        told = (self._moved, self._given, self._recorded, self._learned, self._bootstrap)
        for table in (self._learned, *told) if id == self._leader else told:
            address = table.get(id)
            if address is not None and address[1] > 0:
                return address
        return self._stranger[1] if self._stranger is not None and self._stranger[0] == id else None

    @property
    def own(self) -> Address | None:
        """The address at which others reach this node's controller: as `advertised.listeners` calls it, else as
        `controller.connect` does, for it may listen behind a port that is forwarded, else its listener. None: it
        listens on every interface, and no setting names it. This is never a guess: it gets into the quorum's record,
        and others dial it."""
        if self._own is None:
            return None
        if self._advertised is not None and self._advertised[1] > 0:
            return self._advertised
        given = self._given.get(self.me)
        if given is not None and given[1] > 0:
            return given
        host, port = self._own
        if not is_every_interface(host):
            return host, port
        recorded = self._recorded.get(self.me)
        return None if recorded is None else (recorded[0], port)
