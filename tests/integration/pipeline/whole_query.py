"""A streaming query that is run until all that is available now was read."""

from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException

WAIT_S = 500
ATTEMPTS_MAX = 5


def run_to_its_end(start: Callable[[], Any], note: Callable[[Any], None] = lambda query: None) -> None:
    """Start a query and wait for its end. Spark gives a worker ten seconds to begin, whatever the machine does: again then.
    `note` is called with each query that has ended."""
    for attempt in range(ATTEMPTS_MAX):
        query = start()
        try:
            assert query.awaitTermination(WAIT_S), "the query does not end"
            return
        except StreamingQueryException as error:
            if attempt == ATTEMPTS_MAX - 1 or "failed to connect back" not in str(error):
                raise
        finally:
            query.stop()
            note(query)
