"""What comes behind an epoch, and behind the last one: the fields that hold them have four bytes.

A client may raise the epoch of a group as often as it can send requests: in a few days to the end. Rules:

1. A classic generation is only compared for being the same. Behind the last one comes the first.
2. Epochs of the other kinds of group rise, and members compare them. A group at the last one serves no member any more, and
   says what to do: when it is deleted, its name begins anew. Whoever goes is removed all the same.
"""

EPOCH_MAX = (1 << 31) - 1


def next_generation(generation: int) -> int:
    """The generation behind another one; never 0, which a group has that was never joined."""
    return 1 if generation >= EPOCH_MAX else generation + 1


def next_epoch(epoch: int) -> int:
    """The epoch behind another one; the last one stays, since none is behind it."""
    return min(epoch + 1, EPOCH_MAX)


def spent(group_id: str, epoch: int) -> str | None:
    """The sentence for a member of a group that has no epoch left for what the member may ask; None: it has one."""
    if epoch < EPOCH_MAX:
        return None
    return f"Group {group_id} has used up its epochs ({EPOCH_MAX}): stop all of its members, delete it and start them anew."
