"""A table that is one test tells what a test for each row would have told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rows import NAME_MAX, SHOWN, rows

ROOT = Path(__file__).parents[2]
HANGS = """
import time
from tests.rows import rows

@rows([(600,), (601,)])
def test_hangs(seconds):
    time.sleep(seconds)
"""


def test_each_row_is_tried_and_each_that_fails_is_named_with_its_traceback() -> None:
    tried: list[int] = []

    @rows((number,) for number in range(6))
    def table(number: int) -> None:
        tried.append(number)
        assert number != 2, "two"
        if number == 4:
            pytest.fail("four")
        assert 12 // (5 - number)

    with pytest.raises(BaseExceptionGroup) as caught:
        table()
    assert tried == [0, 1, 2, 3, 4, 5]
    assert caught.value.message == "3 of 6 rows: 2; 4; 5"
    kinds = [type(error) for error in caught.value.exceptions]
    assert kinds == [AssertionError, pytest.fail.Exception, ZeroDivisionError]
    assert [error.__notes__ for error in caught.value.exceptions] == [["row: 2"], ["row: 4"], ["row: 5"]]
    assert all(error.__traceback__ for error in caught.value.exceptions)


def test_rows_have_the_names_that_their_table_gives_them_and_all_of_many_are_told() -> None:
    @rows([(number, "x") for number in range(SHOWN + 5)], ids=lambda number, letter: f"{letter}{number}")
    def table(number: int, letter: str) -> None:
        raise ValueError

    with pytest.raises(BaseExceptionGroup) as caught:
        table()
    assert len(caught.value.exceptions) == SHOWN
    assert caught.value.message.endswith(f"; x{SHOWN + 4}")


def test_a_table_without_rows_is_no_success() -> None:
    with pytest.raises(AssertionError, match="tests nothing"):
        rows([])(print)


def test_a_row_that_is_skipped_or_never_ran_fails_and_hides_no_other() -> None:
    @rows([(0,), (1,), (2,), (3,)])
    def table(number: int) -> object:
        if number == 1:
            pytest.skip("not here")
        assert number != 0 and number != 3
        return number

    with pytest.raises(BaseExceptionGroup, match="4 of 4 rows: 0; 1; 2; 3"):
        table()


def test_a_row_that_is_out_of_time_ends_the_table(tmp_path: Path) -> None:
    """The next that hangs would hang for ever."""
    module = tmp_path / "test_hangs.py"
    module.write_text(HANGS)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "--timeout", "1", module],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert told.returncode == 1 and "1 of 2 rows: 600" in told.stdout, told.stdout


def test_long_names_are_cut() -> None:
    @rows([("x" * 100_000,)])
    def table(text: str) -> None:
        raise ValueError

    with pytest.raises(BaseExceptionGroup) as caught:
        table()
    assert len(caught.value.message) < 2 * NAME_MAX


def test_an_interrupt_ends_the_table() -> None:
    tried: list[int] = []

    @rows([(1,), (2,)])
    def table(number: int) -> None:
        tried.append(number)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table()
    assert tried == [1]
