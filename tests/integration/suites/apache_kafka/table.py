"""The two tables of docs/clients.md about Apache Kafka's own tests: a row a class with figures, and the listed tests.

The figures are in `figures.json` beside this file. `make test-slow` leaves new ones in .tools/apache-kafka.json, which
`pytest --rewrite` takes over.
"""

import json
from collections.abc import Sequence

from tests.integration.suites.apache_kafka.runner import HERE, ROOT, WHOLE, Outcome, Result, listed

PAGE = ROOT / "docs" / "clients.md"
FIGURES = HERE / "figures.json"
LAST_RUN = ROOT / ".tools" / "apache-kafka.json"
BEGIN = "<!-- Apache Kafka's tests: written by pytest tests/integration/suites/apache_kafka --rewrite -->\n"
END = "<!-- end of Apache Kafka's tests -->\n"
KINDS = ("tests", "passed", "not applicable", "listed")


def note(name: str, results: dict[str, Result], listed_failures: set[str]) -> None:
    """Keep the figures of one class for the table."""
    LAST_RUN.parent.mkdir(exist_ok=True)
    figures = json.loads(LAST_RUN.read_text()) if LAST_RUN.exists() else {}
    outcomes = [result.outcome for result in results.values()]
    counts = (
        len(results),
        outcomes.count(Outcome.PASSED),
        outcomes.count(Outcome.NOT_APPLICABLE),
        len(listed_failures),
    )
    figures[name] = dict(zip(KINDS, counts, strict=True))
    LAST_RUN.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def adopt() -> None:
    """Take the figures of the last run, of as many classes as it had."""
    known = json.loads(FIGURES.read_text())
    known |= json.loads(LAST_RUN.read_text()) if LAST_RUN.exists() else {}
    known = {name: row for name, row in known.items() if WHOLE not in listed().get(name, ())}
    FIGURES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def rewritten(page: str) -> str:
    """The page with both tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + _figures() + "\n" + _listed() + "\n" + END + after


def _figures() -> str:
    figures = json.loads(FIGURES.read_text())
    rows = [[short(name), *(row[kind] for kind in KINDS)] for name, row in figures.items()]
    total = ["all", *(sum(row[kind] for row in figures.values()) for kind in KINDS)]
    return _table(["class", "tests", "pass", "not applicable", "listed"], [*sorted(rows), total])


def _listed() -> str:
    rows = []
    for name, tests in sorted(listed().items()):
        for why in dict.fromkeys(tests.values()):
            names = ", ".join("all" if test == WHOLE else f"`{test}`" for test, one in tests.items() if one == why)
            rows.append([f"`{short(name)}`", names, why])
    return _table(["class", "tests", "reason"], rows)


def short(name: str) -> str:
    """A class without its packages."""
    return name.rpartition(".")[2]


def _table(head: list[str], rows: Sequence[Sequence[object]]) -> str:
    lines: list[Sequence[object]] = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
