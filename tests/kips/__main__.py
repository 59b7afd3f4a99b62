"""`python -m tests.kips`: try every mutation, and a second one for a tenth of the rows (`make kips`); say which were killed.

python -m tests.kips --second                        the second mutations of today (`second.py`) alone
python -m tests.kips --second --date 2026-02-14      those of another day
python -m tests.kips --every R631-030                every mechanical change of what these rows name
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from queue import SimpleQueue

from tests.kips import second
from tests.kips.mutations import Mutation, chosen, sample
from tests.kips.rows import ROWS, Row
from tests.kips.scratch import Outcome, Scratch


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kips", description=__doc__)
    parser.add_argument("ids", nargs="*", help="rows, or how their ids begin; by default all")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N quick ones, chosen by the date")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="the sample's (default: today)")
    parser.add_argument("--baseline", action="store_true", help="first see that the tests pass without a mutation")
    parser.add_argument("--second", action="store_true", help="only the mechanical mutations of the date")
    parser.add_argument("--every", action="store_true", help="every mechanical mutation of these rows")
    args = parser.parse_args()
    if args.every and not args.ids:
        parser.error("--every wants rows")
    with ThreadPoolExecutor(args.jobs) as pool:
        scratches = [Scratch() for _ in range(args.jobs)]
        try:
            failed = 0
            if not args.second and not args.every:
                failed += _by_hand(args, pool, scratches)
            if args.second or args.every or not (args.ids or args.sample):
                failed += _mechanical(args, pool, scratches)
        finally:
            for scratch in scratches:
                scratch.__exit__(None, None, None)
    return 1 if failed else 0


def _by_hand(args: argparse.Namespace, pool: ThreadPoolExecutor, scratches: list[Scratch]) -> int:
    """Try those of the `*.toml`. Returns how many survived or are broken."""
    wanted = sample(args.sample, args.date) if args.sample else list(chosen(args.ids))
    began = time.monotonic()
    failing: set[str] = set()
    if args.baseline or not args.ids:
        tests = sorted({mutation.test for mutation in wanted})
        parts = [tests[n :: args.jobs] for n in range(args.jobs)]
        for found in pool.map(Scratch.unchanged, scratches, parts):
            failing |= set(found)
    free = _line(scratches)

    def tried(mutation: Mutation) -> Outcome:
        if mutation.test in failing:
            return Outcome("broken", "the test fails without the mutation", 0.0)
        with _taken(free) as scratch:
            return scratch.tried(mutation)

    words: Counter[str] = Counter()
    for mutation, outcome in zip(wanted, pool.map(tried, wanted), strict=True):
        words[outcome.word] += 1
        print(f"{mutation.id} {outcome.word} {outcome.seconds:.1f} s {outcome.assertion}", flush=True)
        if outcome.word in ("survived", "broken"):
            print(f"  {mutation.about}\n  {mutation.test}")
            print(*(f"  | {line}" for line in outcome.said.splitlines()), sep="\n", flush=True)
    _print_sum("mutations", began, words)
    return words["survived"] + words["broken"]


def _mechanical(args: argparse.Namespace, pool: ThreadPoolExecutor, scratches: list[Scratch]) -> int:
    """Try second mutations. Returns how many survived without a reason."""
    wanted = second.drawn(args.date)
    if args.every:
        rows = [row for row in ROWS if row.state == "done" and row.id.startswith(tuple(args.ids))]
        wanted = [(row, site) for row in rows for site in second.sites_of(row)]
    began = time.monotonic()
    free, reasons = _line(scratches), second.equivalent()

    def tried(one: tuple[Row, second.Site]) -> Outcome:
        row, site = one
        if site.name in reasons:
            return Outcome("equivalent", "", 0.0, reasons[site.name])
        with _taken(free) as scratch:
            outcome = scratch.noticed(site.whole(), second.tests_of(row))
            beside = second.tests_beside(row, site)
            return scratch.noticed(site.whole(), beside) if outcome.word == "survived" and beside else outcome

    words: Counter[str] = Counter()
    for (row, site), outcome in zip(wanted, pool.map(tried, wanted), strict=True):
        words[outcome.word] += 1
        print(f"{row.id} {outcome.word} {outcome.seconds:.1f} s {outcome.assertion}", flush=True)
        if outcome.word != "killed":
            print(f"  {site.place} {site.function} {site.kind}: {site.shown()}", flush=True)
        if outcome.word == "broken":
            print(*(f"  | {line}" for line in outcome.said.splitlines()[-3:]), sep="\n", flush=True)
    _print_sum("second mutations", began, words)
    return words["survived"]


def _line(scratches: list[Scratch]) -> SimpleQueue[Scratch]:
    free: SimpleQueue[Scratch] = SimpleQueue()
    for scratch in scratches:
        free.put(scratch)
    return free


@contextmanager
def _taken(free: SimpleQueue[Scratch]) -> Iterator[Scratch]:
    scratch = free.get()
    try:
        yield scratch
    finally:
        free.put(scratch)


def _print_sum(of: str, began: float, words: Counter[str]) -> None:
    said = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    print(f"{words.total()} {of} in {time.monotonic() - began:.0f} s: {said or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
