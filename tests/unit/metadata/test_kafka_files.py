"""Metadata that Apache Kafka 4.3.1 itself wrote, read through the released dialect (tests/golden/kafka-4.3.1)."""

from pathlib import Path

import pytest

from actors.metadata import snapshot
from actors.metadata.batches import KRaftVersion, LeaderChange, Voters, controls, is_control
from actors.metadata.dialects import dialect
from actors.metadata.image import Image
from actors.ports import Batch
from fastpath.records import batch as batches

FILES = Path(__file__).parents[2] / "golden" / "kafka-4.3.1"


def plain_batches(data):
    for header in batches.headers(data):
        if not is_control(data, header.position):
            part = data[header.position : header.position + header.size]
            yield Batch(header.base_offset, header.last_offset, header.epoch, part)


def replayed(data):
    image = Image()
    for batch in plain_batches(data):
        for offset, op in dialect("released").decode(batch):
            image.replay(offset, op)
        image.advance(batch.last_offset + 1)
        image.commit(image.next_offset)
    return image


def test_a_log_with_nearly_every_record():
    data = (FILES / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    image = replayed(data)
    header = batches.headers(data)[-1]
    assert image.next_offset == header.last_offset + 1
    assert image.feature("metadata.version") == 30
    assert [(broker.id, broker.epoch, broker.fenced) for broker in image.brokers()] == [
        (1, 142, False),
        (2, 379, False),
    ]
    names = [image.topic_name(topic) for topic in image.topics()]
    assert names == ["__consumer_offsets", "__share_group_state", "__transaction_state"]
    counters = {}
    for topic in image.topics():
        for row in image.topic_partitions(topic):
            assert image.leader(row) in (-1, *image.isr(row)) and set(image.isr(row)) <= set(image.replicas(row))
            assert len(image.directories(row)) in (0, len(image.replicas(row)))
            for broker in image.replicas(row):
                counters.setdefault(broker, [0, 0, 0])[0] += 1
                counters[broker][1] += image.leader(row) == broker
                counters[broker][2] += broker in image.isr(row)
    assert image.counters.all() == {broker: tuple(of) for broker, of in counters.items()}
    assert image.topic_count == 3 and image.next_producer_id > 0


def test_the_first_control_record_is_a_leader_change():
    data = (FILES / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    assert controls(data) == [(0, LeaderChange(1001, (1001, 1002, 1003), (1002, 1001)))]


def test_a_snapshot_of_a_quorum_with_voters_in_the_log():
    data = (FILES / "snapshots" / "00000000000000002473-0000000002.checkpoint").read_bytes()
    image = Image()
    loaded = snapshot.load(data, image, 2473, "released")
    assert [voter.id for voter in loaded.voters.voters] == [2001, 2002] and loaded.kraft_version == 1
    assert loaded.voters.voters[0].endpoints == (("CONTROLLER", "127.0.0.1", 30031),)
    assert loaded.last_timestamp_ms == 1795252325781 and image.next_offset == 2473
    assert image.feature("eligible.leader.replicas.version") == 1
    assert image.broker(11).epoch == 508 and image.broker(11).endpoints[0].port == 30131
    assert image.config(4, "") == {"min.insync.replicas": "1"}
    assert [op.key for op in image.entities_of("controller")] == [(2001,), (2002,), (2003,)]


def test_a_bootstrap_checkpoint():
    image = Image()
    data = (FILES / "snapshots" / "bootstrap.checkpoint").read_bytes()
    assert snapshot.load(data, image, 0, "released") == (None, 0, 0)
    assert len(image.features()) == 6


@pytest.mark.parametrize("name", ["00000000000000002473-0000000002.checkpoint", "formatted.checkpoint"])
def test_control_batches_come_out_as_they_went_in(name):
    from actors.metadata.batches import control_batch

    data = (FILES / "snapshots" / name).read_bytes()
    header = batches.header(data)
    found = [control for _, control in controls(data)]
    assert any(isinstance(one, Voters) for one in found) and KRaftVersion(1) in found
    again = control_batch(0, header.epoch, header.base_timestamp, found)
    assert bytes(again.data) == data[: header.size]


def test_voters_in_a_log_come_out_as_they_went_in():
    """kraft.version was raised from 0 to 1 in this log: one control batch has KRaftVersionRecord and VotersRecord."""
    from actors.metadata.batches import control_batch
    from actors.node.quorum.voters import record, voters_in

    data = (FILES / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    seen = []
    for header in batches.headers(data):
        part = data[header.position : header.position + header.size]
        found = voters_in(Batch(header.base_offset, header.last_offset, header.epoch, part))
        if found is not None:
            offset, voters = found
            seen.append((offset, [voter.key.id for voter in voters.members], voters.members[0].kraft_versions))
            made = [KRaftVersion(1), record(voters)]
            again = control_batch(header.base_offset, header.epoch, header.base_timestamp, made)
            assert bytes(again.data) == part
    assert seen == [(1179, [1001, 1002, 1003], (0, 1))]


def test_a_formatted_quorum_has_the_records_that_kafka_writes():
    from actors.host.storage import first_checkpoint, voters

    told = "3001@localhost:9093:AQEBAQEBAQEBAQEBAQEBAQ,3002@127.0.0.1:9094:AgICAgICAgICAgICAgICAg,"
    told += "3003@[0:0:0:0:0:0:0:1]:9095:AwMDAwMDAwMDAwMDAwMDAw"
    theirs = controls((FILES / "snapshots" / "formatted.checkpoint").read_bytes())
    ours = controls(first_checkpoint(voters(told, "CONTROLLER")))
    assert ours[1:] == theirs[1:] and len(ours) == 3
