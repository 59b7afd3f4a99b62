"""What brokers that do not pull the metadata log are told (KIP-291)."""
