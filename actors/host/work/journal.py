"""The log of a process: what its node says, as lines of a stream and as records of Python's `logging`.

This file alone decides what a line looks like and by which logger it goes. Rules:

1. A line is a record of the logger that has its module's name, below `rayft`: `rayft.node.api.security.logins`, in a
   checkout and in what is installed.
   What handlers, levels and filters of these loggers do is up to the process in which a node runs. The log's own stream is
   one more handler of the logger `rayft`, and has the lines of this log alone.
2. What cannot be printed in a line, such as its end in the name of a user, is escaped; further lines of a traceback are
   indented, so that none of them looks like an event.
3. Lines that repeat are counted (`log_repeats.py`) before any handler has them. The line with their number is of the logger
   `rayft` itself.
4. Lines for programs (`rayft.logging.format=json`) are objects: `time` (UTC), `level`, `logger`, `node` (null: of the
   supervisor), `message`. So is what libraries and the interpreter say on standard error: it often is the same file.
5. A line that cannot be written is lost: the disk that is full may be the log's too, and the node must go on.
"""

import contextlib
import io
import json
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TextIO

from actors.host.work.log_repeats import Repeats
from actors.import_path import PACKAGE
from actors.settings.keys import ConfigError

CONFIG = "rayft.logging.config"
FORMAT = "rayft.logging.format"
INDENTED = "\n    "
NAMES = {logging.INFO: "INFO ", logging.WARNING: "WARN ", logging.ERROR: "ERROR"}
ROOT = logging.getLogger("rayft")
SAID_MAX = 1 << 16
"""Letters that are said on standard error before they are a line, whether or not it is over."""
PASS_ON = frozenset({f"{PACKAGE}.node.runtime.peer_lines"})
"""Modules that only count the lines of others: a line is of the one that says it."""


def one_line(text: str) -> str:
    """A text in which nothing ends the line, or cannot be printed."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class Lines(logging.Handler):
    """The stream of one log: a line for each event, with the time and the level."""

    def __init__(self, stream: TextIO, log: object) -> None:
        """`log`: stands for the log of which records are written."""
        super().__init__()
        self._stream = stream
        self._log = log
        self.for_programs, self.node = False, None  # type: bool, int | None
        """Whether the lines are objects in JSON, and the id of their node."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "log", None) is not self._log:
            return
        line = _object(record, self.node) if self.for_programs else _text(record)
        with contextlib.suppress(OSError, ValueError):  # its disk is full; it is closed
            try:
                self._stream.write(line)
            except UnicodeError:
                self._stream.write(line.encode("ascii", "backslashreplace").decode())
            self._stream.flush()


def _text(record: logging.LogRecord) -> str:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    level = NAMES.get(record.levelno, record.levelname)
    return f"{stamp}.{int(record.created * 1000) % 1000:03d} {level} {record.getMessage()}\n"


def _object(record: logging.LogRecord, node: int | None) -> str:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    told = {
        "time": f"{stamp}.{int(record.created * 1000) % 1000:03d}Z",
        "level": record.levelname,
        "logger": record.name,
    }
    return json.dumps({**told, "node": node, "message": record.getMessage()}) + "\n"


