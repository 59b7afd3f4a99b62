"""Offsets as JSON: Spark's form, what a checkpoint holds besides, and bad input."""

import json
import random

import pytest

from actors.pipeline import offset_maps
from actors.pipeline.offset_maps import Position

ID = bytes(range(16))
OFFSETS = {("orders", 0): 23, ("orders", 10): 5, ("clicks", 2): 0}


def test_a_position_is_sparks_own_json_and_more_that_may_be_left_out() -> None:
    position = Position(OFFSETS, {"orders": ID, "clicks": bytes(16)}, {("orders", 10): 4}, {("clicks", 2): 0})
    stored = json.loads(json.dumps(offset_maps.written(position)))
    plain = {name: rows for name, rows in stored.items() if not name.startswith("@")}
    assert plain == {"orders": {"0": 23, "10": 5}, "clicks": {"2": 0}}
    assert offset_maps.read(stored) == position._replace(ids={"orders": ID})
    assert offset_maps.read(plain) == Position(OFFSETS, {}, {}, {}), "a checkpoint of Spark's own source"
    assert offset_maps.numbers("startingOffsets", json.dumps(stored), -2) == OFFSETS


def test_positions_come_back_as_they_were_written() -> None:
    draw = random.Random(7)
    for _ in range(200):
        parts = [(draw.choice(["a", "b.c", "_d-9"]), draw.randint(0, 2000)) for _ in range(draw.randint(0, 9))]
        some = [one for one in parts if draw.random() < 0.5]
        position = Position(
            {part: draw.randint(0, 2**63 - 1) for part in parts},
            {topic: draw.randbytes(16) for topic, _ in parts},
            {part: draw.randint(0, 9) for part in some},
            {part: draw.randint(0, 2**40) for part in some},
        )
        assert offset_maps.read(json.loads(json.dumps(offset_maps.written(position)))) == position


@pytest.mark.parametrize(
    "stored",
    [
        {"orders-0@AAAA": 5}, {"orders-0": [1, 2]}, {"orders": {"x": 1}}, {"orders": {"0": "1"}}, {"orders": {"0": -1}},
        {"orders": {"0": True}}, {"@orders": {"id": "%%"}}, {"@orders": {"epochs": {"0": None}}}, {"@orders": 3},
        {"orders": {"0": 2**63}},
    ],
)  # fmt: skip
def test_a_checkpoint_of_something_else_is_told_as_that(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="does not hold positions of topics by address"):
        offset_maps.read(stored)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("latst", "no JSON of topics and partitions"), ("[]", "no JSON"), ('{"a": 3}', "no JSON"), ('{"a": [0]}', "no JSON"),
        ('{"a": {"x": 3}}', "no JSON"), ('{"a": {"0": "3"}}', "a/0 has 3: write a number from -2 on"),
        ('{"a": {"0": true}}', "a/0 has True"), ('{"a": {"0": -3}}', "a/0 has -3"), ('{"a": {"0": 1.5}}', "a/0 has 1.5"),
        ('{"a": {"0": 1, "0": 2}}', "names partition a/0 twice"), ('{"a": {"0": 1, "00": 2}}', "names partition a/0 twice"),
        ('{"a": {"0": 1}, "a": {"1": 2}}', "names topic a twice"), ('{"a": {"99999999999": 1}}', "no JSON"),
        ("[" * 100_000, "no JSON"), ('{"a": {"0": 1' + "0" * 5000 + "}}", "no JSON|has 10"),
    ],
)  # fmt: skip
def test_maps_that_make_no_sense_are_refused_by_the_options_name(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        offset_maps.numbers("endingOffsets", text, -2)
    assert str(caught.value).startswith("endingOffsets") and len(str(caught.value)) < 200


def test_partitions_that_are_assigned() -> None:
    assert offset_maps.parts("assign", '{"a": [0, 2], "b": [1]}') == {("a", 0), ("a", 2), ("b", 1)}
    for text in ('{"a": [0, 0]}', "{}", '{"a": {"0": 1}}', '{"a": [-1]}', '{"a": [true]}', '{"a": [1.0]}'):
        with pytest.raises(ValueError, match="assign"):
            offset_maps.parts("assign", text)
