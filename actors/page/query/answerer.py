"""The process that answers one question in SQL: `python -m actors.page.query.answerer DIRECTORY`.

This file alone decides what a question may do. It may read the tables that were put into the directory, and nothing else:

1. The process cannot write to any file, nor have more memory, processor time or files than it was given, whatever duckdb
   does.
2. duckdb reads no file, loads no extension, sees no variable of Python and cannot be told otherwise. It has no place for
   what does not fit into its memory.
3. One statement, and one that reads: SELECT, or EXPLAIN of one.
4. The answer has at most ROWS_MAX rows and about BYTES_MAX bytes, and says when there was more.

The question is read from standard input. The answer is written to standard output: a line of JSON, then a stream of Arrow.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS_MAX = 10_000
BYTES_MAX = 8 << 20
MEMORY_BYTES = 512 << 20
ADDRESS_BYTES = 2 << 30
"""The most address space of the process: mapped tables count in it."""
CPU_S = 30
FILES_MAX = 64
READS = ("SELECT", "EXPLAIN")


def main() -> int:
    """Answer the question. Returns the exit code."""
    directory, question = Path(sys.argv[1]), sys.stdin.read()
    found = _answer(directory, question)
    sys.stdout.flush()
    return found


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))


def _answer(directory: Path, question: str) -> int:
    import duckdb

    _limits()
    tables = {
        one.stem: pa.ipc.open_file(pa.memory_map(str(one))).read_all() for one in sorted(directory.glob("*.arrow"))
    }
    config: dict[str, Any] = {
        "threads": "2",
        "memory_limit": f"{MEMORY_BYTES}B",
        "temp_directory": "",
        "python_enable_replacements": "false",
    }
    with duckdb.connect(":memory:", config=config) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        for setting in ("timezone = 'UTC'", "autoinstall_known_extensions = false", "autoload_known_extensions = false",
                        "enable_external_access = false", "lock_configuration = true"):  # fmt: skip
            connection.execute(f"set {setting}")
        try:
            statements = connection.extract_statements(question)
            if len(statements) != 1 or _kind(statements[0]) not in READS:
                return _told({"error": "Ask one question that reads: one statement that begins with SELECT or WITH."})
            return _send(connection.sql(question))
        except duckdb.OutOfMemoryException:
            return _told(
                {"error": f"The question needs more memory than {MEMORY_BYTES >> 20} MiB: ask for less at once."}
            )
        except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
            return _told({"error": str(error)[:2_000]})
        except MemoryError:
            return _told({"error": "The question needs more memory than it may have: ask for less at once."})


def _kind(statement: Any) -> str:
    return str(statement.type).rpartition(".")[2].upper().removesuffix("_STATEMENT")


def _send(found: Any) -> int:
    if found is None:
        return _told({"error": "The question gives no rows."})
    reader = (getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader)(1_000)  # by version of duckdb
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    is_cut = False
    for batch in reader:
        fits = min(ROWS_MAX - rows, max(1, (BYTES_MAX - size) * batch.num_rows // max(batch.nbytes, 1)))
        batches.append(batch.slice(0, fits))
        rows, size = rows + batches[-1].num_rows, size + batch.nbytes
        if batch.num_rows > fits or rows >= ROWS_MAX:
            is_cut = batch.num_rows > fits or next(iter(reader), None) is not None
            break
    _told({"rows": rows, "is_cut": is_cut})
    with pa.ipc.new_stream(sys.stdout.buffer, reader.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return 0


def _told(value: dict[str, Any]) -> int:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
