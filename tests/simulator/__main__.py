"""`python -m tests.simulator --seed N` replays one world."""

import argparse
import sys

from tests.simulator.simulation import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", action="store_true")
    args = parser.parse_args()
    result = simulate(args.seed, keep_log=args.log)
    if args.log:
        print("\n".join(result.lines))
    print(result._replace(lines=()))
    print(f"{result.deliveries / result.cpu_s:.0f} deliveries/s/core")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
