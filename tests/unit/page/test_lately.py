"""An answer that is kept while nothing is new."""

from actors.page.lately import Lately


def test_an_answer_is_made_once_as_long_as_its_key_is_the_same() -> None:
    made = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    lately = Lately()
    assert [lately.found(key, make) for key in ("a", "a", "b", "b", "a")] == [0, 0, 1, 1, 2]
