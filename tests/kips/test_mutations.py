"""Every `done` row of docs/kips.md has a mutation that fits the source, and a test of the row kills the day's sample.

`make kips` tries all of them. KIPS_DATE=2026-02-14 takes the sample of another day.
"""

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.kips import second
from tests.kips.mutations import MUTATIONS, Edit, Mutation, sample
from tests.kips.rows import ROWS, Row
from tests.kips.scratch import Scratch

ROOT = Path(__file__).parent.parent.parent
SAMPLED = 40
DAY = date.fromisoformat(os.environ.get("KIPS_DATE", date.today().isoformat()))
DONE = [row for row in ROWS if row.state == "done"]
OF_ROW: dict[str, list[Mutation]] = {}
for _mutation in MUTATIONS.values():
    OF_ROW.setdefault(_mutation.row, []).append(_mutation)


@pytest.mark.parametrize("row", DONE, ids=[row.id for row in DONE])
def test_a_done_row_has_a_mutation_that_fits(row: Row) -> None:
    assert row.id in MUTATIONS, "tests/kips/__init__.py says how to write one"
    for mutation in OF_ROW[row.id]:
        assert row.names(mutation.test), f"{mutation.test} stands not in the row"
        for edit in mutation.edits:
            assert (ROOT / edit.file).read_text().count(edit.before) == 1, edit


@pytest.mark.parametrize("row", DONE, ids=[row.id for row in DONE])
def test_a_mutation_touches_what_its_row_names(row: Row) -> None:
    named = {place.partition(":")[0] for place in row.code}
    for mutation in OF_ROW[row.id]:
        touched = {edit.file for edit in mutation.edits}
        assert bool(named & touched) is not bool(mutation.beside), (
            "name a file of it in the row, or say why not (beside)"
        )


def test_no_two_rows_share_edit_and_test_unless_they_are_one() -> None:
    first: dict[object, str] = {}
    for id, mutation in MUTATIONS.items():
        if not mutation.one_with:
            assert first.setdefault((mutation.edits, mutation.test), id) == id, f"{id} is proved by nothing of its own"
    for id, mutation in MUTATIONS.items():
        if mutation.one_with:
            other = MUTATIONS[mutation.one_with]
            assert (other.edits, other.test, other.one_with) == (mutation.edits, mutation.test, ""), id


def test_no_mutation_is_left_over() -> None:
    assert set(OF_ROW) <= {row.id for row in DONE}


def test_every_change_that_is_called_equivalent_is_there() -> None:
    of_files = {place.partition(":")[0]: row for row in DONE for place in row.code}
    for file, function, line, _ in second.equivalent():
        assert file in of_files and line in (ROOT / file).read_text(), (file, function, line)


def test_the_second_mutations_of_a_day_are_other_than_those_of_the_next() -> None:
    first, next_ = (second.drawn(date(2026, 2, day)) for day in (14, 15))
    assert len(DONE) // 12 < len(first) <= len(DONE) // 10 + 1
    assert first == second.drawn(date(2026, 2, 14)) != next_
    for _, site in first:
        compile(site.whole().after, site.file, "exec")


@pytest.mark.parametrize(
    ("row", "file", "beside"),
    [
        ("R853-12", "actors/host/cluster/local_controllers.py", "tests/unit/host/cluster/test_controllers.py"),
        ("R631-100", "actors/node/api/dispatch.py", "tests/unit/node/net/test_held_bytes.py"),
    ],
)
def test_a_second_mutation_is_tried_against_tests_that_import_its_module_or_names_of_it(
    row: str, file: str, beside: str
) -> None:
    """The module is the last of those that the first test imports from their package."""
    (named,) = (one for one in DONE if one.id == row)
    (site, *_) = (site for site in second.sites_of(named) if site.file == file)
    assert beside in second.tests_beside(named, site)
    assert "tests/unit/host/cluster/test_plan.py" not in second.tests_beside(named, site)


def test_a_sample_is_of_its_day() -> None:
    first, second = (sample(SAMPLED, date(2026, 2, day)) for day in (14, 15))
    assert len(first) == len({mutation.id for mutation in first}) == SAMPLED
    assert first == sample(SAMPLED, date(2026, 2, 14)) != second


@pytest.fixture(scope="module")
def scratch() -> Iterator[Scratch]:
    with Scratch() as made:
        yield made


@pytest.mark.parametrize("mutation", sample(SAMPLED, DAY), ids=lambda mutation: mutation.id)
def test_the_days_mutations_are_killed(mutation: Mutation, scratch: Scratch) -> None:
    outcome = scratch.tried(mutation)
    if outcome.word == "skipped":
        pytest.skip(outcome.said)
    assert outcome.word == "killed", f"{mutation.about}\n{outcome.said}"


@pytest.mark.parametrize(
    ("word", "after"),
    [
        ("killed", 'return "legacy"'),
        ("survived", 'return str("kip-500") if "process.roles" in given else "legacy"'),
        ("broken", "return kip_500"),
        ("broken", "return ("),
    ],
)
def test_what_is_said_of_a_mutation(word: str, after: str, scratch: Scratch) -> None:
    test = "tests/unit/settings/test_node_config.py::test_process_roles_alone_decides_the_mode"
    edit = Edit("actors/settings/node_config.py", 'return "kip-500" if "process.roles" in given else "legacy"', after)
    outcome = scratch.tried(Mutation("", "", test, (edit,), False))
    assert outcome.word == word
    killed = outcome.assertion.startswith("tests/unit/settings/test_node_config.py: AssertionError: assert 'legacy' ==")
    assert killed or (word != "killed" and not outcome.assertion)
    assert scratch.unchanged([test]) == []


def test_a_test_that_hangs_is_no_kill_and_that_is_said_of_a_mutation(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.kips.scratch.TEST_S_MAX", 10)
    test = "tests/unit/settings/test_node_config.py::test_process_roles_alone_decides_the_mode"
    whole = 'return "kip-500" if "process.roles" in given else "legacy"'
    edit = Edit("actors/settings/node_config.py", whole, "return str(all(True for _ in iter(int, 1)))")
    outcome = scratch.tried(Mutation("", "", test, (edit,), False))
    assert outcome.word == "broken" and outcome.said.startswith("it hangs")


def test_a_node_that_does_not_start_is_no_kill_and_that_is_said_of_a_mutation(scratch: Scratch) -> None:
    test = "tests/simulator/test_control_plane.py::test_a_dead_broker_is_noticed_at_once_and_comes_back"
    edit = Edit("actors/node/roles/broker/role.py", "self._started = True", "self._started = {0: True}[1]")
    outcome = scratch.tried(Mutation("", "", test, (edit,), False))
    assert (outcome.word, outcome.said) == ("broken", "no node starts with the mutation: KeyError: 1")
