"""PySpark's daemon, which forks Spark's workers, for sessions whose workers talk to their JVM over Unix sockets.

This file alone decides what a worker does whose JVM has closed the connection: it ends. PySpark's own tries to say why,
which nobody reads; over TCP such a word is lost in silence, over a Unix socket it is a BrokenPipeError, and a traceback for
every worker that ends. Spark runs this as `python -m actors.replay.workers pyspark.worker` (spark.python.daemon.module).
"""

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """One task in a forked worker: its exit code."""
    try:
        code: int = _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(1)  # at once: a buffer that is let go tells, from Python 3.13 on, what it could not write
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
