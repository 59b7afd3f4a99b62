"""Client quotas as plain values: who is charged, how much, and how long a client waits (KIP-13, 124, 257, 599, 612)."""
