"""Groups of Kafka Streams whose tasks the coordinator assigns (KIP-1071)."""
