"""Streams groups on this broker: the internal topics of their applications (KIP-1071)."""
