"""Partitions and their replicas: leading, following, the ISR, and what a fetcher may read (KIP-497, KIP-227)."""
