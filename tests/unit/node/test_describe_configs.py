"""What DescribeConfigs shows of settings that are set for a single listener."""

import pytest

from actors.node.api.handlers.describe_configs import _broker_key
from actors.settings import BROKER_CONFIGS, ConfigType


@pytest.mark.parametrize("name", ["ssl.truststore.type", "ssl.keystore.location", "sasl.enabled.mechanisms"])
def test_a_setting_of_one_listener_is_what_it_is_of_all(name: str) -> None:
    key = _broker_key(f"listener.name.internal.{name}")
    assert (key.name, key.type) == (f"listener.name.internal.{name}", BROKER_CONFIGS[name].type)
    assert not key.sensitive and key.type is not ConfigType.PASSWORD
    assert key.default is None and key.dynamic, "it is not set unless somebody sets it, and that was at run time"


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.ssl.keystore.password",
        "listener.name.internal.sasl.jaas.config",
        "listener.name.internal.plain.sasl.jaas.config",
        "listener.name.internal.my.secret",
        "listener.name.internal",
        "my.secret",
    ],
)
def test_what_is_or_may_be_a_secret_stays_one(name: str) -> None:
    key = _broker_key(name)
    assert key.name == name and (key.sensitive or key.type is ConfigType.PASSWORD)
