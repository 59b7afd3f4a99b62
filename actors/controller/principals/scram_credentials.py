"""AlterUserScramCredentials (51): SCRAM credentials of users in the metadata log (KIP-554).

This file alone decides which credentials may be stored. The request brings the salted password; what is stored are the
keys that come from it, which are not enough to log in. Rules:

1. A user is named once in a request, whatever the mechanism, and has one result. Of one who is named again nothing is
   changed, as Apache Kafka's controller has it: two mechanisms take two requests.
2. The first entry of a user decides: if it is wrong, that is the result, else that the user is named again.
"""

from typing import TYPE_CHECKING, Any

from actors.authentication.scram import ITERATIONS_MAX, ITERATIONS_MIN, Mechanism, credential
from actors.controller.state import Result, State
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterUserScramCredentialsRequest

KIND = "scram"
MECHANISMS = frozenset(Mechanism)
NAME_CHARACTERS_MAX = 1024
CREDENTIALS_MAX = 100_000
"""The most SCRAM credentials of a cluster. A credential takes about half a kilobyte of memory on each node."""
TWICE = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"


def alter_scram_credentials(
    state: State, request: "AlterUserScramCredentialsRequest", now: Now, random: Random
) -> Result:
    """Carry out an AlterUserScramCredentialsRequest. Errors, of each user: 33 UNSUPPORTED_SASL_MECHANISM, 91
    RESOURCE_NOT_FOUND, 92 DUPLICATE_RESOURCE, 93 UNACCEPTABLE_CREDENTIAL, 44 POLICY_VIOLATION beyond CREDENTIALS_MAX.
    """
    kind = message("AlterUserScramCredentialsResponse")
    entries: list[
        AlterUserScramCredentialsRequest.ScramCredentialDeletion
        | AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    ]
    entries = [*request.deletions, *request.upsertions]
    errors: dict[str, tuple[ErrorCode, str] | None] = {}
    for entry in entries:
        if entry.name in errors:
            errors[entry.name] = errors[entry.name] or TWICE
            continue
        wrong = _named_wrongly(entry)
        if wrong is None and isinstance(entry, request.ScramCredentialDeletion):
            if state.image.entity(KIND, (entry.name, entry.mechanism)) is None:
                wrong = ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        elif wrong is None:
            wrong = _unacceptable(entry)
        errors[entry.name] = wrong
    ops: list[EntitySet | EntityGone] = []
    room = CREDENTIALS_MAX - state.image.count(KIND)
    for entry in request.upsertions:
        known = state.image.entity(KIND, (entry.name, entry.mechanism)) is not None
        if errors[entry.name] is None and not known:
            room -= 1
            if room < 0:
                errors[entry.name] = (
                    ErrorCode.POLICY_VIOLATION,
                    f"there are {CREDENTIALS_MAX} SCRAM credentials already: delete some",
                )
    for entry in entries:
        if errors[entry.name] is None:
            key = (entry.name, entry.mechanism)
            if isinstance(entry, request.ScramCredentialDeletion):
                ops.append(EntityGone(KIND, key))
            else:
                ops.append(_stored(key, entry))
    return Result(
        ops,
        kind(
            results=[
                kind.AlterUserScramCredentialsResult(
                    user=user,
                    error_code=int(error[0] if error else ErrorCode.NONE),
                    error_message=error[1] if error else None,
                )
                for user, error in errors.items()
            ]
        ),
    )


def _named_wrongly(entry: Any) -> tuple[ErrorCode, str] | None:
    if not entry.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if len(entry.name) > NAME_CHARACTERS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a user name has at most {NAME_CHARACTERS_MAX} characters"
    if entry.mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _unacceptable(entry: Any) -> tuple[ErrorCode, str] | None:
    if entry.iterations < ITERATIONS_MIN:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if entry.iterations > ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not 0 < len(entry.salt) <= 1024 or not 0 < len(entry.salted_password) <= 1024:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "salt and salted password have 1 to 1024 bytes"
    return None


def _stored(key: tuple[str, int], entry: Any) -> EntitySet:
    kept = credential(Mechanism(entry.mechanism), bytes(entry.salt), bytes(entry.salted_password), entry.iterations)
    return EntitySet(
        KIND,
        key,
        (
            ("name", entry.name),
            ("mechanism", entry.mechanism),
            ("salt", kept.salt),
            ("stored_key", kept.stored_key),
            ("server_key", kept.server_key),
            ("iterations", kept.iterations),
        ),
    )
