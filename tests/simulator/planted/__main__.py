"""Hunts every planted mistake with fresh seeds: `python -m tests.simulator.planted` (`make mutants`)."""

import argparse
import sys
from secrets import randbelow

from tests.simulator.planted import PLANTED
from tests.simulator.planted.hunt import RECORDED, SEEDS_MAX, hunt, record, recorded


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="mistakes; by default those with a record")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help=f"seeds for each (default {SEEDS_MAX})")
    parser.add_argument("--first", type=int, default=-1, help="first seed (default: one that nobody has seen)")
    parser.add_argument("--world", default="", help="kind of world (default: the one that the mistake names)")
    parser.add_argument("--all", action="store_true", help="also those that no seed has caught yet")
    parser.add_argument("--record", action="store_true", help="write what was found into recorded.json")
    args = parser.parse_args()
    first = args.first if args.first >= 0 else randbelow(1 << 40)
    missed = 0
    for name in args.names or (PLANTED if args.all else recorded()):
        found = hunt(name, first, args.seeds, args.world)
        if found is None:
            missed += 1
            print(f"{name}: NOT CAUGHT by seeds {first} to {first + args.seeds - 1}", flush=True)
            continue
        where = f"{found.virtual_ms} ms of {found.world} {found.seed}"
        print(f"{name}: {found.checker} at {where}, seed number {found.seed - first + 1}", flush=True)
        if args.record:
            record({**(recorded() if RECORDED.exists() else {}), name: found})
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
