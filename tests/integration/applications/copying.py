"""`python -m tests.integration.applications.copying SERVERS ID PROTOCOL`: one member of a group that copies a topic of many
partitions, exactly once, with librdkafka. Each transaction commits the positions of all partitions that the member has.

A transaction that is refused, since the group has changed meanwhile, is aborted and its records are read again. The program
ends with an error as soon as it is fenced. It prints a line for each transaction that it has committed.
"""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer

SOURCE, TARGET, GROUP = "source", "target", "copiers"
CHUNK = 400
SECONDS = 30
SESSION_MS = 3000
TRANSACTION_MS = 5000


def clients(servers: str, name: str, protocol: str) -> tuple[Consumer, Producer]:
    """A consumer in the group and a producer, whose transactional id is `name`."""
    shared = {"bootstrap.servers": servers, "log_level": 0}
    consumer = {
        "group.id": GROUP,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    if protocol == "classic":
        consumer |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
    producer = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS, "linger.ms": 5}
    return Consumer({**shared, **consumer}), Producer({**shared, **producer})


def copy(consumer: Consumer, producer: Producer) -> int:
    """One transaction. Returns the number of records that were copied, 0 if there was nothing to copy."""
    taken = []
    for one in consumer.consume(CHUNK, 0.3):
        error = one.error()
        if error is None:
            taken.append(one)
        elif error.code() != KafkaError._PARTITION_EOF:  # its application's sign that there is nothing more now
            raise KafkaException(error)
    if not taken:
        return 0
    producer.begin_transaction()
    for one in taken:
        producer.produce(TARGET, one.value(), one.key(), partition=int(one.partition() or 0))
    held = [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]
    producer.send_offsets_to_transaction(held, consumer.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)
    return len(taken)


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed, in all partitions that the member has."""
    for place in consumer.committed(consumer.assignment(), SECONDS):
        if place.offset < 0:
            place.offset = OFFSET_BEGINNING
        consumer.seek(place)


def main(servers: str, name: str, protocol: str) -> None:
    consumer, producer = clients(servers, name, protocol)
    producer.init_transactions(SECONDS)
    consumer.subscribe([SOURCE])
    while True:
        try:
            copied = copy(consumer, producer)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            print(error, flush=True)
            producer.abort_transaction(SECONDS)
            rewind(consumer)
        else:
            if copied:
                print(copied, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
