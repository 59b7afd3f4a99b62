"""Handlers that work in slices and write: each is known, with what it asks before a portion."""

import ast
from pathlib import Path

import pytest

HANDLERS = Path(__file__).parents[5] / "actors" / "node" / "api" / "handlers"
ASKS = {
    "add_partitions_to_txn": "one transaction is one write; whether its partitions exist is asked right before",
    "alter_replica_log_dirs": "one replica is one move; all is asked as it begins",
    "delete_groups": "groups are deleted one by one: rights are asked as a portion begins, the coordinator asks the rest",
    "delete_records": "one partition is one write: leadership as it begins, rights anew behind each pause",
    "metadata": "missing topics are created in one operation behind all pauses",
    "produce": "one batch is one write: the lease behind each pause; partition, producer, transaction right before",
    "streams_group_heartbeat": "the verdict is the coordinator's, in one write behind all pauses",
    "write_txn_markers": "one marker is one write: the lease behind each pause, leadership and producer right before",
}
"""Handlers with pauses of their own that write behind a pause. What has to be whole has none: `api/offset_commits.py`."""
WRITES = frozenset(
    ("append", "ask", "commit", "commit_transactional", "delete_records", "end_transaction", "submit", "tell", "write")
)


def writes_behind_pauses(source: str) -> bool:
    """Whether a module has both a pause and a call that begins a write."""
    nodes = list(ast.walk(ast.parse(source)))
    pauses = any(isinstance(node, ast.Yield) and node.value is None for node in nodes)
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = [ast.unparse(one) for one in calls if isinstance(one, ast.Attribute) and one.attr in WRITES]
    begun = [name for name in names if name != "groups.append"]
    return pauses and any(name.startswith(("context.", "groups.", "machine.", "partition.log")) for name in begun)


def test_every_handler_that_writes_in_portions_is_known() -> None:
    """A new one is added here with what it asks before each portion, or has no pauses of its own."""
    found = {path.stem for path in HANDLERS.glob("*.py") if writes_behind_pauses(path.read_text())}
    assert found - {one for one in found if "share" in one} == set(ASKS)


@pytest.mark.parametrize("name", ["offset_commit", "txn_offset_commit"])
def test_offsets_are_written_in_one_place(name: str) -> None:
    source = (HANDLERS / f"{name}.py").read_text()
    assert "yield\n" not in source and "context.groups.commit(" not in source
    assert "committed(context, request, call, terms, _SHAPE)" in source
