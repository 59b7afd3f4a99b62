"""What a client tells its user when something has failed, and what each error code of a server means for it.

This file alone decides which codes are tried again (`ACTIONS`), and after what. A code that is not in the table is final.
"""

import enum

from actors.wire.errors import ErrorCode, text


class ClientError(Exception):
    """A request or an operation has failed for good. The text is one sentence and holds no secret."""

    def __init__(self, sentence: str, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code
        """The server's error code; 0: the error did not come from a server."""


class NotInTime(ClientError):
    """The time for an operation is over; it may have been done or not."""


class Interrupted(ClientError):
    """Ctrl-C came while the operation went on; what it had sent may have been done or not."""


class NotLoggedIn(ClientError):
    """The server does not accept the credentials. The same ones are not tried again for the same request."""


class NoKafka(ClientError):
    """The server at the address does not speak Kafka's protocol as this client is set up."""


class Unspoken(ClientError):
    """Client and server have no version of a request in common."""


class RecordRefused(ClientError):
    """A server does not take a batch because of one of its records."""

    def __init__(self, sentence: str, code: int, record: int) -> None:
        super().__init__(sentence, code)
        self.record = record
        """The number of the record in the batch, from 0."""


class Action(enum.Enum):
    """The reaction to an error code."""

    NOTHING = "it is no error"
    AGAIN = "ask the same node again"
    METADATA = "ask again after new metadata"
    COORDINATOR = "ask again after the coordinator was looked up anew"
    FINAL = "asking again does not help"


ACTIONS: dict[int, Action] = {
    ErrorCode.NONE: Action.NOTHING,
    **dict.fromkeys(
        (
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.OFFSET_NOT_AVAILABLE,
            ErrorCode.UNSTABLE_OFFSET_COMMIT,
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ),
        Action.AGAIN,
    ),
    **dict.fromkeys(
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.LISTENER_NOT_FOUND,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INCONSISTENT_TOPIC_ID,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ),
        Action.METADATA,
    ),
    **dict.fromkeys((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR), Action.COORDINATOR),
}


NAMES = {int(one): one.name for one in ErrorCode}


def action(code: int) -> Action:
    """The reaction to one code of a server."""
    return ACTIONS.get(code, Action.FINAL)


def refused(what: str, code: int, message: str | None = None) -> ClientError:
    """The error for what a server has refused: `what` is `topic orders` or the like. The server's own words count
    before ours."""
    name = NAMES.get(code, f"error {code}")
    return ClientError(f"{what}: {(message or text(code)).rstrip('.')} ({name})", code)
