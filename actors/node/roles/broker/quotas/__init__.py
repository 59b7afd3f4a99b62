"""What clients and replication may cost at this broker (KIP-13, KIP-73)."""
