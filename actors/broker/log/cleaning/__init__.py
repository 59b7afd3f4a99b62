"""Log compaction: which logs are dirty, and one cleaning of one log (KIP-58, KIP-354, KIP-534)."""
