"""Simulated clients: each is a process that speaks encoded Kafka frames and records what it was told."""
