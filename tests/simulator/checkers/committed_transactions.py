"""Readers of committed records see each transaction once and whole, as its producer was told, and nothing of an aborted one.

With it the offsets of groups that go with transactions: one that a transaction commits counts if and only if the records of
that transaction do. What a copier has copied is every committed record of its input below its group's offset, once.
"""

from typing import Any

from tests.simulator.checkers.hooks import Violation

Part = tuple[str, int]


class Told:
    """What all transactional producers did and were told. A name is that of a transaction: `client/number`."""

    def __init__(self) -> None:
        self.records: dict[str, dict[Part, int]] = {}
        """Name -> partition -> how many records it writes there."""
        self.committed: dict[str, None] = {}
        self.aborted: dict[str, None] = {}
        self.offsets: dict[str, dict[int, str]] = {}
        """Group -> offset that a transaction commits for it -> its name."""
        self.keyed: dict[str, list[tuple[bytes, int, int, Any]]] = {}
        """Name -> (topic id, partition, offset, Keyed) of each record of a compacted topic that was acknowledged."""


class CommittedTransactions:
    """What was told is in `told`; what is read comes in while the world lasts, and once more at its end."""

    name = "transactions_are_atomic"

    def __init__(self, told: Told) -> None:
        self.told = told
        self._read: dict[tuple[str, Part], list[tuple[int, bytes]]] = {}
        """(reader, partition) -> offset and value of what it was given, in that order."""

    def read(self, reader: str, part: Part, record: Any) -> None:
        """A reader of committed records was given one."""
        name = record.value.decode().partition(":")[0]
        if name in self.told.aborted:
            raise Violation(self.name, f"{reader} was given {record.value!r} of {part}; {name} was aborted")
        given = self._read.setdefault((reader, part), [])
        if given and given[-1][0] >= record.offset:
            raise Violation(self.name, f"{reader} was given {record.offset} of {part} behind {given[-1][0]}")
        given.append((record.offset, record.value))

    def judge(self, last: str) -> set[str]:
        """All partitions were read to their end by the reader of that name. The names of transactions that it saw."""
        everything = {part: given for (reader, part), given in self._read.items() if reader == last}
        for (reader, part), given in self._read.items():
            if given != everything.get(part, [])[: len(given)]:
                wrong = next(pair for pair in zip(given, everything.get(part, []), strict=False) if pair[0] != pair[1])
                raise Violation(self.name, f"{reader} was given {wrong[0]} of {part}, and {last} {wrong[1]}")
        counts: dict[str, dict[Part, int]] = {}
        for part, given in everything.items():
            for _, value in given:
                places = counts.setdefault(value.decode().partition(":")[0], {})
                places[part] = places.get(part, 0) + 1
        for name, places in counts.items():
            if name in self.told.aborted:
                raise Violation(self.name, f"{name} was aborted, and committed readers see {places}")
            if places != self.told.records[name]:
                raise Violation(self.name, f"{name} wrote {self.told.records[name]}, committed readers see {places}")
        for name in self.told.committed:
            if name not in counts:
                raise Violation(self.name, f"{name} was committed, and committed readers see nothing")
        return set(counts)

    def judge_offset(self, group: str, offset: int, seen: set[str]) -> None:
        """The offset of a group is that of the last transaction with one that is seen."""
        told = self.told.offsets[group]
        last = max((number for number, name in told.items() if name in seen), default=-1)
        if offset != last:
            raise Violation(
                "transactional_offsets",
                f"{group} has offset {offset} of {told.get(offset, 'nothing')}; the last transaction with an offset that "
                f"is seen has {last}",
            )

    def judge_copies(self, last: str, topic: str, output: str, offsets: dict[int, int]) -> int:
        """Below its group's offsets each record of the input has one copy, and none behind. How many there are."""
        copies: dict[tuple[int, int], bytes] = {}
        wanted = set[tuple[int, int]]()
        for (reader, part), given in self._read.items():
            if reader != last:
                continue
            if part[0] == topic:
                wanted |= {(part[1], offset) for offset, _ in given if offset < offsets.get(part[1], 0)}
            elif part[0] == output:
                for _, value in given:
                    partition, offset = map(int, value.decode().split(":")[-2:])
                    if (partition, offset) in copies:
                        raise Violation(
                            "copied_exactly_once",
                            f"{offset} of {topic}-{partition} was copied as {value!r} and as "
                            f"{copies[partition, offset]!r}",
                        )
                    copies[partition, offset] = value
        if set(copies) != wanted:
            missing, more = sorted(wanted - set(copies)), sorted(set(copies) - wanted)
            raise Violation(
                "copied_exactly_once",
                f"of {topic} the group's offsets are {offsets}; not copied (partition, offset): {missing[:5]}, copied "
                f"beyond: {more[:5]}",
            )
        return len(copies)
