"""Rules, users, quotas and settings as an operator types them: the same tests against rayft and against Apache Kafka, with
what is printed as golden text (`typed.py`)."""

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyarrow as pa
import pytest

import rayft
from tests.integration.command.typed import Ran, check, golden, made, typed
from tests.integration.conftest import ROOT, until

pytestmark = pytest.mark.timeout(300)
HEAD = "resource_type  resource  pattern  principal  host  operation  permission\n"


def shown(servers: str, text: str, *words: str, **names: str) -> None:
    """Wait until a command prints this: what a controller has changed, a broker learns a moment later."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        ran = typed(servers, *words)
        if ran.code == 0 and golden(text, **names).fullmatch(ran.text):
            return
    check(ran, text, **names)


def refused(ran: Ran, code: int, sentence: str) -> None:
    """It has ended with one line, and printed nothing."""
    assert (ran.code, ran.out, ran.err) == (code, b"", f"rayft: {sentence}\n")


def test_rules_are_added_listed_and_removed(ruled: str, name: str) -> None:
    me = f"User:{name}"
    added = f"""
{HEAD}topic  {name}  literal  {me}  *  read  allow
topic  {name}  literal  {me}  *  write  allow
topic  {name}-2  literal  {me}  *  read  allow
topic  {name}-2  literal  {me}  *  write  allow
"""
    words = ("--principal", me, "--operation", "read", "--operation", "WRITE", "--topic", name, "--topic", f"{name}-2")
    for _ in range(2):  # and once more: nothing is made twice
        check(typed(ruled, "acl", "add", *words), added)
    check(
        typed(ruled, "acl", "add", "--principal", f"{me},CN=x", "--operation", "all", "--group", f"{name}-", "--deny",
              "--prefixed", "--host", "127.0.0.1"),
        f"{HEAD}group  {name}-  prefixed  {me},CN=x  127.0.0.1  all  deny\n",
    )  # fmt: skip
    shown(ruled, added, "acl", "list", "--principal", me)
    prefixed = f"{HEAD}group  {name}-  prefixed  {me},CN=x  127.0.0.1  all  deny\n"
    shown(ruled, prefixed, "acl", "list", "--group", f"{name}-app", "--pattern", "match")
    check(typed(ruled, "acl", "list", "--group", f"{name}-app"), HEAD)
    one = f"{HEAD}topic  {name}  literal  {me}  *  write  allow\n"
    for dry in (("--dry-run",), ()):
        check(typed(ruled, "acl", "remove", "--topic", name, "--operation", "write", *dry), one)
    left = (
        "\n".join(line for line in added.splitlines() if f"topic  {name}  " not in line or "write" not in line) + "\n"
    )
    shown(ruled, left, "acl", "list", "--principal", me)
    typed(ruled, "acl", "remove", "--principal", me)
    check(typed(ruled, "acl", "remove", "--group", f"{name}-"), prefixed)
    until(lambda: typed(ruled, "acl", "list", "-o", "json").text == "[]\n")
    refused(typed(ruled, "acl", "remove", "--topic", name), 1, "no rule is like that: rayft acl list shows all")


def test_each_kind_of_resource_has_rules(ruled: str, name: str) -> None:
    kinds = ("--topic", "t", "--group", "g", "--transactional-id", "x", "--delegation-token", "d", "--user", "User:u")
    operation = ("--operation", "describe")
    many = ["acl", "add", "--principal", f"User:{name}"]
    assert typed(ruled, *many, *operation, *kinds[:8], "--cluster").code == 0
    assert typed(ruled, *many, "--operation", "create-tokens", *kinds[8:]).code == 0
    shown(
        ruled,
        f"""
{HEAD}topic  t  literal  User:{name}  *  describe  allow
group  g  literal  User:{name}  *  describe  allow
cluster  kafka-cluster  literal  User:{name}  *  describe  allow
transactional_id  x  literal  User:{name}  *  describe  allow
delegation_token  d  literal  User:{name}  *  describe  allow
user  User:u  literal  User:{name}  *  create_tokens  allow
""",
        "acl", "list", "--principal", f"User:{name}",
    )  # fmt: skip
    check(typed(ruled, "acl", "list", "--cluster"),
          f"{HEAD}cluster  kafka-cluster  literal  User:{name}  *  describe  allow\n")  # fmt: skip
    for words in (("--permission", "allow"), ("--principal", f"User:{name}")):
        refused(
            typed(ruled, "acl", "remove", *words),
            1,
            "these are all 6 rules of the cluster: write --all if they are meant",
        )
    ran = typed(ruled, "acl", "remove", "--all", "-o", "jsonl")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0 and [row["resource_type"] for row in rows] == [
        "topic", "group", "cluster", "transactional_id", "delegation_token", "user"
    ]  # fmt: skip
    until(lambda: typed(ruled, "acl", "list").text == HEAD)


def test_what_a_cluster_refuses_is_said_once(ruled: str, name: str) -> None:
    ran = typed(ruled, "acl", "add", "--principal", "User:a", "--operation", "read", "--topic", "t", "--group", "g",
                "--host", "nowhere.invalid/24")  # fmt: skip
    if ran.code == 0:  # Apache Kafka takes any text for a host
        assert typed(ruled, "acl", "remove", "--principal", "User:a", "--all").code == 0
    else:
        assert ran.code == 1 and ran.err.startswith("rayft: ") and 1 <= ran.err.count("\n") <= 2, ran


def test_a_password_is_set_read_from_where_it_is_and_deleted(ruled: str, name: str, tmp_path: Path) -> None:
    secret = f"secret-{name}"
    file = tmp_path / "password"
    file.write_text(f"{secret}\nnot this\n")
    file.chmod(0o600)
    ran = typed(ruled, "user", "set", name, stdin=f"{secret}\r\n".encode())
    assert ran == Ran(0, f"set the SCRAM-SHA-512 password of user {name}\n".encode(), "")
    words = ("user", "set", name, "--mechanism", "scram-sha-256", "--iterations", "8192", "--password-file", str(file))
    ran = typed(ruled, *words)
    assert ran == Ran(0, f"set the SCRAM-SHA-256 password of user {name}\n".encode(), "")
    file.chmod(0o644)
    warned = typed(ruled, *words)
    assert warned.err == f"rayft: {file} holds a password and others may read it: chmod 600 {file}\n"
    both = f"user  mechanism  iterations\n{name}  SCRAM-SHA-256  8192\n{name}  SCRAM-SHA-512  4096\n"
    shown(ruled, both, "user", "list", name)
    ran = typed(ruled, "user", "list", name, "nobody", "-o", "jsonl")
    assert (ran.code, len(ran.out.splitlines())) == (1, 2)
    assert ran.err == "rayft: user nobody has no password: rayft user set nobody gives one\n"
    ran = typed(ruled, "user", "delete", name, "nobody", name)
    assert ran.code == 1 and ran.err.startswith("rayft: user nobody has no password")
    assert ran.text == "".join(f"deleted the SCRAM-SHA-{one} password of user {name}\n" for one in (256, 512))
    until(lambda: typed(ruled, "user", "list").text == "user  mechanism  iterations\n")
    for wrong in (b"", b"\nsecret\n", b"x" * 1025, b"\xff\n"):
        ran = typed(ruled, "user", "set", name, stdin=wrong)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, b"", 1), ran


def test_a_password_is_asked_for_at_a_terminal_twice_and_not_shown(ruled: str, name: str) -> None:
    def asked(first: bytes, second: bytes) -> tuple[int, bytes]:
        ours, theirs = pty.openpty()

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", "user", "set", name, "-b", ruled],
            cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=own_terminal,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            for question, answer in ((b"password of user", first), (b"once more: ", second)):
                while question not in seen:
                    seen += os.read(ours, 1000)
                os.write(ours, answer + b"\n")
            while True:
                try:
                    more = os.read(ours, 1000)
                except OSError:  # the other end is closed
                    break
                seen += more
            return process.wait(60), seen
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    code, seen = asked(b"hush-hush", b"hush-hush")
    assert code == 0 and f"set the SCRAM-SHA-512 password of user {name}".encode() in seen and b"hush" not in seen
    code, seen = asked(b"hush-hush", b"hush-what")
    assert code == 2 and b"the two passwords differ: nothing was changed" in seen and b"hush" not in seen
    until(lambda: typed(ruled, "user", "delete", name).code == 0)


def test_quotas_of_users_client_ids_addresses_and_all_others(ruled: str, name: str) -> None:
    ran = typed(ruled, "quota", "set", "--user", name, "--default-client-id", "producer_byte_rate=1048576",
                "request_percentage=12.5")  # fmt: skip
    check(ran, f"""
