"""The transaction coordinator in its host, its markers, and producer ids (KIP-98, KIP-890)."""
