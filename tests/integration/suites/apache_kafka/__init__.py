"""Apache Kafka's own integration tests against rayft.

Apache Kafka's `@ClusterTest` tests are on Maven Central, and run here unchanged. One class of its test framework is replaced
(`java/`): `RaftClusterInvocationContext` starts `rayft node` processes where Kafka's starts its brokers in the process of
the test. Three more answer what Kafka's objects in that process would, as far as that can be told from outside.

`runner.py` fetches the jars, compiles the classes and runs a class of tests. `listed.toml` names the tests that pass with
Apache Kafka and not here, each with its reason. `table.py` writes both into docs/clients.md. To try something:

    python -m tests.integration.suites.apache_kafka rayft|kafka CLASS[#METHOD]...
"""
