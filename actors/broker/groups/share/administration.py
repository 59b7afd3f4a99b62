"""What administrators do with the offsets of share groups: move them, and have them forgotten (KIP-932).

This file alone decides which of that is refused: everything while a group has members, and what the group knows nothing of.
How share partitions begin and end is in `initialization.py`.
"""

from collections.abc import Callable, Mapping, Sequence

from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.shard import Shard
from actors.broker.groups.share.initialization import Beginnings, Place, ShareStateAnswer
from actors.broker.groups.share.state import Begun, ShareGroup
from actors.broker.groups.topics import Topics
from actors.wire.errors import ErrorCode, text

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DONE = ShareStateAnswer(ErrorCode.NONE)


class Administration:
    """The administration of the share groups of one broker."""

    def __init__(
        self,
        beginnings: Beginnings,
        topics: Topics,
        find: Callable[[str, bool], tuple[Shard, ShareGroup]],
        keep: Callable[[Shard, ShareGroup], None],
    ) -> None:
        """The administration of the groups of one coordinator. `find`: a group by its id, a new one if there is none
        and that is asked for; raises RequestRefused. `keep`: a new group is known from now on."""
        self._beginnings = beginnings
        self._topics = topics
        self._find = find
        self._keep = keep

    def alter(
        self,
        group_id: str,
        topics: Mapping[bytes, Begun],
        offsets: Mapping[Place, int],
        then: Callable[[ShareStateAnswer, Mapping[Place, ShareStateAnswer]], None],
    ) -> None:
        """AlterShareGroupOffsets: an empty group, or a new one, is to begin at other offsets. `then`: an error of the
        whole, and the results."""
        try:
            shard, group = self._empty(group_id, create=True)
        except RequestRefused as refused:
            then(ShareStateAnswer(refused.code, refused.text or text(refused.code)), {})
            return
        if offsets:
            self._keep(shard, group)
            self._beginnings.alter(shard, group, topics, offsets, lambda results: then(DONE, results))
        else:
            then(DONE, {})

    def delete_offsets(
        self,
        group_id: str,
        names: Sequence[str],
        then: Callable[[ShareStateAnswer, Mapping[str, ShareStateAnswer]], None],
    ) -> None:
        """DeleteShareGroupOffsets: an empty group forgets topics. `then`: an error of the whole, and the results."""
        try:
            shard, group = self._empty(group_id, create=False)
        except RequestRefused as refused:
            then(ShareStateAnswer(refused.code, refused.text or text(refused.code)), {})
            return
        results: dict[str, ShareStateAnswer] = {}
        topics: dict[bytes, Begun] = {}
        deleting = self._beginnings.deleting(group)
        for name in names:
            found = self._topics.named(name)
            begun = None if found is None else group.initialized.get(found[0]) or deleting.get(found[0])
            if found is None or begun is None:
                why = text(UNKNOWN) if found is None else "There is no offset information to delete."
                results[name] = ShareStateAnswer(UNKNOWN, why)
            else:
                topics[found[0]] = begun

        def ended(told: Mapping[Place, ShareStateAnswer]) -> None:
            for topic_id, begun in topics.items():
                of_topic = [one for (id, _), one in told.items() if id == topic_id]
                results[begun.name] = next((one for one in of_topic if one.error is not ErrorCode.NONE), DONE)
            then(DONE, results)

        if topics:
            self._beginnings.delete(shard, group, topics, ended)
        else:
            then(DONE, results)

    def _empty(self, group_id: str, *, create: bool) -> tuple[Shard, ShareGroup]:
        """A group without members. Raises RequestRefused if it has some."""
        shard, group = self._find(group_id, create)
        if group.members:
            raise RequestRefused(ErrorCode.NON_EMPTY_GROUP, text(ErrorCode.NON_EMPTY_GROUP))
        return shard, group
