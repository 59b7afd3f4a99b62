"""Where in a topic words behind a command mean."""

import time

import pytest

from actors.client.operations.group_offsets.places import PlaceInPartitions
from actors.command.by_address import places


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("beginning", PlaceInPartitions("beginning")),
        ("end", PlaceInPartitions("end")),
        ("17", PlaceInPartitions("offset", 17)),
        ("-5", PlaceInPartitions("last", 5)),
        ("2026-11-28T14:02", PlaceInPartitions("time", 1_795_874_520_000)),
        ("2026-11-28T15:02+01:00", PlaceInPartitions("time", 1_795_874_520_000)),
        ("2026-11-28", PlaceInPartitions("time", 1_795_824_000_000)),
    ],
)
def test_places(text: str, wanted: PlaceInPartitions) -> None:
    assert places.where(text) == wanted


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "9" * 5000 + "d", str(1 << 63), "-9d", "\u0663"])
def test_what_is_no_place_is_told_whatever_its_size(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        places.where(text)
    assert "is no place in a topic: write beginning, end, an offset" in capsys.readouterr().err


def test_so_long_ago() -> None:
    assert abs(places.where("15m").number - (time.time() - 900) * 1000) < 5_000
