"""Values of settings as text: what each type takes, its bounds, and how a value is shown."""

from typing import Any

import pytest

from actors.settings import keys
from actors.settings.keys import ConfigError, ConfigType, key

TAKEN: list[tuple[ConfigType, str, Any]] = [
    (keys.BOOLEAN, " TRUE ", True), (keys.BOOLEAN, "false", False),
    (keys.INT, "-2147483648", -(1 << 31)), (keys.INT, "2147483647", keys.MAX_INT),
    (keys.SHORT, "32767", 32_767), (keys.LONG, "9223372036854775807", keys.MAX_LONG),
    (keys.DOUBLE, "0.5", 0.5), (keys.DOUBLE, "1e-3", 0.001),
    (keys.LIST, "a, b ,c", ("a", "b", "c")), (keys.LIST, "", ()),
    (keys.STRING, " a b ", "a b"), (keys.CLASS, "x.Y", "x.Y"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "value"), TAKEN)
def test_text_becomes_a_value_of_its_type(kind: ConfigType, text: str, value: Any) -> None:
    row = key("a", kind, None, None, "")
    found = row.parse(text)
    assert found == value and type(found) is type(value) and row.allows(text)
    assert row.parse(str(row.text(value))) == value, "as Kafka's tools show it, it is read again"


@pytest.mark.parametrize(
    ("kind", "text", "wants"),
    [
        (keys.BOOLEAN, "yes", "true or false"), (keys.BOOLEAN, "", "true or false"),
        (keys.INT, "2147483648", "a whole number of 32 bits"), (keys.INT, "-2147483649", "a whole number of 32 bits"),
        (keys.INT, "1_000", "a whole number of 32 bits"), (keys.INT, "1.0", "a whole number of 32 bits"),
        (keys.SHORT, "32768", "a whole number of 16 bits"), (keys.LONG, "9223372036854775808", "of 64 bits"),
        (keys.LONG, "9" * 5000, "a whole number of 64 bits"),
        (keys.DOUBLE, "half", "a number"), (keys.DOUBLE, "1_0", "a number"),
    ],
)  # fmt: skip
def test_what_is_no_value_of_a_type_is_told_with_what_to_write(kind: ConfigType, text: str, wants: str) -> None:
    row = key("a.b", kind, None, None, "")
    with pytest.raises(ConfigError, match=rf"^a\.b={text} is not .*: write .*{wants}\.$"):
        row.parse(text)
    assert not row.allows(text)


def test_a_check_counts_beside_the_type() -> None:
    ratio = key("r", keys.DOUBLE, 0.5, keys.between(0, 1), "")
    assert ratio.allows("0") and ratio.allows("1") and not ratio.allows("1.0001") and not ratio.allows("nan")
    with pytest.raises(ConfigError, match=r"^r=2 is not allowed: write a number from 0 to 1\.$"):
        ratio.parse("2")
    words = key("w", keys.LIST, (), keys.some_of("a", "b"), "")
    assert words.allows("") and words.allows("b,a") and not words.allows("a,c")
    assert key("n", keys.STRING, None, keys.named, "").allows("x") and not key(
        "n", keys.STRING, None, keys.named, ""
    ).allows(" ")


def test_how_values_are_shown() -> None:
    row = key("a", keys.DOUBLE, None, None, "")
    shown = {None: None, True: "true", 5: "5", 1e20: "1E20", 1e-7: "1E-07", ("a", "b"): "a,b", (): ""}
    assert {value: row.text(value) for value in shown} == shown


def test_a_password_is_sensitive_and_an_idle_setting_says_so() -> None:
    assert key("p", keys.PASSWORD, None, None, "").sensitive and not key("p", keys.STRING, None, None, "").sensitive
    row = keys.idle("t", keys.INT, 1, None, keys.ONE_THREAD)
    assert not row.effect and row.doc == "Accepted, does nothing here: one thread serves a whole node."
