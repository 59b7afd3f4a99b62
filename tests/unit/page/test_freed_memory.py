"""What a large table took goes back to the system."""

import subprocess
import sys

import pytest

from tests.integration.conftest import ROOT

SCRIPT = """
import sys, re, threading
import numpy as np
from actors.page import freed_memory as memory
def rss():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
if sys.argv[1] == "little":
    memory.hold_little()
def work():  # blocks that glibc would keep once it has seen one of their size freed, and small ones
    import pyarrow as pa
    for _ in range(3):
        held = [np.ones(16 << 20, np.uint8) for _ in range(8)]
        texts = [str(n) * 20 for n in range(400_000)]
        table = pa.table({"text": texts})
        del held, texts, table
work(); threads = [threading.Thread(target=work) for _ in range(1)]
before = rss()
[one.start() for one in threads]; [one.join() for one in threads]
if sys.argv[1] == "little":
    memory.give_back()
print(rss())
"""


def held(how: str) -> int:
    """The MiB that a process holds at its end."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.long
def test_what_was_freed_is_given_back() -> None:
    assert held("little") < 110


LOOKS = """
import sys
from actors.page import freed_memory as memory
if sys.argv[1] == "little":
    memory.hold_little()
import pyarrow as pa
table = pa.table({"text": pa.array(["a", None])})
print("pandas" in sys.modules)
print(list(table.to_pandas()["text"])[:1])
"""


@pytest.mark.parametrize(("how", "is_looked_for"), [("little", False), ("much", True)])
def test_arrow_imports_pandas_for_those_alone_that_ask_for_it(how: str, is_looked_for: bool) -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", LOOKS, how], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n") == [str(is_looked_for), "['a']", ""], done.stderr


BEFORE = """
import sys
import actors.command.by_address.page
from actors.page import freed_memory
print("pyarrow" in sys.modules)
freed_memory.hold_little()
import pyarrow as pa
print(pa.default_memory_pool().backend_name)
"""


def test_the_allocator_is_chosen_before_arrow_is_loaded_by_the_command() -> None:
    done = subprocess.run([sys.executable, "-c", BEFORE], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "False\nsystem\n", done.stderr
