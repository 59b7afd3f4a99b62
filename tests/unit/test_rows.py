"""A table that is one test tells what a test for each row would have told."""

import pytest

from tests.rows import SHOWN, rows


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


def test_a_table_without_rows_and_a_row_that_is_skipped_are_no_success() -> None:
    with pytest.raises(AssertionError, match="tests nothing"):
        rows([])(print)

    @rows([(1,)])
    def table(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        table()


def test_an_interrupt_ends_the_table() -> None:
    tried: list[int] = []

    @rows([(1,), (2,)])
    def table(number: int) -> None:
        tried.append(number)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table()
    assert tried == [1]
