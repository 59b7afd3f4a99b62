"""Apache Kafka's DumpLogSegments decodes the transaction log of a cluster."""

import re
import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.broker.transactions.state import TransactionState
from tests.integration.transactions.test_confluent import producer


def test_kafka_decodes_the_transaction_log(java: Any, tmp_path: Path) -> None:
    config = {"transaction.state.log.num.partitions": "1", "default.replication.factor": "1"}
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=config) as cluster:
        one(cluster)
    (log,) = tmp_path.glob("c/**/__transaction_state-0/00000000000000000000.log")
    done = subprocess.run(
        ["java", "-cp", f"{java.libs}/*", "org.apache.kafka.tools.DumpLogSegments",
         "--transaction-log-decoder", "--files", str(log)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    assert set(re.findall(r'"transactionalId":"(\w+)"', done.stdout)) == {"dumped"}
    states = [
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.COMPLETE_COMMIT,
    ]
    states += [
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.EMPTY,
    ]
    found = [int(number) for number in re.findall(r'"transactionStatus":(\d)', done.stdout)]
    assert found == [state.number for state in states]
    assert done.stdout.count('"transactionPartitions":[{"topic":"t","partitionIds":[0]}]') == 4


def one(cluster: Any) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
    writer = producer(cluster, "dumped")
    for commit in (True, False):
        writer.begin_transaction()
        writer.produce("t", b"v", partition=0)
        assert writer.flush(30) == 0
        if commit:
            writer.commit_transaction(30)
        else:
            writer.abort_transaction(30)
    producer(cluster, "dumped")
