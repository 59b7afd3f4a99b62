"""What share groups remember of each partition: the share coordinator's records (KIP-932)."""
