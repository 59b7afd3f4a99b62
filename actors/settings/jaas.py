"""JAAS lines as Kafka's settings contain them: a login module, a word, options, a semicolon.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="x" user_alice="y";

This file alone decides how such a line is read. The module's class name says nothing more than the mechanism does, which the
name of the setting has already said. KIP-85.
"""

import re

_TOKEN = re.compile(
    r"""\s*(?:(?P<semicolon>;)|(?P<name>[A-Za-z0-9_.$-]+)(?:\s*=\s*(?P<value>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+))?)"""
)


class BadJaas(ValueError):
    """A JAAS line that cannot be read. The message says why, and repeats no value: they are secrets."""


def options(line: str) -> dict[str, str]:
    """The options of a JAAS line. Raises BadJaas."""
    position, tokens = 0, []
    while line[position:].strip():
        match = _TOKEN.match(line, position)
        if match is None:
            raise BadJaas(f"it cannot be read at character {position}")
        tokens.append(match)
        position = match.end()
    if len(tokens) < 3 or tokens[-1]["semicolon"] is None or any(token["semicolon"] for token in tokens[:-1]):
        raise BadJaas(
            'write one login module, the word required, its options as name="value", and one semicolon at the end'
        )
    if tokens[0]["value"] is not None or tokens[1]["value"] is not None:
        raise BadJaas("it does not begin with a login module and the word required")
    found: dict[str, str] = {}
    for token in tokens[2:-1]:
        if token["value"] is None:
            raise BadJaas(f"the option {token['name']} has no value")
        value = token["value"]
        found[token["name"]] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
    return found
