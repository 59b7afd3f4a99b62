"""Many seeds on all cores, in worlds of one kind or of several: a progress bar, every failure, and a summary.

This file alone decides how seeds are spread over processes. A worker is a new process, not a fork: a fork of a process
with threads may wait for their locks for ever. It runs one world at a time with the cycle collector off, and collects
between worlds. A world lives for seconds, so its garbage is bounded.
"""

import ctypes
import gc
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulator.planted.kinds import run as run_kind
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.simulation import Result

PR_SET_PDEATHSIG = 1
GENERAL = "general"
"""The kind of the simulator's own worlds."""
EVERY = 10
"""The number of seeds between two lines if there is no terminal for a bar."""


def alone(seed: int, kind: str = GENERAL) -> Result:
    """One world in this process, as fast as it goes."""
    return alone_in(run_kind, kind=WORLDS[kind], seed=seed)


def alone_in(world: Callable[..., Result], /, **parameters: object) -> Result:
    """A world of any kind in this process, as fast as it goes."""
    gc.collect()
    gc.disable()
    try:
        return world(**parameters)
    finally:
        gc.enable()


def workers(jobs: int | None = None) -> ProcessPoolExecutor:
    """A pool of `jobs` processes; by default one for each core that this process may use."""
    jobs = jobs or len(os.sched_getaffinity(0))
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    """End when the parent is gone: a parent that was killed could not end its workers, which would run for hours."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the signal was set
        os._exit(1)


def run(
    seeds: Iterable[int], jobs: int | None = None, kinds: Sequence[str] = (GENERAL,)
) -> Iterator[tuple[str, Result]]:
    """(kind, result) of each seed in a world of each kind as they come, in no particular order."""
    with workers(jobs) as pool:
        waiting = {pool.submit(alone, seed, kind): kind for seed in seeds for kind in kinds}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def commit() -> str:
    """The commit of the tree, with a mark when it was changed; `unknown` outside a repository."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def report(first: int, count: int, jobs: int | None, kinds: Sequence[str] = (GENERAL,)) -> list[Result]:
    """Run `count` seeds from `first` on in a world of each kind, and print the outcome. Returns the results that failed."""
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results: list[tuple[str, Result]] = []
    worlds = count * len(kinds)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"seeds {first} to {first + count - 1}", total=worlds)
        for kind, result in run(range(first, first + count), jobs, kinds):
            results.append((kind, result))
            if not result.ok:
                said = result.text.strip().splitlines()[0][:400]
                console.print(f"[red]{kind} {result.seed}[/red]: {said}", highlight=False)
            if not console.is_terminal and not len(results) % EVERY:
                print(f"{len(results)} of {worlds}", flush=True)
            progress.advance(task)
    console.print(summary(results), highlight=False)
    return sorted(result for _, result in results if not result.ok)


def summary(results: Sequence[tuple[str, Result]]) -> str:
    """The faults, the amounts of work and the outcome of (kind, result), as text."""
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for _, result in results:
        faults.update(result.faults)
        counts.update(result.counts)
    failed = sorted((kind, result.seed) for kind, result in results if not result.ok)
    deliveries, cpu_s = sum(result.deliveries for _, result in results), sum(result.cpu_s for _, result in results)
    virtual_s = sum(result.virtual_ms for _, result in results) / 1000
    lines = [f"commit {commit()}: {len(results)} worlds, {len(failed)} failed{': ' if failed else ''}"
             f"{', '.join(f'{kind} {seed}' for kind, seed in failed)}"]  # fmt: skip
    lines += [f"  {count:9,} {name}" for name, count in sorted(faults.items(), key=lambda item: (-item[1], item[0]))]
    lines += [f"  {count:9,} {name}" for name, count in sorted(counts.items())]
    lines.append(f"  {virtual_s:,.0f} virtual seconds, {deliveries:,} deliveries, {cpu_s:,.0f} CPU seconds: "
                 f"{deliveries / max(cpu_s, 1e-9):,.0f} deliveries/s/core")  # fmt: skip
    return "\n".join(lines)
