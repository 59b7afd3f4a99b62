"""What a metric is: a row of a table, with its name for Prometheus, its kind, the name that it has in Apache Kafka, and how
its present value is read.

This file alone decides the forms that values have. Names are in the tables beside it. Rules:

1. A name is what the usual rules of the JMX exporter make of an MBean: small letters, `_total` for what is counted per
   second there, `_percent`, and the other properties as labels. What Apache Kafka does not have begins with `rayft_`.
2. A counter never falls while the process lives. What is kept where the work is done is read, and nothing is walked.
3. What is not there is absent, never 0: no control plane, no controller role, no lead (R291-16, R631-203).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

COUNTER, GAUGE, SUMMARY = "counter", "gauge", "summary"
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The shares that Apache Kafka shows of a histogram."""
NO_LABELS: tuple[str, ...] = ()


class Family(NamedTuple):
    """The numbers of one name. `source`: the MBean of Apache Kafka, or the KIP; empty: only rayft has it."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = NO_LABELS
    source: str = ""


class Summary(NamedTuple):
    """How values are spread: how many there were, and their sum. `total` None: it is not known. `quantiles`: (share,
    value below which so many are)."""

    times: int
    total: float | None = None
    quantiles: Sequence[tuple[float, float]] = ()


Value = float | Summary


class Sample(NamedTuple):
    """One number of a metric, or one summary. `labels`: a value for each of the family's labels; empty: it has none, as
    the sum over all beside the numbers of each."""

    family: Family
    labels: tuple[str, ...]
    value: Value

    @property
    def key(self) -> str:
        """The name with its labels, as Prometheus writes it."""
        pairs = ",".join(f'{name}="{value}"' for name, value in zip(self.family.labels, self.labels, strict=False))
        return f"{self.family.name}{{{pairs}}}" if pairs else self.family.name


S = TypeVar("S")
Labelled = Iterable[tuple[tuple[str, ...], Value]]


class Row(NamedTuple, Generic[S]):
    """A family, and how its numbers are read from a subject."""

    family: Family
    read: Callable[[S], Labelled]

    def samples(self, subject: S) -> list[Sample]:
        """The present numbers."""
        return [Sample(self.family, labels, value) for labels, value in self.read(subject)]


class Spreads(Protocol):
    """What a summary is made of."""

    @property
    def count(self) -> int: ...
    @property
    def total(self) -> float: ...
    def quantiles(self, shares: tuple[float, ...], at_ns: int) -> Sequence[tuple[float, float]]:
        """(share, value below which that share of the newest values lies); empty if there are none."""
        ...


def summary_of(spread: Spreads, at_ns: int = 0, unit: float = 1.0) -> Summary:
    """How values are spread, in a unit that is `unit` of theirs. `at_ns`: now, by the clock that they were added by."""
    found = spread.quantiles(QUANTILES, at_ns)
    return Summary(spread.count, spread.total / unit, [(share, value / unit) for share, value in found])


def _one(read: Callable[[S], Value | None]) -> Callable[[S], Labelled]:
    def labelled(subject: S) -> Labelled:
        value = read(subject)
        return () if value is None else ((NO_LABELS, value),)

    return labelled


def gauge(name: str, source: str, help: str, read: Callable[[S], float | None]) -> Row[S]:
    """A number as it is now; None: it is absent."""
    return Row(Family(name, GAUGE, help, NO_LABELS, source), _one(read))


def counter(name: str, source: str, help: str, read: Callable[[S], float | None]) -> Row[S]:
    """A number that only grows."""
    assert name.endswith("_total"), name
    return Row(Family(name, COUNTER, help, NO_LABELS, source), _one(read))


def summary(name: str, source: str, help: str, read: Callable[[S], Summary | None]) -> Row[S]:
    """How values are spread. One with a count alone is what Apache Kafka calls a meter."""
    return Row(Family(name, SUMMARY, help, NO_LABELS, source), _one(read))


def gauges(name: str, source: str, labels: tuple[str, ...], help: str, read: Callable[[S], Labelled]) -> Row[S]:
    """A number for each value of the labels."""
    return Row(Family(name, GAUGE, help, labels, source), read)


def counters(name: str, source: str, labels: tuple[str, ...], help: str, read: Callable[[S], Labelled]) -> Row[S]:
    """A number that only grows, for each value of the labels."""
    assert name.endswith("_total"), name
    return Row(Family(name, COUNTER, help, labels, source), read)


def summaries(name: str, source: str, labels: tuple[str, ...], help: str, read: Callable[[S], Labelled]) -> Row[S]:
    """How values are spread, for each value of the labels."""
    return Row(Family(name, SUMMARY, help, labels, source), read)
