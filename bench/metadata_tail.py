"""How far the tail of the metadata log by address is behind: the time from the answer to a change, which a controller gives
once it is committed, to its row in `rayft.Replay.follow` in another process.

`python -m bench.metadata_tail [--changes 1000] [--pause-ms 20] [--broker rayft kafka] [--rounds 2]`

One setting of a topic is changed again and again, one change at a time, in clusters of three controllers and one broker that
take turns. A change that is followed before its answer is there counts as 0 ms.
"""

import argparse
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import rayft
from actors.client.operations import configs, topics
from actors.host.client.blocking import connect
from bench import apache

FOLLOW = """
import sys, time, rayft
with rayft.Replay(sys.argv[1]) as log:
    for batch in log.follow(kinds=["config"]):
        now = time.time()
        for row in batch.to_pylist():
            print(repr(now), str(row).replace("\\n", " "), flush=True)
"""
SETTING = "segment.bytes"
FIRST = 100_000_000


def behind(servers: str, changes: int, pause_ms: float) -> list[float]:
    """How far the tail was behind each change, ms."""
    topic = f"tail-{time.time_ns()}"
    with connect(servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(topic, 1, 1)]))
        child = subprocess.Popen([sys.executable, "-c", FOLLOW, servers], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        stdout, seen = child.stdout, dict[int, float]()

        def collect() -> None:
            for line in stdout:
                at, _, row = line.partition(" ")
                for word in row.replace("'", " ").split():
                    if word.isdigit() and FIRST <= int(word) <= FIRST + changes:
                        seen.setdefault(int(word), float(at))

        collecting = threading.Thread(target=collect, daemon=True)
        collecting.start()
        resource = configs.Kind.TOPIC, topic

        def change(value: int) -> float:
            (error,) = kafka.run(configs.alter({resource: {SETTING: (configs.Op.SET, str(value))}})).values()
            if error is not None:
                raise error
            return time.time()

        try:
            while FIRST not in seen:  # until the tail has begun
                change(FIRST)
                change(FIRST - 1)
                time.sleep(0.1)
            answered = {}
            for value in range(FIRST + 1, FIRST + 1 + changes):
                answered[value] = change(value)
                time.sleep(pause_ms / 1000)
            end = time.monotonic() + 60
            while len(seen) <= changes and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            child.kill()
            child.wait()
            collecting.join()
    missing = [value for value in answered if value not in seen]
    if missing:
        raise SystemExit(f"{len(missing)} changes never came")
    return [max(0.0, (seen[value] - at) * 1000) for value, at in answered.items()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.metadata_tail", description=__doc__)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--pause-ms", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--broker", nargs="+", default=["rayft", "kafka"])
    args = parser.parse_args()
    with ExitStack() as stack:
        servers = {}
        if "rayft" in args.broker:
            servers["rayft"] = stack.enter_context(rayft.Cluster(controllers=3, brokers=1)).bootstrap_servers
        if "kafka" in args.broker:
            config = {"default.replication.factor": "1", "offsets.topic.replication.factor": "1"}
            kafka = stack.enter_context(apache.ApacheKafka(controllers=3, brokers=1, config=config, heap="320m"))
            servers["kafka"] = kafka.bootstrap_servers
        for number in range(args.rounds):
            for name, address in servers.items():
                found = sorted(behind(address, args.changes, args.pause_ms))
                at = {part: found[min(len(found) - 1, int(len(found) * part))] for part in (0.5, 0.99, 1.0)}
                print(
                    f"round {number + 1}, {name}: {len(found)} changes, behind by {at[0.5]:.1f} ms at the median, "
                    f"{at[0.99]:.1f} ms at p99, {at[1.0]:.1f} ms at most",
                    flush=True,
                )


if __name__ == "__main__":
    main()
