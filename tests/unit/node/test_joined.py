"""One answer of several, of which some are known before the others are begun."""

from actors.node.runtime.answers import Answer, Done, Parked, joined


def test_what_was_signalled_while_others_were_begun_is_not_waited_for() -> None:
    known: list[int] = []

    def again(expired: bool) -> Answer:
        return Done(known[0]) if known else Parked(["first"], 100, again)

    parked = again(False)
    known.append(7)  # signalled while nobody waited for it
    assert joined([parked, Done(8)], sum) == Done(15)
