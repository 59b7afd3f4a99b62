"""Run some classes and tell what failed: `python -m tests.integration.suites.apache_kafka rayft|kafka CLASS[#METHOD]...`"""

import argparse
import shutil
from pathlib import Path

from tests.integration.suites.apache_kafka import runner


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.suites.apache_kafka")
    parser.add_argument("side", choices=["rayft", "kafka"])
    parser.add_argument("names", nargs="*", metavar="CLASS[#METHOD]", help="all classes, if none is named")
    parser.add_argument(
        "--out", type=Path, default=runner.ROOT / ".tools" / "apache-kafka", help="for reports and logs"
    )
    options = parser.parse_intermixed_args()
    runner.prepare()
    known = runner.listed()
    for name in options.names or runner.classes():
        out = options.out / options.side / name.replace("#", ".").rpartition(".")[2]
        shutil.rmtree(out, ignore_errors=True)
        results = runner.run(options.side, name, out)
        passed = sum(result.outcome is runner.Outcome.PASSED for result in results.values())
        print(f"{name}: {passed} of {len(results)} pass; {out}", flush=True)
        for test, result in sorted(results.items()):
            if result.outcome is not runner.Outcome.PASSED:
                why = runner.reason(known.get(name.partition("#")[0], {}), test)
                said = next((line for line in result.why.splitlines() if line.strip()), "")
                print(f"  {test}: {result.outcome.value}{f' (listed: {why})' if why else ''}: {said[:200]}", flush=True)


main()
