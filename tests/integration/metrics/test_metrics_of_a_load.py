"""What real nodes show of a load is what its client has counted: bytes, records, requests, errors. And every name of the
tables that such a cluster can have is on one of its pages, in a form that Prometheus' parsers read."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import rayft
from actors.host.cluster import probe
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from bench.ports import first_of
from tests.integration.answers.dialogue import Broker, Dialogue
from tests.integration.answers.stories import batch
from tests.integration.conftest import until
from tests.metrics_page import ALL, NAMES, series

RARE = {
    "kafka_log_logcleaner_", "kafka_log_logcleanermanager_time", "rayft_scrubber_time", "kafka_server_controllermutation_",
    "kafka_server_produce_", "kafka_server_fetch_", "kafka_server_request_", "rayft_peer_memory_principal_bytes",
    "kafka_server_sharepartitionmetrics_", "kafka_server_share_coordinator_metrics_last", "rayft_peer_memory_refused",
    "rayft_long_step", "kafka_server_snapshotemitter_latestsnapshotgeneratedagems", "controlplane", "connections_tls_info",
    "kafkacontroller_lastsnapshotoffset",
}  # fmt: skip
"""Parts of names that are absent until something has happened that this load does not do."""


class Load:
    """A cluster of one controller and two brokers, and a client of it that counts what it does."""

    def __init__(self, directory: Path) -> None:
        self.port = first_of(3)
        settings = {
            "rayft.metrics.listen": f"127.0.0.1:{self.port}",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
        }
        self.cluster = rayft.Cluster(1, 2, directory / "c", settings)
        self.dialogue: Any = None

    def pages(self) -> list[dict[str, float]]:
        """The pages of all nodes: that of the controller, then those of brokers 1 and 2."""
        return [probe.metrics(("127.0.0.1", self.port + place)) for place in range(3)]

    def text(self, place: int, accept: str = "") -> str:
        asked = Request(f"http://127.0.0.1:{self.port + place}/metrics", headers={"Accept": accept})
        with urlopen(asked, timeout=10) as answer:
            return str(answer.read().decode())

    def create(self, name: str, partitions: int, replicas: int, **configs: str) -> None:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replicas,
            "assignments": [],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        self.dialogue.raw("CreateTopics", 5, 1, timeout_ms=10_000, topics=[topic])
        self.dialogue.settled(name, partitions)

    def connect(self, broker: int) -> Broker:
        """A connection to a broker."""
        found = self.dialogue.raw("Metadata", 9, None, topics=[])
        (port,) = [one.port for one in found.brokers if one.node_id == broker]
        return Broker(("127.0.0.1", port))


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    one = Load(tmp_path_factory.mktemp("load"))
    with one.cluster:
        one.dialogue = Dialogue(one.cluster.bootstrap_servers)
        yield one
        one.dialogue.close()


def produce(broker: Broker, topic: str, parts: dict[int, Any], acks: int = -1) -> list[int]:
    """Send one Produce 9; the error codes of its partitions."""
    kind = message("ProduceRequest")
    data = [kind.PartitionProduceData(index=number, records=records) for number, records in parts.items()]
    asked = kind(acks=acks, timeout_ms=10_000, topic_data=[kind.TopicProduceData(name=topic, partition_data=data)])
    reply = broker.ask("Produce", 9, asked)
    return [one.error_code for one in reply.responses[0].partition_responses]


def fetch(broker: Broker, topic: str, number: int, offset: int) -> tuple[int, int]:
    """Send one Fetch 11 of one partition; (error code, bytes of records)."""
    kind = message("FetchRequest")
    part = kind.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
    asked = kind(
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[kind.FetchTopic(topic=topic, partitions=[part])],
        replica_id=-1,
    )
    one = broker.ask("Fetch", 11, asked).responses[0].partitions[0]
    return one.error_code, len(one.records or b"")


def differences(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0) for name, value in after.items()}


def test_values_agree_with_what_the_client_counted(load: Load) -> None:
    load.create("load", 2, 2)
    load.create("small", 1, 1, max_message_bytes="500")
    leader = load.dialogue.leader("load", 0)
    client = load.connect(leader)
    before = load.pages()[leader]
    sent, records, errors, answered, received = 0, 0, Counter[str](), 0, 0
    for number in range(40):
        values = [b"x" * (10 + number)] * (1 + number % 5)
        data = batch(*values)
        codes = produce(client, "load", {0: data, 77: batch(b"nowhere")})
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        sent, records, answered = sent + len(data), records + len(values), answered + 1
        errors.update(ErrorCode(code).name for code in codes)
    damaged = batch(b"damaged")
    damaged[-1] ^= 1
    former = batch(b"former")
    former[16] = 1
    for wrong in (damaged, former):
        (code,) = produce(client, "load", {0: wrong})
        errors[ErrorCode(code).name] += 1
        answered += 1
    fetched, offset = 0, 0
    for _ in range(5):
        code, size = fetch(client, "load", 0, offset)
        received, fetched = received + size, fetched + 1
        assert code == 0
    code, _ = fetch(client, "load", 0, 1_000_000)
    assert code == ErrorCode.OFFSET_OUT_OF_RANGE
    client.close()
    follower = 3 - leader
    until(lambda: load.pages()[follower]['kafka_log_log_logendoffset{topic="load",partition="0"}'] == records)
    after = load.pages()[leader]
    moved = differences(after, before)
    prefix, of = "kafka_server_brokertopicmetrics_", '_total{topic="load"}'
    assert moved[f"{prefix}bytesin{of}"] == sent == moved[f"{prefix}bytesin_total"]
    assert moved[f"{prefix}messagesin{of}"] == records
    assert moved[f"{prefix}totalproducerequests{of}"] == 42, "a partition that is nowhere has no topic here"
    assert moved[f"{prefix}totalproducerequests_total"] == 82
    assert moved[f"{prefix}failedproducerequests_total"] == 42 and moved[f"{prefix}failedproducerequests{of}"] == 2
    assert moved[f"{prefix}invalidmessagecrcrecords_total"] == moved[f"{prefix}invalidmagicnumberrecords_total"] == 1
    assert moved[f"{prefix}bytesout{of}"] == received
    assert moved[f"{prefix}failedfetchrequests{of}"] == 1
    assert moved[f"{prefix}replicationbytesout_total"] >= sent
    requests = "kafka_network_requestmetrics_requests_total"
    assert moved[f'{requests}{{request="Produce",version="9"}}'] == answered == 42
    assert moved[f'{requests}{{request="FetchConsumer",version="11"}}'] == fetched + 1
    for name, times in errors.items():
        assert moved[f'kafka_network_requestmetrics_errors_total{{request="Produce",error="{name}"}}'] == times
    assert after['kafka_log_log_logendoffset{topic="load",partition="0"}'] == records
    assert after['kafka_log_log_size{topic="load",partition="0"}'] == sent
    assert after['kafka_cluster_partition_insyncreplicascount{topic="load",partition="0"}'] == 2
    total, parts = after['kafka_network_requestmetrics_totaltimems_sum{request="Produce"}'], 0.0
    for part in ("requestqueue", "local", "remote", "responsequeue", "responsesend"):
        parts += after[f'kafka_network_requestmetrics_{part}timems_sum{{request="Produce"}}']
    assert abs(total - parts) < 0.01 and total > 0
    assert 0 < after['kafka_network_requestmetrics_localtimems_sum{request="Produce"}'] < total
    other = load.connect(load.dialogue.leader("small", 0))
    large = batch(b"y" * 1000)
    assert produce(other, "small", {0: large}, acks=1) == [ErrorCode.MESSAGE_TOO_LARGE]
    other.close()
    page = load.pages()[load.dialogue.leader("small", 0)]
    assert page[f'{prefix}bytesrejected_total{{topic="small"}}'] == len(large)
    follows = load.pages()[follower]
    assert follows[f"{prefix}replicationbytesin_total"] >= sent
    assert follows['kafka_server_fetcherlagmetrics_consumerlag{clientId="Replica",topic="load",partition="0"}'] == 0
    assert follows['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'] == 0
    controller = load.pages()[0]
    assert controller["kafka_controller_kafkacontroller_globalpartitioncount"] >= 3
    assert controller["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
    assert controller['kafka_server_raftmetrics_current_state{current_state="leader"}'] == 1


def test_every_name_is_on_a_page_and_no_other(load: Load) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    shown: set[str] = set()
    for place in range(3):
        found = list(parser.text_string_to_metric_families(load.text(place)))
        shown |= {sample.name for one in found for sample in one.samples}
        accept = "application/openmetrics-text;version=1.0.0"
        again = {one.name for one in openmetrics.text_string_to_metric_families(load.text(place, accept))}
        assert len(again) >= len(found)
    assert not {name for name in shown - series() if not name.startswith(("org_apache", "client_"))}
    missing = {one.name for one in ALL if one.name not in shown and one.name + "_count" not in shown}
    assert not {name for name in missing if not any(part in name for part in RARE)}
    assert not [name for name in NAMES["strimzi"] if name not in shown]


def test_live_and_ready(load: Load) -> None:
    for place in range(3):
        for path in ("live", "ready"):
            with urlopen(f"http://127.0.0.1:{load.port + place}/{path}", timeout=10) as answer:
                assert answer.status == 200


@pytest.mark.slow
def test_a_node_that_cannot_work_is_live_and_not_ready(tmp_path: Path) -> None:
    one = Load(tmp_path)
    with one.cluster as cluster:
        assert urlopen(f"http://127.0.0.1:{one.port + 1}/ready", timeout=10).status == 200
        cluster.kill(next(iter(cluster.controller_ids)), restart=False)

        def unready() -> bool:
            try:
                urlopen(f"http://127.0.0.1:{one.port + 1}/ready", timeout=10)
            except HTTPError as refused:
                return refused.code == 503 and b"not ready" in refused.read()
            return False

        until(unready)
        assert urlopen(f"http://127.0.0.1:{one.port + 1}/live", timeout=10).read() == b"live\n"
