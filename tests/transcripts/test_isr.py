"""The races between a leader and the controller over one ISR (KIP-497), one story each. The commands are in
isr_story.py."""

from pathlib import Path

import pytest

from tests.transcripts.driver import play, stories
from tests.transcripts.isr_story import Story

RACES = {
    "answer_before_update",
    "update_before_answer",
    "controller_shrinks_while_expand_is_sent",
    "proposed_replica_is_fenced",
    "leader_and_controller_remove_the_same_replica",
    "other_leader_elected_while_proposal_is_out",
    "controller_dies_at_three_moments",
    "same_request_arrives_twice",
    "connection_reset_while_request_is_out",
    "late_answer_meets_the_next_proposal",
    "deposed_controller_answers",
    "refusal_rests_on_a_lost_record",
    "same_version_twice_while_proposal_is_out",
    "replica_restarts_before_its_expand_arrives",
    "fetches_of_old_and_new_process_interleave",
    "topic_recreated_under_its_name",
    "leader_loads_an_image_while_proposal_is_out",
    "removed_replica_catches_up",
    "proposed_replica_stops",
    "shrink_below_minimum_while_produce_waits",
    "many_partitions_at_once",
    "senders_lease_ended_at_the_controller",
    "copy_from_an_old_connection",
}


@pytest.mark.parametrize("path", stories("isr"), ids=lambda path: path.stem)
def test_story(path: Path, rewrite: bool) -> None:
    play(path, Story().commands(), rewrite)


def test_every_race_has_its_story() -> None:
    assert {path.stem for path in stories("isr")} == RACES