set producer_byte_rate=1048576 for user {name}, client-id <default>
set request_percentage=12.5 for user {name}, client-id <default>
""")  # fmt: skip
    assert typed(ruled, "quota", "set", "--default-user", "consumer_byte_rate=5").code == 0
    assert typed(ruled, "quota", "set", "--client-id", "app", "consumer_byte_rate=6").code == 0
    assert typed(ruled, "quota", "set", "--ip", "127.0.0.9", "connection_creation_rate=7").code == 0
    assert typed(ruled, "quota", "set", "--default-ip", "connection_creation_rate=8").code == 0
    shown(ruled, f"""
entity  quota  value
client-id app  consumer_byte_rate  6
ip <default>  connection_creation_rate  8
ip 127.0.0.9  connection_creation_rate  7
user <default>  consumer_byte_rate  5
user {name}, client-id <default>  producer_byte_rate  1048576
user {name}, client-id <default>  request_percentage  12.5
""", "quota", "list")  # fmt: skip
    rows = json.loads(typed(ruled, "quota", "list", "--user", name, "-o", "json").out)
    assert rows[1] == {
        "entity": [{"type": "user", "name": name}, {"type": "client-id", "name": None}],
        "quota": "request_percentage", "value": 12.5,
    }  # fmt: skip
    refused(typed(ruled, "quota", "remove", "--user", name), 1,
            f"user {name} has no quota of its own: rayft quota list shows all")  # fmt: skip
    both = ("--user", name, "--default-client-id")
    check(typed(ruled, "quota", "remove", *both, "request_percentage"),
          f"removed request_percentage=12.5 of user {name}, client-id <default>\n")  # fmt: skip
    for words in (both, ("--default-user",), ("--client-id", "app"), ("--ip", "127.0.0.9"), ("--default-ip",)):
        until(lambda words=words: typed(ruled, "quota", "remove", *words).text.count("removed") == 1)  # type: ignore[misc]
    until(lambda: typed(ruled, "quota", "list").text == "entity  quota  value\n")
    wrong = typed(ruled, "quota", "set", "--user", name, "producer_byte_rat=1")
    assert (wrong.code, wrong.out) == (1, b"") and "producer_byte_rat" in wrong.err and wrong.err.count("\n") == 1


def test_settings_of_brokers_groups_and_client_metrics(ruled: str, name: str) -> None:
    check(typed(ruled, "config", "set", "brokers", "log.retention.ms=7200000"), "changed settings of brokers\n")
    check(typed(ruled, "config", "set", "broker:1", "log.cleaner.threads=2"), "changed settings of broker:1\n")
    shown(ruled, """
