"""The notation of schema files, and what does not follow it."""

import pytest

from actors.wire.schema import NEWEST, NONE, SchemaError, Versions, parse, parse_versions, snake_case

TEXT = """request 19 ThingRequest 2-7 flexible 5+ unstable
  Topics []Topic 2+ null 3+
    Name string 2+ key
    Parts []Part 4-6
  Again []Part 6+ tag 0 6+
  Id uuid 2+ plain = AAAA
struct Part 4+
  Index int32 4+
"""


def test_a_message_with_all_that_the_notation_has() -> None:
    made = parse(TEXT.replace("struct", "  struct").replace("  Index", "    Index"))
    assert made.head[:3] == ("request", 19, "ThingRequest") and made.head.unstable
    assert (made.head.versions, made.head.flexible) == (Versions(2, 7), Versions(5, NEWEST))
    topics, again, id = made.root.fields
    assert (topics.array, topics.type, topics.nullable) == (True, "struct", Versions(3, NEWEST))
    name, parts = made.structs["Topic"].fields
    assert name.key and name.attribute == "name" and not parts.key
    assert parts.struct is again.struct is made.structs["Part"], "a struct that is used twice is one"
    assert [one.name for one in made.structs["Part"].fields] == ["Index"]
    assert (again.tag, again.tagged) == (0, Versions(6, NEWEST)) and topics.tagged == NONE
    assert (id.plain, id.default) == (True, "AAAA")


@pytest.mark.parametrize(
    ("text", "inside", "outside"), [("3", [3], [2, 4]), ("2-7", [2, 7], [1, 8]), ("5+", [5, NEWEST], [4])]
)
def test_ranges_of_versions(text: str, inside: list[int], outside: list[int]) -> None:
    found = parse_versions(text)
    assert all(one in found for one in inside) and not any(one in found for one in outside)
    assert 0 not in NONE and "3" not in found


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["      Deep int8 0+"], "line 2: indentation does not follow from the line before"),
        (["  A int8 0+", "      B int8 0+"], "line 3: indentation"),
        (["  A int8 0+ sometimes"], "line 2: unknown flag sometimes"),
        (["  A int8 0+ tag"], "line 2: "),
        (["  A int8 zero"], "line 2: invalid literal"),
        (["  A int8"], "line 2: "),
        (["  A int8 0+", "  A int8 0+"], "Thing has a field twice"),
        (["  A []Part 0+", "    B []Part 0+"], "Part contains itself"),
    ],
)
def test_a_file_that_does_not_follow_it_is_refused_with_its_line(lines: list[str], words: str) -> None:
    with pytest.raises(SchemaError, match=f"thing.schema, .*{words}"):
        parse("\n".join(["data - Thing 0+", *lines]), "thing.schema")


def test_words_of_a_name_are_found() -> None:
    names = ["TopicData", "ISRNodes", "KRaftVersion", "v0Id", "ErrorCode"]
    assert [snake_case(one) for one in names] == ["topic_data", "isr_nodes", "k_raft_version", "v0_id", "error_code"]
