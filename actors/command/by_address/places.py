"""Where in a topic, as somebody types it behind a command: `beginning`, `end`, an offset, `-N`, a time, or so long ago."""

import time

from actors.client.operations.group_offsets.places import PlaceInPartitions, place
from actors.command.by_address.connection import wrong


def where(text: str) -> PlaceInPartitions:
    """The place that the words mean. Ends the command if they mean nothing."""
    try:
        return place(text, int(time.time() * 1000))
    except ValueError as error:
        wrong(str(error))
