"""Consumer groups of the protocol in which the coordinator assigns (KIP-848)."""
