"""Health in a sentence, and what is wrong with where to look for it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.client.operations.cluster import Quorum, Replica
from actors.page.metadata.moments import Moment
from actors.page.metadata.recorded import Recorded
from actors.page.metadata.slices import Wanted
from actors.page.verdict import Asked, verdict
from actors.replay.columns.tables import SCHEMAS
from actors.why.answers import of_quorum
from actors.why.explanations import Explanation, explain
from actors.why.facts import ClusterFacts, GroupFacts, LogDirFacts, TransactionFacts

LOG = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
NOW = Moment(100, 60_000, True)


class Known:
    """Explanations as they are given, and what of the cluster's answer they were asked with."""

    def __init__(self, *explanations: Explanation, brokers: int = 3, partitions: int = 2) -> None:
        self._explanations = list(explanations)
        self._counts = {"brokers": brokers, "partitions": partitions}
        self.live: ClusterFacts | None = None

    def explain(self, moment: Moment, live: ClusterFacts | None) -> list[Explanation]:
        self.live = live
        return self._explanations

    def slice(self, name: str, moment: Moment, wanted: Wanted, first: int, n: int) -> None:
        return None

    def table(self, name: str, moment: Moment) -> pa.Table:
        return pa.Table.from_pylist([{}] * self._counts[name], SCHEMAS[name])


def judged(known: Any, asked: Asked | None = None) -> Any:
    return verdict(known, NOW, asked)


def quorum(leader: int, *behind: int) -> Quorum:
    voters = [Replica(at, b"", 100 - one, 50_000, 50_000 - 10 * one) for at, one in enumerate((0, *behind), 1)]
    return Quorum(leader, 3, 100, voters, [], {})


def test_a_cluster_without_faults_is_well() -> None:
    found = judged(Known(), Asked(quorum(1, 5, 9), ""))
    assert found.is_well and not found.findings
    assert found.sentence == "Well: controller 1 leads, 3 brokers active, 2 partitions with all replicas in sync."
    assert judged(Known(brokers=0)).sentence == "Well, and empty: no broker has registered yet."
    assert judged(Known(brokers=1, partitions=1)).sentence.startswith("Well: 1 broker active, 1 partition with")


def test_the_first_fault_is_the_sentence_and_a_notice_is_none() -> None:
    fault = Explanation("broker", "broker 2 is fenced", 1_000, "its lease ended", "start broker 2", broker=2)
    other = Explanation("offline", "5 partitions have no leader", -1, "", "start one")
    notice = Explanation("preferred", "1 partition is led elsewhere", -1, "", "")
    found = judged(Known(fault, other, notice))
    assert found.sentence == "Not well: broker 2 is fenced. And 1 more." and len(found.faults) == 2
    assert found.findings[0].since_ms == 1_000 and found.findings[1].since_ms is None
    found = judged(Known(notice))
    assert found.is_well and [one.is_fault for one in found.findings] == [False]


@pytest.mark.parametrize(
    ("about", "where"),
    [
        (Explanation("under-replicated", "", 0, "", "", "orders", 3, 2), "topic = 'orders' and partition = 3"),
        (Explanation("under-replicated", "", 0, "", "", broker=2), "under_replicated and replicas contains 2"),
        (Explanation("offline", "", 0, "", ""), "leader is null"),
        (Explanation("broker", "", 0, "", "", broker=2), "replicas contains 2"),
        (Explanation("voter", "", 0, "", "", broker=1002), ""),
    ],
)
def test_a_finding_leads_to_its_partitions(about: Explanation, where: str) -> None:
    (found,) = judged(Known(about)).findings
    assert found.where == where


def test_a_quorum_that_does_not_answer_is_the_gravest_fault() -> None:
    other = Explanation("offline", "5 partitions have no leader", -1, "", "start one")
    found = judged(Known(other), Asked(None, "the quorum does not answer"))
    assert found.sentence == "Not well: the quorum does not answer. And 1 more."
    assert judged(Known(), Asked(None, "")).is_well, "nobody was asked yet"


def test_what_the_quorum_answers_counts_for_now() -> None:
    known = Known()
    judged(known, Asked(quorum(1, 0, 7), ""))
    assert known.live is not None and known.live.quorum is not None
    assert [(one.id, one.lag, one.behind_ms) for one in known.live.quorum.voters] == [(1, 0, 0), (2, 0, 0), (3, 7, 70)]
    disk, hanging = LogDirFacts(1, "/d", "gone"), TransactionFacts("", 7, 0, -1, ())
    group = GroupFacts("g", 0, 5, ())
    judged(known, Asked(quorum(1, 0), "", (disk,), (hanging,), (group,)))
    assert (known.live.log_dirs, known.live.transactions, known.live.groups) == ((disk,), (hanging,), (group,))
    judged(known, Asked(quorum(-1, 0), ""))
    assert known.live.quorum.leader == -1
    judged(known)
    assert known.live is None


def test_a_voter_that_has_not_fetched_from_the_new_leader_is_not_behind_since_1970() -> None:
    answer = quorum(1, 0, 7)
    for unknown in (-1, 0):
        voters = [*answer.voters[:2], answer.voters[2]._replace(last_caught_up_ms=unknown)]
        told = of_quorum(answer._replace(voters=voters))
        assert [(one.id, one.lag, one.behind_ms) for one in told.voters] == [(1, 0, 0), (2, 0, 0), (3, 7, -1)]


def test_a_release_that_does_not_tell_the_times_has_voters_of_which_nothing_is_known() -> None:
    voters = [one._replace(last_fetch_ms=-1, last_caught_up_ms=-1) for one in quorum(1, 0, 7).voters]
    told = of_quorum(quorum(1)._replace(voters=voters))
    assert (told.leader, told.voters) == (1, ())
    assert explain(ClusterFacts(0, {}, {}, quorum=told)) == []


def test_a_leader_that_is_no_voter_any_more_leads() -> None:
    first, *others = quorum(1, 0, 7).voters
    for observers in ([first], []):
        told = of_quorum(quorum(1)._replace(voters=others, observers=observers))
        assert told.leader == 1 and explain(ClusterFacts(0, {}, {}, quorum=told)) == []


def test_names_of_topics_obey_no_terminal() -> None:
    (found,) = judged(Known(Explanation("offline", "a\x1b[31m has no leader", -1, "", ""))).findings
    assert "\x1b" not in found.sentence


def test_a_real_log_is_judged_at_every_moment() -> None:
    recorded = Recorded(LOG)
    judgements = {verdict(recorded, recorded.moment(str(offset))).sentence for offset in range(1, 1237, 60)}
    assert any(one.startswith("Well: 2 brokers active") for one in judgements) and len(judgements) > 3
