"""docs/operations.md says what the source says: every setting with its type, default and meaning, every command's words."""

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from actors.command import cli
from actors.node.roles.broker.log import log_dir_moves
from actors.node.roles.broker.quotas import replication_throttles
from actors.settings import groups
from actors.settings.keys import ConfigKey
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.topics import TOPIC_CONFIGS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "operations.md"
BEGIN = "<!-- settings: written by pytest tests/unit/test_operations.py --rewrite -->\n"
END = "<!-- end -->\n"


def table(keys: list[ConfigKey]) -> Iterator[str]:
    yield "| name | type | default | what it does | changes |\n|---|---|---|---|---|\n"
    for key in keys:
        default = key.text(key.default)
        wants = f" Legal: {key.validator.wants}." if key.validator else ""
        shown = "none" if default is None else f"`{default}`" if default else "empty"
        row = f"| `{key.name}` | {key.type.name.lower()} | {shown} | {key.doc}{wants} | {key.dynamic or 'at start'} |\n"
        yield row.replace("`1.7976931348623157e+308`", "no limit")


def settings() -> str:
    node = [key for key in BROKER_CONFIGS.values() if key.effect]
    idle = [key for key in BROKER_CONFIGS.values() if not key.effect]
    topics = [key for key in TOPIC_CONFIGS.values() if key.effect]
    unfulfilled = [key for key in TOPIC_CONFIGS.values() if not key.effect and ": " in key.doc]
    names = ", ".join(f"`{key.name}`" for key in idle)
    return (
        "\n"
        + "".join(table(node))
        + f"\nRead and without effect, so that files for Apache Kafka can be used as they are: {names}. The start says so\n"
        + "in the log.\n\n## Settings of a topic\n\nSet when a topic is made, or later with `kafka-configs.sh`. Unset, "
        + "the node's own setting counts.\n\n"
        + "".join(table(topics))
        + "\nAccepted and without effect; the active controller says so in its log, at WARN, when one is given another "
        + "value than its\ndefault:\n\n| name | why it does nothing |\n|---|---|\n"
        + "".join(f"| `{key.name}` | {key.doc.partition(': ')[2]} |\n" for key in unfulfilled)
        + "\n"
    )


def test_the_tables_of_settings_are_current(rewrite: bool) -> None:
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    wanted = before + BEGIN + settings() + END + after
    if rewrite:
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted, "run: pytest tests/unit/test_operations.py --rewrite"


def test_every_command_and_option_that_is_named_exists() -> None:
    words = commands(cli._parser())
    lines = re.findall(r"^rayft ([a-z-]+)(.*)$", PAGE.read_text().split("## Settings of a node")[0], re.MULTILINE)
    assert {name for name, _ in lines} >= {"up", "status", "down", "node", "format"}
    for name, rest in lines:
        for option in re.findall(r"--[a-z-]+", rest.split("#")[0]):
            assert option in words[name], f"rayft {name} {option}"


def commands(parser: argparse.ArgumentParser) -> dict[str, set[str]]:
    """Command -> its options, with those of its verbs."""
    found = {}
    for name, sub in verbs(parser).items():
        sub.complete()
        found[name] = {option for action in sub._actions for option in action.option_strings}
        found[name] |= {option for those in commands(sub).values() for option in those}
    return found


def verbs(parser: argparse.ArgumentParser) -> dict[str, cli.Command]:
    return {
        name: sub
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, sub in action.choices.items()
    }