name  value  source  synonyms
log.cleaner.threads  2  broker  broker: log.cleaner.threads=2; default: log.cleaner.threads=1
log.retention.ms  7200000  default of brokers  default of brokers: log.retention.ms=7200000; default: log.retention.hours=168
""", "config", "get", "broker:1", "log.retention.ms", "log.cleaner.threads", "--synonyms")  # fmt: skip
    shown(ruled, "name  value  source\nlog.retention.ms  7200000  default of brokers\n", "config", "get", "brokers",
          "log.retention.ms")  # fmt: skip
    check(typed(ruled, "config", "unset", "brokers", "log.retention.ms"), "changed settings of brokers\n")
    check(typed(ruled, "config", "unset", "broker:1", "log.cleaner.threads"), "changed settings of broker:1\n")
    shown(ruled, """
name  value  source
log.cleaner.threads  1  default
log.retention.ms  -  default
""", "config", "get", "broker:1", "log.retention.ms", "log.cleaner.threads")  # fmt: skip
    group = f"group:{name}"
    assert typed(ruled, "config", "set", group, "consumer.session.timeout.ms=50000").code == 0
    shown(ruled, "name  value  source\nconsumer.session.timeout.ms  50000  group\n", "config", "get", group,
          "consumer.session.timeout.ms")  # fmt: skip
    metrics = f"client-metrics:{name}"
    assert typed(ruled, "config", "set", metrics, "interval.ms=1000", "metrics=org.apache").code == 0
    shown(ruled, """
