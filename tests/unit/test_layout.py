"""Where a file lies: few loose ones in a folder, one name a subject, and a test where its code is.

A newcomer looks for a thing by its name, and for its test in the same place below `tests/unit`. What is counted here is what
makes that search short. A folder that needs an exception says why in the table.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.rows import rows

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
LOOSE_MAX = 20
"""Files of one folder, besides those in folders below it."""

LONG = {
    "actors/command": "a file for each word of the command: the directory is the table of what can be typed",
    "actors/node/api/handlers": "a file for each API of Kafka: the directory is the table of what is served",
}
PARALLEL = {"classic", "consumer", "share", "streams"}
"""Kinds of groups: a file of the same name in each of them is the same part of another kind."""

FLOORS = (
    "actors/broker", "actors/controller", "actors/host", "actors/node/api", "actors/node/roles/broker", "actors/replay",
)  # fmt: skip
"""Whose folders are subjects. Elsewhere a package is one subject."""


DRAWN = 3
"""How deep the tree in the architecture is drawn: `actors/broker/log`."""


def files(top: str) -> list[Path]:
    """Every source file below a folder of the repository, as a path in it."""
    return sorted(
        path.relative_to(ROOT)
        for suffix in ("*.py", "*.pyx")
        for path in (ROOT / top).rglob(suffix)
        if path.name != "__init__.py" and "schemas" not in path.parts
    )


def subject(path: Path) -> str:
    """The floor and the folder on it in which a file lies, or its package."""
    floor = max((floor for floor in FLOORS if path.is_relative_to(floor)), key=len, default="")
    if floor:
        below = path.relative_to(floor).parts
        return "/".join((floor, *below[: len(below) > 1]))
    return "/".join(path.parent.parts[:3])


def alike(path: Path) -> str:
    """A file's name, and its folder where that is one of several kinds."""
    return next((f"{part}/{path.name}" for part in path.parent.parts if part in PARALLEL), path.name)


@pytest.mark.parametrize("top", ["actors", "fastpath"])
def test_a_folder_has_few_loose_files(top: str) -> None:
    counted = Counter(str(path.parent) for path in files(top))
    crowded = {folder: number for folder, number in counted.items() if number > LOOSE_MAX and folder not in LONG}
    assert not crowded, "divide it into rooms, or say in LONG why not"
    assert all(counted[folder] > LOOSE_MAX for folder in LONG if folder.startswith(top)), "LONG holds what is short"


def test_a_name_stands_for_one_file_of_a_subject() -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files("actors") + files("fastpath"):
        found[subject(path), alike(path)].append(str(path))
    assert not [paths for paths in found.values() if len(paths) > 1]


def mirrored(folder: Path) -> str:
    """The folder of the code whose tests a folder below tests/unit has."""
    below = folder.relative_to(UNIT).as_posix()
    return below if below.startswith("fastpath") else f"actors/{below}".removesuffix("/.")


FOLDERS = sorted({path.parent for path in UNIT.rglob("*.py")})


@rows(((folder,) for folder in FOLDERS), ids=lambda folder: str(folder.relative_to(UNIT)))
def test_the_tests_have_the_tree_of_the_code(folder: Path) -> None:
    assert (ROOT / mirrored(folder)).is_dir(), "no folder of the code has this name"


def test_a_test_with_the_name_of_a_module_lies_where_that_is() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for path in files("actors") + files("fastpath"):
        modules[path.stem].add(path.parent.as_posix())
    strays = {
        str(path.relative_to(ROOT)): sorted(places)
        for path in UNIT.glob("*/**/test_*.py")  # what lies in tests/unit itself is about the whole repository
        if (places := modules.get(path.stem.removeprefix("test_"))) and mirrored(path.parent) not in places
    }
    assert not strays


