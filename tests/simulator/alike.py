"""Two checkouts, the same worlds: whether each has the same digest in both.

`python -m tests.simulator.alike OTHER [THIS] [--worlds 200] [--first N] [--jobs N]`

For changes that move code and may change nothing. OTHER and THIS are checkouts that are built (their `.venv` is used), THIS
by default the one in which the command is typed; each runs its own product under its own simulator, so what a digest stands
for must be the same in both: every event of a world. The worlds are of all kinds in turn, with seeds from `--first` on,
under one hash seed. A kind that only one checkout has is left out, and told. The command ends with 1 if a world differs;
`python -m tests.simulator --kind K --seed N --log FILE` in both shows from which event on.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

HERE = Path(__file__).parents[2]
KINDS = "from tests.simulator.planted.worlds import WORLDS; print(*WORLDS)"
WORLD = """
import gc, sys
from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS
gc.disable()
result = run(WORLDS[sys.argv[1]], int(sys.argv[2]))
print(f"{result.digest:08x}", result.deliveries, "ok" if result.ok else f"failed: {result.text.strip().splitlines()[0]}")
"""


def told(tree: Path, program: str, *arguments: object) -> str:
    """What a program says that runs in a checkout.

    Raises CalledProcessError if it fails.
    """
    command = [str(tree / ".venv/bin/python"), "-c", program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def worlds(kinds: list[str], first: int) -> Iterator[tuple[str, int]]:
    """(kind, seed), without an end: of each kind one, then of each kind the next."""
    while True:
        yield from ((kind, first + at) for at, kind in enumerate(kinds))
        first += len(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.alike", description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("this", type=Path, nargs="?", default=HERE)
    parser.add_argument("--worlds", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes; default: one a core")
    args = parser.parse_args()
    trees = args.this.resolve(), args.other.resolve()
    here, there = (told(tree, KINDS).split() for tree in trees)
    if alone := sorted({*here} ^ {*there}):
        print("kinds of one checkout only:", *alone)
    different = 0
    with ThreadPoolExecutor(args.jobs) as pool:  # a thread waits for a process
        asked = [
            (kind, seed, [pool.submit(told, tree, WORLD, kind, seed) for tree in trees])
            for kind, seed in islice(worlds([kind for kind in here if kind in there], args.first), args.worlds)
        ]
        for kind, seed, answers in asked:
            found = [answer.result() for answer in answers]
            different += found[0] != found[1]
            print(f"{kind} {seed}:", found[0] if found[0] == found[1] else f"{found[0]} != {found[1]}", flush=True)
    print(f"{args.worlds} worlds, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
