"""The table of a node whose metadata is in the drafts' records, by (listener, API key)."""

from actors.node.api import handlers, table
from actors.node.runtime.calls import Api, Listener

handlers.load()
SERVED = table.TABLE["drafts"]
TABLE: dict[tuple[Listener, int], Api] = {
    (listener, key): api for listener, rows in SERVED.items() for key, api in rows.items()
}
PUSHED: dict[tuple[Listener, int], Api] = {
    (listener, key): api for listener, rows in table.PUSHED.items() for key, api in rows.items()
}
"""What is served besides where controllers push metadata."""
EVERY = TABLE | PUSHED
