"""The commands that work by a cluster's address, once they run: on rayft and on Apache Kafka alike."""
