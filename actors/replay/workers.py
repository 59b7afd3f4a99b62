"""PySpark's daemon, which forks Spark's workers, for sessions whose workers talk to their JVM over Unix sockets.

This file alone decides what a worker does when its JVM has closed the connection: it ends. PySpark's own worker tries
to report the reason, which nothing reads. Over TCP that report is lost silently. Over a Unix socket it raises
BrokenPipeError, so every worker that ends would print a traceback. Spark runs this as `python -m actors.replay.workers
pyspark.worker` (spark.python.daemon.module).
"""

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one task in a forked worker. Returns its exit code."""
    try:
        code: int = _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(1)  # at once: from Python 3.13 on, a buffer that is freed reports what it could not write
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
