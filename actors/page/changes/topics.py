"""Changes of topics: made, grown, emptied, deleted, their settings. And what is lost with one."""

import asyncio
import base64
from collections.abc import Mapping
from typing import NamedTuple

from actors.client.errors import ClientError
from actors.client.metadata import Topic
from actors.client.operations import configs, topics
from actors.client.operations.each import alone
from actors.client.operations.offsets import EARLIEST, LATEST, TRIES_SAMPLED, Found, list_offsets
from actors.client.operations.record_deletion import ALL, delete_records
from actors.host.client.asynchronous import Kafka
from actors.page.changes.given import Given
from actors.page.live.lags import Lags
from actors.why.phrases import counted
from actors.wire.errors import ErrorCode

ANSWER_S = 15.0
GROUPS_NAMED = 5
TRIES, AGAIN_S = 30, 0.1


class Lost(NamedTuple):
    """What is lost with a topic."""

    id: str
    """The topic's id in base64; empty: it has none (before Kafka 2.8)."""
    partitions: int
    records: int | None
    """About how many: offsets, of which compaction may have taken some; None: a leader does not tell."""
    groups: list[str]
    """The groups that have read it, of those that the page samples."""

    def sentence(self, topic: str, is_deleted: bool) -> str:
        """What a confirmation says."""
        records = "its records" if self.records is None else f"about {counted(self.records, 'record')}"
        if not is_deleted:
            return f"Emptying {topic} removes {records} from {counted(self.partitions, 'partition')} for good."
        named = ", ".join(self.groups[:GROUPS_NAMED])
        more = len(self.groups) - GROUPS_NAMED
        read = f" It is read by {named}{f' and {more} more' if more > 0 else ''}."
        return (
            f"Deleting {topic} removes {counted(self.partitions, 'partition')} with {records} and its settings for good."
            f"{read if self.groups else ''}"
        )


async def lost(kafka: Kafka, lags: Lags, name: str) -> Lost:
    """What is lost with a topic. Raises ClientError."""
    found = (await kafka.run(topics.describe([name]), ANSWER_S))[name]
    parts = [(name, one.number) for one in found.partitions.values() if one.leader >= 0]
    records: int | None = 0 if len(parts) == len(found.partitions) else None
    try:
        begins = await kafka.run(list_offsets(parts, EARLIEST, tries=TRIES_SAMPLED), ANSWER_S)
        ends = await kafka.run(list_offsets(parts, LATEST, tries=TRIES_SAMPLED), ANSWER_S)
    except ClientError:
        records = None
    for part in parts if records is not None else ():
        begin, end = begins[part], ends[part]
        if records is None or not isinstance(begin, Found) or not isinstance(end, Found):
            records = None
            break
        records += max(0, end.offset - begin.offset)
    groups = sorted(one for one in lags.groups if any(key[1] == name for key in lags.keys(one)))
    return Lost(_id(found), len(found.partitions), records, groups)


def _id(topic: Topic) -> str:
    return base64.urlsafe_b64encode(topic.id).decode().rstrip("=") if any(topic.id) else ""


async def _looked_at(kafka: Kafka, name: str, id: str) -> Topic:
    """The topic, which is the one of that id that somebody has looked at before. Raises ClientError if it was made anew
    since: what is lost with it is not what he has read."""
    found = (await kafka.run(topics.describe([name]), ANSWER_S))[name]
    if id and _id(found) != id:
        raise ClientError(
            f"topic {name} was deleted and made anew since this was asked: look again", ErrorCode.INCONSISTENT_TOPIC_ID
        )
    return found


async def create(kafka: Kafka, given: Given) -> str:
    """Make a topic: `topic`, `partitions`, `replicas`, `settings`. Returns what was done, as a sentence."""
    name = given.text("topic")
    new = topics.NewTopic(
        name, given.number("partitions", -1, 1), given.number("replicas", -1, 1), given.settings("settings")
    )
    given.end()
    alone(await kafka.run(topics.create([new]), ANSWER_S))
    made = (await kafka.run(topics.describe([name], patiently=True), ANSWER_S))[name]
    return f"Topic {name} was created with {counted(len(made.partitions), 'partition')}."


