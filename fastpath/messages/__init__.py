"""Kafka's protocol messages as compiled plans."""
