"""Users that log in by SCRAM: who has a password, setting and deleting it. KIP-554.

A server gets a salted password, never the password. Setting the same one twice changes nothing, so it is asked again when
an answer was lost. Deleting is not: the second request would be told that there is nothing to delete.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.authentication.scram import Mechanism
from actors.client.asks import AnyNode, Ask, Controller, Steps
from actors.client.errors import ClientError, refused
from actors.client.operations.each import decided, each
from actors.wire.messages import message


class SaltedPassword(NamedTuple):
    """A password as a server gets it."""

    mechanism: Mechanism
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"SaltedPassword({self.mechanism.sasl_name}, {self.iterations})"


Known = dict[int, int]
"""The mechanisms for which a user has a password, by Kafka's number, with the iterations of each."""


def mechanism_name(number: int) -> str:
    """The name of a mechanism; one that only later releases know as a number."""
    return Mechanism(number).sasl_name if number in set(Mechanism) else str(number)


def describe(users: Iterable[str] | None = None) -> Steps[dict[str, Known | ClientError]]:
    """The users with a password, or those of them that are asked for; a user who has none gets a ClientError. Raises
    ClientError."""
    kind = message("DescribeUserScramCredentialsRequest")
    request = kind(users=None if users is None else [kind.UserName(name=one) for one in dict.fromkeys(users)])
    told = yield from decided(
        Ask(AnyNode(), "DescribeUserScramCredentials", lambda version: request), lambda one: one.error_code
    )
    if told.error_code:
        raise refused("users", told.error_code, told.error_message)
    return {one.user: _known(one) for one in told.results}


def _known(told: Any) -> Known | ClientError:
    if told.error_code:
        return refused(f"user {told.user}", told.error_code, told.error_message)
    return {one.mechanism: one.iterations for one in told.credential_infos}


def upsert(user: str, password: SaltedPassword) -> Steps[dict[str, ClientError | None]]:
    """Set a user's password for a mechanism. Returns the user's error or None."""
    kind = message("AlterUserScramCredentialsRequest")
    one = kind.ScramCredentialUpsertion(
        name=user,
        mechanism=int(password.mechanism),
        iterations=password.iterations,
        salt=password.salt,
        salted_password=password.salted_password,
    )
    request = kind(deletions=[], upsertions=[one])
    return (yield from _alter([user], lambda users: request, again=True))


def delete(mechanism: int, users: Iterable[str]) -> Steps[dict[str, ClientError | None]]:
    """Delete the passwords of users for one mechanism: Apache Kafka takes each user once in a request. Returns each user's
    error or None."""
    kind = message("AlterUserScramCredentialsRequest")

    def build(some: list[str]) -> Any:
        return kind(
            deletions=[kind.ScramCredentialDeletion(name=user, mechanism=int(mechanism)) for user in some],
            upsertions=[],
        )

    return (yield from _alter(dict.fromkeys(users), build, again=False))


def _alter(users: Iterable[str], build: Any, again: bool) -> Steps[dict[str, ClientError | None]]:
    def ask(some: list[str]) -> Ask:
        request = build(some)
        return Ask(Controller(), "AlterUserScramCredentials", lambda version: request, again=again)

    def outcomes(reply: Any) -> Any:
        return ((one.user, one.error_code, one.error_message) for one in reply.message.results)

    return (yield from each("user", users, ask, outcomes))
