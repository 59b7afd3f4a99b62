"""A pytest plugin for confluent-kafka's tests, which import trivup, a starter of brokers, even when brokers are given.

It is in a folder of its own, because that folder goes onto another project's path, where `tests` is that project's.
"""

import sys
import types


class KafkaCluster:
    """Replaces trivup's class. A test that wants a cluster of trivup's gets an error."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("this test starts a broker of its own with trivup, which is not here")


for _name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = KafkaCluster  # type: ignore[attr-defined]
