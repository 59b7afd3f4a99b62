"""`--as-of` against both kinds of cluster: what a listing has shown of now is what it shows later of then."""

import datetime
import json
import time
from typing import Any

import pytest

from tests.integration.command.typed import typed
from tests.integration.conftest import until

pytestmark = pytest.mark.timeout(300)


def test_what_was_shown_then_is_shown_of_then(ruled: str, name: str) -> None:
    def done(*words: str, stdin: bytes = b"") -> None:
        ran = typed(ruled, *words, stdin=stdin)
        assert ran.code == 0, ran

    def rows(*words: str) -> list[dict[str, Any]]:
        ran = typed(ruled, *words, "-o", "json")
        assert ran.code == 0, ran
        found: list[dict[str, Any]] = json.loads(ran.out)
        if words[:2] == ("topic", "describe"):  # offsets are not in the metadata log
            return [one | dict.fromkeys(("earliest", "latest", "offline")) for one in found]
        if words[:2] == ("config", "get"):  # nor are defaults
            return [
                {key: one[key] for key in ("name", "value", "source")} for one in found if one["source"] != "default"
            ]
        return found

    done("topic", "create", name, "-p", "2", "-r", "1", "--set", "retention.ms=5")
    done("acl", "add", "--principal", "User:a", "--operation", "read", "--topic", name, "--prefixed", "--deny")
    done("user", "set", name, stdin=b"secret\n")
    done("quota", "set", "--user", name, "--default-client-id", "producer_byte_rate=1048576")
    done("config", "set", f"group:{name}", "consumer.session.timeout.ms=50000")
    listings = [
        ("topic", "list"), ("topic", "describe", name), ("acl", "list"), ("user", "list"), ("quota", "list"),
        ("config", "get", f"topic:{name}", "retention.ms"), ("config", "get", f"group:{name}"),
    ]  # fmt: skip
    until(lambda: all(rows(*words) for words in listings))
    before = [rows(*words) for words in listings]
    time.sleep(0.1)
    then = datetime.datetime.now(datetime.UTC).isoformat()
    time.sleep(0.1)
    done("topic", "partitions", "grow", name, "--to", "3")
    done("topic", "create", f"{name}-2", "-p", "1", "-r", "1")
    done("topic", "config", "set", name, "retention.ms=6")
    done("acl", "remove", "--all")
    done("user", "delete", name)
    done("quota", "remove", "--user", name, "--default-client-id")
    done("config", "unset", f"group:{name}", "consumer.session.timeout.ms")
    until(lambda: all(rows(*words) != was for words, was in zip(listings, before, strict=True)))
    assert [rows(*words, "--as-of", then) for words in listings] == before
    until(lambda: rows("acl", "list", "--as-of", "2100-01-01") == [])
