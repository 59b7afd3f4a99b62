"""Moves of partitions by comparing whole states, one record after the other: slow, and plainly right."""

LEADER, SMALLER, LARGER, REPLICAS = 1, 2, 4, 8


def moves(before, after):
    """The bits of each partition that is in both states, (topic id, number) -> {field: value}, and has moved."""
    found = []
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        bits = LEADER if old["leader"] != new["leader"] else 0
        reassigned = any(tuple(old[name]) != tuple(new[name]) for name in ("replicas", "adding", "removing"))
        grown = len(new["isr"]) - len(old["isr"])
        bits |= REPLICAS if reassigned else LARGER if grown > 0 else SMALLER if grown < 0 else 0
        if bits:
            found.append(bits)
    return sorted(found)