LONG_LINES = 150
"""A module with more lines has a test of its name, or a row in ELSEWHERE_TESTED."""
OPEN_MAX = 12
"""How many rows may be missing, or too many, while several people change the tree."""
ELSEWHERE_TESTED = {
    "actors/bridge/asks.py": "unit/bridge/test_claim.py",
    "actors/bridge/checks.py": "unit/bridge/test_states.py",
    "actors/bridge/following.py": "unit/bridge/test_merging.py",
    "actors/bridge/reading.py": "unit/bridge/test_takeover.py",
    "actors/bridge/returning.py": "unit/command/test_bridge_steps.py",
    "actors/bridge/subjects/settings.py": "unit/bridge/test_merging.py",
    "actors/bridge/subjects/topics.py": "unit/bridge/test_takeover.py",
    "actors/bridge/writing.py": "unit/bridge/test_takeover.py",
    "actors/broker/groups/classic/groups.py": "unit/broker/groups/test_coordinator.py",
    "actors/broker/groups/classic/rebalance.py": "unit/broker/groups/test_coordinator.py",
    "actors/broker/groups/classic/state.py": "unit/broker/groups/test_coordinator.py",
    "actors/broker/groups/consumer/state.py": "unit/broker/groups/consumer/test_groups.py",
    "actors/broker/groups/kind.py": "unit/broker/groups/test_forgotten_offsets.py",
    "actors/broker/groups/member_groups.py": "unit/broker/groups/consumer/test_groups.py",
    "actors/broker/groups/share/groups.py": "unit/node/roles/broker/groups/share/test_share_administration.py",
    "actors/broker/groups/share/initialization.py": "unit/node/roles/broker/groups/share/test_share_administration.py",
    "actors/broker/groups/share/state.py": "unit/node/roles/broker/groups/share/test_share_administration.py",
    "actors/broker/groups/streams/assignor.py": "unit/broker/groups/streams/test_against_kafka.py",
    "actors/broker/log/history.py": "unit/broker/log/test_recovery.py",
    "actors/broker/groups/streams/changes.py": "unit/broker/groups/streams/test_groups.py",
    "actors/broker/groups/streams/partitioning.py": "unit/broker/groups/streams/test_against_kafka.py",
    "actors/broker/groups/streams/state.py": "unit/broker/groups/streams/test_groups.py",
    "actors/broker/log/aborted_indexes.py": "unit/broker/log/test_transactions_model.py",
    "actors/broker/log/aborted_search.py": "unit/broker/log/producers/test_transactions.py",
    "actors/broker/log/names.py": "unit/broker/log/test_shortage.py",
    "actors/broker/log/truncation.py": "unit/broker/log/test_model.py",
    "actors/broker/log/segment.py": "unit/broker/log/test_log.py",
    "actors/broker/replication/partition.py": "unit/node/roles/broker/replication/test_replication.py",
    "actors/broker/replication/reading.py": "unit/broker/replication/test_closest_replica.py",
    "actors/broker/replication/replicas.py": "unit/node/roles/broker/replication/test_replication.py",
    "actors/broker/transactions/coordinator.py": "unit/node/roles/broker/transactions/test_whole_transactions.py",
    "actors/client/operations/transactions.py": "unit/client/operations/test_prepared_transactions.py",
    "actors/command/by_address/acls.py": "unit/command/by_address/test_words.py",
    "actors/command/by_address/groups.py": "unit/command/by_address/test_words.py",
    "actors/command/by_address/page.py": "integration/page/test_clusters.py",
    "actors/command/by_address/topics.py": "unit/command/by_address/test_words.py",
    "actors/command/options.py": "unit/command/by_address/test_words.py",
    "actors/command/up.py": "integration/page/test_up.py",
    "actors/host/bridge/bridge_cluster.py": "unit/host/bridge/test_bridge_settings.py",
    "actors/host/client/asynchronous.py": "integration/client/test_asynchronous.py",
    "actors/host/cluster/local_controllers.py": "unit/host/cluster/test_controllers.py",
    "actors/host/cluster/quorum_changes.py": "unit/host/cluster/test_controllers.py",
    "actors/host/net/server.py": "unit/host/test_loop.py",
    "actors/host/net/zookeeper_connection.py": "integration/bridge/test_ten_restarts.py",
    "actors/metadata/dialects/drafts.py": "unit/metadata/test_dialects.py",
    "actors/metadata/ops.py": "unit/metadata/test_image.py",
    "actors/node/api/dispatch.py": "unit/node/api/test_order.py",
    "actors/node/api/handlers/add_partitions_to_txn.py": "unit/node/roles/broker/transactions/test_whole_transactions.py",
    "actors/node/api/handlers/describe_share_group_offsets.py":
        "unit/node/roles/broker/groups/share/test_share_administration.py",
    "actors/node/api/handlers/describe_topic_partitions.py": "unit/node/api/handlers/test_metadata.py",
    "actors/node/api/handlers/offset_fetch.py": "unit/node/roles/broker/groups/test_group_coordinator.py",
    "actors/node/api/handlers/share_fetch.py": "unit/node/roles/broker/groups/share/test_share_partitions.py",
    "actors/node/api/handlers/txn_offset_commit.py": "unit/node/roles/broker/transactions/test_long_commits.py",
    "actors/node/api/offset_commits.py": "unit/node/roles/broker/transactions/test_long_commits.py",
    "actors/node/api/share/share_reads.py": "unit/node/roles/broker/groups/share/test_share_partitions.py",
    "actors/node/metrics/broker.py": "unit/node/metrics/test_names_and_values.py",
    "actors/node/metrics/controller.py": "unit/node/metrics/test_names_and_values.py",
    "actors/node/metrics/coordinators.py": "unit/node/metrics/test_names_and_values.py",
    "actors/node/metrics/quorum_replica.py": "unit/node/metrics/test_names_and_values.py",
    "actors/node/metrics/requests.py": "unit/node/metrics/test_names_and_values.py",
    "actors/node/quorum/store.py": "unit/node/quorum/test_log.py",
    "actors/node/roles/broker/lifecycle/heartbeats.py": "transcripts/test_isr.py",
    "actors/node/roles/broker/log/claims.py": "simulator/test_strays.py",
    "actors/node/roles/broker/log/log_cleaner.py": "simulator/test_log_cleaner.py",
    "actors/node/roles/broker/log/log_dir_moves.py": "simulator/test_log_dir_moves.py",
    "actors/node/roles/broker/log/log_directories.py": "simulator/test_two_directories.py",
    "actors/node/roles/broker/log/log_manager.py": "unit/node/roles/broker/log/test_deleted_topics.py",
    "actors/node/roles/broker/log/scrubber.py": "simulator/test_scrubbing.py",
    "actors/node/roles/broker/metadata/metadata_publisher.py": "unit/node/roles/broker/metadata/test_pushed_metadata.py",
    "actors/node/roles/broker/replication/appends.py": "unit/node/roles/broker/replication/test_failed_cuts.py",
    "actors/node/roles/broker/replication/delayed_fetch.py": "unit/node/api/handlers/test_fetch.py",
    "actors/node/roles/broker/role.py": "unit/node/roles/broker/replication/test_replication.py",
    "actors/node/roles/broker/transactions/transaction_markers.py":
        "unit/node/roles/broker/transactions/test_whole_transactions.py",
    "actors/node/roles/controller/bridge.py": "simulator/test_bridge.py",
    "actors/arrow/values/proto_text.py": "unit/page/decoding/test_protobuf.py",
    "actors/pipeline/sink/values.py": "unit/pipeline/sink/test_steps.py",
    "actors/pipeline/spark.py": "integration/pipeline/test_spark_batch.py",
    "actors/pipeline/spark_writers.py": "integration/pipeline/test_sink_kills.py",
    "actors/raft/following.py": "transcripts/test_raft.py",
    "actors/raft/messages.py": "unit/node/quorum/test_transport.py",
    "actors/replay/columns/history.py": "unit/replay/columns/test_as_of.py",
    "actors/replay/columns/metadata.py": "unit/replay/test_golden.py",
    "actors/replay/columns/moment.py": "unit/replay/timeline/test_history.py",
    "actors/replay/logs/chunks.py": "unit/replay/test_rooms.py",
    "actors/settings/tls.py": "unit/host/net/test_tls.py",
    "fastpath/arrow/metadata_columns.pyx": "unit/replay/columns/test_column_plans.py",
    "fastpath/arrow/partition_columns.pyx": "unit/replay/columns/test_tables.py",
    "fastpath/image/blocks.pyx": "unit/metadata/test_image_twin.py",
    "fastpath/image/columns.pyx": "unit/metadata/test_image_twin.py",
    "fastpath/image/views.pyx": "unit/metadata/test_image_twin.py",
    "fastpath/image/write_records.pyx": "unit/metadata/test_batches.py",
    "fastpath/messages/decoder.pyx": "unit/wire/test_twin.py",
    "fastpath/messages/encoder.pyx": "unit/wire/test_twin.py",
    "fastpath/messages/layout.pyx": "unit/wire/test_messages.py",
    "fastpath/records/record_stream.pyx": "unit/fastpath/records/test_inspection.py",
}  # fmt: skip
"""Long modules whose test has another name, below tests/. Most are parts that only work together with others: the test is a
story, a model or a cluster. A row goes when its module has a test of its name."""


