"""The answers about changes: what is done where --allow-changes was given, and what is lost by that.

This file alone decides how many are under way at once, and that a refusal of the cluster is 409 (of what does not exist
404): the request was understood, and not carried out. Without the option none of these addresses exists, and the guard lets
no POST to them through.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from actors.client.errors import ClientError, NotInTime
from actors.page.changes import groups as groups_changes
from actors.page.changes.given import Given
from actors.page.changes.table import CHANGES, FAULTS
from actors.page.changes.topics import lost
from actors.page.routes.asking import GONE, answer, place, told
from actors.page.routes.records import live

AT_ONCE = 4
turns = asyncio.Semaphore(AT_ONCE)


async def change(request: Request) -> Response:
    """Carry out one change: {"said": sentence}."""
    name = f"{request.path_params['of']}/{request.path_params['what']}"
    nodes = place(request).watched.nodes
    if name not in CHANGES and (name not in FAULTS or nodes is None):
        raise KeyError(f"There is no change called {name} here.")
    given = Given(await request.body())
    async with turns:
        if name in FAULTS:
            assert nodes is not None
            return told({"said": await nodes.do(request.path_params["what"], given)})
        return await _decided(CHANGES[name](live(request).kafka, given))


async def _decided(doing: object) -> Response:
    """What was done; 409 where the cluster refused it. Raises NotInTime with a sentence that says that nobody knows."""
    try:
        return told({"said": await doing})  # type: ignore[misc]
    except NotInTime as error:
        raise NotInTime(
            f"{error}. It may have been done all the same: look before you do it again", error.code
        ) from None
    except ClientError as error:
        if error.code and error.code not in GONE:
            return told({"error": str(error)}, 409)
        raise


async def tried(request: Request) -> Response:
    """Where a group would read on after a reset: nothing is changed."""
    rows = await groups_changes.tried(live(request).kafka, Given(await request.body()))
    return told({"columns": ["topic", "partition", "before", "after"], "rows": rows})


async def loss(request: Request) -> Response:
    """What is lost with a topic, or with its records."""
    name, here = request.path_params["topic"], live(request)
    found = await lost(here.kafka, here.lags, name)
    return told({
        **found._asdict(), "deleting": found.sentence(name, is_deleted=True),
        "emptying": found.sentence(name, is_deleted=False),
    })  # fmt: skip


async def nodes(request: Request) -> Response:
    """The nodes of a local cluster, their states, and what may be done to each."""
    found = place(request).watched.nodes
    if found is None:
        raise KeyError("Faults are for the page of rayft up --ui --allow-changes.")
    return told({"nodes": await found.states()})


ANSWERS = {
    "/changes/{of}/{what}": (answer(change), "POST"),
    "/tried/groups/reset": (answer(tried), "POST"),
    "/topics/{topic}/lost": (answer(loss), "GET"),
    "/nodes": (answer(nodes), "GET"),
}
"""What is answered below /api/v1 where changes are allowed."""
