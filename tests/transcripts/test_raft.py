"""Stories of the quorum (KIP-595, KIP-630, KIP-996); the commands are in raft_story.py."""

from pathlib import Path

import pytest

from tests.transcripts.driver import play, stories
from tests.transcripts.raft_story import Story


@pytest.mark.parametrize("path", stories("raft"), ids=lambda path: path.stem)
def test_story(path: Path, rewrite: bool) -> None:
    play(path, Story().commands(), rewrite)
