"""`python -m tests.integration.faults --minutes 10 --seed N`: random faults on three controllers and three brokers.

Prints every fault as it comes, every outage at the end, and the verdict. Exit code 0 if nothing was wrong. The seed
decides which faults come and how long they last, but not how the processes react.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.faults import campaign
from tests.integration.faults.nemesis import WIRED
from tests.integration.faults.targets import Wired, small_disk


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--dir", type=Path, help="keep the cluster's directory here")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rayft-faults-") as fresh:
        directory = options.dir or Path(fresh) / "cluster"
        with (
            small_disk(directory.parent / f"{directory.name}-small") as small,
            Wired(directory, 3, 3, campaign.CONFIG, small) as target,
        ):
            outcome = campaign.run(
                target, WIRED, options.minutes * 60, options.seed, lambda line: print(line, flush=True)
            )
    print(report(outcome))
    return 0 if outcome.clean else 1


def report(outcome: campaign.Outcome) -> str:
    """The outcome as text for people."""
    lines = ["", *map(str, outcome.outages), "", str(outcome.verdict), outcome.transactions]
    lines += [f"stuck: {what}" for what in outcome.stuck]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
