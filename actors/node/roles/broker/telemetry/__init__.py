"""Metrics that clients send to this broker (KIP-714)."""
