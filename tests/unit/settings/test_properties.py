"""The text of a properties file, as Java reads it, and which names in it are settings, aliases, idle or refused."""

import pytest

from actors.settings.keys import ConfigError
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.properties import (
    ALIASES,
    IDLE,
    IDLE_PREFIXES,
    REFUSED,
    canonical,
    has_secrets,
    properties,
    refuse,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a=1\nb:2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("# a=1\n! b=2\n\n   # c=3\nd=#4", {"d": "#4"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b=c\\:d", {"a=b": "c:d"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("=x", {"": "x"}),
    ],
)
def test_lines_are_read_by_the_rules_of_java(text: str, read: dict[str, str]) -> None:
    assert properties(text) == read


@pytest.mark.parametrize("name", ALIASES)
def test_a_setting_has_the_value_of_any_of_its_names(name: str) -> None:
    found, _ = canonical({name: "x"})
    assert found == {ALIASES[name]: "x"}


def test_two_names_that_say_the_same_may_stand_beside_each_other_and_may_not_differ() -> None:
    both = {"controller.connect": "1@a:1", "controller.quorum.voters": " 1@a:1 "}
    assert canonical(both)[0].keys() == {"controller.connect"}
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters=b mean the same setting and differ"):
        canonical({"controller.connect": "a", "controller.quorum.voters": "b"})
    assert canonical({"controller.connect": "a", "controller.quorum.voters": " "})[0] == {"controller.connect": "a"}


def test_secrets_that_differ_are_not_told() -> None:
    with pytest.raises(ConfigError) as refused:
        canonical({"delegation.token.secret.key": "one-secret", "delegation.token.master.key": "other-secret"})
    assert "one-secret" not in str(refused.value) and "other-secret" not in str(refused.value)


@pytest.mark.parametrize("name", [*sorted(IDLE), *(f"{prefix}anything" for prefix in IDLE_PREFIXES)])
def test_what_has_no_effect_is_told(name: str) -> None:
    found, notices = canonical({name: "1"})
    assert not found and notices == [f"{name} has no effect."]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("log.retention.hour", "did you mean log.retention.hours"),
        ("group.share.recrod.lock.duration.ms", "did you mean group.share.record.lock.duration.ms"),
        ("flush.ms", "not a setting of a node: it belongs to a topic; here write log.flush.interval.ms"),
        ("zzzz", "is not a setting: leave it out"),
    ],
)
def test_a_name_that_is_none_is_told_with_the_closest(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        canonical({name: "1"})


@pytest.mark.parametrize("name", REFUSED)
def test_what_stops_the_start_says_what_to_do(name: str) -> None:
    written = f"{name}x" if name.endswith(".") else name
    with pytest.raises(ConfigError) as refused:
        refuse({written: "1"})
    assert str(refused.value).startswith(f"{written} is not supported: ")


def test_names_that_only_begin_alike_are_not_refused() -> None:
    refuse(
        {"hostile": "1", "portable": "1", "ssl.keystore.location": "x", "listener.name.a.ssl.keystore.location": "x"}
    )
    with pytest.raises(ConfigError, match="no remote storage"):
        refuse({"remote.log.storage.system.enable": " TRUE "})


def test_nothing_is_idle_refused_and_a_setting_at_once() -> None:
    names = {*BROKER_CONFIGS, *ALIASES}
    assert not names & IDLE and not [name for name in names if name.startswith(IDLE_PREFIXES)]


def test_a_file_has_secrets_unless_it_refers_to_them() -> None:
    assert has_secrets({"ssl.key.password": "x"}) and has_secrets({"listener.name.a.ssl.key.password": "x"})
    assert not has_secrets({"ssl.key.password": " ", "log.dirs": "/x"})
    reference = {"ssl.key.password": "${file:/x:y}"}
    assert has_secrets(reference), "without a provider it is the secret itself"
    assert not has_secrets(reference | {"config.providers": "file"})
