"""What is shown of the quorum: now, where it does not answer, and of the past."""

from pathlib import Path

from actors.client.operations.cluster import Quorum, Replica
from actors.page.metadata.moments import Moment
from actors.page.metadata.recorded import Recorded
from actors.page.quorum import quorum_shown
from actors.page.verdict import Asked

LOG = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
VOTERS = [
    Replica(3001, b"", 100, 50_000, 50_000),
    Replica(3002, b"", 93, 49_000, 49_000),
    Replica(3003, b"", -1, -1, -1),
]


def asked(nodes: dict[int, list[tuple[str, str, int]]]) -> Asked:
    return Asked(Quorum(3001, 7, 99, VOTERS, [], nodes), "")


def test_now_it_is_what_the_quorum_answers() -> None:
    recorded = Recorded(LOG)
    nodes = {one.id: [("CONTROLLER", "there", one.id)] for one in VOTERS}
    found = quorum_shown(recorded, asked(nodes), recorded.moment(""))
    assert (found["source"], found["leader"], found["epoch"], found["high_watermark"]) == ("quorum", 3001, 7, 99)
    assert [(one["id"], one["address"], one["lag"]) for one in found["voters"]] == [
        (3001, "there:3001", 0), (3002, "there:3002", 7), (3003, "there:3003", None),
    ]  # fmt: skip


def test_addresses_that_the_quorum_does_not_tell_are_those_of_the_metadata() -> None:
    recorded = Recorded(LOG)
    told = Asked(Quorum(1002, 7, 99, [VOTERS[0]._replace(id=1002)], [], {}), "")
    (voter,) = quorum_shown(recorded, told, recorded.moment(""))["voters"]
    assert voter["address"] == "127.0.0.1:30012"


def test_where_it_does_not_answer_and_in_the_past_it_is_what_the_log_says() -> None:
    recorded = Recorded(LOG)
    silent = quorum_shown(recorded, Asked(None, "it does not answer"), recorded.moment(""))
    assert (silent["source"], silent["leader"], silent["problem"]) == ("log", -1, "it does not answer")
    untold = quorum_shown(recorded, Asked(None, "", unseen="it is not allowed"), recorded.moment(""))
    assert (untold["source"], untold["leader"], untold["problem"]) == ("log", 1002, "it is not allowed")
    past = quorum_shown(recorded, asked({}), Moment(600, 0, False))
    assert (past["source"], past["problem"], past["leader"]) == ("log", "", 1001)
