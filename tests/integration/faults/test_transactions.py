"""What was seen of transactions, made by hand: right, and with one problem of each kind, which is reported as that alone."""

import copy
from collections import Counter
from collections.abc import Callable

import pytest

from tests.integration.faults.history import Seen
from tests.integration.faults.transactions import INPUT, OUTPUT, Transactions, wrong


def right() -> Transactions:
    """One committed, one aborted, one that nobody was told of, which was committed."""
    found = Transactions()
    found.written = {"a-1": Counter({0: 2, 1: 1}), "a-2": Counter({0: 1}), "b-1": Counter({2: 1})}
    found.committed, found.aborted = {"a-1"}, {"a-2"}
    found.final[INPUT] = [Seen(0, 0, b"a-1:0"), Seen(0, 1, b"a-1:1"), Seen(1, 0, b"a-1:2"), Seen(2, 4, b"b-1:0")]
    found.final[OUTPUT] = [Seen(0, 0, b"0:0"), Seen(0, 1, b"0:1"), Seen(1, 0, b"1:0")]
    found.offsets = {0: 2, 1: 1, 2: 4}
    found.read["one"] = list(found.final[INPUT])
    return found


def tear(found: Transactions) -> None:
    del found.final[INPUT][1]
    del found.read["one"][1]
    found.final[OUTPUT].remove(Seen(0, 1, b"0:1"))


def write_twice(found: Transactions) -> None:
    for records in (found.final[INPUT], found.read["one"]):
        records[1] = Seen(0, 1, b"a-1:0")


def miss(found: Transactions) -> None:
    found.written["b-2"] = Counter({0: 1})
    found.committed.add("b-2")


def raise_the_dead(found: Transactions) -> None:
    for records in (found.final[INPUT], found.read["one"]):
        records.append(Seen(2, 6, b"a-2:0"))
    found.written["a-2"] = Counter({2: 1})


def read_something_else(found: Transactions) -> None:
    found.read["one"][1] = Seen(0, 1, b"a-2:0")


def skip(found: Transactions) -> None:
    del found.read["one"][0]


def stop_reading(found: Transactions) -> None:
    del found.read["one"][3]


def copy_twice(found: Transactions) -> None:
    found.final[OUTPUT].append(Seen(0, 2, b"0:1"))


def copy_not(found: Transactions) -> None:
    del found.final[OUTPUT][0]


def copy_beyond(found: Transactions) -> None:
    found.final[OUTPUT].append(Seen(2, 0, b"2:4"))


def hang(found: Transactions) -> None:
    found.hanging.append("decided-0: stable up to 3 of 4")


PROBLEMS: list[tuple[str, Callable[[Transactions], None]]] = [
    ("torn", tear), ("torn", write_twice), ("missing", miss), ("undead", raise_the_dead), ("changed", read_something_else),
    ("changed", skip), ("changed", stop_reading), ("copied", copy_twice), ("copied", copy_not), ("copied", copy_beyond),
    ("hanging", hang), ("transactions idle", lambda found: found.read.clear()),
]  # fmt: skip


def test_what_is_right_is_clean() -> None:
    assert not any(wrong(right()).values())


@pytest.mark.parametrize(("kind", "harm"), PROBLEMS)
def test_a_problem_is_reported_as_what_it_is(kind: str, harm: Callable[[Transactions], None]) -> None:
    found = copy.deepcopy(right())
    harm(found)
    assert [one for one, cases in wrong(found).items() if cases] == [kind]
