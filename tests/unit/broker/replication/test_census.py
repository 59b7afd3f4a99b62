"""How many partitions are led and lack replicas in sync: counted when they change, and equal to a walk over all."""

import random
from typing import Any

from actors.broker.replication.census import NOWHERE, Census, Standing


class One:
    def __init__(self, chance: random.Random) -> None:
        self.standing: Standing = NOWHERE
        self.removed = False
        self.change(chance)

    def change(self, chance: random.Random) -> None:
        self.replicas = tuple(range(chance.randrange(1, 5)))
        self.adding = chance.randrange(0, len(self.replicas)) if chance.random() < 0.3 else 0
        self.members = chance.randrange(0, len(self.replicas) + 1)
        self.min_insync = chance.randrange(1, 4)
        self.leads, self.moving = chance.random() < 0.6, chance.random() < 0.3


def test_the_sums_are_those_of_a_walk() -> None:
    chance = random.Random(3)
    census, some = Census(), [One(chance) for _ in range(40)]
    for _ in range(2_000):
        one: Any = chance.choice(some)
        one.change(chance)
        one.removed = chance.random() < 0.1
        census.note(one)
        here = [each for each in some if each.standing is not NOWHERE and not each.removed]
        led = [each for each in here if each.leads]
        # What was not noted yet counts as it was: each is noted at once here.
        assert census.here == len(here) and census.led == len(led)
        assert census.under_replicated == sum(each.members < len(each.replicas) - each.adding for each in led)
        assert census.under_min_isr == sum(each.members < each.min_insync for each in led)
        assert census.at_min_isr == sum(each.members == each.min_insync for each in led)
        assert census.moving == sum(each.moving for each in led)
