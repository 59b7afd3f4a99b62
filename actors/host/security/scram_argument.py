"""`--add-scram 'SCRAM-SHA-256=[name=alice,password=alice-secret]'` of `rayft format`: a credential of a user (KIP-900).

This file alone decides how such an argument is read. Its words are Apache Kafka's: name, password, salt (Base64),
iterations (4096), and saltedpassword (Base64) with the salt it was made with, in place of password. A value that
contains a comma stands in double quotes. What is stored are keys, which are not enough to log in. No error repeats a
password.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Sequence

from actors.authentication.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BITS,
    Mechanism,
    credential,
    salt_of,
    salted,
)
from actors.metadata.ops import EntitySet
from actors.settings.keys import ConfigError

OPTION = "--add-scram"
FORM = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
WORDS = ("name", "password", "salt", "iterations", "saltedpassword")
BYTES_MAX = 1024
_ARGUMENT = re.compile(r"\s*(?P<mechanism>[^=\s]+)\s*=\s*\[(?P<parts>.*)\]\s*", re.DOTALL)
_PART = re.compile(r'\s*(?P<word>[^=,"\s]+)\s*=(?P<value>"[^"]*"|[^,"]*)(?:,|$)')


def credentials(arguments: Sequence[str]) -> list[EntitySet]:
    """The credentials of some arguments, in their order. Raises ConfigError."""
    found: dict[tuple[object, ...], EntitySet] = {}
    for argument in arguments:
        one = _credential(argument)
        if one.key in found:
            raise ConfigError(f"{OPTION} names {one.key[0]} twice with the same mechanism: keep one of them.")
        found[one.key] = one
    return list(found.values())


def credential_of(name: str, mechanism: Mechanism, password: str, iterations: int = ITERATIONS_MIN) -> EntitySet:
    """A user's credential for a password, with a salt of its own."""
    salt = _new_salt()
    return _stored(name, mechanism, salt, salted(mechanism, password, salt, iterations), iterations)


def _credential(argument: str) -> EntitySet:
    match = _ARGUMENT.fullmatch(argument)
    if match is None:
        raise ConfigError(f"{OPTION} has an argument that cannot be read: write {OPTION} '{FORM}'.")
    mechanism = next((one for one in Mechanism if one.sasl_name == match["mechanism"]), None)
    if mechanism is None:
        raise ConfigError(
            f"{OPTION} has the mechanism {match['mechanism']}: write {' or '.join(one.sasl_name for one in Mechanism)}."
        )
    given = _parts(match["parts"])
    name = given.get("name", "")
    if not name or len(name) > BYTES_MAX:
        raise ConfigError(f"{OPTION} has no name, or one that is too long: write {OPTION} '{FORM}'.")
    try:
        iterations = int(given.get("iterations", str(ITERATIONS_MIN)))
    except ValueError:
        iterations = 0
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ConfigError(
            f"{OPTION} of {name} has iterations={given['iterations']}: write a number from {ITERATIONS_MIN} to "
            f"{ITERATIONS_MAX}."
        )
    salt = _bytes(name, "salt", given["salt"]) if "salt" in given else _new_salt()
    if given.get("password"):
        made = salted(mechanism, given["password"], salt, iterations)
    elif "saltedpassword" not in given:
        raise ConfigError(f"{OPTION} of {name} has no password: write password=... or saltedpassword=... with salt=...")
    elif "salt" not in given:
        raise ConfigError(f"{OPTION} of {name} has a saltedpassword and not the salt it was made with: add salt=...")
    else:
        made = _bytes(name, "saltedpassword", given["saltedpassword"])
    return _stored(name, mechanism, salt, made, iterations)


def _parts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        word = match["word"] if match is not None else ""
        if match is None or word not in WORDS or word in found:
            raise ConfigError(
                f"{OPTION} has something else than {', '.join(WORDS)}, each once, with commas between them: write {OPTION} "
                f"'{FORM}', and a value that contains a comma in double quotes."
            )
        found[word] = match["value"].strip('"') if match["value"].startswith('"') else match["value"]
        position = match.end()
    return found


def _bytes(name: str, word: str, text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not 0 < len(found) <= BYTES_MAX:
        raise ConfigError(f"{OPTION} of {name} has a {word} that is not Base64 of 1 to {BYTES_MAX} bytes: write it so.")
    return found


def _stored(name: str, mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int) -> EntitySet:
    kept = credential(mechanism, salt, salted_password, iterations)
    return EntitySet(
        "scram",
        (name, int(mechanism)),
        (
            ("name", name),
            ("mechanism", int(mechanism)),
            ("salt", kept.salt),
            ("stored_key", kept.stored_key),
            ("server_key", kept.server_key),
            ("iterations", kept.iterations),
        ),
    )


def _new_salt() -> bytes:
    """A salt as long and of the same letters as those of Kafka's tools, so that a user does not show which tool made
    it."""
    return salt_of(secrets.randbits(SALT_BITS))
