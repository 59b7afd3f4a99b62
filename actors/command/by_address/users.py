"""`rayft user`, once it runs.

This file alone decides where a password comes from: a file, a question at a terminal, or the first line of standard input.
It is never an argument, which every user of a machine may see, and is never printed. What is sent is salted here, so no
server gets it.
"""

import argparse
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from actors.authentication.scram import ITERATIONS_MAX, ITERATIONS_MIN, Mechanism, salted
from actors.client.errors import ClientError
from actors.client.operations import scram
from actors.client.operations.scram import SaltedPassword, mechanism_name
from actors.command.by_address.connection import connected, wrong
from actors.command.output import listing
from actors.command.output.listing import INT, TEXT, Listing
from actors.host.client.blocking import Kafka
from actors.wire.errors import ErrorCode

USERS = Listing({"user": TEXT, "mechanism": TEXT, "iterations": INT})
SALT_BYTES = 16
PASSWORD_BYTES_MAX = 1024


def _list(options: argparse.Namespace) -> int:
    if options.as_of is not None:
        return _list_then(options)
    with connected(options) as kafka:
        found = kafka.run(scram.describe(options.users or None))
    rows, failed = [], []
    for user, known in sorted(found.items()):
        if isinstance(known, ClientError):
            failed.append(_absent(user, known))
            continue
        rows += [
            {"user": user, "mechanism": mechanism_name(one), "iterations": count}
            for one, count in sorted(known.items())
        ]
    listing.show(rows, USERS, options.output)
    return _tell(failed)


def _list_then(options: argparse.Namespace) -> int:
    from actors.command.by_address.metadata_log import moment

    found = [row for row in moment.users(options) if not options.users or row["user"] in options.users]
    listing.show(sorted(found, key=lambda row: (row["user"], row["mechanism"])), USERS, options.output)
    there = {row["user"] for row in found}
    return _tell([f"user {one} had no password then" for one in dict.fromkeys(options.users) if one not in there])


def _tell(sentences: list[str]) -> int:
    for one in sentences:
        print(f"rayft: {one}", file=sys.stderr)
    return 1 if sentences else 0


def _absent(user: str, error: ClientError) -> str:
    if error.code == ErrorCode.RESOURCE_NOT_FOUND:
        return f"user {user} has no password: rayft user set {user} gives one"
    return str(error)


def _set(options: argparse.Namespace) -> int:
    if not ITERATIONS_MIN <= options.iterations <= ITERATIONS_MAX:
        wrong(f"--iterations {options.iterations} is not possible: write {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    if not options.user:
        wrong("a user has a name: write rayft user set NAME")
    password = _password(options)
    mechanism = Mechanism[options.mechanism.replace("-", "_")]
    salt = os.urandom(SALT_BYTES)
    sent = SaltedPassword(mechanism, options.iterations, salt, salted(mechanism, password, salt, options.iterations))
    with connected(options) as kafka:
        outcomes = kafka.run(scram.upsert(options.user, sent))
    return _done("set", mechanism.sasl_name, outcomes)


def _done(verb: str, what: str, outcomes: dict[str, ClientError | None]) -> int:
    for user, error in outcomes.items():
        if error is None:
            print(f"{verb} the {what} password of user {user}")
    return _tell([_absent(user, error) for user, error in outcomes.items() if error is not None])


def _password(options: argparse.Namespace) -> str:
    """The password, from where it is. Ends the command if there is none. Raises OSError, ValueError."""
    if options.password_file is not None:
        return _read(options.password_file)
    if sys.stdin is None:
        wrong(f"there is no standard input: write rayft user set {options.user} --password-file FILE")
    if sys.stdin.isatty():
        return _asked(options.user)
    return _first_line(sys.stdin.buffer, "standard input")


def _read(path: Path) -> str:
    with path.open("rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            print(f"rayft: {path} holds a password and others may read it: chmod 600 {path}", file=sys.stderr)
        return _first_line(file, str(path))


def _first_line(file: BinaryIO, where: str) -> str:
    line = file.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\n").removesuffix(b"\r")
    if not line:
        wrong(f"{where} has no password: its first line is empty")
    if len(line) > PASSWORD_BYTES_MAX:
        wrong(f"the first line of {where} has more than {PASSWORD_BYTES_MAX} bytes: a password is shorter")
    try:
        return line.decode()
    except UnicodeDecodeError:
        wrong(f"the first line of {where} is no UTF-8 text")


def _asked(user: str) -> str:
    from getpass import getpass

    try:
        password, again = getpass(f"password of user {user}: "), getpass("once more: ")
    except EOFError:
        wrong("no password was typed")
    if not password:
        wrong("no password was typed")
    if password != again:
        wrong("the two passwords differ: nothing was changed")
    return password


def _delete(options: argparse.Namespace) -> int:
    users = list(dict.fromkeys(options.users))
    with connected(options) as kafka:
        if options.mechanism is not None:
            return _deleted(kafka, Mechanism[options.mechanism.replace("-", "_")], users)
        found = kafka.run(scram.describe(users))
        absent = [_absent(user, one) for user, one in found.items() if isinstance(one, ClientError)]
        known = {user: one for user, one in found.items() if not isinstance(one, ClientError)}
        numbers = sorted({number for one in known.values() for number in one})
        codes = [_deleted(kafka, number, [user for user in known if number in known[user]]) for number in numbers]
    return max([_tell(absent), *codes])


def _deleted(kafka: Kafka, mechanism: int, users: list[str]) -> int:
    return _done("deleted", mechanism_name(mechanism), kafka.run(scram.delete(mechanism, users)))


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {"list": _list, "set": _set, "delete": _delete}
