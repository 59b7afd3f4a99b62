"""Which topologies are malformed, whatever topics exist."""

import pytest

from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.streams.topology import (
    NAMES_MAX,
    PARTITIONS_MAX,
    TEXT_CHARACTERS_MAX,
    TOPOLOGY_CHARACTERS_MAX,
    Copartition,
    Subtopology,
    Topic,
    Topology,
    check,
)
from actors.wire.errors import ErrorCode

GOOD = Subtopology("0", ("lines",), (), (Topic("log", 0, -1, (("cleanup.policy", "compact"),)),), (), (), ())


def of(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch, parts)


@pytest.mark.parametrize("replicas", [-1, 0, 3])
def test_what_kafka_streams_sends_is_taken(replicas: int) -> None:
    again = Topic("words-repartition", 4, replicas, ())
    together = (Copartition((0,), (), (0,)),)
    check(of(GOOD, Subtopology("1", ("more",), (), (), ("words-repartition",), (again,), together)))


@pytest.mark.parametrize(
    "given",
    [
        of(GOOD, GOOD),
        of(GOOD._replace(id="")),
        of(GOOD._replace(id="x" * (TEXT_CHARACTERS_MAX + 1))),
        of(GOOD._replace(sources=())),
        of(GOOD._replace(changelogs=(Topic("log", 1, 0, ()),))),
        of(GOOD._replace(changelogs=(Topic("log", 0, -2, ()),))),
        of(GOOD._replace(changelogs=(Topic("log", 0, 0, (("k", "v" * (TEXT_CHARACTERS_MAX + 1)),)),))),
        of(GOOD._replace(repartitions=(Topic("r", -1, 0, ()),))),
        of(GOOD._replace(repartitions=(Topic("r", PARTITIONS_MAX + 1, 0, ()),))),
        of(GOOD._replace(copartitions=(Copartition((1,), (), ()),))),
        of(GOOD._replace(copartitions=(Copartition((-1,), (), ()),))),
        of(GOOD._replace(copartitions=(Copartition((), (0,), ()),))),
        of(GOOD._replace(copartitions=(Copartition((), (), (0,)),))),
        of(GOOD._replace(sinks=("__transaction_state",))),
        of(GOOD._replace(sinks=("",))),
        of(GOOD._replace(sources=tuple(f"t{number}" for number in range(NAMES_MAX)))),
        of(GOOD._replace(sources=tuple(f"{number:0249}" for number in range(TOPOLOGY_CHARACTERS_MAX // 249 + 1)))),
    ],
    ids=range(17),
)
def test_a_malformed_one_is_refused(given: Topology) -> None:
    with pytest.raises(RequestRefused) as refused:
        check(given)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY and refused.value.text


@pytest.mark.parametrize("given", [of(GOOD, epoch=-1), of(GOOD._replace(patterns=("t.*",)))], ids=("epoch", "pattern"))
def test_what_no_coordinator_takes_yet_is_an_invalid_request(given: Topology) -> None:
    with pytest.raises(RequestRefused) as refused:
        check(given)
    assert refused.value.code is ErrorCode.INVALID_REQUEST and refused.value.text
