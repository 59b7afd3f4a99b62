"""Metrics that clients push to a broker (KIP-714): who is asked for which, and what they have told."""
