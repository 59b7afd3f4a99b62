"""The transaction coordinator's rules (KIP-98, 360, 588, 664, 890): states, records, decisions. No I/O."""
