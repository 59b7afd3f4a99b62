"""Client quotas as plain values: which client is charged, how much, and how long it waits (KIP-13, 124, 257, 599, 612)."""
