"""Whatever bytes others have put into keys, values, headers, names, settings, users and files, and whatever is typed: no
command ends with a traceback, writes JSON that is none, or gives a terminal something to obey.

The commands and their options are read from the parser, so a new one is tried without a line here. Processes are not started
and nothing is dialled: a command that would is refused where it begins to.
"""

import argparse
import contextlib
import errno
import io
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from actors.command import cli
from actors.command.by_address import connection
from actors.host.cluster import plan as plans
from actors.metadata.ops import BrokerSet, ConfigSet, EndPoint, EntitySet, FeatureSet, Op, PartitionsSet, TopicSet
from fastpath.records.batch import Builder
from tests.unit.replay import metadata_logs

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from actors.command.output.tables import EVERY as EVERY_TABLE

pytestmark = pytest.mark.long

NASTY = [
    "",
    "[/path] [red]x[/] :smile:",
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "\u202egnp.exe",
    "\x9b31m\x9d0;owned\x9c",
    "a\r\nb\tc\x00d\x7f",
    "\ud800\udfff",
    "{'no': json} %s {0} \\x1b",
    "\u2028\ufeff\U000e0041",
    "'; drop table topics; --",
    "NaN",
    "x" * 300,
]
TEXT = some.sampled_from(NASTY) | some.text(max_size=20) | some.text("[]\x1b\x07\x9b\u202e\n:/\\'\" ", max_size=12)
BYTES = some.binary(max_size=30) | TEXT.map(lambda one: one.encode(errors="surrogatepass"))
NUMBERS = some.sampled_from([-1, 0, 1, 5, 2**31 - 1, 2**63 - 1, -(2**63), 10**30])
WORDS = some.sampled_from(
    ["topics", "partitions", "configs", "scram", "changes", "records", "log", "offset", "value", "key = 'x'",
     "name contains x", "select * from log", "select * from configs", "2026-11-21T14:02", "14:02", "metadata.format=2",
     "127.0.0.1:1/chroot", "rayft.metrics.listen=x", "NaN", "1e400"]
)  # fmt: skip
TRIES = 15
"""Examples for each command."""


class Command(NamedTuple):
    """A command as it is typed, and its arguments."""

    words: tuple[str, ...]
    actions: tuple[argparse.Action, ...]


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[Command]:
    """Every command that a parser knows, also the kinds of a command."""
    if isinstance(parser, cli.Command):
        parser.complete()
    inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not inner:
        yield Command(words, tuple(one for one in parser._actions if not isinstance(one, argparse._HelpAction)))
    for one in inner:
        for name, child in one.choices.items():
            yield from commands(child, (*words, name))


EVERY = {" ".join(one.words): one for one in commands(cli._parser())}


class Content(NamedTuple):
    """What others have written."""

    texts: list[str]
    blobs: list[bytes]
    times: list[int]
    raw: bytes


CONTENT = some.builds(
    Content,
    some.lists(TEXT, min_size=6, max_size=6),
    some.lists(BYTES, min_size=6, max_size=6),
    some.lists(some.integers(-(2**40), 2**62), min_size=2, max_size=2),
    some.binary(max_size=200),
)


def ops(content: Content) -> list[Op]:
    """Metadata with hostile names: those of topics too, which no controller takes, but a file may hold."""
    one, two, three, four, five, six = (text.encode(errors="replace").decode() for text in content.texts)
    entity = (("user", one), ("client-id", two))
    quota = (("entity", entity), ("key", three), ("value", float("nan")))
    user = (
        ("name", four),
        ("mechanism", 1),
        ("salt", b"s"),
        ("stored_key", b"k"),
        ("server_key", b"k"),
        ("iterations", 4096),
    )
    return [
        FeatureSet("metadata.format", 2),
        BrokerSet(1, 11, bytes(16), (EndPoint(one, two, 9000),), rack=three),
        TopicSet(four, metadata_logs.TOPIC),
        PartitionsSet(metadata_logs.TOPIC, range(2), [[1]] * 2, [[1]] * 2),
        ConfigSet(2, four, five, six),
        ConfigSet(2, one, "retention.ms", two),
        EntitySet("quota", (entity, three), quota),
        EntitySet("scram", (four, 1), user),
    ]


def written(root: Path, content: Content) -> list[str]:
    """A cluster's directory with that in it, and names of things in it."""
    node = root / "cluster" / "node-1"
    metadata = metadata_logs.write(node, metadata_logs.batches(ops(content), 3))
    builder = Builder(0, 1, timestamp_ms=content.times[0])
    for at, blob in enumerate(content.blobs):
        builder.append(blob or None, content.blobs[-at], content.times[at % 2], [(blob, blob)])
    topic = node / "orders-0"
    topic.mkdir(parents=True)
    (topic / f"{0:020}.log").write_bytes(bytes(builder.build()))
    other = root / "raw-0"
    other.mkdir()
    (other / f"{0:020}.log").write_bytes(content.raw)
    (root / "raw.properties").write_bytes(content.raw)
    lines = [f"{name}={text}" for name, text in zip(content.texts[::2], content.texts[1::2], strict=True)]
    (root / "hostile.properties").write_text("\n".join(lines), errors="surrogatepass")
    shown = _named(root, content.texts[0])
    return [str(one) for one in (root / "cluster", node, metadata, topic, topic / f"{0:020}.log", other,
            other / f"{0:020}.log", metadata / f"{0:020}.log", root / "raw.properties", root / "hostile.properties",
            root / "home", shown, root / "new.jsonl", root / "new.parquet")]  # fmt: skip


