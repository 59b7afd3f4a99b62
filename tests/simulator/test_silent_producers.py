"""Producers that are silent for producer.id.expiration.ms are forgotten by every replica (KIP-98)."""

from actors.wire.messages import message
from tests.simulator.one_topic import OneTopic

BROKER = 4
CONFIG = {
    "producer.id.expiration.check.interval.ms": "1000",
    "producer.id.expiration.ms": "20000",
    "log.retention.check.interval.ms": "3600000",
}


def known(one: OneTopic) -> set[int]:
    """Producer ids that some replica knows."""
    return {producer for broker in (1, 2, 3) for producer in one.log(broker).producers.by_id}


def shorten(one: OneTopic, expiration_ms: int) -> None:
    """Set producer.id.expiration.ms for all brokers that run."""
    kind = message("IncrementalAlterConfigsRequest")
    config = kind.AlterableConfig(name="producer.id.expiration.ms", config_operation=0, value=str(expiration_ms))
    resource = kind.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    assert one.call("IncrementalAlterConfigs", 1, kind(resources=[resource])).responses[0].error_code == 0


def test_silent_producers_are_forgotten_at_the_interval_and_the_age_may_change_at_run_time() -> None:
    one = OneTopic(config=CONFIG)
    one.produce(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    one.world.run_for(15_000)
    assert known(one) == {7}
    one.world.run_for(7_000)
    assert known(one) == set()
    one.produce(b"b", producer_id=8, producer_epoch=0, base_sequence=0)
    shorten(one, 2_000)
    one.world.run_for(5_000)
    assert known(one) == set()
