"""Share groups on this broker: share partitions, their persister and the share coordinator (KIP-932)."""
