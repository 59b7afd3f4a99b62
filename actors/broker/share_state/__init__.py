"""What share groups remember of each partition: the share coordinator, Kafka's persister (KIP-932)."""
