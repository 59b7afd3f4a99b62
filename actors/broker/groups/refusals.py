"""The refusal of a request of a member or of an administrator, as an exception that says why."""

from actors.wire.errors import ErrorCode


class RequestRefused(Exception):
    """A request is refused: error code, and a sentence for the user where the code does not say enough."""

    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def invalid(text: str) -> RequestRefused:
    """The refusal of a request that makes no sense, whatever the group looks like."""
    return RequestRefused(ErrorCode.INVALID_REQUEST, text)


def unknown_member(group_id: str, member_id: str) -> RequestRefused:
    """The refusal of a request for a member that the group does not have."""
    return RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