class StandardError(io.TextIOBase):
    """What takes the place of standard error where lines are objects: what is said until it is flushed is one line. It goes
    past the handlers that somebody has added, since what is said is often that one of them has failed."""

    def __init__(self, lines: Lines, log: object) -> None:
        super().__init__()
        self._lines, self._log = lines, log
        self._said, self._size = list[str](), 0
        self._lock = threading.RLock()

    def writable(self) -> bool:
        """Tell libraries that this stream takes text."""
        return True

    def write(self, text: str) -> int:
        """Keep a part of a line. Raises TypeError for anything but text, as any text stream does."""
        if not isinstance(text, str):
            raise TypeError(f"standard error takes text, not {type(text).__name__}")
        with self._lock:
            self._said.append(text)
            self._size += len(text)
            if self._size > SAID_MAX:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Write what was said as one line."""
        with self._lock:
            text = "".join(self._said).strip()
            self._said, self._size = [], 0
            if text:
                record = logging.LogRecord(ROOT.name, logging.ERROR, "", 0, _indented(text), (), None)
                record.log = self._log
                self._lines.handle(record)


def _indented(text: str) -> str:
    return INDENTED.join(one_line(line) for line in text.split("\n")).rstrip()


class Journal:
    """The log of a process. `clock_s`: seconds of a monotonic clock."""

    def __init__(self, stream: TextIO, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._repeats = Repeats()
        self._mark = object()
        """The mark of this log in each of its records: a process may have several logs."""
        self._loggers: dict[str, logging.Logger] = {}
        if ROOT.level == logging.NOTSET:
            ROOT.setLevel(logging.INFO)
        self._lines = Lines(stream, self._mark)
        ROOT.addHandler(self._lines)
        weakref.finalize(self, ROOT.removeHandler, self._lines)
        self._said: StandardError | None = None

    def for_programs(self, node: int | None) -> None:
        """Let each line be an object in JSON from now on, with the id of the node."""
        self._lines.for_programs, self._lines.node = True, node

    def take_standard_error(self) -> None:
        """Let what this process says on standard error be lines too. For a process that has this log alone."""
        sys.stderr = self._said = StandardError(self._lines, self._mark)  # type: ignore[assignment]

    def info(self, text: str) -> None:
        """What an operator may like to know."""
        self._line(logging.INFO, one_line(text))

    def warning(self, text: str) -> None:
        """What an operator should look at some day."""
        self._line(logging.WARNING, one_line(text))

    def error(self, text: str) -> None:
        """What an operator should look at now."""
        self._line(logging.ERROR, _indented(text))

    def settle(self) -> None:
        """Report counted lines whose interval is over. To be called about once a second."""
        if self._repeats.counting:
            self._report(self._repeats.due(self._clock_s()))
        if self._said is not None:
            self._said.flush()

    def end(self) -> None:
        """Report all counted lines, because the log ends."""
        self._report(self._repeats.all(self._clock_s()))
        if self._said is not None:
            self._said.flush()

    def _line(self, level: int, text: str) -> None:
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_globals.get("__name__") in PASS_ON:
            frame = frame.f_back
        logger = self._logger(frame.f_globals.get("__name__", ""))
        if logger.isEnabledFor(level):
            now_s = self._clock_s()
            self._report(self._repeats.due(now_s))
            if self._repeats.admits(level, text, now_s):
                self._write(logger, level, text, frame)

    def _logger(self, module: str) -> logging.Logger:
        """The logger with a module's name, below `rayft`."""
        if module not in self._loggers:
            rest = module.removeprefix(f"{PACKAGE}.")
            self._loggers[module] = ROOT if rest == module else logging.getLogger(f"{ROOT.name}.{rest}")
        return self._loggers[module]

    def _report(self, lines: list[tuple[int, str]]) -> None:
        for level, text in lines:
            self._write(ROOT, level, text, sys._getframe())

    def _write(self, logger: logging.Logger, level: int, text: str, frame: FrameType) -> None:
        """`frame`: where the line is said."""
        code = frame.f_code
        with contextlib.suppress(Exception):  # of a filter or a handler that somebody has added
            logger.handle(
                logger.makeRecord(
                    logger.name,
                    level,
                    code.co_filename,
                    frame.f_lineno,
                    text,
                    (),
                    None,
                    code.co_name,
                    {"log": self._mark},
                )
            )


def shut_down() -> None:
    """Let all handlers write what they keep back. For a process that ends without the interpreter's own end, which does
    this."""
    with contextlib.suppress(Exception):  # of a handler that somebody has added
        logging.shutdown()
    with contextlib.suppress(Exception):  # it is closed
        sys.stderr.flush()


def configure(path: str) -> None:
    """Take handlers, levels and filters from a file: a dictionary as `logging.config.dictConfig` takes it, in JSON. Those of
    a logger that it names take the place of the present ones, those of the log's stream too. Raises ConfigError."""
    import logging.config

    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        logging.config.dictConfig({"disable_existing_loggers": False, **given})
    except OSError as error:
        raise ConfigError(f"{CONFIG}={path} cannot be read ({error.strerror}): name a file in JSON.") from None
    except Exception as error:  # whatever a handler's class raises
        causes = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        raise ConfigError(
            f"{CONFIG}={path} is not what logging.config.dictConfig takes, in JSON ({one_line(causes)})."
        ) from None