name  value  source
interval.ms  1000  client metrics
match  -  default
metrics  org.apache  client metrics
""", "config", "get", metrics)  # fmt: skip
    assert typed(ruled, "config", "unset", metrics, "interval.ms", "metrics").code == 0
    assert typed(ruled, "config", "unset", group, "consumer.session.timeout.ms").code == 0


def test_settings_that_cannot_be(ruled: str, name: str) -> None:
    made(ruled, name)
    ran = typed(ruled, "config", "set", "broker:1", "log.dirs=/x")
    assert (ran.code, ran.out) == (1, b"") and "log.dirs" in ran.err and ran.err.count("\n") == 1
    refused(typed(ruled, "config", "get", "broker:99"), 1, "broker 99 is not among the brokers of the cluster now")
    refused(typed(ruled, "config", "set", "broker:99", "log.cleaner.threads=2"), 1,
            "broker 99 is not among the brokers of the cluster now")  # fmt: skip
    refused(typed(ruled, "config", "get", "topic:nothing"), 1,
            "topic nothing does not exist: rayft topic list shows those that do")  # fmt: skip
    refused(typed(ruled, "config", "get", f"topic:{name}", "retention.mss"), 1,
            f"topic:{name} has no setting retention.mss: rayft config get topic:{name} shows all that it has")  # fmt: skip
    rows = json.loads(typed(ruled, "config", "get", f"topic:{name}", "retention.ms", "-o", "json").out)
    assert [(row["name"], row["read_only"], row["sensitive"]) for row in rows] == [("retention.ms", False, False)]


@pytest.mark.slow
def test_listings_as_arrow(ruled: str, name: str) -> None:
    """Each listing is a stream with the same types, whether it has rows or not."""
    made(ruled, name, 2)
    assert typed(ruled, "quota", "set", "--user", name, "producer_byte_rate=1").code == 0
    until(lambda: name in typed(ruled, "quota", "list").text)

    def table(*words: str) -> pa.Table:
        ran = typed(ruled, *words, "-o", "arrow")
        assert (ran.code, ran.err) == (0, ""), ran
        return pa.ipc.open_stream(ran.out).read_all()

    found = table("topic", "describe", name)
    assert found.column("partition").to_pylist() == [0, 1] and found.schema.field("isr").type == pa.list_(pa.int32())
    assert name in table("topic", "list").column("topic").to_pylist()
    some, none = table("quota", "list"), table("quota", "list", "--user", "nobody")
    assert some.schema == none.schema and (some.num_rows, none.num_rows) == (1, 0)
    assert some.column("entity").to_pylist() == [[{"type": "user", "name": name}]]
    for words in (("acl", "list"), ("user", "list"), ("group", "list"), ("health",)):
        assert table(*words).num_rows == 0, words
    synonyms = table("config", "get", "broker:1", "log.cleaner.threads").column("synonyms").to_pylist()
    assert synonyms == [[{"name": "log.cleaner.threads", "value": "1", "source": "default"}]]
    assert typed(ruled, "quota", "remove", "--user", name).code == 0


def test_a_cluster_without_rules_says_so(cluster: rayft.Cluster) -> None:
    sentence = "this cluster has no access rules: its nodes run without authorizer.class.name"
    refused(typed(cluster.bootstrap_servers, "acl", "list"), 1, sentence)
    words = ("acl", "add", "--principal", "User:a", "--operation", "read", "--topic", "t", "--group", "g")
    ran = typed(cluster.bootstrap_servers, *words)
    assert (ran.code, ran.err) == (1, f"rayft: {sentence}\n")
