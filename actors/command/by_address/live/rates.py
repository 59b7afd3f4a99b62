"""How fast topics grow and groups catch up, out of what was seen in one look after the other.

This file alone decides what a rate is: how many offsets the ends of a topic's partitions went on between two looks, and how
much more or less a group is behind, in each second. Rules:

1. A partition counts from the second time that it is seen. Where its log ends below what was seen before, it was made anew
   or was cut: it counts from there.
2. A partition that did not answer is not a partition without records: it counts again when it answers, over the whole time.
3. A group whose lag is not known has no rate.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from actors.client.operations.leaders import Part

LOOKS = 40
"""How many rates are remembered."""
Rates = tuple[float | None, ...]


class TopicRate(NamedTuple):
    """A topic, and how it grows."""

    name: str
    partitions: int
    """How many partitions have answered this time."""
    end: int
    """The sum of the ends of their logs, offsets."""
    rates: Rates
    """Records a second, the newest last; None: not known."""


class GroupRate(NamedTuple):
    """A group, and how its lag changes."""

    name: str
    lag: int | None
    rates: Rates
    """Records a second by which its lag grows, the newest last; None: not known."""
    lags: Rates
    """How far it was behind, records, the newest last."""


class Growth:
    """What was seen so far. A topic or group that is not seen any more is forgotten."""

    def __init__(self) -> None:
        self._ends: dict[Part, tuple[float, int]] = {}
        """part -> (when it was seen last, s; the end of its log)"""
        self._topics: dict[str, deque[float | None]] = {}
        self._lags: dict[str, tuple[float, int]] = {}
        """group -> (when its lag was known last, s; the lag)"""
        self._groups: dict[str, tuple[deque[float | None], deque[float | None]]] = {}

    def topics(self, now_s: float, topics: Mapping[str, int], ends: Mapping[Part, int]) -> list[TopicRate]:
        """All topics after one more look. `topics`: name -> how many partitions it has; `ends`: where each log ends that
        has answered."""
        counts = dict.fromkeys(topics, 0)
        sums = dict.fromkeys(topics, 0)
        rates: dict[str, float | None] = dict.fromkeys(topics)
        for (topic, number), end in ends.items():
            if number >= topics.get(topic, 0):
                continue
            counts[topic] += 1
            sums[topic] += end
            before = self._ends.get((topic, number))
            if before is not None and end >= before[1] and now_s > before[0]:
                rates[topic] = (rates[topic] or 0.0) + (end - before[1]) / (now_s - before[0])
            self._ends[topic, number] = now_s, end
        gone = [part for part in self._ends if part[1] >= topics.get(part[0], 0)]
        for part in gone:
            del self._ends[part]
        self._topics = {name: self._topics.get(name) or deque(maxlen=LOOKS) for name in topics}
        for name, series in self._topics.items():
            series.append(rates[name])
        return [TopicRate(name, counts[name], sums[name], tuple(series)) for name, series in self._topics.items()]

    def groups(self, now_s: float, lags: Mapping[str, int | None]) -> list[GroupRate]:
        """All groups after one more look. `lags`: name -> its lag; None: not known."""
        self._lags = {name: one for name, one in self._lags.items() if name in lags}
        self._groups = {name: self._groups.get(name) or (deque(maxlen=LOOKS), deque(maxlen=LOOKS)) for name in lags}
        told = []
        for name, (rates, series) in self._groups.items():
            lag, before = lags[name], self._lags.get(name)
            known = lag is not None and before is not None and now_s > before[0]
            rates.append((lag - before[1]) / (now_s - before[0]) if known else None)  # type: ignore[operator,index]
            series.append(lag)
            if lag is not None:
                self._lags[name] = now_s, lag
            told.append(GroupRate(name, lag, tuple(rates), tuple(series)))
        return told
