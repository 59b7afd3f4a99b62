"""Mutated input for what reads a stranger's bytes: a few inputs of each target, and that a fault would be seen."""

import pytest

from actors.wire import framing
from tests import mutated

INPUTS = 60
SEEDS = {"certificates of authorities": 4}
"""The first inputs of targets that have once found something."""


@pytest.mark.parametrize("name", mutated.TARGETS)
def test_mutated_input_is_answered_or_refused(name: str) -> None:
    seen = {mutated.tried(name, seed) for seed in range(SEEDS.get(name, 0), SEEDS.get(name, 0) + INPUTS)}
    assert mutated.REFUSED in seen


def test_what_is_true_is_mostly_taken_where_nothing_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutated, "mutated", lambda rng, data: data)
    for name in mutated.TARGETS:
        if name != "OAUTHBEARER and JWT":  # it has claims of its own that are refused
            assert {mutated.tried(name, seed) for seed in range(10)} == {mutated.TAKEN}, name


def test_an_unforeseen_error_and_somebody_who_gets_in_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def untidy(frame: object) -> None:
        raise IndexError("no clear line\nat all")

    with monkeypatch.context() as patch:
        patch.setattr(framing, "decode_request_header", untidy)
        with pytest.raises(IndexError):
            for seed in range(30):
                mutated.tried("frames before a login", seed)
    with monkeypatch.context() as patch:
        patch.setattr("hmac.compare_digest", lambda one, other: True)
        with pytest.raises(mutated.Broken, match="logs in"):
            for seed in range(300):
                mutated.tried("PLAIN", seed)


def test_every_target_has_its_turn() -> None:
    rounds = mutated.rounds(0)
    seen = {next(rounds)[0] for _ in range(mutated.AT_ONCE * len(mutated.TARGETS))}
    assert len(seen) > len(mutated.TARGETS) / 2