def symptoms() -> list[tuple[str, str]]:
    """(symptom, what to do) of each row of the table."""
    section = PAGE.read_text().split("\n## From a symptom to a command\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert all(len(row) == 3 for row in rows) and rows[0] == ["symptom", "cause", "what to do"]
    return [(row[0], row[2]) for row in rows[1:]]


def sentences() -> str:
    """Every text of the source, a line each; what is put into one stands as a space."""
    found = []
    for path in (ROOT / "actors").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(part.value if isinstance(part, ast.Constant) else " " for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_every_symptom_is_said_by_the_source() -> None:
    """Of a symptom in `code`, the words between names and numbers, which stand in capitals."""
    said, seen = sentences(), 0
    for symptom, _ in symptoms():
        for text in re.findall(r"`(?!rayft )([^`]+)`", symptom):
            for words in re.split(r"\b[A-Z]+\b|\b\d+\b", text):
                if len(words.strip()) >= 12:
                    seen += 1
                    assert words.strip(" /") in said, f"nothing says: {words.strip()}"
    assert seen >= 20


def test_the_commands_of_the_table_are_legal() -> None:
    parser, seen = cli._parser(), 0
    for _, action in symptoms():
        for line in re.findall(r"`rayft (\w+ [^`]+)`", action):
            parser.parse_args(shlex.split(line))  # ends the test where it is none
            seen += 1
    assert len(symptoms()) >= 20 and seen >= 20


def test_exit_codes_are_those_of_the_source() -> None:
    from actors.broker.lifecycle.lifecycle import EXIT_CONFLICT
    from actors.host.serve import ID_TAKEN, REFUSED

    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted({int(code) for code, _ in rows}) == [0, 1, 2, REFUSED, EXIT_CONFLICT]
    assert ID_TAKEN == EXIT_CONFLICT


def test_a_setting_that_changes_at_run_time_is_read_at_run_time() -> None:
    """A topic's settings are put together anew whenever one of these has changed; the cleaner asks before each slice,
    the throttles whenever a broker's settings change, and the settings of groups are looked up for each request."""
    topics = {synonym for key in TOPIC_CONFIGS.values() for synonym in key.synonyms}
    source = (ROOT / "actors/node/roles/broker/log/log_cleaner.py").read_text()
    cleaner = set(re.findall(r'value\("(log\.cleaner\.[a-z.]+)"\)', source))
    assert len(cleaner) == 7
    sources = [*(ROOT / "actors/node/roles/broker").rglob("*.py"), ROOT / "actors/host/loop.py"]
    moved = {log_dir_moves.LIMIT, replication_throttles.LEADER, replication_throttles.FOLLOWER}
    others = {name for path in sources for name in re.findall(r'\bvalue\("([a-z.]+)"\)', path.read_text())}
    assert {
        name for name, key in BROKER_CONFIGS.items() if key.dynamic and key.effect
    } <= topics | cleaner | moved | others | set(groups.DYNAMIC)


def test_a_setting_with_an_effect_is_read_somewhere() -> None:
    """What nobody reads does nothing, and its row has to say so."""
    settings = ROOT / "actors" / "settings"
    rows = {*(settings / "tables").glob("*.py"), settings / "nodes.py", settings / "topics.py"}
    source = "\n".join(path.read_text() for path in (ROOT / "actors").rglob("*.py") if path not in rows)
    topics = {synonym: key for key in TOPIC_CONFIGS.values() for synonym in key.synonyms}
    composed = (".degraded", ".buffer.bytes")
    unread = [
        name
        for name, key in BROKER_CONFIGS.items()
        if key.effect
        and f'"{name}"' not in source
        and not (name in topics and f".{topics[name].name.replace('.', '_')}" in source)
        and not name.endswith(composed)
    ]
    assert unread == ["log.cleanup.policy"]  # read as `.compact` and `.delete`


def test_r291_42_the_two_rounds_are_written_down() -> None:
    text = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    recipe = text.partition("## A control plane of its own, in two rounds")[2].partition("\n## ")[0]
    assert recipe.index("Round 1") < recipe.index("Round 2")
    assert "control.plane.listener.name" in recipe and "listener.security.protocol.map" in recipe


def test_every_owner_of_memory_is_in_the_page() -> None:
    """Whoever keeps something for peers stands in the table with its bound, and nobody else."""
    section = PAGE.read_text().split("\n## Memory for requests and answers\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert all(len(row) == 4 and row[2] for row in rows)
    assert {row[0].strip("`") for row in rows[1:]} == owners()


OWNERS = re.compile(r"\.(owner|own|account)\(")


def owners() -> set[str]:
    """The names that the source gives to the ledger's owners."""
    found = set()
    for path in (ROOT / "actors").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if OWNERS.search(text) else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("owner", "own", "account")
                and ast.unparse(node.func.value).rpartition(".")[2] in ("ledger", "loop", "Ledger()")
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                found.add(node.args[0].value)
    assert len(found) > 15
    return found
