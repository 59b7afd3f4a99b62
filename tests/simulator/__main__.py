"""`python -m tests.simulator --seed N` replays one world; `--seeds N [--first M]` runs many on all cores, each in a world
of the simulator's own and in those of the client by address. `--kind NAME` runs another kind (`planted/worlds.py`), `--kind
all` each seed in a world of every kind.
"""

import argparse
import sys

from tests.simulator.many import GENERAL, commit, report, summary
from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS

ALL = "all"
OF_CLIENT = ("by address", "unclean")
"""The kinds of worlds in which the real client works."""
LINES = 200
"""How many lines of a failed world are printed, unless the whole log is asked for."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this world, exactly")
    parser.add_argument("--seeds", type=int, default=100, help="run so many worlds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="beginning with this seed")
    parser.add_argument(
        "--kind",
        choices=[*WORLDS, ALL],
        help="the kind of world (default: general, and those of the client by address)",
    )
    parser.add_argument("--jobs", type=int, help="processes; default: one a core")
    parser.add_argument("--log", metavar="FILE", help="with --seed: write every event to FILE, one a line")
    args = parser.parse_args()
    if args.seed is None:
        kinds = [*WORLDS] if args.kind == ALL else [args.kind] if args.kind else [GENERAL, *OF_CLIENT]
        return 1 if report(args.first, args.seeds, args.jobs, kinds) else 0
    if args.kind == ALL:
        parser.error("--seed replays one world: name its kind")
    return _replay(args.kind or GENERAL, args.seed, args.log)


def _replay(kind: str, seed: int, path: str | None) -> int:
    result = run(WORLDS[kind], seed, keep_log=True)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in result.lines)
    if not result.ok:
        if path is None:
            print("\n".join(result.lines[-LINES:]))
        print(f"{kind} {seed}, commit {commit()}, digest {result.digest:08x}: {result.text}")
    print(summary([(kind, result)]))
    print(f"digest {result.digest:08x}")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
