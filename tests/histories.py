"""Random histories of the models beside the coordinators' state machines, in one process and without pytest:
`python -m tests.histories [--kind KIND...] [--seeds N] [--first S] [--digests FILE]`.

This file alone says which kinds of histories there are. `make test` runs the first seeds of each as tests, `make sim` calls
this command with fresh ones. A history that fails is named with its seed, and the others go on. With `--digests`, a line for
each history says what happened in it: two trees that write the same lines have taken the same steps to the same end.
"""

import argparse
import gc
import hashlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from actors.node.runtime import slices
from tests.unit.broker.groups.classic import test_histories as classic
from tests.unit.broker.groups.consumer import test_histories as consumer
from tests.unit.broker.groups.share.delivery import test_histories as share
from tests.unit.broker.groups.streams import test_histories as streams
from tests.unit.node.roles.broker.transactions import offsets_model

OFFSET_STEPS = 40
COLLECTED = 50
"""After so many histories garbage is collected."""


def digest(*parts: Any) -> str:
    """What happened, in sixteen characters."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _group(kind: Any, seed: int) -> str:
    history = kind.History(seed)
    history.run()
    return digest(history.draw.getstate(), history.world.log, history.shown())


def _offsets(seed: int) -> str:
    whole, slices.ENTRIES_A_SLICE = slices.ENTRIES_A_SLICE, offsets_model.ENTRIES_A_SLICE
    try:
        world = offsets_model.run(seed, OFFSET_STEPS)
    finally:
        slices.ENTRIES_A_SLICE = whole
    return digest(world.random.getstate(), world.steps, sorted(world.visible.items()), sorted(world.pending.items()))


KINDS: dict[str, Callable[[int], str]] = {
    "classic": lambda seed: _group(classic, seed),
    "consumer": lambda seed: _group(consumer, seed),
    "streams": lambda seed: _group(streams, seed),
    "share": lambda seed: _group(share, seed),
    "offsets": _offsets,
}
"""Kind -> what runs the history of a seed and returns its digest. Raises AssertionError where something does not hold."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns 1 if a history has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=list(KINDS), help="all kinds, without it")
    parser.add_argument("--seeds", type=int, default=100, help="how many of each kind")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--digests", type=Path, help="a file for a line of each history")
    options = parser.parse_args(arguments)
    failed, digests = 0, []
    for kind in options.kind:
        begun, wrong = time.process_time(), []
        for seed in range(options.first, options.first + options.seeds):
            if seed % COLLECTED == 0:
                gc.collect()
            try:
                digests.append(f"{kind} {seed} {KINDS[kind](seed)}\n")
            except Exception:
                wrong.append(seed)
                print(f"{kind}, seed {seed}:", traceback.format_exc(), sep="\n", file=sys.stderr, flush=True)
        took = time.process_time() - begun
        failed += len(wrong)
        print(
            f"{kind}: {options.seeds} histories from seed {options.first} on, {took:.1f} s of processor time,"
            f" {f'these fail: {wrong}' if wrong else 'none fails'}",
            flush=True,
        )
    if options.digests:
        options.digests.write_text("".join(digests))
    return bool(failed)


if __name__ == "__main__":
    gc.disable()  # a history leaves little behind, and to look for it costs a fifth of all
    sys.exit(main())