def _named(root: Path, text: str) -> Path:
    """A topic's directory whose own name is hostile, as far as a file system has such names."""
    name = text.replace("/", "_").replace("\x00", "_")[:60] + "-0"
    folder = root / "named" / name
    try:
        folder.mkdir(parents=True)
    except (OSError, ValueError):  # a half of a surrogate pair
        return root / "named"
    builder = Builder(0, 1, timestamp_ms=5)
    builder.append(b"key", b"value", 5)
    (folder / f"{0:020}.log").write_bytes(bytes(builder.build()))
    return root / "named"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster's plan; nothing of it runs."""
    root = tmp_path_factory.mktemp("plan")
    plans.create(root, 1, 1, common={})
    return root


@some.composite
def typed(draw: Any, command: Command, places: Sequence[str]) -> list[str]:
    """Arguments for a command: most of them mean something, and at least one may be anything."""
    words: list[str] = list(command.words)
    for action in command.actions:
        if not (action.required or draw(some.integers(0, 3)) == 0):
            continue
        flag = action.option_strings[-1:] if action.option_strings else []
        counts = {None: 1, "+": 2, "*": 2, "?": 1}
        takes = action.nargs if isinstance(action.nargs, int) else counts[action.nargs]  # type: ignore[index]
        if isinstance(action, argparse._StoreTrueAction | argparse._StoreFalseAction | argparse._VersionAction):
            takes = 0
        values = []
        for _ in range(takes):
            kinds = [TEXT, WORDS, some.sampled_from(list(places))]
            if action.choices is not None:
                kinds.append(some.sampled_from(sorted(map(str, action.choices))))
            if action.type is int:
                kinds.append(NUMBERS.map(str))
            if action.type is Path:
                kinds = [some.sampled_from(list(places))] * 4 + kinds[:1]
            values.append(draw(some.one_of(kinds[::-1])).replace("\x00", "_"))
        words += [f"{flag[0]}={values[0]}"] if flag and values else [*flag, *values]
    return words


class Tried(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    """Standard output, as a terminal with colours, or as a pipe."""

    def __init__(self, colours: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._colours = colours

    def isatty(self) -> bool:
        return self._colours

    def text(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


def refused(*words: object, **more: object) -> Any:
    raise OSError("nothing is started here")


class NoProcess(subprocess.Popen[bytes]):
    """A process that cannot be started."""

    __init__ = refused


@pytest.fixture(autouse=True)
def _nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", NoProcess)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: errno.ECONNREFUSED)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("", 1))])
    monkeypatch.setattr(connection, "REFUSED_S", 0.0)
    monkeypatch.delenv(connection.VARIABLE, raising=False)
    with contextlib.suppress(ImportError):
        import ray

        monkeypatch.setattr(ray, "init", refused)  # it may find a cluster that somebody else uses


def tried(arguments: list[str], colours: bool) -> Tried:
    """Run a command in this process."""
    out, err = Terminal(colours), Terminal(False)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout, sys.stderr = before
    return Tried(code, out.text(), err.text())


STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""What colours need, and nothing more: where standard output is a terminal."""
PROGRESS = re.compile(r"\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r")
"""What a line of progress needs besides, where a command takes long: it is drawn again in its place."""


WITH_PROGRESS = ("up", "down")


def judged(arguments: list[str], colours: bool, found: Tried) -> None:
    about = f"{arguments}\n{found}"
    assert "Traceback" not in found.out + found.err, about
    assert found.code in (0, 1, 2, 3, 78), about
    out = STYLE.sub("", found.out) if colours else found.out
    if colours and arguments[0] in WITH_PROGRESS:
        out = PROGRESS.sub("", out)
    for line in (out + found.err).split("\n"):
        assert line.isprintable(), f"{line!r} of {about}"
    if "--json" in arguments and found.code == 0:
        whole = [found.out] if arguments[0] == "status" else found.out.splitlines()
        for text in whole:
            json.loads(text, parse_constant=pytest.fail)
    if found.code == 1:
        assert arguments[0] == "status" or found.err.strip() or found.out.strip(), about


@pytest.mark.parametrize("name", EVERY)
def test_no_command_obeys_or_breaks_over_what_others_wrote(name: str, home: Path) -> None:
    command = EVERY[name]

    @settings(max_examples=TRIES, suppress_health_check=list(HealthCheck), phases=(Phase.generate,), derandomize=True)
    @given(some.data(), CONTENT, some.booleans())
    def anything(data: Any, content: Content, colours: bool) -> None:
        with tempfile.TemporaryDirectory(prefix="hostile-") as room, contextlib.chdir(room):
            root = Path(room)
            shutil.copytree(home, root / "home")
            arguments = data.draw(typed(command, written(root, content)))
            judged(arguments, colours, tried(arguments, colours))

    anything()


@pytest.mark.parametrize("how", [["--json"], ["--limit", "0"], ["--json", "--limit", "2"]], ids=" ".join)
def test_each_table_shows_what_others_wrote_and_no_terminal_obeys_it(how: list[str], tmp_path: Path) -> None:
    """Each table with each of the hostile words in each place."""
    seen = set[str]()
    for at in range(len(NASTY)):
        texts = [NASTY[(at + place) % len(NASTY)] for place in range(6)]
        blobs = [text.encode(errors="surrogatepass") for text in texts]
        places = written(tmp_path / str(at), Content(texts, blobs, [5, 2**62], b"\x1b[2J" * 20))
        for table in EVERY_TABLE:
            arguments = ["replay", places[0], "--table", table, *how]
            found = tried(arguments, colours=bool(at % 2))
            judged(arguments, bool(at % 2), found)
            assert found.code == 0, found
            seen |= {table} if "owned" in found.out else set()
        for place in places[:9]:
            judged(["dump", place], False, tried(["dump", place], False))
            judged(["replay", place], False, tried(["replay", place], False))
    assert "2" in how or {"log", "configs", "quotas", "scram", "records", "brokers", "topics", "partitions"} <= seen