def test_a_long_module_has_a_test_of_its_name_or_a_row_that_says_where_it_is_tested() -> None:
    long = {
        str(path)
        for top in ("actors", "fastpath")
        for path in files(top)
        if (ROOT / path).read_text().count("\n") > LONG_LINES
    }
    named = {f"{mirrored(path.parent)}/{path.stem.removeprefix('test_')}" for path in UNIT.rglob("test_*.py")}
    without = {path for path in long if path.rpartition(".")[0] not in named}
    told = "write a test of that name, or say where it is tested; a row whose module has one, or is short or gone, goes"
    assert len(without ^ ELSEWHERE_TESTED.keys()) <= OPEN_MAX, f"{told}: {sorted(without ^ ELSEWHERE_TESTED.keys())}"
    assert not [row for row in ELSEWHERE_TESTED.values() if not (ROOT / "tests" / row).is_file()]


NAMED = re.compile(r"(?<![\w/.*{<-])((?:[\w.-]+/)*[\w-]+\.(?:py|pyx|pyi|pxd))(?![\w*])")
ELSEWHERE = {"rayft/__init__.py"}
"""A file that a page says is not there."""


def ends_of(paths: list[Path]) -> set[str]:
    """Every way in which a text may name one of them: by its name, or with some of the folders in front of it."""
    return {"/".join(path.parts[at:]) for path in paths for at in range(len(path.parts))}


def test_a_file_that_a_page_names_is_there() -> None:
    tops = ("actors", "fastpath", "tests", "bench")
    there = [path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.p*") if path.is_file()]
    there += [path.relative_to(ROOT) for path in (*ROOT.glob("*.py"), *ROOT.glob(".ci/*.py"))]
    known = ends_of(there) | ELSEWHERE
    missing = {
        f"{page.name}: {name}"
        for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for name in NAMED.findall(page.read_text())
        if name not in known
    }
    assert not missing


def test_the_tree_in_the_architecture_has_every_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    tree = page[page.index("## The tree") : page.index("`tests/unit/test_layers.py` reads")]
    folders = [path for top in ("actors", "fastpath") for path in sorted((ROOT / top).rglob("*/__init__.py"))]
    missing = [
        folder
        for path in folders
        if len((folder := path.parent.relative_to(ROOT)).parts) <= DRAWN and f"{folder.name}/" not in tree
    ]
    assert not missing, "a newcomer looks for them there"
    named = re.findall(r"([a-z_]+)/  ", tree.split("```")[1])
    known = {path.name for top in ("actors", "fastpath", "") for path in (ROOT / top).glob("**/" if top else "*")}
    assert not [name for name in named if name not in known], "no folder has this name"
