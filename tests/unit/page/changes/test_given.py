"""The fields of a change: what they may be, and that nothing is guessed."""

import json
from typing import Any

import pytest

from actors.page.changes.given import NAMES_MAX, TEXT_MAX, Given


def given(**fields: Any) -> Given:
    return Given(json.dumps(fields).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff", b'"text"'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="A change is a JSON object"):
        Given(body)


@pytest.mark.parametrize("value", [None, "", 3, [], {}, True, "x" * (TEXT_MAX + 1), "\ud800"])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        given(topic=value).text("topic")


@pytest.mark.parametrize("value", [None, "3", 3.0, True, -1, 1 << 31, [3]])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="partitions has to be a whole number"):
        given(partitions=value).number("partitions")


def test_what_was_left_out_is_what_the_change_says() -> None:
    nothing = given()
    assert nothing.text("topic", "t") == "t" and nothing.number("partitions", -1) == -1
    assert nothing.optional("broker") is None and nothing.data("key") is None
    assert nothing.names("unset") == [] and nothing.settings("set") == {} and list(nothing.pairs("headers")) == []
    nothing.end()


@pytest.mark.parametrize(
    ("value", "data"), [("", b""), ("é", "é".encode()), ({"base64": "AP8="}, b"\x00\xff"), (None, None)]
)
def test_bytes_are_text_or_base64(value: object, data: bytes | None) -> None:
    assert given(value=value).data("value") == data
    assert list(given(headers=[["a", value]]).pairs("headers")) == [("a", data)]


@pytest.mark.parametrize("value", [3, {"base64": "%"}, {"base64": 3}, {"base64": "", "more": 1}, ["a"]])
def test_what_are_no_bytes_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="value has to be a text"):
        given(value=value).data("value")


@pytest.mark.parametrize("value", [{"a": 1}, {"": "b"}, ["a"], {"a": None}, {str(n): "" for n in range(NAMES_MAX + 1)}])
def test_what_are_no_settings_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        given(set=value).settings("set")


@pytest.mark.parametrize("value", ["a", [1], [""], [None], {}, ["a"] * (NAMES_MAX + 1)])
def test_what_are_no_names_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        given(unset=value).names("unset")


@pytest.mark.parametrize("value", [None, "", "order", "Orders", "orders ", True, ["orders"]])
def test_a_deletion_wants_the_name_again(value: object) -> None:
    with pytest.raises(ValueError, match=r"All is lost\. To do it, send confirm with the name: orders\."):
        given(confirm=value).confirmed("orders", "All is lost.")
    given(confirm="orders").confirmed("orders", "All is lost.")


def test_a_field_that_the_change_does_not_have_is_refused() -> None:
    wrong = given(topic="t", partition=3)
    wrong.text("topic")
    with pytest.raises(ValueError, match="has no field 'partition'"):
        wrong.end()
