"""`python -m tests.kips`: try every mutation, and say which were killed (`make kips`)."""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from queue import SimpleQueue

from tests.kips.mutations import Mutation, chosen, sample
from tests.kips.scratch import Outcome, Scratch


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kips", description=__doc__)
    parser.add_argument("ids", nargs="*", help="rows, or how their ids begin; by default all")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N quick ones, chosen by the date")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="the sample's (default: today)")
    parser.add_argument("--baseline", action="store_true", help="first see that the tests pass without a mutation")
    args = parser.parse_args()
    wanted = sample(args.sample, args.date) if args.sample else list(chosen(args.ids))
    began = time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        scratches = [Scratch() for _ in range(args.jobs)]
        try:
            failing: set[str] = set()
            if args.baseline or not args.ids:
                tests = sorted({mutation.test for mutation in wanted})
                parts = [tests[n :: args.jobs] for n in range(args.jobs)]
                for found in pool.map(Scratch.unchanged, scratches, parts):
                    failing |= set(found)
            free: SimpleQueue[Scratch] = SimpleQueue()
            for scratch in scratches:
                free.put(scratch)

            def tried(mutation: Mutation) -> Outcome:
                if mutation.test in failing:
                    return Outcome("broken", "the test fails without the mutation", 0.0)
                scratch = free.get()
                try:
                    return scratch.tried(mutation)
                finally:
                    free.put(scratch)

            words: Counter[str] = Counter()
            for mutation, outcome in zip(wanted, pool.map(tried, wanted), strict=True):
                words[outcome.word] += 1
                print(f"{mutation.id} {outcome.word} {outcome.seconds:.1f} s {outcome.assertion}", flush=True)
                if outcome.word in ("survived", "broken"):
                    print(f"  {mutation.about}\n  {mutation.test}")
                    print(*(f"  | {line}" for line in outcome.said.splitlines()), sep="\n", flush=True)
        finally:
            for scratch in scratches:
                scratch.__exit__(None, None, None)
    said = ", ".join(f"{words[word]} {word}" for word in ("killed", "survived", "broken", "skipped") if words[word])
    print(f"{len(wanted)} mutations in {time.monotonic() - began:.0f} s: {said or 'none'}")
    return 1 if words["survived"] or words["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
