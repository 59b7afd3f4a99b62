"""What a directory says of its log beside the log itself."""

from pathlib import Path

import pytest

from actors.replay.logs import files
from actors.replay.logs.copies import metadata_log
from tests.unit.replay import metadata_logs


@pytest.mark.parametrize(
    "text, leader",
    [
        ('{"leaderId":3,"leaderEpoch":7}', 3),
        ('{"leaderId":3,"leaderEpoch":6}', -1),
        ('{"leaderId":3}', -1),
        ('{"leaderId":"x","leaderEpoch":7}', -1),
        ('{"leaderId":1e999,"leaderEpoch":7}', -1),
        ('{"leaderId":3,"leaderEpoch":Infinity}', -1),
        ("[]", -1),
        ("[" * 200_000, -1),
        ("\udce4", -1),
        (None, -1),
    ],
    ids=[
        "named",
        "of-another-epoch",
        "no-epoch",
        "no-number",
        "no-end",
        "epoch-no-end",
        "a-list",
        "deep",
        "bytes",
        "none",
    ],
)
def test_the_leader_that_a_directory_names(text: str | None, leader: int, tmp_path: Path) -> None:
    directory = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 2))
    log = metadata_log(directory)
    if text is not None:
        (log.directory / files.QUORUM_STATE).write_bytes(text.encode(errors="surrogateescape"))
    assert files.leader_of(log, 7) == leader