async def grow(kafka: Kafka, given: Given) -> str:
    """Give a topic more partitions: `topic`, `partitions` in all."""
    name, count = given.text("topic"), given.number("partitions", lowest=1)
    given.end()
    alone(await kafka.run(topics.add_partitions({name: count}), ANSWER_S))
    await _wait_for(kafka, name, count)
    return f"Topic {name} has {counted(count, 'partition')} now; keys go to others of them from here on."


async def _wait_for(kafka: Kafka, name: str, count: int) -> None:
    """Wait a while until brokers tell of so many partitions: what is asked next is about them."""
    for _ in range(TRIES):
        found = (await kafka.run(topics.describe([name], patiently=True), ANSWER_S))[name]
        if len(found.partitions) >= count and all(one.leader >= 0 for one in found.partitions.values()):
            return
        await asyncio.sleep(AGAIN_S)


async def empty(kafka: Kafka, given: Given) -> str:
    """Delete all records of a topic: `topic`, `confirm` with its name, and its `id` where somebody has looked at it. Those
    partitions are emptied that have a leader."""
    name, id = given.text("topic"), given.text("id", "")
    given.confirmed(name, f"Emptying {name} removes all its records for good.")
    given.end()
    found = await _looked_at(kafka, name, id)
    led = {(name, one.number): ALL for one in found.partitions.values() if one.leader >= 0}
    absent = ClientError("there is no leader", ErrorCode.LEADER_NOT_AVAILABLE)
    told = {(name, one): absent for one in found.partitions} | await kafka.run(delete_records(led), ANSWER_S)
    wrong = [one for one in told.values() if isinstance(one, ClientError)]
    if wrong:
        kept = f"{len(wrong)} of {counted(len(told), 'partition')} kept their records: "
        raise ClientError(f"{kept if len(told) > 1 else ''}{wrong[0]}", wrong[0].code)
    return f"Topic {name} is empty: {counted(len(told), 'partition')} begin where they ended."


async def delete(kafka: Kafka, given: Given) -> str:
    """Delete a topic: `topic`, `confirm` with its name, and its `id` where somebody has looked at it."""
    name, id = given.text("topic"), given.text("id", "")
    given.confirmed(name, f"Deleting {name} removes its partitions, records and settings for good.")
    given.end()
    ids = {name: (await _looked_at(kafka, name, id)).id} if id else {}
    alone(await kafka.run(topics.delete([name], ids), ANSWER_S))
    return f"Topic {name} was deleted."


async def settings(kafka: Kafka, given: Given) -> str:
    """Change settings of a topic: `topic`, `set`, `unset`."""
    name = given.text("topic")
    return await _altered(kafka, (configs.Kind.TOPIC, name), f"topic {name}", given)


async def broker_settings(kafka: Kafka, given: Given) -> str:
    """Change settings of a broker, or of all brokers: `broker`, which is left out for all, `set`, `unset`."""
    number = given.optional("broker")
    what = "all brokers" if number is None else f"broker {number}"
    return await _altered(kafka, (configs.Kind.BROKER, "" if number is None else str(number)), what, given)


async def _altered(kafka: Kafka, resource: configs.Resource, what: str, given: Given) -> str:
    values, names = given.settings("set"), given.names("unset")
    given.end()
    if not values and not names:
        raise ValueError(
            "There is nothing to change: send set, an object of names and values, or unset, a list of names."
        )
    if twice := sorted(values.keys() & set(names)):
        raise ValueError(f"{twice[0]} is both set and unset: send it once.")
    changes: Mapping[str, tuple[configs.Op, str | None]] = {
        **{name: (configs.Op.DELETE, None) for name in names},
        **{name: (configs.Op.SET, value) for name, value in values.items()},
    }
    alone(await kafka.run(configs.alter({resource: changes}), ANSWER_S))
    said = [f"{name}={value}" for name, value in values.items()] + [f"{name} as the default" for name in names]
    return f"Of {what} it holds now: {', '.join(said)}."
