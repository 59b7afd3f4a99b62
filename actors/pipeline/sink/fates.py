"""What became of a transaction whose coordinator does not know it any more, as its topics show it.

A coordinator forgets a transactional id transactional.id.expiration.ms after its last transaction, and then says the same of
one that was committed and of one that was aborted. The topics know better, as long as they have the records. Rules:

1. The last record of the transaction in a partition is looked at. Only a batch of the same producer id and epoch is that of
   the transaction: else the log was cut, or the topic made anew.
2. Below the last stable offset it is committed, unless the broker names it among the aborted transactions of that range.
3. All partitions of a transaction end in the same way, so the first one that shows it is enough.
4. What no partition shows is not known, and is not guessed: records that were deleted or compacted away, a batch of which
   compaction has left only the header, a topic that may not be read.

KIP-98.
"""

from collections.abc import Iterable

from actors.client.asks import Pause, Steps
from actors.client.operations.fetching import Fetched, Fetcher
from actors.client.operations.leaders import Part
from actors.client.operations.records import first_header
from actors.client.properties import ClientConfig
from actors.pipeline.sink.values import Attempt, Fate

EMPTY_MAX = 40
"""How often brokers may have nothing at an offset: its transaction is being ended, as its marker is not there yet."""


def fates(attempts: Iterable[Attempt], config: ClientConfig) -> Steps[dict[str, Fate]]:
    """What became of transactions, by transactional id. `config`: one that reads committed records. Raises ClientError."""
    found: dict[str, Fate] = {}
    for attempt in attempts:
        found[attempt.id] = Fate.UNKNOWN
        for topic, partition, _, last in attempt.counts:
            if last >= 0:
                fate = yield from _shown((topic, partition), last, attempt, config)
                if fate is not Fate.UNKNOWN:
                    found[attempt.id] = fate
                    break
    return found


def _shown(part: Part, last: int, attempt: Attempt, config: ClientConfig) -> Steps[Fate]:
    """What a partition shows of a transaction whose last record there has the offset `last`."""
    fetcher = Fetcher(config, {part: last})
    for number in range(EMPTY_MAX):
        for one in (yield from fetcher.fetch()):
            return _fate(one, last, attempt) if isinstance(one, Fetched) else Fate.UNKNOWN
        yield Pause(attempt=number)
    return Fate.UNKNOWN


def _fate(found: Fetched, last: int, attempt: Attempt) -> Fate:
    head = first_header(found)
    if head is None or not head.count or not head.base_offset <= last <= head.last_offset:
        return Fate.UNKNOWN
    if (head.producer_id, head.producer_epoch) != (attempt.producer_id, attempt.epoch):
        return Fate.UNKNOWN
    if found.last_stable_offset <= last:
        return Fate.UNKNOWN
    aborted = any(producer == attempt.producer_id and first <= last for producer, first in found.aborted)
    return Fate.ABORTED if aborted else Fate.COMMITTED
