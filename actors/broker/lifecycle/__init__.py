"""The broker as a member of the cluster: its states, its lease, and brokers that went a moment ago (KIP-631)."""
