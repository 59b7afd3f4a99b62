"""KIP-497's 23 races, one story each (requirements, table 2.7). The commands are in isr_story.py."""

from pathlib import Path

import pytest

from tests.transcripts.driver import play, stories
from tests.transcripts.isr_story import Story

RACES = 23


@pytest.mark.parametrize("path", stories("isr"), ids=lambda path: path.stem)
def test_story(path: Path, rewrite: bool) -> None:
    play(path, Story().commands(), rewrite)


def test_every_race_has_its_story() -> None:
    told = {int(path.stem.split("_")[1]) for path in stories("isr") if path.stem.startswith("race_")}
    assert told == set(range(1, RACES + 1))
