"""Partitions in trouble, looked at one by one: slow, and plainly right."""


def troubled(partitions):
    """Keys of (topic id, number) -> {field: value}: without a leader, with an ISR that lacks a replica, led elsewhere."""
    without = {key for key, one in partitions.items() if one["leader"] < 0}
    short = {key for key, one in partitions.items() if set(one["replicas"]) - set(one["isr"])}
    elsewhere = {
        key for key, one in partitions.items()
        if one["leader"] >= 0 and one["replicas"][0] in one["isr"] and one["leader"] != one["replicas"][0]
    }  # fmt: skip
    return without, short, elsewhere


def missing(partitions):
    """(key, broker) of each replica that an ISR lacks and that is not just being added."""
    return {
        (key, broker) for key, one in partitions.items() for broker in one["replicas"]
        if broker not in one["isr"] and broker not in one["adding"]
    }  # fmt: skip
