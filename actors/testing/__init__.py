"""For the tests of applications: a Kafka for each test run, by pytest or in place of a container."""
