"""Simulated clients: each a process that speaks encoded Kafka frames and writes down what it was told."""
